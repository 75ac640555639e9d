"""What methods ask of whoever holds the rows: a sum over the parts of what a function gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Parts(Protocol):
    """Rows in parts, each of which is the problem of its rows (`hogshare.problems`)."""

    @property
    def n_rows(self) -> int:
        """Of all parts."""

    @property
    def n_features(self) -> int:
        """Columns of the rows."""

    @property
    def dtype(self) -> np.dtype:
        """What all rows are taken as."""

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """The sum over the parts of the tuple of arrays that ``function(part, *args)`` gives."""


class Everyone(Protocol):
    """Processes that have a part of the rows each, and all call the same."""

    def added(self, numbers: Any) -> Any:
        """The sum of what all call it with."""

    def of_each(self, array: np.ndarray) -> list[np.ndarray]:
        """What each calls it with."""
