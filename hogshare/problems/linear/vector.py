"""A linear problem as one of a flat vector: coefficients feature by feature, then intercepts.

So whoever steps along a vector (`hogshare.tasks`) needs to know nothing of columns and intercepts.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import losses
from hogshare.kernels.chosen import add_gradients
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem


def n_params(problem: RowProblem) -> int:
    """Numbers of the vector."""
    return problem.n_columns * (problem.n_features + bool(problem.fit_intercept))


def model_at(problem: RowProblem, params: np.ndarray) -> Model:
    """The model that a vector is.

    Parameters
    ----------
    params : ndarray of shape (n_params,)
    """
    size = problem.n_features * problem.n_columns
    coef = params[:size].reshape(problem.n_features, problem.n_columns).T
    intercept = params[size:] if problem.fit_intercept else np.zeros(problem.n_columns)
    return Model(coef.copy(), np.array(intercept))


def gradient(problem: RowProblem, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
    """Add the gradients of some rows up, each row's with the whole penalty.

    So the mean over all rows is the gradient of the objective; where l1 has a kink it is 0.

    Parameters
    ----------
    w : ndarray of shape (n_params,)
    rows : ndarray of int64
    out : ndarray of shape (n_params,)
        To which the sum is added.

    Returns
    -------
    float
        The sum of the rows' losses, each with the penalty.
    """
    size, columns = problem.n_features * problem.n_columns, problem.n_columns
    intercept = w[size:] if problem.fit_intercept else np.zeros(columns)
    of_rows, of_intercepts = np.zeros(size), np.zeros(columns)
    total = add_gradients(
        problem.rows,
        losses.CODES[problem.loss],
        float(problem.epsilon),
        np.ascontiguousarray(rows, dtype=np.int64),
        np.ascontiguousarray(w[:size], dtype=problem.dtype),
        np.ascontiguousarray(intercept, dtype=np.float64),
        problem.positive,
        problem.negative,
        np.empty(columns),
        of_rows,
        of_intercepts,
    )
    coef = np.asarray(w[:size], dtype=np.float64).reshape(problem.n_features, columns)
    l1, l2 = (np.reshape(strength, (-1, 1)) for strength in problem.strengths)
    of_rows += len(rows) * (l2 * coef + l1 * np.sign(coef)).reshape(-1)
    out[:size] += of_rows
    if problem.fit_intercept:
        out[size:] += of_intercepts
    return float(total) + len(rows) * problem.penalty_at(coef.T)
