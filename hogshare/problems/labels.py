"""The distinct labels of a target."""

from __future__ import annotations

from typing import Any

import numpy as np


def distinct(y: Any) -> np.ndarray:
    """Sorted distinct labels, as `numpy.unique`.

    NumPy 2.4 tells distinct integers by hashing, which takes seven times as long as sorting (0.6 ms
    for 25,000 of two kinds); asked for counts it sorts.
    """
    if np.asarray(y).dtype.kind in "iu":
        return np.unique(y, return_counts=True)[0]
    return np.unique(y)
