"""Folding in: fit a new user's factors and bias, with all items' factors and biases fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.special import expit


class LineForm(NamedTuple):
    """The form of a user's parameters: factors, a bias or none, and their penalties' strengths.

    The parameters of a user form one vector: the factors, then the bias if there is one.
    """

    n_factors: int
    biases: bool
    alpha: float
    bias_alpha: float

    @property
    def penalties(self) -> np.ndarray:
        """The penalty's strength for each of a user's parameters."""
        return np.array([self.alpha] * self.n_factors + [self.bias_alpha] * self.biases)

    def designs(self, factors: np.ndarray) -> np.ndarray:
        """Return a float64 copy of the items' factors, with a column of ones if there is a bias."""
        made = factors.astype(np.float64)
        return np.column_stack([made, np.ones(len(made))]) if self.biases else made


class NegativeDraws(NamedTuple):
    """The draws of items that are compared with a user's items, which have no ratings.

    See `hogshare.problems.preferences`.

    n_negatives : number of items drawn for each of the user's items
    popularity : weight of each item in the draws, its number of pairs; None for uniform draws
    pairwise : whether the loss compares two scores ("bpr"), or uses each score by itself
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
    """Return a user's factors, and bias if there is one, fitted to ratings of some items.

    No array is changed.

    factors : factors of the rated items, of shape (n_items, n_factors)
    fixed : the rated items' biases, with the mean if predictions contain it
    values : ratings of these items, in the unit of `fixed`; from 0 to 1 for "logistic"
    loss : "squared_error" or "logistic"
    ridge : the form of the result
    nonnegative : whether factors must not be negative
    """
    designs, penalties = ridge.designs(factors), ridge.penalties
    if loss == "squared_error" and not nonnegative:
        hessian = designs.T @ designs + np.diag(penalties)
        # without penalties and with few ratings `lstsq` returns the shortest of many solutions
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
    """Return a user's factors and bias, fitted by weighted least squares over all items.

    The target is 1 for the user's items, and 0 for all others. No array is changed.

    factors : factors of all items, of shape (n_items, n_factors)
    fixed : all items' biases, with the mean if predictions contain it
    met : places of the user's items, each once
    extras : weights of the user's items in excess of 1, which is the weight of all other items
    ridge : the form of the result
    """
    designs = ridge.designs(factors)
    own, left = designs[met], fixed[met]
    hessian = designs.T @ designs + np.diag(ridge.penalties) + (own.T * extras) @ own
    # an item of strength 0 does not count as one of the user's items
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
    """Return a user's factors and bias, fitted to the user's items against drawn items.

    The loss is the mean over all draws, not one draw. No array is changed.

    factors : factors of all items, of shape (n_items, n_factors)
    fixed : all items' biases, with the mean if predictions contain it
    met : places of the user's items
    values : ratings of the user's items, from 0 to 1
    drawn : how the other items are drawn
    ridge : the form of the result
    nonnegative : whether factors must not be negative
    """
    designs = ridge.designs(factors)
    chances = np.ones(len(designs)) if drawn.popularity is None else drawn.popularity.astype(float)
    chances[met] = 0.0
    chances *= drawn.n_negatives / max(1.0, chances.sum())  # draws of each item for one pair

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
    """Return the user's factors, and bias if there is one, that minimize losses and penalties.

    losses : ``losses(w)`` returns the sum of the losses at parameters `w`, and its gradient
    """
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
