"""Facts of rows that are needed before the first step, found in one pass over the rows.

Threads share the pass in parts (`hogshare.kernels.rows.shared_passes`), and each thread has its own
counts. Parts do not depend on the number of threads, and their findings are added up in the order
of the parts' numbers. So the norms have the same bits as with one thread.

At the start of a small fit NumPy's code is not in the processor's caches, and each call of NumPy
takes ten microseconds. So the kernels do as many of the checks and sums as they can.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.jit.decorators import JIT_DISABLED, helper, kernel
from hogshare.kernels.rows.row_views import squared_norm
from hogshare.kernels.rows.shared_passes import (
    NOBODY,
    Helpers,
    draw,
    end_part,
    new_words,
    wait_for_parts,
)

# Number of values that are scanned for one fact after the other, while a first-level cache contains
# these values and their columns. For a9a this takes 0.68 ms; one pass per fact took 1.0 ms.
STRIDE = 2048
# Number of values of a part, which takes some ten microseconds, and the largest number of parts.
# With each part a thread begins a new stretch of rows, for which the processor has not read ahead.
# IMDB by two threads took 0.98 ms with parts of 4,096 values, 0.73 ms with 16,384, and 0.65 ms with
# 65,536.
PART_VALUES, MOST_PARTS = 1 << 14, 64
FEW = 4096  # number of features whose four counts fit in a second-level cache
TOTAL, SQUARES, LARGEST, LAST = range(4)
N_FOUND = 4
NO_COLUMN = np.uint64(1 << 63)  # more than any number of features


class Survey(NamedTuple):
    """Facts of rows.

    total : sum of all values, or of their squares if sizes were requested; NaN or infinite if a
        value is NaN or infinite
    last_column : the largest column's number. If it is not below the number of features, the scan
        ended early, because a column is too large or the row pointers are invalid.
    mean, largest : mean and largest squared norm of the rows
    counts : int64 [n_features], number of values that sparse rows store of each feature; None if
        there are too many features to count them in the same pass
    """

    total: float
    last_column: int
    mean: float
    largest: float
    counts: np.ndarray | None


@helper
def _sum(values, start, end):
    """Sum values in their own dtype, because float64 sums would be slower than memory."""
    result = values.dtype.type(0.0)
    for k in range(start, end):
        result += values[k]
    return result


@helper
def _last(columns, start, end):
    """Find the largest column."""
    last = columns.dtype.type(0)
    for k in range(start, end):
        column = columns[k]
        # a comparison: the compiler does not vectorise `max` in this loop
        last = column if column > last else last
    return last


@helper
def _count(columns, start, end, counts):
    """Count the columns, in four stretches at the same time.

    Adjacent rows often have the same features, and an increment has to wait for the store of the
    last increment of the same count. So each stretch has its own counts. The counts are integers,
    because integers are incremented faster than floats.
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
    """Return the sum of the squared norms of rows ``first:after``, and the largest of the norms."""
    total = 0.0
    largest = 0.0
    for r in range(np.uint64(first), np.uint64(after)):
        start, end = np.uint64(indptr[r]), np.uint64(indptr[r + np.uint64(1)])
        norm2 = squared_norm(values, start, end)
        total += norm2
        largest = max(largest, norm2)
    return total, largest


@helper
def _add_up(found):
    """Add up the findings of all parts, in the order of their numbers."""
    total = 0.0
    squares = 0.0
    largest = 0.0
    last = 0.0
    for part in range(found.shape[0]):
        total += found[part, TOTAL]
        squares += found[part, SQUARES]
        largest = max(largest, found[part, LARGEST])
        last = max(last, found[part, LAST])
    return total, squares, largest, last


@kernel
def survey_parts(values, columns, indptr, n_features, sizes, part_rows, words, me, found, counts):
    """Scan parts of the rows until no part is left; the first thread waits for all parts.

    In the first thread, return the sum of values, the sum of squared norms, the largest squared
    norm and the last column, over all parts. In the other threads, return zeros.

    columns : unsigned [n_values], checked before anything is counted. If a column is too large,
        nothing is written for it, and the scan of that part ends.
    indptr : int64 [n_rows + 1], checked before it is used. If it decreases, or points beyond the
        values, no value is read, and the part's last column is set to NO_COLUMN.
    sizes : whether to find squared norms and counts; if not, the values are summed
    part_rows : number of rows of a part
    words : int64, see `shared_passes`
    me : number of this thread, from 0
    found : float64 [n_parts, N_FOUND], for each part (1) the sum of values, or the sum and the
        largest of squared norms, and (2) the last column. A float's 53 bits are enough to show that
        a column is too large.
    counts : int64 [n_threads, 4 or 0, n_features]; this thread adds to ``counts[me]``, and the
        first thread writes the sum over all threads into ``counts[0, 0]``
    """
    n_rows, n_parts, n_values = indptr.shape[0] - 1, found.shape[0], values.shape[0]
    part = draw(words)
    while part < n_parts:
        row = part * part_rows
        part_end = min(n_rows, row + part_rows)
        total = 0.0
        squares = 0.0
        largest = 0.0
        last = np.uint64(0)
        while row < part_end:
            after = row + 1
            if not 0 <= indptr[row] <= indptr[after] <= n_values:
                last = NO_COLUMN
                break
            limit = min(indptr[row] + STRIDE, n_values)
            while after < part_end and indptr[after] <= indptr[after + 1] <= limit:
                after += 1
            start, end = np.uint64(indptr[row]), np.uint64(indptr[after])
            mine = np.uint64(_last(columns, start, end))
            last = mine if mine > last else last
            # checked before any count is written; unsigned, so a caller's -1 is a large column
            if last >= np.uint64(n_features):
                break
            if sizes:
                if counts.shape[1] > 0:
                    _count(columns, start, end, counts[me])
                norms, most = _norms(values, indptr, row, after)
                squares += norms
                largest = max(largest, most)
            else:
                total += _sum(values, start, end)
            row = after
        found[part, TOTAL] = total
        found[part, SQUARES] = squares
        found[part, LARGEST] = largest
        found[part, LAST] = np.float64(last)
        end_part(words)
        part = draw(words)
    if me > 0:
        return 0.0, 0.0, 0.0, 0.0
    wait_for_parts(words, n_parts)
    if counts.shape[1] > 0:
        for j in range(n_features):
            count = 0
            for thread in range(counts.shape[0]):
                for k in range(counts.shape[1]):
                    count += counts[thread, k, j]
            counts[0, 0, j] = count
    return _add_up(found)


