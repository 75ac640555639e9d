"""Folding in: fit a new user's factors and bias, with all items' factors and biases fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.special import expit


class LineForm(NamedTuple):
    """The form of a user's numbers: factors, a bias or none, and their penalties' strengths."""

    n_factors: int
    biases: bool
    alpha: float
    bias_alpha: float

    @property
    def penalties(self) -> np.ndarray:
        """The penalty's strength for each of a user's numbers."""
        return np.array([self.alpha] * self.n_factors + [self.bias_alpha] * self.biases)

    def designs(self, factors: np.ndarray) -> np.ndarray:
        """Return the items' factors, with a column of ones for the user's bias."""
        made = factors.astype(np.float64)
        return np.column_stack([made, np.ones(len(made))]) if self.biases else made


class NegativeDraws(NamedTuple):
    """The drawn items with which a user's items are compared; see `hogshare.problems.preferences`.

    popularity : number of users' meetings with each item; None for uniform draws
    """

    n_negatives: int
    popularity: np.ndarray | None
    pairwise: bool


def of_ratings(
    factors: np.ndarray,
    fixed: np.ndarray,
    values: np.ndarray,
    loss: str,
    ridge: LineForm,
    nonnegative: bool,
) -> np.ndarray:
    """Fit a user's numbers to ratings of some items.

    factors : factors of the rated items
    fixed : the rated items' predictions without the user's numbers
    loss : "squared_error" or "logistic"
    """
    designs, penalties = ridge.designs(factors), ridge.penalties
    if loss == "squared_error" and not nonnegative:
        hessian = designs.T @ designs + np.diag(penalties)
        # without penalties and with few ratings this is the shortest of all solutions
        return np.asarray(scipy.linalg.lstsq(hessian, designs.T @ (values - fixed))[0])

    def losses(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = fixed + designs @ w
        if loss == "logistic":
            of_all, slope = np.logaddexp(0.0, z) - values * z, expit(z) - values
        else:
            of_all, slope = 0.5 * np.square(z - values), z - values
        return float(of_all.sum()), designs.T @ slope

    return _least(losses, ridge, nonnegative)


def of_strengths(
    factors: np.ndarray, fixed: np.ndarray, met: np.ndarray, extras: np.ndarray, ridge: LineForm
) -> np.ndarray:
    """Fit a user's numbers to the met items, by weighted least squares over all items.

    factors : factors of all items
    fixed : all items' predictions without the user's numbers
    met : the items that the user has met
    extras : weights of the met items in excess of 1
    """
    designs = ridge.designs(factors)
    own, left = designs[met], fixed[met]
    hessian = designs.T @ designs + np.diag(ridge.penalties) + (own.T * extras) @ own
    # an item of strength 0 counts as not met
    targets = np.where(extras > 0.0, 1.0 + extras, 0.0) - extras * left
    return np.asarray(scipy.linalg.lstsq(hessian, own.T @ targets - designs.T @ fixed)[0])


def of_pairs(
    factors: np.ndarray,
    fixed: np.ndarray,
    met: np.ndarray,
    values: np.ndarray,
    drawn: NegativeDraws,
    ridge: LineForm,
    nonnegative: bool,
) -> np.ndarray:
    """Fit a user's numbers to the met items, against the mean over all draws.

    factors : factors of all items
    fixed : all items' predictions without the user's numbers
    met : the items that the user has met
    values : ratings of the met items, from 0 to 1
    """
    designs = ridge.designs(factors)
    chances = np.ones(len(designs)) if drawn.popularity is None else drawn.popularity.astype(float)
    chances[met] = 0.0
    chances *= drawn.n_negatives / max(1.0, chances.sum())  # draws of each item, for one pair

    def of_each(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = fixed + designs @ w
        own = z[met]
        loss = float((np.logaddexp(0.0, own) - values * own).sum())
        slope = len(met) * chances * expit(z)
        np.add.at(slope, met, expit(own) - values)
        return loss + float(len(met) * (chances @ np.logaddexp(0.0, z))), designs.T @ slope

    def of_two(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = fixed + designs @ w
        loss, slope = 0.0, np.zeros(len(z))
        for item in met:
            behind = z - z[item]
            loss += float(chances @ np.logaddexp(0.0, behind))
            share = chances * expit(behind)
            slope += share
            slope[item] -= share.sum()
        return loss, designs.T @ slope

    return _least(of_two if drawn.pairwise else of_each, ridge, nonnegative)


def _least(
    losses: Callable[[np.ndarray], tuple[float, np.ndarray]], ridge: LineForm, nonnegative: bool
) -> np.ndarray:
    """Return the user's numbers that minimize losses and penalties."""
    penalties = ridge.penalties

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = losses(w)
        return loss + 0.5 * float(penalties @ (w * w)), slope + penalties * w

    bounds = [(0.0 if nonnegative else None, None)] * ridge.n_factors
    bounds += [(None, None)] * ridge.biases
    options = {"gtol": 1e-10, "ftol": 0.0, "maxiter": 1000}
    start = np.zeros(len(penalties))
    found = scipy.optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.asarray(found.x)
