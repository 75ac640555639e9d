"""The smoothness of a linear problem: the Lipschitz constants of its gradient.

The Hessian of a column of coefficients is ``X' D X / n + l2``. D is diagonal: it has the rows'
weights times the second derivatives of the loss, whose largest value is
`hogshare.kernels.rules.losses.CURVATURE`. The largest eigenvalue with the largest D is an upper
bound of L. For ``log_loss``, ``squared_error`` and ``squared_hinge`` it is L itself, because their
second derivatives are largest in all rows at the same model (of zeros). The intercept is the
coefficient of a column of ones, without penalty.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from hogshare.kernels.rules import losses
from hogshare.problems.linear.gradients import check_smooth
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import DeferredSignals, errstate, leaves_numpy
from hogshare.system.ranges import positive

DENSE_SIZE = 40  # largest number of coordinates for which the Hessian is formed
VECTORS = 12  # Lanczos vectors: products with the rows before the first check of convergence
PIECE_VALUES = 1 << 17  # values of the rows that are squared at a time


@leaves_numpy
def lipschitz(
    problem: RowProblem, *, tol: float = 0.01, n_rows: int | None = None, seed: int = 0
) -> float:
    """Compute L, the Lipschitz constant of a linear problem's gradient: (4) in Lian et al. 2015.

    Lanczos's method (`scipy.sparse.linalg.eigsh`) computes the largest eigenvalue. Adding the
    remaining residual makes it a safe upper bound. The result is at most the trace of the Hessian.

    Parameters
    ----------
    problem : LinearProblem
        With a smooth loss, and a penalty without an l1 part.
    tol : float, default=0.01
        Relative tolerance: the result is too large by at most about this share.
    n_rows : int or None, default=None
        Number of rows to draw, without replacement. None: all rows. The L of a sample is on average
        too large, not too small, because the largest eigenvalue is a convex function.
    seed : int, default=0
        Seed of the drawn rows and of Lanczos's first vector.

    Returns
    -------
    float
        L. It is only an upper bound if the weights of a row differ between columns (`class_weight`
        with more than two classes), or if the curvature of the loss cannot be largest in all rows
        at once.

    Raises
    ------
    ValueError
        If the objective is not smooth (a loss with kinks, l1), an argument is out of its range, or
        the rows' squared norms overflow.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems, theory
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> round(theory.lipschitz(problems.linear(scale(X), y, alpha=0.01)), 2)
    3.33
    """
    check_smooth(problem)
    positive(tol=tol)
    if n_rows is not None and n_rows < 1:
        raise ValueError(f"n_rows must be at least 1, or None for all rows; got {n_rows}.")
    rng = np.random.default_rng(seed)
    X, weight = as_matrix(problem), heaviest(problem)
    if n_rows is not None and n_rows < problem.n_rows:
        sample = np.sort(rng.choice(problem.n_rows, n_rows, replace=False))
        X, weight = X[sample], weight[sample]
    X = X.astype(np.float64, copy=False)
    size = problem.n_features + problem.fit_intercept
    weight *= _curvature(problem) / len(weight)

    def product(vectors: np.ndarray) -> np.ndarray:
        """Multiply the Hessian by the columns of a matrix (size, k), or by a vector."""
        v = vectors.reshape(size, -1)
        margins = X @ v[: problem.n_features]
        if problem.fit_intercept:
            margins += v[-1]
        margins *= weight[:, None]
        out = np.empty_like(v)
        out[: problem.n_features] = X.T @ margins + problem.l2 * v[: problem.n_features]
        if problem.fit_intercept:
            out[-1] = margins.sum(axis=0)
        return out.reshape(vectors.shape)

    trace = _finite(float(_squares(X, weight).sum())) + problem.l2 * problem.n_features
    trace += float(weight.sum()) if problem.fit_intercept else 0.0
    if size <= DENSE_SIZE:
        hessian = product(np.eye(size))
        with DeferredSignals():  # NumPy's error state is changed meanwhile
            return float(np.linalg.eigvalsh(hessian)[-1])
    if trace == 0.0:
        return 0.0
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        values, vectors = eigsh(
            operator, k=1, which="LA", ncv=VECTORS, tol=tol, v0=rng.standard_normal(size)
        )
    except ArpackNoConvergence:
        return trace  # also an upper bound
    residual = product(vectors[:, 0]) - values[0] * vectors[:, 0]
    return min(float(values[0]) + float(np.linalg.norm(residual)), trace)


def coordinate_lipschitz(problem: RowProblem) -> float:
    """Compute L_max, the largest Lipschitz constant along a coordinate: (6) in Lian et al. 2015.

    It is ``max_j curvature sum_i weight_i x_ij^2 / n + l2``. For the intercept, x is 1 and l2 is
    left out.

    Parameters
    ----------
    problem : LinearProblem
        With a smooth loss, and a penalty without an l1 part.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the objective is not smooth (a loss with kinks, l1), or the rows' squared norms overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import problems, theory
    >>> X = np.array([[3.0, 0.0], [1.0, 2.0]])
    >>> theory.coordinate_lipschitz(problems.linear(X, [0, 1], loss="squared_error", penalty=None))
    5.0
    """
    check_smooth(problem)
    weight = heaviest(problem) * (_curvature(problem) / problem.n_rows)
    largest = _finite(float(_squares(as_matrix(problem), weight).max(initial=0.0))) + problem.l2
    return max(largest, float(weight.sum())) if problem.fit_intercept else largest


def as_matrix(problem: RowProblem) -> Any:
    """Return the rows as a NumPy array or SciPy matrix that shares the problem's values."""
    rows = problem.rows
    shape = problem.n_rows, problem.n_features
    if not problem.is_sparse:
        return rows.data.reshape(shape)
    # SciPy does not accept the unsigned indices of rows: reinterpret without a copy
    signed = np.int32 if rows.indices.dtype.itemsize == 4 else np.int64
    return sp.csr_array((rows.data, rows.indices.view(signed), rows.indptr), shape=shape)


