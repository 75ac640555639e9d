"""The exponential against the library's."""

import math

import numpy as np
import pytest

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.jit.exponential import exp_of_negative, power_of_two
from hogshare.kernels.rules import losses


@kernel
def exponentials(x, out):
    """Exponentials of what is not positive."""
    for i in range(x.shape[0]):
        out[i] = exp_of_negative(x[i])


def of(x):
    out = np.empty_like(x)
    exponentials(x, out)
    return out


@pytest.mark.parametrize("lowest", [1e-12, 0.35, 1, 40, 708])
def test_is_as_near_as_it_says(lowest):
    x = -lowest * np.random.default_rng(0).random(20_000)
    exact = np.exp(x.astype(np.longdouble))
    off = np.abs((of(x) - exact) / exact)
    assert (off <= 5e-16 - 2e-16 * x).all()


def test_ends_of_the_range():
    x = np.array([0.0, -0.0, -708.0, -709.0, -1e308, -np.inf, np.nan])
    values = of(x)
    assert (values[:2] == 1.0).all()
    assert 3e-308 < values[2] < 4e-308
    assert (values[3:6] == 0.0).all()  # no denormals
    assert np.isnan(values[6])


def test_never_above_one_and_falling():
    x = -np.sort(np.random.default_rng(1).random(5_000)) * 50.0
    values = of(x)
    assert (values <= 1.0).all()
    assert (np.diff(values) <= 0.0).all()


def test_the_plain_form_is_the_same():
    """The starting step size is computed with it."""
    for x in (-1e-3, -0.7, -30.0, -700.0):
        assert exp_of_negative(x) == pytest.approx(math.exp(x), rel=2e-13)
    assert math.isnan(exp_of_negative(math.nan))


@kernel
def powers(n, out):
    """Powers of two."""
    for i in range(n.shape[0]):
        out[i] = power_of_two(n[i])


def test_powers_of_two():
    n = np.array([-1022, -3, 0, 1023])
    out = np.empty(4)
    powers(n, out)
    np.testing.assert_array_equal(out, np.ldexp(1.0, n))
    assert [power_of_two(k) for k in n] == out.tolist()


@kernel
def log_loss_slopes(margins, out):
    for i in range(out.shape[0]):
        out[i] = losses.loss_derivative(losses.LOG_LOSS, 0.0, 1.0, margins[i])


def test_the_log_loss_of_a_row_far_on_its_side_has_no_slope():
    """Slopes of 3e-308 would make denormal steps, each of which costs a hundred cycles."""
    slopes = np.empty(3)
    log_loss_slopes(np.array([700.0, 709.0, 1e300]), slopes)
    assert -1e-300 < slopes[0] < 0.0
    np.testing.assert_array_equal(slopes[1:], 0.0)
