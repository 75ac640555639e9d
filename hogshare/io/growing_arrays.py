"""One-dimensional arrays that grow by parts, in place: no list of parts that is copied at the end.

Python's `array` grows by a sixteenth and moves its pages rather than copying them (where the system
can), so what is read by parts never takes twice its memory.
"""

from __future__ import annotations

import array
from typing import Any

import numpy as np


class Growing:
    """An array of floats or of integers with a sign that grows."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self._array: array.array[Any] = array.array(self.dtype.char)

    def __len__(self) -> int:
        return len(self._array)

    def add(self, part: np.ndarray) -> None:
        """Put numbers behind those that are there."""
        if part.size:
            part = np.ascontiguousarray(part, self.dtype).reshape(-1)
            self._array.frombytes(part.view(np.uint8).data)

    def taken(self) -> np.ndarray:
        """All of them, without a copy; no more can be added."""
        if not self._array:
            return np.empty(0, self.dtype)
        return np.frombuffer(self._array, self.dtype)