def heaviest(problem: RowProblem) -> np.ndarray:
    """Return the largest weight of each row over the columns, float64 of shape (n_rows,)."""
    rows = problem.rows
    own = rows.weight.astype(np.float64) if rows.weight.size else np.ones(problem.n_rows)
    if problem.n_columns == 1:
        return own * np.where(rows.y > 0.0, problem.positive[0], problem.negative[0])
    of_class = np.maximum(problem.positive, problem.negative.max())
    return own * of_class[rows.y.astype(np.int64)]


def _finite(squares: float) -> float:
    if not math.isfinite(squares):
        raise ValueError(
            "Rows are too large: their squared norms leave the floating-point range. Scale the "
            "input, for example with StandardScaler or MinMaxScaler."
        )
    return squares


def _curvature(problem: RowProblem) -> float:
    return losses.CURVATURE[losses.CODES[problem.loss]]


def _squares(X: Any, weight: np.ndarray) -> np.ndarray:
    """Compute ``out[j] = sum_i weight_i x_ij^2`` in float64, for some rows at a time."""
    n_rows, n_features = X.shape
    values = max(1, X.nnz if sp.issparse(X) else X.size)
    piece = max(1, max(PIECE_VALUES, 4 * n_features) * n_rows // values)
    total = np.zeros(n_features)
    for first in range(0, n_rows, piece):
        last = min(n_rows, first + piece)
        with errstate(over="ignore"):  # the caller refuses values that are not finite
            if not sp.issparse(X):
                total += np.square(X[first:last], dtype=np.float64).T @ weight[first:last]
                continue
            start, end = X.indptr[first], X.indptr[last]
            squares = np.square(X.data[start:end], dtype=np.float64)
            squares *= np.repeat(weight[first:last], np.diff(X.indptr[first : last + 1]))
            total += np.bincount(X.indices[start:end], weights=squares, minlength=n_features)
    return total
