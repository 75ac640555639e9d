"""Rows that are in shared memory from the start: a crew of processes needs no copy of them.

Ownership. `share` writes the rows once, before any other thread or process can see them.
Afterwards, the rows are only read. The arrays refer to their arena, which is freed with its last
array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.shm.arena import Arena, find_arena, has_arenas

try:
    from numpy.lib.array_utils import byte_bounds
except ImportError:  # NumPy 1
    from numpy import byte_bounds  # type: ignore[attr-defined, no-redef]


def share(X: Any) -> Any:
    """Copy an array into shared memory once, for fits on several processes.

    Parameters
    ----------
    X : ndarray or CSR matrix or CSR array
        The rows (or the targets). An array that is already shared is returned unchanged.

    Returns
    -------
    ndarray or CSR of the same class
        Equal to `X`, in C order, with all buffers in one arena. The result is used like any other
        array, and its memory is freed with its last reference.

    Raises
    ------
    MemoryError
        If there is not enough memory for a second copy.
    TypeError
        If `X` is neither an ndarray nor CSR, or contains Python objects.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import share
    >>> rows = share(np.arange(6.0).reshape(2, 3))
    >>> rows.shape, float(rows.sum())
    ((2, 3), 15.0)
    """
    if type(X) is np.ndarray or isinstance(X, np.memmap):
        shared = _shared_buffers({"rows": X})
        return X if shared is None else shared["rows"]
    parts = _csr_parts(X)
    if parts is None:
        raise TypeError(
            f"share() needs X as an ndarray or a SciPy CSR matrix, not {type(X).__name__}; convert "
            "it with numpy.asarray(X), or with X.tocsr() if it is sparse."
        )
    shared = _shared_buffers(parts)
    if shared is None:
        return X
    result = type(X)(X.shape, dtype=X.dtype)
    # set these arrays: the constructor might copy the indices to another integer type
    result.data, result.indices, result.indptr = shared["data"], shared["indices"], shared["indptr"]
    return result


def find(array: np.ndarray) -> tuple[Arena, int] | None:
    """Find the place of an array in shared memory.

    Parameters
    ----------
    array : ndarray
        Any array, including a view with strides.

    Returns
    -------
    (Arena, int) or None
        The open arena that contains the whole array, and the offset in bytes of the array's first
        element (``array[0, ..., 0]``). None if the array is empty, or if a part of the array is
        outside the arena. Do not close the arena, because it belongs to the arrays in it.
    """
    if array.size == 0 or not has_arenas():
        return None
    low, high = byte_bounds(array)
    found = find_arena(low, high)
    if found is None:
        return None
    arena, offset = found
    return arena, offset + array.__array_interface__["data"][0] - low


def _csr_parts(X: Any) -> dict[str, np.ndarray] | None:
    if getattr(X, "format", None) != "csr" or not all(
        isinstance(getattr(X, name, None), np.ndarray) for name in ("data", "indices", "indptr")
    ):
        return None
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr}


def _shared_buffers(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Return copies of the arrays in a new arena, or None if one arena already contains them."""
    places = [find(part) for part in parts.values() if part.size]
    arenas = {id(place[0]) if place else None for place in places}
    in_order = all(part.flags.c_contiguous for part in parts.values())
    if in_order and len(arenas) == 1 and None not in arenas:
        return None
    for name, part in parts.items():
        if part.dtype.hasobject:
            raise TypeError(f"share() needs numbers in X, but its {name} have dtype {part.dtype}.")
    arena = Arena.create({k: (part.shape, part.dtype) for k, part in parts.items()})
    for name, part in parts.items():
        arena.fill(name, part)
    return {name: arena[name] for name in parts}
