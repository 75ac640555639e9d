"""Convert a caller's matrix to the arrays of kernels, with as few copies as possible."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.rows.row_checks import has_repeats
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rows.shared_passes import NOBODY, Helpers
from hogshare.kernels.rows.survey import Survey, survey, survey_dense
from hogshare.problems.kernel_arrays import FLOATS, frozen, require_unmasked
from hogshare.shm import shared_rows
from hogshare.system import memory
from hogshare.system.callers import warn

WINDOW_BYTES = 1 << 25  # bytes of rows in a file that are read one after another
CACHED_BYTES = 1 << 24  # bytes of the largest rows that are read in scikit-learn's order
CACHED_TWICE_BYTES = 1 << 17  # bytes of rows that are read twice in succession
NEIGHBOURS = 8  # rows of a window, for rows in memory that exceed the caches
NARROWED_BYTES = 1 << 26  # bytes of the largest 64-bit columns that are copied into 32 bits
MANY = 1 << 17  # from this number of dense values, NumPy adds 2.5 times slower than a kernel
UNSIGNED = {  # as kernels read columns, of this machine's byte order
    np.dtype(np.int32): np.uint32,
    np.dtype(np.int64): np.uint64,
    np.dtype(np.uint32): np.uint32,
    np.dtype(np.uint64): np.uint64,
}
WIDE = 32  # features per stored value, above which a mark for each feature is expensive
# Number of windows that are read alternately: neighbours are often similar, and successive steps
# should use dissimilar rows.
ABREAST = 8
SAGA_NEIGHBOURS, SAGA_ABREAST = 4, 16  # the same for SAGA, if its rows fit in the caches
SAGA_ROWS = 4096  # fewest rows for these; the order of fewer rows is drawn in almost no time
MAX_BLOCK_ROWS = 8192
BLOCKS_PER_WORKER = 8  # per epoch; a slow worker delays the epoch's end by one block at most


REPEATED = (
    "The rows are a sparse matrix with several entries for one place. They are added up, as in "
    "SciPy; scikit-learn's transformers of sparse rows (StandardScaler, Normalizer, Binarizer, "
    "TfidfTransformer, VarianceThreshold) treat each entry separately and return other rows. Call "
    "X.sum_duplicates() before the first of them."
)


class RepeatedEntries(UserWarning):
    """Rows have several entries for one place, which transformers may have treated separately."""


def is_sparse(X: Any) -> bool:
    """Return whether `X` is a SciPy sparse matrix or array."""
    return bool(sp.issparse(X))


def check_sparse(X: Any) -> None:
    """Raise an error if a compressed matrix is damaged; accept any other argument.

    `sklearn.utils.check_array` accepts a column index of ten million in a matrix of ten columns. A
    kernel would then write to arbitrary memory, and SciPy's conversions would do the same.

    Raises ValueError if the pointers decrease or do not match the data, if an index is out of
    range, or if values are masked.
    """
    require_unmasked("X", X)
    if not is_sparse(X) or X.format not in ("csr", "csc", "bsr") or len(X.shape) != 2:
        return
    _check_pointers(X)
    if _has_columns_in_range(X):
        return
    X = copy.copy(X)  # shallow, because the check may shorten the caller's matrix
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"The {X.format.upper()} matrix is damaged: {error}. Rebuild it, for example from "
            "(row, column, value) triplets with scipy.sparse.coo_array."
        ) from error


def require_dense(y: Any) -> None:
    """Raise an error if targets are sparse, which scikit-learn's check of several targets accepts.

    Raises TypeError with scikit-learn's message, or ValueError if targets are masked.
    """
    require_unmasked("y", y)
    if is_sparse(y):
        raise TypeError(
            "Sparse data was passed for y, but dense data is required. Use '.toarray()' to convert "
            "to a dense numpy array."
        )


def survey_rows(X: Any, sizes: bool, helpers: Helpers = NOBODY) -> Survey | None:
    """Check as `check_sparse` does, and survey the values in the same pass.

    Only rows in the format of kernels are surveyed; for other rows the result is None. These
    formats are CSR of floats with 32-bit columns, whose number is the last pointer, and contiguous
    dense arrays with at least `MANY` values. The values are only read.

    sizes : whether norms of rows and counts of features are needed
    helpers : threads that take part in addition to the calling thread

    Raises ValueError as `check_sparse` does.
    """
    if _is_plain_dense(X) and X.size >= MANY:
        return survey_dense(frozen(X.reshape(-1)), X.shape[1], sizes, helpers)
    if not _is_plain_csr(X):
        check_sparse(X)
        return None
    seen = survey(
        frozen(X.data),
        frozen(X.indices.view(np.uint32)),
        frozen(X.indptr.astype(np.int64, copy=False)),
        X.shape[1],
        sizes,
        helpers,
    )
    if seen.last_column >= X.shape[1]:
        check_sparse(X)  # raises an error with a message that names the damage
    return seen


def _is_plain_dense(X: Any) -> bool:
    return type(X) is np.ndarray and X.ndim == 2 and X.flags.c_contiguous and X.dtype in FLOATS


def _is_plain_csr(X: Any) -> bool:
    if not is_sparse(X) or X.format != "csr" or len(X.shape) != 2 or not len(X.indptr):
        return False
    arrays = (X.data, X.indices, X.indptr)
    return (
        all(type(array) is np.ndarray and array.ndim == 1 for array in arrays)
        and X.data.dtype in FLOATS
        and X.indices.dtype == X.indptr.dtype == np.int32
        and len(X.indptr) == X.shape[0] + 1
        and X.indptr.item(0) == 0
        and X.indptr.item(-1) == len(X.data) == len(X.indices)
    )


def _check_pointers(X: Any) -> None:
    """Raise an error if a compressed matrix's pointers decrease or do not match the data."""
    name, indptr = X.format.upper(), X.indptr
    for part, kind in (("indices", X.indices.dtype), ("indptr", indptr.dtype)):
        if kind.kind not in "iu":  # SciPy's check only warns about other types
            raise ValueError(
                f"The {name} matrix is damaged: {part} contains {kind}, and must contain whole "
                "numbers. Rebuild the matrix."
            )
    lines = X.shape[X.format == "csc"]
    if X.format == "bsr":
        lines //= X.blocksize[0]
    if len(indptr) != lines + 1 or indptr[0] != 0:
        raise ValueError(
            f"The {name} matrix is damaged: indptr has {len(indptr)} entries starting at "
            f"{indptr[0] if len(indptr) else 'nothing'}, and {lines} lines need {lines + 1} "
            "entries starting at 0. Rebuild the matrix, for example with X.tocoo().tocsr()."
        )
    if (indptr[1:] < indptr[:-1]).any():
        # checked before SciPy's own check, which checks nothing if the last pointer is 0
        raise ValueError(
            f"The {name} matrix is damaged: indptr decreases. Rebuild the matrix, for example with "
            "X.tocoo().tocsr()."
        )
    if len(X.indices) != len(X.data) or indptr[-1] > len(X.data):
        raise ValueError(
            f"The {name} matrix is damaged: indptr ends at {indptr[-1]}, but there are "
            f"{len(X.indices)} indices and {len(X.data)} values. Rebuild the matrix."
        )


