"""Arrays as kernels take them, whatever the problem is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

LINE_BYTES = 64  # of a cache, where the longest vectors begin
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))  # of this machine's byte order


def line_zeros(n: int, kind: np.dtype) -> np.ndarray:
    """Zeros that begin where a cache line does, so that no vector lies on two."""
    memory = np.zeros(n + LINE_BYTES // kind.itemsize, kind)
    first = -memory.ctypes.data % LINE_BYTES // kind.itemsize
    return memory[first : first + n]


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only, aligned, contiguous view (a copy only where the layout demands one).

    So there is one kernel for arrays that may be written and that may not.
    """
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    array = array.view()
    array.setflags(write=False)
    return array


def sealed(array: np.ndarray) -> np.ndarray:
    """As `frozen`, for code of the user's: whoever has the view cannot make it writable."""
    array = np.require(array, requirements=["C", "A"])
    # a view of NumPy's own may be unlocked by whoever has it; of a read-only buffer none may
    return np.asarray(array.data.toreadonly())


def n_masked(array: Any) -> int:
    """How many values of a masked array are masked; 0 of anything else."""
    if not isinstance(array, np.ma.MaskedArray):
        return 0
    return int(np.count_nonzero(np.ma.getmaskarray(array)))


def require_unmasked(name: str, array: Any) -> None:
    """Refuse masked values: NumPy's conversions, scikit-learn's too, take what is below the mask.

    Raises ValueError: with how many there are.
    """
    if count := n_masked(array):
        raise ValueError(
            f"{name} is a masked array, and {count} of its values are masked. Drop their rows, or "
            f"give them values by {name}.filled(...)."
        )


def added_up(add: Callable[[np.ndarray], np.ndarray], numbers: Sequence[Any]) -> list[np.ndarray]:
    """Arrays, each of which ``add`` has made the sum of what several processes have: in one call.

    add : of a float64 vector
    """
    flat = [np.asarray(array, np.float64).reshape(-1) for array in numbers]
    ends = np.cumsum([len(array) for array in flat])
    found = np.split(add(np.concatenate(flat)), ends[:-1])
    return [one.reshape(np.shape(array)) for one, array in zip(found, numbers, strict=True)]


def canonical(X: Any) -> Any:
    """A sparse matrix whose entries are each stored once and in order; anything else as it is.

    SciPy makes it so in place, whenever it is asked for a minimum or a maximum: in arrays of the
    caller, which may be read-only. So who is to ask that gets a copy.
    """
    if not sp.issparse(X) or getattr(X, "has_canonical_format", True):
        return X
    X = X.copy()
    X.sum_duplicates()
    return X
