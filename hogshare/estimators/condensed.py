"""Rows of least squares that stand for very many, of all processes: as many as there are columns.

With ``A = [X - mean, y - mean]``, weighted, and ``A = Q R``, the squares of ``R`` are those of
``A`` whatever the coefficients are: ``|A v| = |R v|``. R has as many rows as columns, is found
block by block of rows, and those of several processes one below the other have a factor R that
stands for all rows (Demmel, Grigori, Hoemmen and Langou 2012, Communication-optimal parallel and
sequential QR). So nothing is squared on the way, as it is in ``X.T @ X``, and no row travels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from hogshare.estimators.everybody import Everybody

MOST_FEATURES = 2000  # of which the factors are made
BLOCK_ROWS = 4  # of a block, for each column


class Moments(NamedTuple):
    """Of weighted rows: their weight, and the means of features and targets."""

    weight: float
    x_mean: np.ndarray
    y_mean: np.ndarray


class Condensed(NamedTuple):
    """Few rows with the squares of many, whose means are taken out."""

    X: np.ndarray
    y: np.ndarray
    moments: Moments


def moments_of(X: Any, y: np.ndarray, weight: np.ndarray, everybody: Everybody) -> Moments:
    """Weight and means of the rows of all."""
    w = weight.astype(np.float64)
    sums = np.concatenate([[w.sum()], np.ravel(X.T @ w), y.T @ w])
    total = everybody.added(sums)
    means = total[1:] / total[0]
    return Moments(float(total[0]), means[: X.shape[1]], means[X.shape[1] :])


def condensed(
    X: Any, y: np.ndarray, weight: np.ndarray, fit_intercept: bool, everybody: Everybody
) -> Condensed:
    """Rows that stand for those of all.

    X, y : rows and targets of this process, of shape (n_rows, n_targets)
    weight : not all are zero
    """
    moments = moments_of(X, y, weight, everybody)
    if not fit_intercept:
        zeros = np.zeros_like(moments.x_mean), np.zeros_like(moments.y_mean)
        moments = Moments(moments.weight, *zeros)
    width = X.shape[1] + y.shape[1]
    root, step = np.sqrt(weight.astype(np.float64))[:, None], BLOCK_ROWS * width
    triangle = np.zeros((0, width))
    for first in range(0, len(y), step):
        part = slice(first, first + step)
        x = X[part].toarray() if sp.issparse(X) else X[part]
        block = np.hstack([x - moments.x_mean, y[part] - moments.y_mean])
        triangle = triangle_of(np.vstack([triangle, root[part] * block]))
    triangle = triangle_of(np.vstack(everybody.of_each(triangle)))
    return Condensed(triangle[:, : X.shape[1]], triangle[:, X.shape[1] :], moments)


def triangle_of(A: np.ndarray) -> np.ndarray:
    """R of ``A = Q R``: at most as many rows as columns."""
    (R,) = scipy.linalg.qr(A, mode="r", overwrite_a=True, check_finite=False)
    found: np.ndarray = R[: min(A.shape)]
    return found
