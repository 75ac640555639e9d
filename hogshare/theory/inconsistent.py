"""AsySG-incon: what is known of gradients that were computed while others wrote.

Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
optimization", NIPS 2015, section 4. Equation numbers are the paper's. The equations were recalled,
not copied: that (17) and (18) give (15), and that (16) is below (19), is checked in
``tests/test_theory.py``, where a simulation keeps below (16) too. Of (16) the derived form is
taken, whose middle term is four times the recalled one: the weaker claim.

One iteration of the analysis writes *one coordinate*, drawn uniformly from n, of the sum of M
gradients. K and T count these writes: who writes all n coordinates at once makes n of them.

Arguments that all functions share:

gap : ``f(x_1) - f*``, or an upper bound of it; in units of f
L : L_T of the paper, the Lipschitz constant for changes of T coordinates at most; that of the
    gradient is an upper bound of it, and may be taken instead
L_max : the same for a change of one coordinate, in that coordinate; at most L
sigma : standard deviation of one gradient, ``sqrt(E ||G - grad f||^2)``; f over x
n_writes : K, coordinates written
n_gradients : M, gradients summed in a write
n_coordinates : n, size of the model
age : T, coordinates written between a read and its application, at most
"""

from __future__ import annotations

import math

from hogshare.ranges import at_least_one, not_negative, positive
from hogshare.theory.consistent import floor_age


def incon_step_size(
    gap: float,
    L: float,
    sigma: float,
    n_writes: float,
    n_gradients: float,
    n_coordinates: float,
) -> float:
    """Constant step size of Corollary 4, (17): ``sqrt(2 gap n / (K L_T M sigma^2))``.

    Parameters
    ----------
    gap : float
        ``f(x_1) - f*``, or an upper bound of it.
    L : float
        L_T, or the Lipschitz constant of the gradient.
    sigma : float
        Standard deviation of one gradient.
    n_writes : float
        K, coordinates written.
    n_gradients : float
        M, gradients summed in a write.
    n_coordinates : float
        n, size of the model.

    Returns
    -------
    float
        For the sum of the gradients, not for their mean.

    Raises
    ------
    ValueError
        If a constant is not positive, or K, M or n is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.incon_step_size(
    ...     2.0, L=1.0, sigma=2.0, n_writes=10_000, n_gradients=1, n_coordinates=4
    ... )
    0.02
    """
    _check(gap, L, sigma, n_writes, n_gradients, n_coordinates)
    return math.sqrt(2.0 * gap * n_coordinates / (n_writes * L * n_gradients)) / sigma


def incon_least_writes(
    gap: float,
    L: float,
    sigma: float,
    n_gradients: float,
    n_coordinates: float,
    age: float,
) -> int:
    """Writes from which on Corollary 4 holds, (18).

    ``K >= 16 gap L_T M (n^(3/2) + 4 T^2) / (sqrt(n) sigma^2)``.

    Parameters
    ----------
    gap, L, sigma, n_gradients, n_coordinates : float
        As in `incon_step_size`.
    age : float
        T, the largest age in coordinates written.

    Returns
    -------
    int
        The least K, at least 1.

    Raises
    ------
    ValueError
        If a constant is not positive, M or n is below 1, or T negative.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.incon_least_writes(1.0, L=1.0, sigma=1.0, n_gradients=1, n_coordinates=4, age=3)
    352
    """
    _check(gap, L, sigma, 1.0, n_gradients, n_coordinates)
    not_negative(age=age)
    root = math.sqrt(n_coordinates)
    share = 16.0 * gap * L * n_gradients / (root * sigma**2)
    return max(1, math.ceil(share * (n_coordinates * root + 4.0 * age**2)))


def incon_largest_age(
    gap: float,
    L: float,
    sigma: float,
    n_writes: float,
    n_gradients: float,
    n_coordinates: float,
) -> int | None:
    """Largest age that (18) allows for so many writes.

    Parameters
    ----------
    gap, L, sigma, n_writes, n_gradients, n_coordinates : float
        As in `incon_step_size`.

    Returns
    -------
    int or None
        T in coordinates written; None if there are too few writes even for gradients without age.

    Raises
    ------
    ValueError
        If a constant is not positive, or K, M or n is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.incon_largest_age(
    ...     1.0, L=1.0, sigma=1.0, n_writes=352, n_gradients=1, n_coordinates=4
    ... )
    3
    """
    _check(gap, L, sigma, n_writes, n_gradients, n_coordinates)
    root = math.sqrt(n_coordinates)
    least = n_coordinates * root
    allowed = n_writes * root * sigma**2 / (16.0 * gap * L * n_gradients)
    if allowed < least * (1.0 - 1e-12):
        return None
    return floor_age(math.sqrt(max(0.0, allowed - least) / 4.0))