def _has_columns_in_range(X: Any) -> bool:
    """Return True if no further check is needed; otherwise SciPy's slower check must decide."""
    indices, indptr = X.indices, X.indptr
    if X.format == "bsr" or len(X.shape) != 2 or X.data.ndim != 1 or indices.ndim != 1:
        return False
    if indptr.ndim != 1:
        return False
    used = indices[: int(indptr[-1])]
    if indices.dtype in UNSIGNED:
        used = used.view(UNSIGNED[indices.dtype])  # a negative index becomes a large number
    elif used.size and used.min() < 0:
        return False
    return not used.size or bool(used.max() < X.shape[X.format == "csr"])


def each_column_once(X: Any) -> Any:
    """Return a checked CSR matrix with each column at most once per row, in any order.

    For a CSC matrix, the result has each row at most once per column. Rows with repeated columns
    are legal: the repeated entries are added up in a copy, and the caller's arrays do not change. A
    warning says so, because earlier transformers may not have added them up. If there are no
    repeats, X itself is returned. Unsorted rows are not sorted, because sorting would take as long
    as ten epochs, and would need memory.

    The flag of the matrix (`has_canonical_format`) is trusted.
    """
    if X.has_canonical_format or (not X.has_sorted_indices and not _has_repeats(X)):
        return X
    n_given = X.nnz
    X = X.copy()
    X.sum_duplicates()
    if X.nnz < n_given:
        warn(REPEATED, RepeatedEntries)
    return X


def _has_repeats(X: Any) -> bool:
    count = int(X.indptr[-1])
    n_lines, width = X.shape if X.format == "csr" else X.shape[::-1]
    if WIDE * count < width:  # few values: sorting is cheaper than a mark for each feature
        line = np.repeat(np.arange(n_lines, dtype=np.int64), np.diff(X.indptr))
        places = line * width + X.indices[:count]
        places.sort()
        return bool((places[1:] == places[:-1]).any())
    columns = frozen(_columns(X.indices[:count], width))
    starts = frozen(X.indptr.astype(np.int64, copy=False))
    return bool(has_repeats(columns, starts, np.full(width, -1)))