@kernel
def survey_dense_parts(values, width, sizes, part_rows, words, me, found):
    """Scan parts of dense rows of `width` values until no part is left; see `survey_parts`."""
    n_rows, n_parts = values.shape[0] // width, found.shape[0]
    part = draw(words)
    while part < n_parts:
        first = part * part_rows
        part_end = min(n_rows, first + part_rows)
        if sizes:
            squares = 0.0
            largest = 0.0
            for r in range(np.uint64(first), np.uint64(part_end)):
                start = r * np.uint64(width)
                norm2 = squared_norm(values, start, start + np.uint64(width))
                squares += norm2
                largest = max(largest, norm2)
            found[part, SQUARES] = squares
            found[part, LARGEST] = largest
        else:
            start, end = np.uint64(first * width), np.uint64(part_end * width)
            found[part, TOTAL] = _sum(values, start, end)
        end_part(words)
        part = draw(words)
    if me > 0:
        return 0.0, 0.0, 0.0, 0.0
    wait_for_parts(words, n_parts)
    return _add_up(found)


def survey(
    values: np.ndarray,
    columns: np.ndarray,
    indptr: np.ndarray,
    n_features: int,
    sizes: bool,
    helpers: Helpers = NOBODY,
) -> Survey:
    """Scan sparse rows.

    values, columns, indptr : see `row_views.RowArrays`; the last pointer is the number of values
    n_features : number of features; `Survey.last_column` shows if a column is not below it
    sizes : whether to find norms and counts. If not, the values are summed and the rows are
        checked; `mean` and `largest` are 0, and `counts` is None.
    helpers : other threads that take part in the pass
    """
    n_rows = len(indptr) - 1
    n_parts, part_rows = _parts(n_rows, int(indptr[-1]))
    n_counts = 4 if sizes and n_features <= FEW else 0
    counts = np.zeros((1 + helpers.count, n_counts, n_features), np.int64)
    rows = values, columns, indptr, n_features, int(sizes), part_rows
    seen = _share(survey_parts, rows, n_parts, (counts,), helpers)
    return _survey_of(seen, sizes, n_rows, counts[0, 0] if n_counts else None)


def survey_dense(values: np.ndarray, width: int, sizes: bool, helpers: Helpers = NOBODY) -> Survey:
    """Scan dense rows of `width` values, which are adjacent in `values`; see `survey`."""
    n_rows = len(values) // width
    n_parts, part_rows = _parts(n_rows, len(values))
    total, squares, largest, _ = _share(
        survey_dense_parts, (values, width, int(sizes), part_rows), n_parts, (), helpers
    )
    return _survey_of((total, squares, largest, width - 1), sizes, n_rows, None)


def without_warnings() -> contextlib.AbstractContextManager[object]:
    """Return a context that silences NumPy if the JIT is off.

    NumPy would warn of overflows, which `Survey.total` reports.
    """
    return np.errstate(all="ignore") if JIT_DISABLED else contextlib.nullcontext()


def _share(
    scan_parts: Any, rows: tuple[Any, ...], n_parts: int, more: tuple[Any, ...], helpers: Helpers
) -> tuple[float, ...]:
    """Let all threads scan the rows; return the first thread's result when all parts are done."""
    words, found = new_words(), np.zeros((n_parts, N_FOUND))

    def scan(me: int) -> Any:
        with without_warnings():
            return scan_parts(*rows, words, me, found, *more)

    helpers.call(scan)
    return tuple(scan(0))


def _parts(n_rows: int, n_values: int) -> tuple[int, int]:
    """Return the number of parts, and the number of rows of each part except the last."""
    n_parts = max(1, min(n_rows, n_values // PART_VALUES, MOST_PARTS))
    part_rows = -(-n_rows // n_parts)
    return max(1, -(-n_rows // max(1, part_rows))), part_rows


def _survey_of(
    seen: tuple[float, ...], sizes: bool, n_rows: int, counts: np.ndarray | None
) -> Survey:
    """Make a survey from the findings of all parts."""
    total, squares, largest, last_column = seen
    mean = squares / max(1, n_rows)
    return Survey(squares if sizes else total, int(last_column), mean, largest, counts)
