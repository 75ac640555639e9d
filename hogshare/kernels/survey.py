"""What is asked of sparse rows before the first step, in one pass over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit import helper, kernel

# Values that are looked at for one thing after the other, while a first-level cache has them and
# their columns. 0.68 ms for a9a where a pass for each thing took 1.0.
STRIDE = 2048
FEW = 4096  # features of which four counts fit in a second-level cache


class Survey(NamedTuple):
    """Facts of sparse rows.

    Attributes
    ----------
    total : float
        Sum of all values: NaN or infinite if one of them is.
    last_column : int
        The largest column's number. If it is not among the features, the rest was not looked at.
    mean, largest : float
        Mean and largest squared norm of the rows.
    counts : ndarray of shape (n_features,), int64, or None
        Values that are stored of each feature, where features are few enough to count in passing.
    """

    total: float
    last_column: int
    mean: float
    largest: float
    counts: np.ndarray | None


@helper
def _sum(values, start, end):
    """In their own precision: sums in float64 would be the limit, not memory."""
    result = values.dtype.type(0.0)
    for k in range(start, end):
        result += values[k]
    return result


@helper
def _last(columns, start, end):
    """A comparison, not `max`, of which the compiler makes no vectors here."""
    last = columns.dtype.type(0)
    for k in range(start, end):
        column = columns[k]
        last = column if column > last else last
    return last


@helper
def _count(columns, start, end, counts):
    """Four parts, side by side.

    Neighbouring rows often have the same features, and a count that has just been stored has to be
    waited for. Whole numbers, because sums of them are there sooner than those of fractions.
    """
    part = (end - start) // np.uint64(4)
    for k in range(start, start + part):
        counts[0, columns[k]] += 1
        counts[1, columns[k + part]] += 1
        counts[2, columns[k + part + part]] += 1
        counts[3, columns[k + part + part + part]] += 1
    for k in range(start + np.uint64(4) * part, end):
        counts[0, columns[k]] += 1


@helper
def _norms(values, indptr, first, after):
    """Sum of the squared norms of some rows, and the largest."""
    total = 0.0
    largest = 0.0
    for r in range(np.uint64(first), np.uint64(after)):
        norm2 = 0.0
        for k in range(np.uint64(indptr[r]), np.uint64(indptr[r + np.uint64(1)])):
            x = np.float64(values[k])
            norm2 += x * x
        total += norm2
        largest = max(largest, norm2)
    return total, largest


@kernel
def look_over(values, columns, indptr, n_features, sizes, counts):
    """See `Survey`: sum, last column, and, if `sizes`, the sum and the largest of squared norms.

    columns : unsigned [n_values]
        Checked here, before anything is counted: nothing is written where a column is too large.
    indptr : int64 [n_rows + 1]
        Checked already.
    counts : int64 [4 or 0, n_features]
        Added to; their sum over the parts is what was counted.
    """
    n_rows = indptr.shape[0] - 1
    total = 0.0
    last = np.uint64(0)
    squares = 0.0
    largest = 0.0
    row = 0
    while row < n_rows:
        after = row + 1
        limit = indptr[row] + STRIDE
        while after < n_rows and indptr[after + 1] <= limit:
            after += 1
        start, end = np.uint64(indptr[row]), np.uint64(indptr[after])
        total += _sum(values, start, end)
        mine = np.uint64(_last(columns, start, end))
        last = mine if mine > last else last
        if last >= np.uint64(n_features):  # without a sign: -1 of the caller's is a large one
            break
        if sizes:
            if counts.shape[0] > 0:
                _count(columns, start, end, counts)
            norms, most = _norms(values, indptr, row, after)
            squares += norms
            largest = max(largest, most)
        row = after
    return total, last, squares, largest


def survey(
    values: np.ndarray, columns: np.ndarray, indptr: np.ndarray, n_features: int, sizes: bool
) -> Survey:
    """Look over rows whose pointers have been checked.

    Parameters
    ----------
    values, columns, indptr : ndarray
        As `hogshare.kernels.rows.Rows` has them: views that must not be written, and unsigned
        columns. What is stored beyond the last pointer is not looked at.
    n_features : int
    sizes : bool
        Whether norms and counts are asked for, not only whether the rows are sound; 0, 0 and None
        otherwise.
    """
    counts = np.zeros((4 if sizes and n_features <= FEW else 0, n_features), np.int64)
    with np.errstate(all="ignore"):  # without compilation, NumPy warns of what is told by `total`
        total, last, squares, largest = look_over(
            values, columns, indptr, n_features, int(sizes), counts
        )
    counted = counts.sum(axis=0) if len(counts) else None
    return Survey(total, last, squares / max(1, len(indptr) - 1), largest, counted)
