"""The constants in AsySG's formulas: those of a problem, and those of an update's gradients.

Source: Lian, Huang, Li and Liu, NIPS 2015. Equation numbers are those of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hogshare.system import docstrings
from hogshare.system.ranges import at_least_one, positive

Formula = TypeVar("Formula", bound=Callable[..., Any])


def documented(shared: str) -> Callable[[Formula], Formula]:
    """Return a decorator that adds shared parameters and errors to a formula's docstring."""

    def complete(formula: Formula) -> Formula:
        docstrings.complete(formula, [shared])
        return formula

    return complete


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of a problem and its gradients in the analysis of consistent reads.

    Parameters
    ----------
    gap : float
        ``f(x_1) - f*``, or an upper bound of it, in units of f.
    L : float
        Lipschitz constant of the gradient, (4), in units of f over x squared. With inconsistent
        reads, L takes the place of the paper's L_T, (5), the constant for changes of at most T
        coordinates. L is an upper bound of L_T.
    sigma : float
        Standard deviation of one gradient, ``sqrt(E ||G - grad f||^2)``, (3), in units of f over x.
    n_gradients : float, default=1
        Number M of gradients in an update of Algorithms 1 and 2. An update is the *sum* of M
        gradients, and step sizes are for the sum.

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
    """The constants in the analysis of inconsistent reads, which writes one coordinate at a time.

    Formulas for consistent reads also accept these constants.

    Parameters
    ----------
    gap, L, sigma, n_gradients : float
        As in `Constants`.
    n_coordinates : float
        Number n of the model's coordinates. Algorithm 2 draws the coordinate of a write uniformly.
    L_max : float, default=None
        Largest Lipschitz constant of a partial derivative with respect to its own coordinate, (6),
        in units of f over x squared. None: L, which is an upper bound.

    Raises
    ------
    ValueError
        As in `Constants`, or if L_max is not positive or n is below 1.

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
        """Return L_max, or L if L_max is None."""
        return self.L if self.L_max is None else self.L_max
