"""Arrays as kernels take them, whatever the problem is."""

from __future__ import annotations

import numpy as np

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))  # of this machine's byte order


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
    return np.asarray(memoryview(array).toreadonly())
