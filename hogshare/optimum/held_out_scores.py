"""Scores on the held-out rows of all parts, as in scikit-learn's estimators.

A score is weighted accuracy or weighted R squared, computed from sums over all held-out rows. On
one machine, kernels use the same formulas (`hogshare.kernels.rows.row_scores`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.rows.whole_gradients import fill_margins
from hogshare.kernels.rules import losses
from hogshare.problems.linear.part import picked
from hogshare.problems.model import Model


class Scores(NamedTuple):
    """The constants that convert sums over the held-out rows of all parts into scores.

    n_rows : number of these rows
    weight : total weight of these rows
    spread : weighted sum of squares of the targets' deviations from the mean, for a regression
    """

    n_rows: float
    weight: float
    spread: float
    is_regression: bool

    def of(self, sums: np.ndarray) -> np.ndarray:
        """Return the scores of all columns from the sums of `HeldOutPart.counts`."""
        if not self.is_regression:
            return sums / self.weight
        if self.n_rows < 2:
            return np.full(len(sums), np.nan)
        if self.spread > 0.0:
            return 1.0 - sums / self.spread
        return np.where(sums == 0.0, 1.0, 0.0)


class HeldOutPart:
    """A copy of the held-out rows of a part.

    mask : bools of shape (n_rows,), True for held-out rows
    """

    def __init__(self, problem: Any, mask: np.ndarray) -> None:
        self.problem = problem
        self.rows = picked(problem.rows, np.flatnonzero(mask))
        self.y = self.rows.y.astype(np.float64)
        weight = self.rows.weight
        self.weights = weight.astype(np.float64) if weight.size else np.ones(len(self.y))

    def moments(self) -> np.ndarray:
        """Return the number of rows, their total weight, and the sum of their weighted targets."""
        return np.array([len(self.y), self.weights.sum(), self.weights @ self.y])

    def spread(self, mean: float) -> float:
        """Return the weighted sum of squares of the targets' deviations from a mean."""
        return float(self.weights @ np.square(self.y - mean))

    def counts(self, model: Model) -> np.ndarray:
        """Return the sum over this part's rows for each column: float64 of shape (n_columns,)."""
        problem, n = self.problem, self.problem.n_columns
        margins = np.empty(len(self.y) * n)
        w = np.ascontiguousarray(np.asarray(model.coef).T, dtype=problem.dtype).reshape(-1)
        fill_margins(self.rows, 0, len(self.y), w, np.empty(n), margins)
        found = margins.reshape(-1, n) + np.asarray(model.intercept, np.float64)
        return np.asarray(self.weights @ self._of_rows(found))

    def _of_rows(self, predictions: np.ndarray) -> np.ndarray:
        """Return the unweighted term of each row in the sum of each column."""
        y, n = self.rows.y, predictions.shape[1]
        if self.problem.is_regression:
            return np.square(y[:, np.newaxis] - predictions)
        if self.problem.loss in losses.COUPLED:
            is_right = predictions.argmax(axis=1) == y.astype(np.int64)
            return np.repeat(is_right[:, np.newaxis], n, axis=1).astype(np.float64)
        own = y[:, np.newaxis] > 0.0 if n == 1 else y[:, np.newaxis] == np.arange(n)
        return np.asarray((predictions > 0.0) == own, np.float64)


class HeldOut:
    """The held-out rows of one process; all processes together score models.

    All processes must make this object and call `scores`.

    problem : a part of the rows, whose `totals` are sums over all processes
    mask : bools of shape (n_rows,); True for held-out rows
    """

    def __init__(self, problem: Any, mask: np.ndarray) -> None:
        self.problem, self.part = problem, HeldOutPart(problem, mask)
        (n_rows, weight, total), *_ = problem.totals(self.part.moments())
        (spread,) = problem.totals(np.array([self.part.spread(total / weight)]))
        self._scores = Scores(n_rows, weight, float(spread[0]), problem.is_regression)

    def scores(self, model: Model) -> np.ndarray:
        """Return each column's score, float64 of shape (n_columns,); all processes must call it."""
        (sums,) = self.problem.totals(self.part.counts(model))
        return self._scores.of(sums)
