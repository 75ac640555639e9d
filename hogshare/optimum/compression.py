"""Least squares on the rows of all processes, reduced to as many equivalent rows as columns.

Let ``A = [X - mean, y - mean]``, with weighted rows, and let ``A = Q R``. Then ``|A v| = |R v|``
for any coefficients ``v``. R has as many rows as columns, and is computed block by block. The
factors R of several processes are stacked into one matrix. The factor R of this matrix represents
all rows (Demmel, Grigori, Hoemmen and Langou 2012, Communication-optimal parallel and sequential
QR). So no condition number is squared, as it would be in ``X.T @ X``, and no row is sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from hogshare.optimum.part_sums import PartSums

MOST_FEATURES = 2000  # most features for which R is computed
BLOCK_ROWS = 4  # rows of a block, per column


class WeightedMeans(NamedTuple):
    """The total weight of some rows, and the weighted means of their features and targets."""

    weight: float
    x_mean: np.ndarray
    y_mean: np.ndarray


class CompressedRows(NamedTuple):
    """A few rows with the same sums of squares as all rows after subtraction of the means."""

    X: np.ndarray
    y: np.ndarray
    moments: WeightedMeans


def sums_of(X: Any, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the sums of weights, weighted features and weighted targets, concatenated."""
    w = weight.astype(np.float64)
    return np.concatenate([[w.sum()], np.ravel(X.T @ w), y.T @ w])


def moments_of(sums: np.ndarray, n_features: int, fit_intercept: bool) -> WeightedMeans:
    """Return weight and means from the sums of rows; means are zero without an intercept."""
    means = sums[1:] / sums[0] if fit_intercept else np.zeros(len(sums) - 1)
    return WeightedMeans(float(sums[0]), means[:n_features], means[n_features:])


def triangle_of_rows(
    X: Any, y: np.ndarray, weight: np.ndarray, moments: WeightedMeans
) -> np.ndarray:
    """Return the factor R of a part of the rows, as a new array."""
    width = X.shape[1] + y.shape[1]
    root, step = np.sqrt(weight.astype(np.float64))[:, None], BLOCK_ROWS * width
    triangle = np.zeros((0, width))
    for first in range(0, len(y), step):
        part = slice(first, first + step)
        x = X[part].toarray() if sp.issparse(X) else X[part]
        block = np.hstack([x - moments.x_mean, y[part] - moments.y_mean])
        triangle = triangle_of(np.vstack([triangle, root[part] * block]))
    return triangle


def united(*triangles: np.ndarray) -> np.ndarray:
    """Return the factor R of all rows that the triangles represent."""
    return triangle_of(np.vstack(triangles))


def condensed_from(triangle: np.ndarray, moments: WeightedMeans) -> CompressedRows:
    """Return equivalent rows, as views of the factor R of all rows."""
    n_features = len(moments.x_mean)
    return CompressedRows(triangle[:, :n_features], triangle[:, n_features:], moments)


def condensed(
    X: Any, y: np.ndarray, weight: np.ndarray, fit_intercept: bool, processes: PartSums
) -> CompressedRows:
    """Return rows that are equivalent to the rows of all processes; all must call this.

    X, y : rows of this process, and targets of shape (n_rows, n_targets)
    weight : weights of the rows, which must not all be zero
    """
    moments = moments_of(processes.added(sums_of(X, y, weight)), X.shape[1], fit_intercept)
    own = triangle_of_rows(X, y, weight, moments)
    return condensed_from(united(*processes.of_each(own)), moments)


def triangle_of(A: np.ndarray) -> np.ndarray:
    """Return R of ``A = Q R``, with at most as many rows as columns; A is overwritten."""
    (R,) = scipy.linalg.qr(A, mode="r", overwrite_a=True, check_finite=False)
    found: np.ndarray = R[: min(A.shape)]
    return found
