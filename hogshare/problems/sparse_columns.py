"""Rows in the form that a network's steps read: mostly nonzero columns dense, the others sparse.

A product with a dense column takes the same time for zeros and for other values. In a sparse column
a nonzero value takes longer, because it is stored with its place, but a zero takes no time. So each
column has the form that is faster for it. For example, pixels at the border of images are sparse
columns. In tables, numeric columns are dense, and one-hot columns are sparse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.kernels.networks import sparse_inputs as kernels
from hogshare.kernels.networks.tiles import padded
from hogshare.problems.kernel_arrays import frozen

# The least share of nonzeros for a dense column, as a function of the bytes of a coefficient row.
# Measured with AVX-512: 4 % at 64 bytes to 33 % at 2,400 bytes.
MOST_SHARE, LEAST_BYTES, HALF_BYTES = 0.33, 56, 40
WORTH = 0.1  # rows are rewritten if dense columns have at least this share of CSR's values


class SparseColumns(NamedTuple):
    """Rows divided into dense and sparse columns.

    dense : float (n_rows * n_dense,)
    data, indices, indptr : CSR rows of the sparse columns, numbered from 0; empty if there are none
    order : int64 (n_inputs,), number of the input in each column: dense columns, then sparse ones
    counts : int64, number of nonzero values of each sparse column
    n_dense : number of dense columns
    """

    dense: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    order: np.ndarray
    counts: np.ndarray
    n_dense: int

    @property
    def n_sparse(self) -> int:
        """Number of sparse columns."""
        return len(self.order) - self.n_dense

    def most_values(self, n_rows: int) -> int:
        """Return an upper bound of the number of values of `n_rows` rows in sparse columns."""
        return int(np.diff(self.indptr).max()) * n_rows if len(self.indptr) > 1 else 0

    def touched(self, n_rows: int, batch: int) -> float:
        """Return the mean number of sparse columns in which a mini-batch has values."""
        return float(-np.expm1(-batch / n_rows * self.counts).sum())


def dense_share(n_units: int, itemsize: int) -> float:
    """Return the share of nonzeros above which a column is stored densely."""
    n_bytes = padded(n_units, itemsize) * itemsize
    return max(0.0, MOST_SHARE * (n_bytes - LEAST_BYTES) / (n_bytes + HALF_BYTES))


def by_columns(
    inputs: tuple[np.ndarray, np.ndarray, np.ndarray], n_inputs: int, n_units: int
) -> SparseColumns:
    """Divide the columns of rows into dense and sparse columns.

    inputs : data, indices and indptr of CSR rows; for dense rows the last two are empty
    n_inputs : number of columns
    n_units : number of units of the first layer

    If all columns have the same form as in `inputs`, the result refers to its arrays, without a
    copy.
    """
    data, indices, indptr = inputs
    is_sparse = len(indptr) > 0
    n_rows = len(indptr) - 1 if is_sparse else len(data) // n_inputs
    if is_sparse:
        counts = np.bincount(indices, minlength=n_inputs)
    else:
        counts = np.zeros(n_inputs, np.int64)
        kernels.count_nonzeros(data, n_inputs, counts)
    is_dense = counts > dense_share(n_units, data.itemsize) * n_rows
    n_values = int(counts[~is_dense].sum())
    every = np.arange(n_inputs)
    nothing = frozen(np.empty(0, data.dtype))
    if is_dense.all() and not is_sparse:
        return SparseColumns(data, nothing, *_no_places(), frozen(every), counts[:0], n_inputs)
    if is_sparse and len(data) - n_values < WORTH * len(data):
        return SparseColumns(nothing, data, indices, indptr, frozen(every), counts, 0)
    order = np.concatenate([every[is_dense], every[~is_dense]])
    n_dense = int(is_dense.sum())
    dense = np.zeros(n_rows * n_dense, data.dtype)
    values, places = np.empty(n_values, data.dtype), np.empty(n_values, np.uint32)
    out = dense, values, places, np.empty(n_rows + 1, np.int64)
    if is_sparse:
        rank = np.empty(n_inputs, np.int64)
        rank[order] = every
        kernels.part_sparse_rows(data, indices, indptr, rank, n_dense, *out)
    else:
        kernels.part_dense_rows(data, order, n_dense, *out)
    dense, values, places, pointers = map(frozen, out)
    return SparseColumns(dense, values, places, pointers, frozen(order), counts[~is_dense], n_dense)


def _no_places() -> tuple[np.ndarray, np.ndarray]:
    return frozen(np.empty(0, np.uint32)), frozen(np.empty(0, np.int64))
