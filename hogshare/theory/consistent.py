"""AsySG-con: what is known of gradients that were computed at real past states of the model.

Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
optimization", NIPS 2015, section 3. Equation numbers are the paper's. The equations were recalled,
not copied: that (9) and (10) give (7), that (8) is below (11), and that (8) holds in a simulation
is checked in ``tests/test_theory.py``.

The model is updated by the *sum* of M gradients, ``x -= step * sum_m G_m``. All of this is for any
smooth function, convex or not, with independent unbiased gradients.

Arguments that all functions share:

gap : ``f(x_1) - f*``, or an upper bound of it; in units of f
L : Lipschitz constant of the gradient; f over x squared
sigma : standard deviation of one gradient, ``sqrt(E ||G - grad f||^2)``; f over x
n_updates : K, updates of the model
n_gradients : M, gradients summed in an update
age : T, updates between a read and its application, at most
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hogshare.ranges import at_least_one, not_negative, positive, whole

ROUNDING = 1e-9  # of an age, by which a root may fall short of the whole number that it is


def con_step_size(
    gap: float, L: float, sigma: float, n_updates: float, n_gradients: float
) -> float:
    """Constant step size of Corollary 2, equation (9): ``sqrt(gap / (M L K sigma^2))``.

    Parameters
    ----------
    gap : float
        ``f(x_1) - f*``, or an upper bound of it.
    L : float
        Lipschitz constant of the gradient.
    sigma : float
        Standard deviation of one gradient.
    n_updates : float
        K, updates of the model.
    n_gradients : float
        M, gradients summed in an update.

    Returns
    -------
    float
        For the sum of the gradients, not for their mean.

    Raises
    ------
    ValueError
        If a constant is not positive, or K or M is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_step_size(gap=1.0, L=4.0, sigma=0.5, n_updates=10_000, n_gradients=1)
    0.01
    """
    positive(gap=gap, L=L, sigma=sigma)
    at_least_one(n_updates=n_updates, n_gradients=n_gradients)
    return math.sqrt(gap / (n_gradients * L * n_updates)) / sigma


def con_least_updates(gap: float, L: float, sigma: float, n_gradients: float, age: float) -> int:
    """Updates from which on Corollary 2 holds, (10): ``K >= 4 M L gap (T + 1)^2 / sigma^2``.

    Parameters
    ----------
    gap, L, sigma, n_gradients : float
        As in `con_step_size`.
    age : float
        T, the largest age.

    Returns
    -------
    int
        The least K, at least 1.

    Raises
    ------
    ValueError
        If a constant is not positive, M is below 1 or T negative.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_least_updates(gap=1.0, L=4.0, sigma=0.5, n_gradients=1, age=7)
    4096
    """
    positive(gap=gap, L=L, sigma=sigma)
    at_least_one(n_gradients=n_gradients)
    not_negative(age=age)
    return max(1, math.ceil(4.0 * n_gradients * L * gap * ((age + 1.0) / sigma) ** 2))


def con_largest_age(
    gap: float, L: float, sigma: float, n_updates: float, n_gradients: float
) -> int | None:
    """Largest age that (10) allows for so many updates.

    Up to there the bound (11) does not depend on the age, so that linear speedup is to be expected
    of as many workers as make that age: N workers that have one gradient under way each make one of
    about ``(N - 1) / M`` updates, and of ``N / M`` where a worker's own last gradient is on its way
    too when it reads.

    Parameters
    ----------
    gap, L, sigma, n_updates, n_gradients : float
        As in `con_step_size`.

    Returns
    -------
    int or None
        T in updates; None if there are too few updates even for gradients without age.

    Raises
    ------
    ValueError
        If a constant is not positive, or K or M is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_largest_age(gap=1.0, L=4.0, sigma=0.5, n_updates=4096, n_gradients=1)
    7
    >>> theory.con_largest_age(gap=1.0, L=4.0, sigma=0.5, n_updates=50, n_gradients=1) is None
    True
    """
    positive(gap=gap, L=L, sigma=sigma)
    at_least_one(n_updates=n_updates, n_gradients=n_gradients)
    return floor_age(math.sqrt(n_updates / (4.0 * n_gradients * L * gap)) * sigma - 1.0)


def con_bound(gap: float, L: float, sigma: float, n_updates: float, n_gradients: float) -> float:
    """Bound of Corollary 2, (11): ``4 sqrt(gap L sigma^2 / (M K))``.

    Of the mean over the updates of ``E ||grad f(x_k)||^2``, with the step size (9), where (10)
    holds.

    Parameters
    ----------
    gap, L, sigma, n_updates, n_gradients : float
        As in `con_step_size`.

    Returns
    -------
    float
        In units of a squared gradient.

    Raises
    ------
    ValueError
        If a constant is not positive, or K or M is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_bound(gap=1.0, L=4.0, sigma=0.5, n_updates=10_000, n_gradients=1)
    0.04
    """
    positive(gap=gap, L=L, sigma=sigma)
    at_least_one(n_updates=n_updates, n_gradients=n_gradients)
    return 4.0 * sigma * math.sqrt(gap * L / (n_gradients * n_updates))


def con_condition(step: float, L: float, n_gradients: float, age: float) -> float:
    """Left side of condition (7) for a constant step; Theorem 1 holds where it is at most 1.

    ``L M step + 2 (L M T step)^2``.

    Parameters
    ----------
    step : float
        Step size for the sum of the gradients.
    L, n_gradients : float
        As in `con_step_size`.
    age : float
        T, the largest age.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the step or L is not positive, M is below 1 or T negative.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_condition(step=0.125, L=1.0, n_gradients=1, age=4)
    0.625
    """
    positive(step=step, L=L)
    at_least_one(n_gradients=n_gradients)
    not_negative(age=age)
    way = L * n_gradients * step
    return way + 2.0 * (age * way) ** 2


def con_largest_age_of_step(step: float, L: float, n_gradients: float) -> int | None:
    """Largest age at which a constant step meets condition (7).

    Parameters
    ----------
    step, L, n_gradients : float
        As in `con_condition`.

    Returns
    -------
    int or None
        T in updates; None if the step is too long even for gradients without age.

    Raises
    ------
    ValueError
        If the step or L is not positive, or M is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_largest_age_of_step(step=0.125, L=1.0, n_gradients=1)
    5
    """
    way = con_condition(step, L, n_gradients, 0.0)
    return None if way > 1.0 else floor_age(math.sqrt((1.0 - way) / 2.0) / way)


def con_bound_of_steps(
    steps: Sequence[float] | np.ndarray,
    gap: float,
    L: float,
    sigma: float,
    n_gradients: float,
    age: int,
) -> float:
    """Bound of Theorem 1, (8), for any sequence of steps that meets condition (7).

    Of ``(1 / sum gamma_k) sum_k gamma_k E ||grad f(x_k)||^2``:
    ``[2 gap + sum_k (gamma_k^2 M L + 2 L^2 M^2 gamma_k sum_{j=k-T..k-1} gamma_j^2) sigma^2] /
    (M sum_k gamma_k)``, where there are no steps before the first.

    Parameters
    ----------
    steps : array-like of shape (n_updates,)
        gamma_k, positive.
    gap, L, sigma, n_gradients : float
        As in `con_step_size`.
    age : int
        T, the largest age.

    Returns
    -------
    float
        In units of a squared gradient.

    Raises
    ------
    ValueError
        If a number is out of its range, or if the steps do not meet (7):
        ``L M gamma_k + 2 L^2 M^2 T gamma_k sum_{q=1..T} gamma_{k+q} <= 1`` for every k.

    Examples
    --------
    >>> from hogshare import theory
    >>> steps = [0.1 / (1 + k / 10) for k in range(100)]
    >>> round(theory.con_bound_of_steps(steps, gap=1.0, L=1.0, sigma=1.0, n_gradients=1, age=3), 4)
    0.8694
    """
    positive(gap=gap, L=L, sigma=sigma)
    at_least_one(n_gradients=n_gradients)
    whole(age=age)
    gamma = np.asarray(steps, dtype=np.float64)
    if gamma.ndim != 1 or not gamma.size or not (gamma > 0.0).all() or np.isinf(gamma).any():
        raise ValueError("steps must be a sequence of positive finite numbers, at least one.")
    ahead = np.append(window_sums(gamma[::-1], age)[::-1], 0.0)[1 : len(gamma) + 1]
    way = L * n_gradients
    left = way * gamma + 2.0 * way**2 * age * gamma * ahead
    if left.max() > 1.0 + 1e-12:
        raise ValueError(
            f"The steps do not meet condition (7): its left side is {left.max():.4g} at update "
            f"{int(left.argmax())}, and may be 1. Take shorter steps, or fewer workers."
        )
    behind = np.append(0.0, window_sums(gamma**2, age))[: len(gamma)]
    noise = (gamma**2 * way + 2.0 * way**2 * gamma * behind).sum() * sigma**2
    return float((2.0 * gap + noise) / (n_gradients * gamma.sum()))


def window_sums(values: np.ndarray, length: int) -> np.ndarray:
    """``out[k]``: the sum of ``values[k - length + 1 : k + 1]``, what is before 0 left out."""
    sums = np.append(0.0, np.cumsum(values))
    last = np.arange(1, len(values) + 1)
    result: np.ndarray = sums[last] - sums[np.maximum(last - length, 0)]
    return result


def floor_age(age: float) -> int | None:
    """Round an age down to a whole number; None for a negative one, which no read has."""
    return None if age < -ROUNDING else max(0, math.floor(age * (1.0 + ROUNDING) + ROUNDING))
