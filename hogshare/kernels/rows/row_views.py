"""The same view of a row for dense and CSR data, and the loops over a row's features.

A dense row is a stretch of `width` values. A CSR row is a stretch of values and a stretch of
columns. `column_of` returns a value's column for both kinds, so no algorithm is written twice. A
few loops that take most of the time have a branch for dense rows, which the compiler vectorises.

Columns are unsigned views, and the loops that take most of the time read rows by unsigned numbers
(`row_at`). So Numba omits the test for negative indices, and the loops are 1.35 times as fast, on
short rows some per cent more. The arrays are read-only views, so a caller's memory map and a
private array compile to the same signature.

The model matrix (n_features, n_columns) is stored as one vector: feature j of column c is
``w[j * n_columns + c]``.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.atomics import prefetch
from hogshare.kernels.jit.decorators import inlined

PREFETCH_LINES = 64  # cache lines of a row; the processor itself prefetches later lines


class RowArrays(NamedTuple):
    """The data of a linear problem, as kernels see it.

    data : float32 or float64 (nnz,) or (n_rows * width,), read-only
    indices : uint32 or uint64 (nnz,), column of each value; empty if the rows are dense
    indptr : int64 (n_rows + 1,), start of each CSR row in `data`; empty if the rows are dense
    width : int, number of features of a dense row; 0 if the rows are CSR
    y : of the dtype of `data`, (n_rows,), targets, or class numbers if there are several columns
    weight : of the dtype of `data`, (n_rows,), sample weights; empty if every row weighs 1
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    width: int
    y: np.ndarray
    weight: np.ndarray


@inlined
def row_at(order, i):
    """Return the row at place `i` of the order, unsigned."""
    return np.uint64(order[np.uint64(i)])


@inlined
def row_bounds(rows, r):
    """Return the start and the end of row `r` in ``rows.data``, unsigned."""
    if rows.width > 0:
        start = np.uint64(r) * np.uint64(rows.width)
        return start, start + np.uint64(rows.width)
    r = np.uint64(r)
    return np.uint64(rows.indptr[r]), np.uint64(rows.indptr[r + np.uint64(1)])


@inlined
def row_label(rows, r):
    """Return the target of row `r`."""
    return rows.y[np.uint64(r)]


@inlined
def row_weight(rows, r):
    """Return the sample weight of row `r`."""
    if rows.weight.shape[0] == 0:
        return 1.0
    return np.float64(rows.weight[np.uint64(r)])


@inlined
def prefetch_labels(rows, r):
    """Prefetch the start, the target and the weight of a row."""
    prefetch(rows.indptr, r)
    prefetch(rows.y, r)
    if rows.weight.shape[0] > 0:
        prefetch(rows.weight, r)


@inlined
def prefetch_row(rows, r):
    """Prefetch the first cache lines of a row that will be needed soon."""
    start, end = row_bounds(rows, r)
    # values per line; without a division, which the compiler would not know to be constant
    wide = max(rows.data.itemsize, rows.indices.itemsize) > 4
    step = np.uint64(8) if wide else np.uint64(16)
    k = start
    # rounded up to include the last cache line, even if it has few of the row's values; without
    # that line rows of 67 values took a tenth more time, and rows of 14 values a third more time
    limit = min(end, start + np.uint64(PREFETCH_LINES) * step) + step - np.uint64(1)
    while k < limit:
        prefetch(rows.data, k)
        if rows.width == 0:
            prefetch(rows.indices, k)
        k += step


@inlined
def margin(rows, start, end, w):
    """Return ``sum_j x_j w[j]`` of one row and a vector, summed in float64."""
    total = 0.0
    if rows.width > 0:
        for j in range(np.uint64(rows.width)):
            total += np.float64(w[j] * rows.data[start + j])
    else:
        for k in range(start, end):
            total += np.float64(w[rows.indices[k]] * rows.data[k])
    return total


@inlined
def margins(rows, start, end, w, out):
    """Set ``out[c] = sum_j x_j w[j, c]`` for one row, summed in float64."""
    n_columns = out.shape[0]
    if n_columns == 1:
        out[0] = margin(rows, start, end, w)
        return
    for c in range(n_columns):
        out[c] = 0.0
    for k in range(start, end):
        column = k - start if rows.width > 0 else np.uint64(rows.indices[k])
        base = column * np.uint64(n_columns)
        x = rows.data[k]
        for c in range(n_columns):
            out[c] += np.float64(x * w[base + np.uint64(c)])


@inlined
def add(rows, start, end, w, step):
    """Do ``w[j] += x_j step`` for one row and a vector."""
    size = rows.data.dtype.type(step)
    if rows.width > 0:
        for j in range(np.uint64(rows.width)):
            w[j] += size * rows.data[start + j]
    else:
        for k in range(start, end):
            w[rows.indices[k]] += size * rows.data[k]


@inlined
def scatter(rows, start, end, w, step):
    """Do ``w[j, c] += x_j step[c]`` for one row."""
    n_columns = step.shape[0]
    if n_columns == 1:
        add(rows, start, end, w, step[0])
        return
    for k in range(start, end):
        column = k - start if rows.width > 0 else np.uint64(rows.indices[k])
        base = column * np.uint64(n_columns)
        x = rows.data[k]
        for c in range(n_columns):
            w[base + np.uint64(c)] += rows.data.dtype.type(x * step[c])


@inlined
def column_of(rows, start, k):
    """Return the feature of the value at position `k` of the row that starts at `start`."""
    if rows.width > 0:
        return np.uint64(k - start)
    return np.uint64(rows.indices[k])


@inlined
def squared_norm(data, start, end):
    """Return the squared euclidean norm of the row with these values."""
    total = 0.0
    for k in range(start, end):
        x = np.float64(data[k])
        total += x * x
    return total
