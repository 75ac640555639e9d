"""Preferences: what is drawn, losses, gradients, and runs that do not depend on who works."""

import numpy as np
import pytest

from hogshare import Shared, StepSize, problems, solve
from hogshare.kernels.ratings import pair_draws as kernels

N_USERS, N_ITEMS = 12, 9


def pairs(seed=0, n=60):
    rng = np.random.default_rng(seed)
    return rng.integers(N_USERS, size=n), rng.integers(N_ITEMS, size=n)


def stated(loss="bpr", dtype=np.float64, **settings):
    settings = {"n_factors": 3, "alpha": 0.3, "bias_alpha": 0.7, **settings}
    return problems.preferences(*pairs(), (N_USERS, N_ITEMS), loss=loss, dtype=dtype, **settings)


def draws(problem, epochs):
    """User, item of the row, and drawn item, of some epochs."""
    ratings, drawing = problem.ratings, problem.drawing
    found = []
    for epoch in range(epochs):
        for r in range(problem.n_rows):
            for n in range(drawing.n_negatives):
                u, number = int(ratings.users[r]), r * drawing.n_negatives + n
                found.append((u, kernels.drawn(ratings, drawing, u, number, epoch)))
    return np.array(found)


@pytest.mark.parametrize("sampling", ["uniform", "popularity"])
def test_what_is_drawn_has_never_met(sampling):
    problem = stated(negatives=3, sampling=sampling)
    met = set(zip(*(line.tolist() for line in pairs()), strict=True))
    found = draws(problem, 5)
    assert not met & set(map(tuple, found.tolist()))
    assert len(found) == 5 * 3 * problem.n_rows


def test_uniform_draws_are_alike():
    users, items = np.zeros(2000, np.int64), np.tile([2, 5], 1000)
    problem = problems.preferences(users, items, (1, N_ITEMS))
    counts = np.bincount(draws(problem, 3)[:, 1], minlength=N_ITEMS)
    assert counts[[2, 5]].sum() == 0
    left = np.delete(counts, [2, 5]) / counts.sum()
    np.testing.assert_allclose(left, 1 / 7, atol=0.02)


def test_draws_by_popularity_are_as_often_as_met_by_others():
    users = np.concatenate([np.zeros(3000, np.int64), np.ones(1000, np.int64)])
    items = np.concatenate([np.repeat([0, 1], [1000, 2000]), np.full(1000, 2)])
    problem = problems.preferences(users, items, (2, 4), sampling="popularity")
    found = draws(problem, 2)
    counts = np.bincount(found[found[:, 0] == 1][:, 1], minlength=4)
    assert counts[3] == counts[2] == 0
    assert counts[1] / counts[:2].sum() == pytest.approx(2 / 3, abs=0.03)


def test_who_has_met_all_has_nothing_drawn():
    users, items = np.repeat([0, 1], [4, 1]), np.array([0, 1, 2, 3, 1])
    for loss in ("bpr", "logistic"):
        problem = problems.preferences(users, items, loss=loss, dtype=np.float64)
        w = problem.start(1)
        assert np.isfinite(problem.objective(w))
        assert np.isfinite(problem.advance(w, np.arange(5), 0.1))
        assert np.isfinite(w).all()


@pytest.mark.parametrize("loss", ["bpr", "logistic"])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("sampling", ["uniform", "popularity"])
def test_the_gradient_is_that_of_the_objective(loss, biases, sampling):
    problem = stated(loss, biases=biases, negatives=2, sampling=sampling)
    w = problem.start(3) + 0.1
    out = np.zeros_like(w)
    _, places = problem.gradient(w, np.arange(problem.n_rows), out)
    wanted = np.zeros_like(w)
    for j in range(len(w)):
        e = np.zeros_like(w)
        e[j] = 1e-6
        wanted[j] = (problem.objective(w + e) - problem.objective(w - e)) / 2e-6
    # of who has no pair there is no penalty in the sum over pairs
    np.testing.assert_allclose(out / problem.n_rows, wanted, atol=1e-8)
    assert not np.delete(out, places).any()


@pytest.mark.parametrize("loss", ["bpr", "logistic"])
@pytest.mark.parametrize("nonnegative", [True, False])
def test_a_step_goes_down_its_own_gradient(loss, nonnegative):
    problem = stated(loss, nonnegative=nonnegative)
    w, eta = problem.start(3), 1e-3
    row = np.array([7])
    out = np.zeros_like(w)
    loss_there, _ = problem.gradient(w, row, out)
    stepped = w.copy()
    # the steps of a row follow each other: they are its gradient's to first order
    assert problem.advance(stepped, row, eta) == pytest.approx(loss_there, rel=1e-3)
    np.testing.assert_allclose(stepped, w - eta * out, atol=5e-6)


@pytest.mark.parametrize("loss", ["bpr", "logistic"])
def test_epochs_draw_anew_and_seeds_repeat(loss):
    problem = stated(loss, dtype=np.float32)
    settings = {"plane": Shared(exchange=None), "step": StepSize("constant", 0.1), "stop": 3}

    def fitted(problem, **crew):
        return solve(problem, seed=0, shuffle=False, **settings, **crew).model.params

    one = fitted(problem, n_workers=1, runtime="caller")
    assert np.array_equal(one, fitted(problem, n_workers=1, runtime="threads"))
    assert np.array_equal(one, fitted(problem, n_workers=1, runtime="processes"))
    assert not np.array_equal(one, fitted(stated(loss, dtype=np.float32, seed=1), n_workers=1))
    first, second = draws(problem, 1), draws(problem, 2)[len(draws(problem, 1)) :]
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("crew", [("threads", 2), ("processes", 2), ("caller", 1)])
def test_two_tastes_are_found(crew):
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(100), 12)
    items = rng.integers(20, size=1200) + 20 * (users % 2)
    for loss in ("bpr", "logistic"):
        problem = problems.preferences(users, items, n_factors=2, alpha=0.1, loss=loss)
        report = solve(
            problem,
            plane=Shared(exchange=None),
            step=StepSize("constant", 0.2),
            stop=20,
            runtime=crew[0],
            n_workers=crew[1],
        )
        _, P, _, Q = problem.split(report.model.params)
        scores = P @ Q.T
        own = (np.arange(40) >= 20) == (np.arange(100)[:, None] % 2)
        assert scores[own].mean() > scores[~own].mean() + 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "brp"}, "did you mean 'bpr'|Did you mean 'bpr'"),
        ({"negatives": 0}, "negatives"),
        ({"sampling": "all"}, "sampling must be one of"),
        ({"alpha": -1.0}, "alpha"),
        ({"dtype": np.int32}, "dtype"),
        ({"n_factors": 0, "biases": False}, "leaves nothing"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        problems.preferences(*pairs(), **settings)


def test_no_pairs_are_refused():
    with pytest.raises(ValueError, match="no pairs"):
        problems.preferences([], [])
