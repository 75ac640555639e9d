"""Scores on the held-out rows of all machines, as scikit-learn's estimators have them.

Each machine has a part of the rows, and of those that are held out. A score is made of sums over
all of them: accuracy, or R squared, weights counted. One machine's kernels have the same formulas
(`hogshare.kernels.scores`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.kernels import losses
from hogshare.kernels.gradients import fill_margins
from hogshare.problems.linear.part import picked
from hogshare.problems.model import Model


class HeldOut:
    """The held-out rows of one machine, which scores models with the others.

    problem : a part of the rows, whose `totals` are sums over all machines
    mask : bools of shape (n_rows,)
    """

    def __init__(self, problem: Any, mask: np.ndarray) -> None:
        self.problem = problem
        self.rows = picked(problem.rows, np.flatnonzero(mask))
        y = self.rows.y.astype(np.float64)
        self.weights = self.rows.weight.astype(np.float64) if self.rows.weight.size else y * 0 + 1
        sums = np.array([len(y), self.weights.sum(), self.weights @ y])
        (self.n_rows, self.weight, total), *_ = problem.totals(sums)
        spread = self.weights @ np.square(y - total / self.weight)
        self.spread = float(problem.totals(np.array([spread]))[0][0])

    def scores(self, model: Model) -> np.ndarray:
        """The score of every column: float64 of shape (n_columns,); all machines have to ask."""
        problem, n = self.problem, self.problem.n_columns
        margins = np.empty(len(self.rows.y) * n)
        w = np.ascontiguousarray(np.asarray(model.coef).T, dtype=problem.dtype).reshape(-1)
        fill_margins(self.rows, 0, len(self.rows.y), w, np.empty(n), margins)
        found = margins.reshape(-1, n) + np.asarray(model.intercept, np.float64)
        (sums,) = problem.totals(self.weights @ self._counts(found))
        if not problem.is_regression:
            return sums / self.weight
        if self.n_rows < 2:
            return np.full(n, np.nan)
        if self.spread > 0.0:
            return 1.0 - sums / self.spread
        return np.where(sums == 0.0, 1.0, 0.0)

    def _counts(self, predictions: np.ndarray) -> np.ndarray:
        """What each row counts in each column's sum."""
        y, n = self.rows.y, predictions.shape[1]
        if self.problem.is_regression:
            return np.square(y[:, np.newaxis] - predictions)
        if self.problem.loss in losses.COUPLED:
            is_right = predictions.argmax(axis=1) == y.astype(np.int64)
            return np.repeat(is_right[:, np.newaxis], n, axis=1).astype(np.float64)
        own = y[:, np.newaxis] > 0.0 if n == 1 else y[:, np.newaxis] == np.arange(n)
        return np.asarray((predictions > 0.0) == own, np.float64)
