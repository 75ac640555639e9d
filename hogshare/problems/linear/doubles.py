"""The rows of a problem as matrices in double precision, for NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.rows.row_views import RowArrays

BLOCK_VALUES = 1 << 20  # number of values of dense rows that are weighted in one copy
THIN = 0.1  # share of stored values below which products of sparse matrices are faster


class DoubleRows:
    """Rows in double precision, in parts.

    Dense rows are read in place, and each part is copied when it is used; the copy fits in a cache.
    Sparse rows are one part, which is converted once; float64 values are not copied.
    """

    def __init__(self, rows: RowArrays, n_features: int) -> None:
        shape = len(rows.y), n_features
        self.matrix: Any = None
        if rows.width:
            self.matrix = rows.data.reshape(shape)
        else:
            signed = np.int32 if rows.indices.dtype == np.uint32 else np.int64
            fits = len(rows.data) <= np.iinfo(np.int32).max
            starts = rows.indptr.astype(signed if fits else np.int64)
            parts = rows.data.astype(np.float64, copy=False), rows.indices.view(signed), starts
            self.matrix = sp.csr_array(parts, shape=shape)
        self.is_thin = len(rows.data) < THIN * shape[0] * n_features

    def parts(self, dense: bool = False) -> Iterator[tuple[slice, Any]]:
        """Yield the slice and the rows of each part."""
        matrix, (n_rows, n_features) = self.matrix, self.matrix.shape
        sparse = sp.issparse(matrix)
        if sparse and not dense:
            yield slice(0, n_rows), matrix
            return
        step = max(1, BLOCK_VALUES // max(1, n_features))
        for first in range(0, n_rows, step):
            x = matrix[first : first + step]
            x = x.toarray() if sparse else x.astype(np.float64, copy=False)
            yield slice(first, first + step), x

    def weighted_square(self, weight: np.ndarray, ones: bool) -> np.ndarray:
        """Return ``X.T @ diag(weight) @ X``; with `ones`, X also has a last column of ones."""
        features = self.matrix.shape[1]
        out = np.zeros((features + ones, features + ones))
        for part, x in self.parts(dense=not self.is_thin):
            mine = weight[part]
            if sp.issparse(x):
                values = x.data * np.repeat(mine, np.diff(x.indptr))
                times = sp.csr_array((values, x.indices, x.indptr), shape=x.shape)
                out[:features, :features] += (x.T @ times).toarray()
            else:
                out[:features, :features] += x.T @ (mine[:, None] * x)
            if ones:
                out[:features, features] += x.T @ mine
        if ones:
            out[features, :features] = out[:features, features]
            out[features, features] = weight.sum()
        return out
