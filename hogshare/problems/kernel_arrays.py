"""Arrays in the form that the kernels of all problems take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

LINE_BYTES = 64  # length of a cache line; vector registers are at most as long
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))  # of this machine's byte order


def line_zeros(n: int, kind: np.dtype) -> np.ndarray:
    """Return zeros aligned to a cache line, so no load of a vector register crosses two lines."""
    memory = np.zeros(n + LINE_BYTES // kind.itemsize, kind)
    first = -memory.ctypes.data % LINE_BYTES // kind.itemsize
    return memory[first : first + n]


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only, aligned, contiguous view, or a copy if the layout requires it.

    With read-only views, one compiled kernel serves writable and read-only arrays.
    """
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    array = array.view()
    array.setflags(write=False)
    return array


def sealed(array: np.ndarray) -> np.ndarray:
    """Return a view as `frozen` does, which user code cannot make writable."""
    array = np.require(array, requirements=["C", "A"])
    # NumPy lets code make a view of an array writable, but not one of a read-only buffer
    return np.asarray(array.data.toreadonly())


def n_masked(array: Any) -> int:
    """Return the number of masked values of a masked array, or 0 for any other object."""
    if not isinstance(array, np.ma.MaskedArray):
        return 0
    return int(np.count_nonzero(np.ma.getmaskarray(array)))


def require_unmasked(name: str, array: Any) -> None:
    """Raise an error if values are masked: NumPy and scikit-learn would use the masked values.

    name : name of the array in the message

    Raises ValueError, with the number of masked values.
    """
    if count := n_masked(array):
        raise ValueError(
            f"{name} is a masked array, and {count} of its values are masked. Drop their rows, or "
            f"give them values by {name}.filled(...)."
        )


def added_up(add: Callable[[np.ndarray], np.ndarray], numbers: Sequence[Any]) -> list[np.ndarray]:
    """Sum several arrays over several processes by one call of `add`.

    add : function that returns the sum of a float64 vector over the processes
    numbers : arrays or numbers, of the same shapes in each process

    All processes must call this function. Returns new float64 arrays.
    """
    flat = [np.asarray(array, np.float64).reshape(-1) for array in numbers]
    ends = np.cumsum([len(array) for array in flat])
    found = np.split(add(np.concatenate(flat)), ends[:-1])
    return [one.reshape(np.shape(array)) for one, array in zip(found, numbers, strict=True)]


def canonical(X: Any) -> Any:
    """Return a sparse matrix with each entry stored once and in order; return others unchanged.

    To compute a minimum or maximum, SciPy sorts and merges the entries in place, in the caller's
    arrays, which may be read-only. So this function returns a copy, if the entries are not sorted
    and merged already.
    """
    if not sp.issparse(X) or getattr(X, "has_canonical_format", True):
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
