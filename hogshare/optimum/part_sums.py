"""What a worker adds up over all rows of a partition: losses and gradients, moments, products."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.problems.protocol import RowProblem


def gradient_total(problem: Any, w: np.ndarray) -> tuple[float, np.ndarray]:
    """Sums over the rows of the objective and of its gradient, each with the whole penalty's.

    w : ndarray of shape (n_params,); the model as one vector: see `LinearProblem.n_params`
    """
    out = np.zeros(problem.n_params)
    value = problem.gradient(w, np.arange(problem.n_rows), out)
    return value, out


def moment_total(problem: RowProblem) -> tuple[float, np.ndarray, np.ndarray, float, float]:
    """Sums of the weights, of the rows and their squares, of the targets and their squares."""
    X, y, weight = arrays_of(problem)
    squares = X.multiply(X) if sp.issparse(X) else X * X
    return (
        float(weight.sum()),
        weight @ X,
        weight @ squares,
        float(weight @ y),
        float(weight @ (y * y)),
    )


def gram_total(
    problem: RowProblem, x_mean: np.ndarray, y_mean: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the products of centred features with each other, and with the centred target."""
    X, y, weight = arrays_of(problem)
    if sp.issparse(X):
        weighted = X.multiply(weight[:, None]).tocsr()
        sums = np.ravel(weighted.sum(axis=0))
        gram = (X.T @ weighted).toarray()
        # sum (x - m)(x - m)' = X'WX - s m' - m s' + (sum of weights) m m'
        gram -= np.outer(sums, x_mean) + np.outer(x_mean, sums)
        gram += weight.sum() * np.outer(x_mean, x_mean)
    else:
        X = X - x_mean
        gram = X.T @ (weight[:, None] * X)
    return gram, slopes_total(problem, x_mean, weight * (y - y_mean))


def product_total(problem: RowProblem, x_mean: np.ndarray, v: np.ndarray) -> tuple[np.ndarray]:
    """The centred features' products with each other, times a vector."""
    X, _, weight = arrays_of(problem)
    return (slopes_total(problem, x_mean, weight * (X @ v - x_mean @ v)),)


def right_total(problem: RowProblem, x_mean: np.ndarray, y_mean: float) -> tuple[np.ndarray]:
    """The centred features' products with the centred target."""
    _, y, weight = arrays_of(problem)
    return (slopes_total(problem, x_mean, weight * (y - y_mean)),)


def slopes_total(problem: RowProblem, x_mean: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The sum of centred rows, each times a number of its own."""
    X, _, _ = arrays_of(problem)
    total: np.ndarray = slopes @ X - slopes.sum() * x_mean
    return total


def arrays_of(problem: RowProblem) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows, targets and weights in double precision."""
    rows, n = problem.rows, problem.n_rows
    weight = rows.weight.astype(np.float64) if rows.weight.size else np.ones(n)
    data = rows.data.astype(np.float64, copy=False)
    if not problem.is_sparse:
        return data.reshape(n, -1), rows.y.astype(np.float64), weight
    parts = data, rows.indices.view(f"int{8 * rows.indices.itemsize}"), rows.indptr
    X = sp.csr_array(parts, shape=(n, problem.n_features))
    return X, rows.y.astype(np.float64), weight
