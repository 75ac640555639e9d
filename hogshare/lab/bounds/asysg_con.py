"""AsySG-con: bounds for gradients computed at real past states of the model.

Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
optimization", NIPS 2015, section 3. Equation numbers are those of the paper. The equations were
recalled, not copied. ``tests/test_theory.py`` checks that (9) and (10) imply (7), that the bound
(8) is below the bound (11), and that a simulation satisfies (8).

An update of the model subtracts the *sum* of M gradients, ``x -= step * sum_m G_m``. The results
apply to any smooth function, convex or not, if the gradients are independent and unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hogshare.lab.bounds.constants import Constants, documented
from hogshare.system.ranges import at_least_one, not_negative, positive, whole

ROUNDING = 1e-9  # amount by which rounding may put a root below its whole number
SHARED = """
Parameters
----------
known : Constants
    Constants of the problem and its gradients.
n_updates : float
    K, number of updates of the model.
step : float
    Constant step size for the sum of the gradients.
age : float
    T, the largest number of updates between a read and its application.

Raises
------
ValueError
    If K is below 1, a step not positive, or T negative.
"""


@documented(SHARED)
def con_step_size(known: Constants, n_updates: float) -> float:
    """Compute the constant step size of Corollary 2, (9): ``sqrt(gap / (M L K sigma^2))``.

    Returns
    -------
    float
        Step size for the sum of the gradients, not for their mean.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_step_size(theory.Constants(gap=1.0, L=4.0, sigma=0.5), n_updates=10_000)
    0.01
    """
    at_least_one(n_updates=n_updates)
    return math.sqrt(known.gap / (known.n_gradients * known.L * n_updates)) / known.sigma


@documented(SHARED)
def con_least_updates(known: Constants, age: float) -> int:
    """Compute the fewest updates for Corollary 2, (10): ``K >= 4 M L gap (T + 1)^2 / sigma^2``.

    Returns
    -------
    int
        The least K, at least 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_least_updates(theory.Constants(gap=1.0, L=4.0, sigma=0.5), age=7)
    4096
    """
    not_negative(age=age)
    way = known.n_gradients * known.L * known.gap
    return max(1, math.ceil(4.0 * way * ((age + 1.0) / known.sigma) ** 2))


@documented(SHARED)
def con_largest_age(known: Constants, n_updates: float) -> int | None:
    """Compute the largest age that condition (10) allows for a number of updates.

    Up to this age the bound (11) does not depend on the age. Linear speedup is then to be expected
    up to the number of workers that cause this age. N workers, each with one gradient under way,
    cause an age of about ``(N - 1) / M`` updates. The age is ``N / M`` if a worker reads while its
    own last gradient is still under way.

    Returns
    -------
    int or None
        T in updates; None if the updates are too few even for gradients of age 0.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.Constants(gap=1.0, L=4.0, sigma=0.5)
    >>> theory.con_largest_age(known, n_updates=4096)
    7
    >>> theory.con_largest_age(known, n_updates=50) is None
    True
    """
    at_least_one(n_updates=n_updates)
    way = known.n_gradients * known.L * known.gap
    return floor_age(math.sqrt(n_updates / (4.0 * way)) * known.sigma - 1.0)


@documented(SHARED)
def con_bound(known: Constants, n_updates: float) -> float:
    """Compute the bound of Corollary 2, (11): ``4 sqrt(gap L sigma^2 / (M K))``.

    It bounds the mean over the updates of ``E ||grad f(x_k)||^2``, if the step size is (9) and
    condition (10) is met.

    Returns
    -------
    float
        In units of a squared gradient.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_bound(theory.Constants(gap=1.0, L=4.0, sigma=0.5), n_updates=10_000)
    0.04
    """
    at_least_one(n_updates=n_updates)
    return 4.0 * known.sigma * math.sqrt(known.gap * known.L / (known.n_gradients * n_updates))


@documented(SHARED)
def con_condition(known: Constants, step: float, age: float) -> float:
    """Compute the left side of condition (7) for a constant step size.

    It is ``L M step + 2 (L M T step)^2``; Theorem 1 applies if it is at most 1. Of the constants,
    only L and M are used.

    Returns
    -------
    float

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_condition(theory.Constants(gap=1.0, L=1.0, sigma=1.0), step=0.125, age=4)
    0.625
    """
    positive(step=step)
    not_negative(age=age)
    way = known.L * known.n_gradients * step
    return way + 2.0 * (age * way) ** 2


@documented(SHARED)
def con_largest_age_of_step(known: Constants, step: float) -> int | None:
    """Compute the largest age at which a constant step size meets condition (7).

    Of the constants, only L and M are used.

    Returns
    -------
    int or None
        T in updates; None if the step is too long even for gradients of age 0.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.con_largest_age_of_step(theory.Constants(gap=1.0, L=1.0, sigma=1.0), step=0.125)
    5
    """
    way = con_condition(known, step, 0.0)
    return None if way > 1.0 else floor_age(math.sqrt((1.0 - way) / 2.0) / way)


@documented(SHARED)
def con_bound_of_steps(known: Constants, steps: Sequence[float] | np.ndarray, age: int) -> float:
    """Compute the bound of Theorem 1, (8), for a sequence of step sizes that meets condition (7).

    The bounded quantity is ``(1 / sum gamma_k) sum_k gamma_k E ||grad f(x_k)||^2``. The bound is
    ``[2 gap + sum_k (gamma_k^2 M L + 2 L^2 M^2 gamma_k sum_{j=k-T..k-1} gamma_j^2) sigma^2] /
    (M sum_k gamma_k)``. Step sizes before the first one are zero.

    Parameters
    ----------
    steps : array-like of shape (n_updates,)
        The step sizes gamma_k, positive.
    age : int
        The largest age T, in updates.

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
    >>> known = theory.Constants(gap=1.0, L=1.0, sigma=1.0)
    >>> round(theory.con_bound_of_steps(known, steps, age=3), 4)
    0.8694
    """
    whole(age=age)
    gamma = np.asarray(steps, dtype=np.float64)
    if gamma.ndim != 1 or not gamma.size or not (gamma > 0.0).all() or np.isinf(gamma).any():
        raise ValueError("steps must be a sequence of positive finite numbers, at least one.")
    ahead = np.append(window_sums(gamma[::-1], age)[::-1], 0.0)[1 : len(gamma) + 1]
    way = known.L * known.n_gradients
    left = way * gamma + 2.0 * way**2 * age * gamma * ahead
    if left.max() > 1.0 + 1e-12:
        raise ValueError(
            f"The steps do not meet condition (7): its left side is {left.max():.4g} at update "
            f"{int(left.argmax())}, and may be at most 1. Use shorter steps, or fewer workers."
        )
    behind = np.append(0.0, window_sums(gamma**2, age))[: len(gamma)]
    noise = (gamma**2 * way + 2.0 * way**2 * gamma * behind).sum() * known.sigma**2
    return float((2.0 * known.gap + noise) / (known.n_gradients * gamma.sum()))


def window_sums(values: np.ndarray, length: int) -> np.ndarray:
    """Return ``out[k]``, the sum of ``values[k - length + 1 : k + 1]`` without negative indices."""
    sums = np.append(0.0, np.cumsum(values))
    last = np.arange(1, len(values) + 1)
    result: np.ndarray = sums[last] - sums[np.maximum(last - length, 0)]
    return result


def floor_age(age: float) -> int | None:
    """Round an age down to a whole number; return None if the age is negative."""
    return None if age < -ROUNDING else max(0, math.floor(age * (1.0 + ROUNDING) + ROUNDING))
