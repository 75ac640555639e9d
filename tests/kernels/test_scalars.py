"""Losses, step sizes, the exchange's weight and row orders: functions of numbers."""

import naive
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rules import losses, step_schedules
from hogshare.kernels.schedule import streams
from hogshare.problems.linear import REGRESSION_LOSSES
from hogshare.rules.steps import optimal_start

SCALAR = [loss for loss in losses.CODES if loss != "multinomial"]  # of one column by itself
MARGINS = np.concatenate([np.linspace(-3.0, 3.0, 25), [-800.0, -40.0, -37.0, 40.0, 800.0]])
EPSILON = 0.25


@kernel
def tabulate(loss, epsilon, y, p, values, derivatives):
    for i in range(p.shape[0]):
        values[i] = losses.loss_value(loss, epsilon, y, p[i])
        derivatives[i] = losses.loss_derivative(loss, epsilon, y, p[i])


@kernel
def steps(schedule, eta0, power_t, alpha, optimal_init, t, out):
    for i in range(t.shape[0]):
        out[i] = step_schedules.step_size(schedule, eta0, power_t, alpha, optimal_init, t[i])


@kernel
def log_probabilities(margins):
    for r in range(margins.shape[0]):
        losses.log_probabilities(margins[r])


@kernel
def weights(z, n_workers, out):
    for i in range(z.shape[0]):
        out[i] = exchange_weight(z[i], n_workers)


def table(loss, y, p):
    values, derivatives = np.empty(len(p)), np.empty(len(p))
    tabulate(losses.CODES[loss], EPSILON, y, p, values, derivatives)
    return values, derivatives


def labels(loss):
    if loss in REGRESSION_LOSSES:
        return (-1.3, 0.0, 2.1)
    return (0.0, 1.0) if loss == "log_loss" else (-1.0, 1.0)


