"""AsySG-incon: bounds for gradients computed while other workers write.

Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
optimization", NIPS 2015, section 4. Equation numbers are those of the paper. The equations were
recalled, not copied. ``tests/test_theory.py`` checks that (17) and (18) imply (15), that the bound
(16) is below the bound (19), and that a simulation stays below (16). This file uses (16) in the
form derived for this package. Its middle term is four times the recalled term, so this form claims
less.

One iteration of the analysis writes *one coordinate* of the sum of M gradients; the coordinate is
drawn uniformly from n. K (the writes of a run) and T (the age) count these writes: an update of all
n coordinates counts as n writes.
"""

from __future__ import annotations

import math

from hogshare.lab.bounds.asysg_con import floor_age
from hogshare.lab.bounds.constants import CoordinateConstants, documented
from hogshare.system.ranges import at_least_one, not_negative, positive

SHARED = """
Parameters
----------
known : CoordinateConstants
    Constants of the problem and its gradients.
n_writes : float
    K, number of coordinates written.
step : float
    Constant step size for the sum of the gradients.
age : float
    T, the largest number of coordinates written between a read and its application.

Raises
------
ValueError
    If K is below 1, the step not positive, or T negative.
"""


@documented(SHARED)
def incon_step_size(known: CoordinateConstants, n_writes: float) -> float:
    """Compute the constant step size of Corollary 4, (17): ``sqrt(2 gap n / (K L_T M sigma^2))``.

    Returns
    -------
    float
        Step size for the sum of the gradients, not for their mean.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=2.0, L=1.0, sigma=2.0, n_coordinates=4)
    >>> theory.incon_step_size(known, n_writes=10_000)
    0.02
    """
    at_least_one(n_writes=n_writes)
    way = n_writes * known.L * known.n_gradients
    return math.sqrt(2.0 * known.gap * known.n_coordinates / way) / known.sigma


@documented(SHARED)
def incon_least_writes(known: CoordinateConstants, age: float) -> int:
    """Compute the fewest writes for Corollary 4, (18).

    The condition is ``K >= 16 gap L_T M (n^(3/2) + 4 T^2) / (sqrt(n) sigma^2)``.

    Returns
    -------
    int
        The least K, at least 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=1.0, L=1.0, sigma=1.0, n_coordinates=4)
    >>> theory.incon_least_writes(known, age=3)
    352
    """
    not_negative(age=age)
    n = known.n_coordinates
    root = math.sqrt(n)
    share = 16.0 * known.gap * known.L * known.n_gradients / (root * known.sigma**2)
    return max(1, math.ceil(share * (n * root + 4.0 * age**2)))


@documented(SHARED)
def incon_largest_age(known: CoordinateConstants, n_writes: float) -> int | None:
    """Compute the largest age that condition (18) allows for a number of writes.

    Returns
    -------
    int or None
        T in coordinates written; None if the writes are too few even for gradients of age 0.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=1.0, L=1.0, sigma=1.0, n_coordinates=4)
    >>> theory.incon_largest_age(known, n_writes=352)
    3
    """
    at_least_one(n_writes=n_writes)
    root = math.sqrt(known.n_coordinates)
    least = known.n_coordinates * root
    way = 16.0 * known.gap * known.L * known.n_gradients
    allowed = n_writes * root * known.sigma**2 / way
    if allowed < least * (1.0 - 1e-12):
        return None
    return floor_age(math.sqrt(max(0.0, allowed - least) / 4.0))


@documented(SHARED)
def incon_bound(known: CoordinateConstants, n_writes: float) -> float:
    """Compute the bound of Corollary 4, (19): ``sqrt(72 gap L_T n sigma^2 / (K M))``.

    It bounds the mean over the writes of ``E ||grad f(x_k)||^2``, if the step size is (17) and
    condition (18) is met. It is about three times the bound (16) for this step size.

    Returns
    -------
    float
        In units of a squared gradient.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=1.0, L=2.0, sigma=1.0, n_coordinates=100)
    >>> theory.incon_bound(known, n_writes=40_000)
    0.6
    """
    at_least_one(n_writes=n_writes)
    way = 72.0 * known.gap * known.L * known.n_coordinates
    return known.sigma * math.sqrt(way / (n_writes * known.n_gradients))


@documented(SHARED)
def incon_condition(known: CoordinateConstants, step: float, age: float) -> float:
    """Compute the left side of condition (15) for a constant step size.

    It is ``2 M^2 T L_T^2 (sqrt(n) + T - 1) step^2 / n^(3/2) + 2 M L_max step``; Theorem 3 applies
    if it is at most 1. The constants gap and sigma are not used.

    Returns
    -------
    float

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=1.0, L=1.0, sigma=1.0, n_coordinates=4)
    >>> theory.incon_condition(known, step=0.25, age=3)
    0.6875
    """
    positive(step=step)
    not_negative(age=age)
    n, M = known.n_coordinates, known.n_gradients
    root = math.sqrt(n)
    aged = age * (root + age - 1.0) * (M * known.L * step) ** 2
    return 2.0 * aged / (n * root) + 2.0 * M * known.along_one * step


@documented(SHARED)
def incon_largest_age_of_step(known: CoordinateConstants, step: float) -> int | None:
    """Compute the largest age at which a constant step size meets condition (15).

    The constants gap and sigma are not used.

    Returns
    -------
    int or None
        T in coordinates written; None if the step is too long even for gradients of age 0.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=1.0, L=1.0, sigma=1.0, n_coordinates=4)
    >>> theory.incon_largest_age_of_step(known, step=0.25)
    5
    """
    left = incon_condition(known, step, 0.0)
    if left > 1.0:
        return None
    n = known.n_coordinates
    root = math.sqrt(n)
    # T (T + root - 1) <= most, solved without subtracting nearly equal numbers
    most = (1.0 - left) * n * root / (2.0 * (known.n_gradients * known.L * step) ** 2)
    linear = root - 1.0
    return floor_age(2.0 * most / (linear + math.sqrt(linear**2 + 4.0 * most))) if most else 0


@documented(SHARED)
def incon_bound_of_step(
    known: CoordinateConstants, step: float, n_writes: float, age: float
) -> float:
    """Compute the bound of Theorem 3, (16), for a constant step size that meets condition (15).

    The bounded quantity is the mean over the writes of ``E ||grad f(x_k)||^2``. The bound is
    ``2 n gap / (K M step) + 2 L_T^2 T M step^2 sigma^2 / n + L_max step sigma^2``.

    Returns
    -------
    float
        In units of a squared gradient.

    Raises
    ------
    ValueError
        If a number is out of its range, or if the step does not meet (15).

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=1.0, L=1.0, sigma=1.0, n_coordinates=4)
    >>> theory.incon_bound_of_step(known, step=0.25, n_writes=640, age=2)
    0.3625
    """
    at_least_one(n_writes=n_writes)
    left = incon_condition(known, step, age)
    if left > 1.0 + 1e-12:
        raise ValueError(
            f"The step does not meet condition (15): its left side is {left:.4g}, and may be at "
            "most 1. Use a shorter step, or fewer workers."
        )
    n, M = known.n_coordinates, known.n_gradients
    started = 2.0 * n * known.gap / (n_writes * M * step)
    aged = 2.0 * (known.L * step * known.sigma) ** 2 * age * M / n
    return started + aged + known.along_one * step * known.sigma**2
