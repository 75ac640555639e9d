"""Networks with images: shapes that fill no vector, against plain twins and differences."""

from itertools import product

import naive_networks as naive
import numpy as np
import pytest
from scipy.optimize import check_grad

from hogshare import SGD, problems, solve
from hogshare.problems import Convolution, Dense, LocalResponse, Pooling

DRAWS = np.random.default_rng(0)
N = 5


def images(channels, height=7, wide=8):
    return DRAWS.standard_normal((N, height, wide, channels))


def stack(filters, stride, padding):
    """Convolutions that are pooled by their largest, by their means, and not at all."""
    return {
        "largest": [Convolution(filters, 3, stride, padding), Pooling(2)],
        "overlapping": [Convolution(filters, 3, stride, padding), Pooling(2, 1)],
        "mean": [Convolution(filters, 3, stride, padding), Pooling(2, 1, kind="average")],
        "two": [Convolution(filters, 3, stride, padding), Convolution(filters, 2, 1, 1), Dense(4)],
        "response": [
            Convolution(filters, 3, stride, padding),
            LocalResponse(3, alpha=0.4, beta=0.6),
        ],
        "deep": [
            Convolution(filters, 2, 1, padding and 1),
            Pooling(2, 1),
            LocalResponse(3, alpha=0.4),
            Convolution(filters, 3, stride, padding),
            Pooling(2),
        ],
    }


KINDS = list(stack(1, 1, 0))
GEOMETRY = list(product([1, 3, 17], [1, 3], [(1, 0), (2, 1), (2, 0), (1, 2)]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("filters", "channels", "steps"), GEOMETRY, ids=str)
def test_outputs_and_gradient_of_shapes_that_fill_no_vector(kind, filters, channels, steps):
    X, y = images(channels), np.arange(N) % 3
    layers = stack(filters, *steps)[kind]
    problem = problems.network(X, y, layers=layers, activation="tanh", alpha=0.1)
    vector = problem.start()
    expected = [naive.outputs(problem, vector, layers, image, "tanh") for image in X]
    expected = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(problem.scores(vector, X), expected, rtol=1e-10, atol=1e-12)
    along = DRAWS.standard_normal((4, len(vector))) / np.sqrt(len(vector))
    value, slopes = problem.evaluate(vector)

    def on(t):
        return problem.evaluate(vector + t @ along)[0]

    assert check_grad(on, lambda t: along @ slopes, np.zeros(4)) < 2e-6
    single = problems.network(X.astype(np.float32), y, layers=layers, activation="tanh", alpha=0.1)
    found, sums = single.evaluate(vector.astype(np.float32))
    assert found == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(sums, slopes, rtol=1e-3, atol=1e-4 * np.abs(slopes).max())


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.parametrize("kind", ["largest", "mean"])
def test_every_activation_is_the_twins(activation, kind):
    X, layers = images(3), stack(17, 1, 1)[kind]
    settings = {"loss": "squared_error", "activation": activation}
    problem = problems.network(X, DRAWS.standard_normal(N), layers=layers, **settings)
    vector = problem.start()
    expected = [naive.outputs(problem, vector, layers, image, activation) for image in X]
    np.testing.assert_allclose(problem.scores(vector, X), expected, rtol=1e-10, atol=1e-12)
    off = check_grad(lambda w: problem.evaluate(w)[0], lambda w: problem.evaluate(w)[1], vector)
    assert off < 1e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_what_is_no_number_stays_none(kind, activation):
    """From a parameter that every output hangs on, wherever it is in a window."""
    X, y = images(3).astype(np.float32), np.arange(N) % 3
    problem = problems.network(X, y, layers=stack(3, 1, 1)[kind], activation=activation)
    for place in (0, 40, 81):  # of the first filters and their biases
        vector = problem.start()
        vector[place] = np.nan
        assert np.isnan(problem.scores(vector, X)).all()
        assert np.isnan(problem.objective(vector))


def test_rows_come_in_any_number():
    """In memory that has been larger, and of no rows the gradient is the penalty's."""
    X, y = images(3), np.arange(N) % 3
    problem = problems.network(X, y, layers=stack(17, 1, 1)["deep"], activation="tanh", alpha=0.5)
    replica, vector = problem.for_worker(0), problem.start()
    whole, part, once = (np.full(problem.n_params, np.nan) for _ in range(3))
    replica(vector, np.arange(N), whole)
    value = replica(vector, np.arange(2), part)
    assert problem.for_worker(0)(vector, np.arange(2), once) == value
    np.testing.assert_array_equal(part, once)
    nothing = np.full(problem.n_params, np.nan)
    problem.gradient(vector, np.arange(0), nothing)
    slopes = problems.NetworkParams(nothing, shapes=problem.shapes)
    coefs = problems.NetworkParams(vector, shapes=problem.shapes).coefs
    for k, one in enumerate(coefs):
        np.testing.assert_allclose(slopes.coefs[k], 0.5 * one, rtol=1e-12)
        assert not slopes.intercepts[k].any()


def test_two_workers_take_the_steps_of_one():
    X, y = images(3), np.arange(N) % 3
    problem = problems.network(X, y, layers=stack(3, 1, 1)["largest"])
    run = {"rule": SGD(batch=4, momentum=0.5), "step": 0.05, "stop": 3, "seed": 0}
    one = solve(problem, runtime="caller", **run).model.params
    two = solve(problem, runtime="threads", n_workers=2, **run).model.params
    np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-12)
