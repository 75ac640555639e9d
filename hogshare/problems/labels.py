"""The distinct labels of a target."""

from __future__ import annotations

from typing import Any

import numpy as np

FIRST = 100  # labels that show that there are more kinds, as a rule


def distinct(y: Any) -> np.ndarray:
    """Sorted distinct labels, as `numpy.unique`.

    Two kinds of numbers are the smallest and the largest: seen at once, which sorting is not (0.03
    ms instead of 0.2 for 32,561 labels). NumPy 2.4 tells distinct integers by hashing, which takes
    seven times as long as sorting; asked for counts it sorts.
    """
    y = np.atleast_1d(y)
    if y.size and y.dtype.kind in "biuf" and _are_two(y[:FIRST]) and _are_two(y):
        low, high = y.min(), y.max()
        return np.array([low] if low == high else [low, high], y.dtype)
    if y.dtype.kind in "iu":
        return np.unique(y, return_counts=True)[0]
    return np.unique(y)


def _are_two(y: np.ndarray) -> bool:
    """Whether numbers are of two kinds, or one; never where one of them is NaN."""
    return bool(((y == y.min()) | (y == y.max())).all())
