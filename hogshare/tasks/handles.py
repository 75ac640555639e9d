"""A broadcast variable as a worker's function sees it, with the versions of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

NEVER = -1  # in place of a version: the row has not been used


@dataclass(frozen=True)
class Handle:
    """The argument of a function in ``map(..., history=True)``, in place of an array.

    Source: Soori et al. 2019 (ASYNC), ``w_br.value`` and ``w_br.value(index)`` of Table I.
    Departure: the version of a row that was never used is None, and its history is zero.

    Parameters
    ----------
    value : ndarray
        The version that was broadcast with the task; read-only.
    index : ndarray of int64
        Numbers of the rows that the function was called with.
    versions : ndarray of int64
        The version with which each of these rows was last used; `NEVER` if it was not used.
    find : callable
        Function that returns the array of a version.
    """

    value: np.ndarray
    index: np.ndarray
    versions: np.ndarray
    find: Callable[[int], np.ndarray]

    def value_at(self, row: int) -> np.ndarray | None:
        """Return the version with which a row was last used; None if it never was.

        Parameters
        ----------
        row : int
            Number of the row among all rows, as in `map_with_index`.

        Raises
        ------
        KeyError
            If the function was not called with the row.
        """
        places = np.flatnonzero(self.index == row)
        if not len(places):
            raise KeyError(f"row {row} is none of those of this call; use rows of `index`")
        version = int(self.versions[places[0]])
        return None if version == NEVER else self.find(version)

    def groups(self) -> Iterator[tuple[np.ndarray | None, np.ndarray]]:
        """Yield each version, with the places in the block of the rows that were last used with it.

        Yields
        ------
        (ndarray or None, ndarray of int64)
            In ascending order of the versions; None comes first, for rows that were never used.
        """
        order = np.argsort(self.versions, kind="stable")
        found, starts = np.unique(self.versions[order], return_index=True)
        for version, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            yield None if version == NEVER else self.find(version), places