@pytest.mark.parametrize("loss", SCALAR)
def test_losses_equal_their_twins(loss):
    for y in labels(loss):
        values, derivatives = table(loss, y, MARGINS)
        expected = [naive.loss_value(loss, EPSILON, y, p) for p in MARGINS]
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-15)
        expected = [naive.loss_derivative(loss, EPSILON, y, p) for p in MARGINS]
        np.testing.assert_allclose(derivatives, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", SCALAR)
def test_derivatives_are_those_of_the_values(loss):
    points = np.linspace(-2.9, 2.9, 17) + 0.0123  # off every kink
    for y in labels(loss):
        _, derivatives = table(loss, y, points)
        slopes = [
            approx_fprime(np.array([p]), lambda x, y=y: table(loss, y, x)[0][0], 1e-7)[0]
            for p in points
        ]
        np.testing.assert_allclose(derivatives, slopes, atol=2e-6)


@pytest.mark.parametrize("loss", SCALAR)
def test_losses_equal_scikit_learns(loss):
    fast = pytest.importorskip("sklearn.linear_model._sgd_fast")
    general = pytest.importorskip("sklearn._loss._loss")
    makers = {
        "hinge": lambda: fast.Hinge(1.0),
        "perceptron": lambda: fast.Hinge(0.0),
        "squared_hinge": lambda: fast.SquaredHinge(1.0),
        "modified_huber": fast.ModifiedHuber,
        "epsilon_insensitive": lambda: fast.EpsilonInsensitive(EPSILON),
        "squared_epsilon_insensitive": lambda: fast.SquaredEpsilonInsensitive(EPSILON),
        "log_loss": general.CyHalfBinomialLoss,
        "squared_error": general.CyHalfSquaredError,
        "huber": lambda: general.CyHuberLoss(EPSILON),
    }
    theirs = makers[loss]()
    for y in labels(loss):
        values, derivatives = table(loss, y, MARGINS)
        if hasattr(theirs, "py_loss"):
            expected = np.array([(theirs.py_loss(p, y), theirs.py_dloss(p, y)) for p in MARGINS]).T
        else:
            expected = np.empty((2, len(MARGINS)))
            theirs.loss_gradient(np.full(len(MARGINS), y), MARGINS, None, *expected, 1)
        np.testing.assert_allclose(values, expected[0], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(derivatives, expected[1], rtol=1e-12, atol=1e-15)


def test_log_probabilities_neither_overflow_nor_vanish():
    rng = np.random.default_rng(0)
    margins = rng.normal(size=(40, 5)) * 10.0 ** rng.uniform(-2, 4, (40, 1))
    margins[0] = [800.0, -800.0, 0.0, 800.0, 1e300]
    margins[1] = -800.0
    out = margins.copy()
    log_probabilities(out)
    np.testing.assert_allclose(out, log_softmax(margins, axis=1), rtol=1e-12, atol=1e-11)


def test_the_multinomial_loss_is_that_of_scikit_learn():
    general = pytest.importorskip("sklearn._loss")
    theirs = general.HalfMultinomialLoss(n_classes=4)
    margins = np.random.default_rng(1).normal(size=(30, 4)) * 3.0
    labels = np.arange(30) % 4
    out = margins.copy()
    log_probabilities(out)
    parts = [
        table("multinomial", float(c == y), out[r, [c]])
        for r, y in enumerate(labels)
        for c in range(4)
    ]
    values, derivatives = np.reshape(parts, (30, 4, 2)).transpose(2, 0, 1)
    np.testing.assert_allclose(values.sum(axis=1), theirs.loss(labels.astype(float), margins))
    gradient = theirs.gradient(labels.astype(float), margins)
    np.testing.assert_allclose(derivatives, gradient, rtol=1e-12, atol=1e-15)


def test_the_multinomial_curvature_bounds_the_hessian():
    rng = np.random.default_rng(2)
    worst = 0.0
    for scale in (0.1, 1.0, 10.0):
        p = np.exp(log_softmax(scale * rng.normal(size=(200, 3)), axis=1))
        p[0] = 0.5, 0.5, 0.0
        hessian = np.einsum("rc,cd->rcd", p, np.eye(3)) - np.einsum("rc,rd->rcd", p, p)
        assert np.abs(hessian).sum(axis=2).max() <= losses.CURVATURE[losses.MULTINOMIAL] + 1e-12
        worst = max(worst, np.linalg.eigvalsh(hessian).max())
    assert worst == pytest.approx(losses.CURVATURE[losses.MULTINOMIAL]), "and no less would do"


def test_curvature_bounds_the_change_of_the_derivative():
    """Over a unit of the prediction, wherever it lies."""
    points = np.linspace(-4.0, 4.0, 161)
    for loss, code in losses.CODES.items():
        if loss not in SCALAR:
            continue
        for y in labels(loss):
            _, derivatives = table(loss, y, points)
            change = np.abs(derivatives[20:] - derivatives[:-20]).max()
            if loss != "huber":  # its derivative is bounded by epsilon besides
                assert change <= losses.CURVATURE[code] * 2.0 + 1e-12


@pytest.mark.parametrize("kind", step_schedules.CODES)
def test_step_sizes(kind):
    t = np.array([1.0, 2.0, 17.0, 1e6])
    out = np.empty(len(t))
    steps(step_schedules.CODES[kind], 0.3, 0.25, 1e-3, 50.0, t, out)
    expected = [naive.step_size(kind, 0.3, 0.25, 1e-3, 50.0, u) for u in t]
    np.testing.assert_allclose(out, expected, rtol=1e-14)


@pytest.mark.parametrize("loss", losses.CODES)
def test_optimal_start_makes_the_first_step_bottous(loss):
    alpha = 1e-3
    typical = alpha**-0.25
    slope = naive.loss_derivative(loss, 0.1, 1.0, -typical)
    first = naive.step_size("optimal", 0.0, 0.0, alpha, optimal_start(loss, 0.1, alpha), 1.0)
    assert first == pytest.approx(typical / max(1.0, slope))


@pytest.mark.parametrize("n_workers", [1.0, 2.0, 3.0, 16.0])
def test_exchange_weight_and_its_limits(n_workers):
    z = np.array([0.0, 1e-6, 0.3, 1.0, 7.0, 1e12])
    out = np.empty(len(z))
    weights(z, n_workers, out)
    np.testing.assert_allclose(out, [naive.exchange_weight(x, n_workers) for x in z], rtol=1e-14)
    assert out[0] == 1.0, "cold coordinates are added"
    assert out[-1] == pytest.approx(1.0 / n_workers), "hot ones are averaged"
    if n_workers == 2.0:
        rho = 1.0 / (1.0 + z)
        np.testing.assert_allclose(out, (1.0 + rho) / 2.0, rtol=1e-14)
    # the same slope at zero as (1 - rho^P) / (P (1 - rho))
    rho = 1.0 / (1.0 + z[1])
    exact = (1.0 - rho**n_workers) / (n_workers * (1.0 - rho))
    assert out[1] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31 - 2])
def test_shuffle(seed):
    for n in (1, 2, 5, 40):
        permutation = np.arange(n)
        for _ in range(3):
            before = permutation.tolist()
            streams.shuffle(permutation, seed)
            assert permutation.tolist() == naive.shuffle(before, seed)
        assert sorted(permutation) == list(range(n))


def test_shuffle_is_scikit_learns():
    ArrayDataset64 = pytest.importorskip("sklearn.utils._seq_dataset").ArrayDataset64
    n, seed = 30, 77
    X, y = np.arange(n, dtype=float)[:, None], np.zeros(n)
    dataset = ArrayDataset64(X, y, np.ones(n), seed=1)
    permutation = np.arange(n)
    for _ in range(2):
        dataset._shuffle_py(seed)
        streams.shuffle(permutation, seed)
        theirs = [int(dataset._next_py()[0][0][0]) for _ in range(n)]
        assert theirs == permutation.tolist()


def test_keep_training_rows():
    permutation = np.array([3, 0, 2, 1, 4])
    for held_out in (np.zeros(0, np.uint8), np.array([0, 1, 0, 0, 1], np.uint8)):
        expected = naive.training_rows(permutation, held_out)
        order = np.empty(len(expected), np.int64)
        streams.copy_training_rows(permutation, held_out, order)
        assert order.tolist() == expected


@kernel
def clipped(x):
    return losses.clipped(x)


def test_a_helper_can_be_called_from_python_too():
    """Compiled ones have no entry for Python: a call that looked for it would end the process."""
    assert clipped(2e12) == 1e12
    assert losses.clipped(2e12) == 1e12
