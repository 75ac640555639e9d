"""One-dimensional arrays that grow in place, without a list of parts that is copied at the end.

Python's `array` grows by a sixteenth. If the system can, it moves the array's pages instead of
copying them. Rows that are read in parts therefore never take twice their memory.
"""

from __future__ import annotations

import array
from typing import Any

import numpy as np


class Growing:
    """A growing array of floats or signed integers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self._array: array.array[Any] = array.array(self.dtype.char)

    def __len__(self) -> int:
        return len(self._array)

    def add(self, part: np.ndarray) -> None:
        """Append numbers."""
        if part.size:
            part = np.ascontiguousarray(part, self.dtype).reshape(-1)
            self._array.frombytes(part.view(np.uint8).data)

    def taken(self) -> np.ndarray:
        """Return all numbers without a copy; after that no number can be added."""
        if not self._array:
            return np.empty(0, self.dtype)
        return np.frombuffer(self._array, self.dtype)
