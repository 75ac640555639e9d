"""A broadcast variable as the argument of a worker's function, with the versions of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

NEVER = -1  # in place of a version: the row has not been used


@dataclass(frozen=True)
class Handle:
    """The argument of a function in ``map(..., history=True)``, in place of a broadcast's value.

    Source: Soori et al. 2019 (ASYNC), ``w_br.value`` and ``w_br.value(index)`` of Table I.
    Departure from the paper: for a row that was never used, the version is None, and the history
    counts as zero.

    Parameters
    ----------
    value : ndarray, or tuple or dict of values
        The version that was broadcast with the task; read-only.
    index : ndarray of int64
        Numbers of the rows in this call of the function.
    versions : ndarray of int64
        The version with which each row was last used, or `NEVER` for a row that was never used.
    find : callable
        Function that returns the value of a version.
    """

    value: Any
    index: np.ndarray
    versions: np.ndarray
    find: Callable[[int], Any]

    def value_at(self, row: int) -> Any:
        """Return the value with which a row was last used, or None if the row was never used.

        Parameters
        ----------
        row : int
            Number of the row among all rows, as in `map_with_index`.

        Raises
        ------
        KeyError
            If the row is not one of the rows in this call of the function.
        """
        places = np.flatnonzero(self.index == row)
        if not len(places):
            raise KeyError(f"row {row} is none of those of this call; use rows of `index`")
        version = int(self.versions[places[0]])
        return None if version == NEVER else self.find(version)

    def groups(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield each version, with the places in the block of the rows last used with the version.

        Yields
        ------
        (value or None, ndarray of int64)
            The version's value and the places. Versions come in ascending order. Rows that were
            never used come first, with None in place of a value.
        """
        order = np.argsort(self.versions, kind="stable")
        found, starts = np.unique(self.versions[order], return_index=True)
        for version, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            yield None if version == NEVER else self.find(version), places