def incon_bound(
    gap: float,
    L: float,
    sigma: float,
    n_writes: float,
    n_gradients: float,
    n_coordinates: float,
) -> float:
    """Bound of Corollary 4, (19): ``sqrt(72 gap L_T n sigma^2 / (K M))``.

    Of the mean over the writes of ``E ||grad f(x_k)||^2``, with the step size (17), where (18)
    holds. It is about three times what (16) gives there.

    Parameters
    ----------
    gap, L, sigma, n_writes, n_gradients, n_coordinates : float
        As in `incon_step_size`.

    Returns
    -------
    float
        In units of a squared gradient.

    Raises
    ------
    ValueError
        If a constant is not positive, or K, M or n is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.incon_bound(1.0, L=2.0, sigma=1.0, n_writes=40_000, n_gradients=1, n_coordinates=100)
    0.6
    """
    _check(gap, L, sigma, n_writes, n_gradients, n_coordinates)
    return sigma * math.sqrt(72.0 * gap * L * n_coordinates / (n_writes * n_gradients))


def incon_condition(
    step: float,
    L: float,
    L_max: float,
    n_gradients: float,
    n_coordinates: float,
    age: float,
) -> float:
    """Left side of condition (15); Theorem 3 holds where it is at most 1.

    ``2 M^2 T L_T^2 (sqrt(n) + T - 1) step^2 / n^(3/2) + 2 M L_max step``.

    Parameters
    ----------
    step : float
        Step size for the sum of the gradients.
    L, n_gradients, n_coordinates : float
        As in `incon_step_size`.
    L_max : float
        Lipschitz constant along one coordinate.
    age : float
        T, the largest age in coordinates written.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the step, L or L_max is not positive, M or n is below 1, or T negative.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.incon_condition(0.25, L=1.0, L_max=1.0, n_gradients=1, n_coordinates=4, age=3)
    0.6875
    """
    positive(step=step, L=L, L_max=L_max)
    at_least_one(n_gradients=n_gradients, n_coordinates=n_coordinates)
    not_negative(age=age)
    root = math.sqrt(n_coordinates)
    aged = age * (root + age - 1.0) * (n_gradients * L * step) ** 2
    return 2.0 * aged / (n_coordinates * root) + 2.0 * n_gradients * L_max * step


def incon_largest_age_of_step(
    step: float, L: float, L_max: float, n_gradients: float, n_coordinates: float
) -> int | None:
    """Largest age at which a constant step meets condition (15).

    Parameters
    ----------
    step, L, L_max, n_gradients, n_coordinates : float
        As in `incon_condition`.

    Returns
    -------
    int or None
        T in coordinates written; None if the step is too long even for gradients without age.

    Raises
    ------
    ValueError
        If the step, L or L_max is not positive, or M or n is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.incon_largest_age_of_step(0.25, L=1.0, L_max=1.0, n_gradients=1, n_coordinates=4)
    5
    """
    left = incon_condition(step, L, L_max, n_gradients, n_coordinates, 0.0)
    if left > 1.0:
        return None
    root = math.sqrt(n_coordinates)
    # T (T + root - 1) <= room, solved without subtracting numbers that are nearly equal
    room = (1.0 - left) * n_coordinates * root / (2.0 * (n_gradients * L * step) ** 2)
    linear = root - 1.0
    return floor_age(2.0 * room / (linear + math.sqrt(linear**2 + 4.0 * room))) if room else 0


def incon_bound_of_step(
    step: float,
    gap: float,
    L: float,
    L_max: float,
    sigma: float,
    n_writes: float,
    n_gradients: float,
    n_coordinates: float,
    age: float,
) -> float:
    """Bound of Theorem 3, (16), for a constant step that meets condition (15).

    Of the mean over the writes of ``E ||grad f(x_k)||^2``:
    ``2 n gap / (K M step) + 2 L_T^2 T M step^2 sigma^2 / n + L_max step sigma^2``.

    Parameters
    ----------
    step : float
        Step size for the sum of the gradients.
    gap, L, sigma, n_writes, n_gradients, n_coordinates : float
        As in `incon_step_size`.
    L_max : float
        Lipschitz constant along one coordinate.
    age : float
        T, the largest age in coordinates written.

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
    >>> theory.incon_bound_of_step(
    ...     0.25,
    ...     1.0,
    ...     L=1.0,
    ...     L_max=1.0,
    ...     sigma=1.0,
    ...     n_writes=640,
    ...     n_gradients=1,
    ...     n_coordinates=4,
    ...     age=2,
    ... )
    0.3625
    """
    _check(gap, L, sigma, n_writes, n_gradients, n_coordinates)
    left = incon_condition(step, L, L_max, n_gradients, n_coordinates, age)
    if left > 1.0 + 1e-12:
        raise ValueError(
            f"The step does not meet condition (15): its left side is {left:.4g}, and may be 1. "
            "Take a shorter step, or fewer workers."
        )
    started = 2.0 * n_coordinates * gap / (n_writes * n_gradients * step)
    aged = 2.0 * (L * step * sigma) ** 2 * age * n_gradients / n_coordinates
    return started + aged + L_max * step * sigma**2


def _check(
    gap: float,
    L: float,
    sigma: float,
    n_writes: float,
    n_gradients: float,
    n_coordinates: float,
) -> None:
    positive(gap=gap, L=L, sigma=sigma)
    at_least_one(n_writes=n_writes, n_gradients=n_gradients, n_coordinates=n_coordinates)
