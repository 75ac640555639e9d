"""The kernels of matrix factorisation against plain NumPy."""

import naive
import numpy as np
import pytest

from hogshare.kernels.ratings import factors
from hogshare.kernels.ratings.factors import RatingArrays
from hogshare.kernels.rules import losses

N_USERS, N_ITEMS, N = 7, 5, 60


def made(loss="squared_error", biases=1, nonnegative=0, n_factors=3, dtype=np.float64, pace=1.0):
    rng = np.random.default_rng(0)
    users = rng.integers(N_USERS - 1, size=N).astype(np.uint32)  # the last one has no rating
    items = rng.integers(N_ITEMS, size=N).astype(np.uint32)
    values = rng.random(N) if loss == "log_loss" else rng.normal(size=N)
    shares = [
        1.0 / np.maximum(count, 1)
        for count in (np.bincount(users, minlength=N_USERS), np.bincount(items, minlength=N_ITEMS))
    ]
    arrays = users, items, values.astype(dtype), *(share.astype(dtype) for share in shares)
    mean = 0.25 * biases
    strengths = 0.3, 0.1, pace
    code = losses.CODES[loss]
    ratings = RatingArrays(*arrays, *strengths, n_factors, biases, mean, code, nonnegative)
    w = rng.normal(size=(N_USERS + N_ITEMS) * (n_factors + biases))
    if nonnegative:
        w = np.abs(w)
    return ratings, w.astype(dtype)


FORMS = [
    {},
    {"biases": 0},
    {"n_factors": 0},
    {"pace": 0.2},
    {"loss": "log_loss"},
    {"nonnegative": 1},
    {"biases": 0, "nonnegative": 1, "loss": "log_loss"},
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_a_pass_is_its_twin(form):
    ratings, w = made(**form)
    rows = np.random.default_rng(1).permutation(N)[:40]
    expected, total = naive.factor_steps(w, ratings, rows, 0.07)
    got = factors.advance(w, ratings, rows, 0.07)
    np.testing.assert_allclose(w, expected, rtol=1e-9, atol=1e-12)
    assert got == pytest.approx(total, rel=1e-9)


def test_a_pass_in_float32_is_its_twin_to_rounding():
    ratings, w = made(dtype=np.float32)
    expected, _ = naive.factor_steps(w.astype(float), ratings, np.arange(N), 0.07)
    factors.advance(w, ratings, np.arange(N), 0.07)
    np.testing.assert_allclose(w, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_the_gradient_is_that_of_finite_differences(form):
    ratings, w = made(**form)
    rows = np.arange(0, N, 2)
    out = np.zeros_like(w)
    factors.gradient(w, ratings, rows, out)
    for j in range(len(w)):
        there, back = w.copy(), w.copy()
        there[j] += 1e-5
        back[j] -= 1e-5
        difference = naive.factor_objective(there, ratings, rows)
        difference -= naive.factor_objective(back, ratings, rows)
        assert out[j] == pytest.approx(difference / 2e-5, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_the_sum_of_losses_is_its_twin(form):
    ratings, w = made(**form)
    total = factors.sum_of_losses(w, ratings, 0, N // 3)
    total += factors.sum_of_losses(w, ratings, N // 3, N)
    assert total == pytest.approx(sum(naive.factor_losses(w, ratings, np.arange(N))))


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_slopes_of_biases_are_those_of_losses(loss):
    ratings, _ = made(loss=loss, n_factors=0)
    biases = np.random.default_rng(2).normal(size=N_USERS + N_ITEMS)
    free = ratings._replace(bias_alpha=0.0)
    expected = np.zeros_like(biases)
    factors.gradient(biases, free, np.arange(N), expected)
    ends = np.array([N])  # one group of users by one of items
    for side, part in enumerate((slice(N_USERS), slice(N_USERS, None))):
        slopes, curvatures = np.zeros((2, len(biases)))
        factors.bias_slopes(biases, ratings, ends, side, 0, slopes, curvatures)
        np.testing.assert_allclose(slopes[part], expected[part])
        moved = biases.copy()
        moved[part] += 1e-6
        more, _ = np.zeros((2, len(biases)))
        factors.bias_slopes(moved, ratings, ends, side, 0, more, np.zeros_like(biases))
        np.testing.assert_allclose(curvatures[part], (more - slopes)[part] / 1e-6, rtol=1e-4)
        other = np.delete(np.arange(len(biases)), np.arange(len(biases))[part])
        assert not slopes[other].any() and not curvatures[other].any()
