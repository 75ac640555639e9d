"""Sums over processes, for methods that use no problem object.

`LinearProblem.total` is the counterpart for the parts of a problem's rows.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class PartSums(Protocol):
    """Processes that each have a part of the rows; all must make the same calls."""

    def added(self, numbers: Any) -> Any:
        """Return the sum of the arguments of all processes."""

    def of_each(self, array: np.ndarray) -> list[np.ndarray]:
        """Return the arguments of all processes, in the order of the processes."""
