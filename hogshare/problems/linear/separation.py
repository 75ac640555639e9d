"""Separation: a model classifies all rows correctly, so larger coefficients always gain."""

from __future__ import annotations

import numpy as np

from hogshare.kernels.rows.whole_gradients import fill_margins
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem


def separates(problem: RowProblem, model: Model) -> bool:
    """Return whether a model classifies every row of positive weight correctly.

    If it does and there is no penalty, the log loss decreases towards zero as the model is
    multiplied by larger numbers, and the objective has no minimum. The function is for one column
    with targets 0 and 1, and for the multinomial loss. All ranks that have a part of the rows must
    call it.
    """
    return not problem.total(rows_behind, model)[0].any()


def rows_behind(problem: RowProblem, model: Model) -> tuple[np.ndarray]:
    """Return the number of rows of positive weight that a model does not classify correctly."""
    columns = problem.n_columns
    w = np.ascontiguousarray(np.asarray(model.coef, np.float64).T, problem.dtype).reshape(-1)
    margins = np.empty(problem.n_rows * columns)
    fill_margins(problem.rows, 0, problem.n_rows, w, np.empty(columns), margins)
    margins = margins.reshape(-1, columns) + np.asarray(model.intercept, np.float64)
    y, weight = problem.rows.y, problem.rows.weight
    if columns == 1:
        ahead = np.where(y > 0.0, margins[:, 0], -margins[:, 0])
    else:
        everyone, mine = np.arange(len(y)), y.astype(np.int64)
        own = margins[everyone, mine].copy()
        margins[everyone, mine] = -np.inf
        ahead = own - margins.max(axis=1)
    behind = np.count_nonzero(~((ahead[weight > 0.0] if weight.size else ahead) > 0.0))
    return (np.array([float(behind)]),)
