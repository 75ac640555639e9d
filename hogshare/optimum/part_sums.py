"""What methods that know no problem ask of processes that have a part of the rows each.

A sum over the parts of a problem's rows is `LinearProblem.total`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class PartSums(Protocol):
    """Processes that have a part of the rows each, and all call the same."""

    def added(self, numbers: Any) -> Any:
        """The sum of what all call it with."""

    def of_each(self, array: np.ndarray) -> list[np.ndarray]:
        """What each calls it with."""