def as_rows(X: Any, y: np.ndarray, weight: np.ndarray | None) -> RowArrays:
    """Return a checked matrix, its targets and its weights for kernels, as views if possible."""
    if weight is None or (weight == 1.0).all():
        weight = np.empty(0)  # without weights, a kernel reads one cache line less per row
    weight = weight.astype(y.dtype, copy=False)
    if is_sparse(X):
        nnz = int(X.indptr[-1])
        return RowArrays(
            frozen(X.data[:nnz]),
            frozen(_columns(X.indices[:nnz], X.shape[1])),
            frozen(X.indptr.astype(np.int64, copy=False)),
            0,
            frozen(y),
            frozen(weight),
        )
    X = np.require(X, requirements=["C", "A"])
    return RowArrays(
        frozen(X.reshape(-1)),
        frozen(np.empty(0, np.uint32)),
        frozen(np.empty(0, np.int64)),
        X.shape[1],
        frozen(y),
        frozen(weight),
    )


def _columns(indices: np.ndarray, n_features: int) -> np.ndarray:
    """Return columns in a type that kernels read.

    Kernels are compiled separately for 32 and 64 bits, in about twenty seconds, and small matrices
    may also have 64-bit columns. So small 64-bit columns are copied into 32 bits if their numbers
    fit. Large columns are not copied, because the copy would take as much time as it saves. Columns
    in shared memory are not copied, because every process maps this memory. Types that no kernel
    reads, such as the other byte order, are always copied.
    """
    kind = UNSIGNED.get(indices.dtype)
    if kind is np.uint32:
        return indices.view(np.uint32)
    # at most 2**31 features, because SciPy also reads the columns, as signed numbers
    fit = n_features <= 1 << 31
    small = indices.nbytes <= NARROWED_BYTES and shared_rows.find(indices) is None
    if fit and (kind is None or small):
        return indices.astype(np.uint32)
    return indices.astype(np.uint64) if kind is None else indices.view(np.uint64)


def is_mapped(array: Any) -> bool:
    """Return whether an array is a view of a memory-mapped file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def exceeds_memory(rows: RowArrays) -> bool:
    """Return whether rows are in a memory-mapped file larger than half the available memory."""
    free = memory.free(swap=False, private=False) if is_mapped(rows.data) else None
    return free is not None and _n_bytes(rows) > free // 2


def block_rows(n_rows: int, n_workers: int, per_epoch: int) -> int:
    """Return the rows of a block: many, but few enough for equal work and for the trace."""
    limit = n_rows if n_workers == 1 else -(-n_rows // (BLOCKS_PER_WORKER * n_workers))
    limit = min(limit, MAX_BLOCK_ROWS, -(-n_rows // max(1, per_epoch)))
    return max(1, limit)


def windows(rows: RowArrays, n_rows: int, neighbours: bool = False) -> tuple[int, int]:
    """Return the number of rows of a window, and the number of windows that are read alternately.

    A window is a group of neighbouring rows in a shuffled order. There are three cases. (1) Rows
    exceed memory. Each random row would take a read of the disk, so rows are read in windows of 32
    MB, one window at a time. (2) Rows exceed the caches. Each random row takes a fetch from memory,
    which prefetching hides only in part. So rows are read in windows of eight rows, alternately
    from eight windows. An epoch takes a fifth to a third less time than with random rows
    (docs/tried/2026-11/speed.md). SDCA with more than two workers reads from more windows
    (`hogshare.rules.pace.windows_abreast`). (3) Rows fit in the caches. They are read in
    scikit-learn's order, which is fully random, so one worker of plain SGD fits the same model as
    scikit-learn. In this case the function returns (0, 1).

    With `neighbours`, rows in the third case are read in windows of four rows. This is for SAGA,
    which has no order of scikit-learn to reproduce. Drawing the order then takes a quarter of the
    time. Neither data of few rows nor sorted rows converge worse. SDCA did converge worse with
    windows read one after another; alternating windows have not been tried for SDCA.
    """
    if exceeds_memory(rows):
        return max(1, WINDOW_BYTES * n_rows // _n_bytes(rows)), 1
    if _n_bytes(rows) > CACHED_BYTES:
        return NEIGHBOURS, ABREAST
    return (SAGA_NEIGHBOURS, SAGA_ABREAST) if neighbours and n_rows >= SAGA_ROWS else (0, 1)


def rows_at_once(rows: RowArrays) -> int:
    """Return the number of rows that are still in a cache after a pass over these rows."""
    return max(1, CACHED_TWICE_BYTES * len(rows.y) // max(1, _n_bytes(rows)))


def _n_bytes(rows: RowArrays) -> int:
    return int(rows.data.nbytes + rows.indices.nbytes)
