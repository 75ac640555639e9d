"""Proximal points of the losses against bisection on the slope."""

import naive
import numpy as np
import pytest

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.proximal_points import (
    kinked_slope,
    logistic_point,
    proximal_point,
    shrunk,
)


@kernel
def points(loss, epsilon, y, z, size, guess, out):
    for k in range(out.shape[0]):
        out[k] = proximal_point(loss, epsilon, y[k], z[k], size[k], guess[k])


@kernel
def kinked_slopes(loss, epsilon, y, z, reach, size, out):
    for k in range(out.shape[0]):
        out[k] = kinked_slope(loss, epsilon, y[k], z[k], reach[k], size[k])


@kernel
def logistic_points(y, z, size, guess, close, out):
    for k in range(out.shape[0]):
        out[k] = logistic_point(y[k], z[k], size[k], guess[k], close)


@kernel
def all_shrunk(values, room, out):
    for k in range(out.shape[0]):
        out[k] = shrunk(values[k], room)


def grid(regression, seed=0, n=300):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2, n)
    size = 10.0 ** rng.uniform(-3, 3, n)
    y = rng.normal(size=n) if regression else rng.choice([-1.0, 1.0], n)
    return y, z, size


@pytest.mark.parametrize(
    "loss", [name for name in losses.CODES if name not in ("log_loss", "multinomial")]
)
def test_closed_forms(loss):
    regression = losses.CODES[loss] >= losses.SQUARED_ERROR
    y, z, size = grid(regression)
    out = np.empty_like(z)
    points(losses.CODES[loss], 0.3, y, z, size, z, out)
    expected = [naive.proximal_point(loss, 0.3, *args) for args in zip(y, z, size, strict=True)]
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", losses.KINKED)
def test_the_slope_at_the_proximal_point_of_a_loss_with_kinks(loss):
    y, z, reach = grid(loss == "epsilon_insensitive", seed=2)
    size = np.random.default_rng(3).uniform(0.1, 10.0, len(y))
    out = np.empty_like(z)
    kinked_slopes(losses.CODES[loss], 0.3, y, z, reach, size, out)
    points = [
        naive.proximal_point(loss, 0.3, *args) for args in zip(y, z, reach * size, strict=True)
    ]
    np.testing.assert_allclose(out, (z - points) / reach, rtol=1e-9, atol=1e-9)
    lowest = -size if loss == "epsilon_insensitive" else np.minimum(-y, 0.0) * size
    highest = size if loss == "epsilon_insensitive" else np.maximum(-y, 0.0) * size
    assert ((lowest <= out) & (out <= highest)).all()


@pytest.mark.parametrize("guess", [0.0, 50.0, -50.0])
def test_newton_finds_the_logistic_point_from_anywhere(guess):
    y, z, size = grid(False, seed=1)
    y = (y > 0.0).astype(float)
    out = np.empty_like(z)
    logistic_points(y, z, size, np.full_like(z, guess), 1e-12, out)
    expected = [naive.proximal_point("log_loss", 0, *a) for a in zip(y, z, size, strict=True)]
    np.testing.assert_allclose(out, expected, rtol=1e-8, atol=1e-8)


def test_the_loose_newton_always_goes_down_and_stays_inside_the_bracket():
    """It need not arrive, for the row comes again; but it must gain on where it started."""
    y, z, size = grid(False, seed=2)
    y = (y > 0.0).astype(float)
    guess = z + np.random.default_rng(3).normal(size=len(z)) * size
    out = np.empty_like(z)
    points(losses.LOG_LOSS, 0.0, y, z, size, guess, out)
    low, high = z - size * (1.0 - y), z + size * y
    assert (out >= low).all()
    assert (out <= high).all()

    def value(u):
        return size * (np.logaddexp(0.0, u) - y * u) + 0.5 * (u - z) ** 2

    start = value(np.clip(guess, low, high))
    assert (value(out) <= start + 1e-9 * (1.0 + start)).all()
    best = value(
        np.array([naive.proximal_point("log_loss", 0, *a) for a in zip(y, z, size, strict=True)])
    )
    gained = (start - value(out)) / np.maximum(start - best, 1e-9)
    assert np.median(gained) > 0.99
    assert gained[start - best > 1e-6].min() > 0.5


def test_shrinking_stops_at_zero():
    values = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    out = np.empty_like(values)
    all_shrunk(values, 1.0, out)
    np.testing.assert_array_equal(out, naive.soft(values, 1.0))
