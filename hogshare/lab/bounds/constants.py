"""What AsySG's formulas know of a problem and of the gradients that an update sums.

Source: Lian, Huang, Li and Liu, NIPS 2015, whose equation numbers these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hogshare.system import docstrings
from hogshare.system.ranges import at_least_one, positive

Formula = TypeVar("Formula", bound=Callable[..., Any])


def documented(shared: str) -> Callable[[Formula], Formula]:
    """Fill a formula's docstring with what a family of them shares: parameters and errors."""

    def complete(formula: Formula) -> Formula:
        docstrings.complete(formula, [shared])
        return formula

    return complete


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What the analysis of consistent reads knows of a problem and its gradients.

    Parameters
    ----------
    gap : float
        ``f(x_1) - f*``, or an upper bound of it; in units of f.
    L : float
        Lipschitz constant of the gradient, (4): f over x squared. With inconsistent reads the
        paper's L_T, (5), for changes of T coordinates at most; L is an upper bound of it.
    sigma : float
        Standard deviation of one gradient, ``sqrt(E ||G - grad f||^2)``, (3): f over x.
    n_gradients : float, default=1
        M of Algorithms 1 and 2, gradients whose *sum* is an update: step sizes are for the sum.

    Raises
    ------
    ValueError
        If gap, L or sigma is not positive, or M is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.Constants(gap=1.0, L=4.0, sigma=0.5)
    >>> theory.con_step_size(known, n_updates=10_000)
    0.01
    """

    gap: float
    L: float
    sigma: float
    n_gradients: float = 1

    def __post_init__(self) -> None:
        positive(gap=self.gap, L=self.L, sigma=self.sigma)
        at_least_one(n_gradients=self.n_gradients)


@dataclass(frozen=True, kw_only=True)
class CoordinateConstants(Constants):
    """The same for inconsistent reads, whose analysis writes one coordinate at a time.

    Formulas for consistent reads take it too.

    Parameters
    ----------
    gap, L, sigma, n_gradients : float
        As of `Constants`.
    n_coordinates : float
        n, size of the model, of which Algorithm 2 draws a write's coordinate uniformly.
    L_max : float, default=None
        Lipschitz constant of the gradient for a change of one coordinate, in that coordinate, (6):
        f over x squared. None: L, which it is at most.

    Raises
    ------
    ValueError
        As `Constants` does, or if L_max is not positive or n is below 1.

    Examples
    --------
    >>> from hogshare import theory
    >>> known = theory.CoordinateConstants(gap=2.0, L=1.0, sigma=2.0, n_coordinates=4)
    >>> theory.incon_step_size(known, n_writes=10_000)
    0.02
    """

    n_coordinates: float
    L_max: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(n_coordinates=self.n_coordinates)
        positive(L_max=self.along_one)

    @property
    def along_one(self) -> float:
        """L_max, or L in its place."""
        return self.L if self.L_max is None else self.L_max
