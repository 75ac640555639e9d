"""A broadcast variable as a worker's function sees it, with the versions of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

NEVER = -1  # in place of a version: the row has not been used


@dataclass(frozen=True)
class Handle:
    """What ``map(..., history=True)`` gives to its function in place of an array.

    Source: Soori et al. 2019 (ASYNC), ``w_br.value`` and ``w_br.value(index)`` of Table I. Our
    departure: a version for which there is none is None, so that the history is zero there.

    Parameters
    ----------
    value : ndarray
        The version that was broadcast with the task; read-only.
    index : ndarray of int64
        Numbers of the rows that the function was called with.
    versions : ndarray of int64
        The version that each of them was last used with; `NEVER`: none.
    find : callable
        Version to array.
    """

    value: np.ndarray
    index: np.ndarray
    versions: np.ndarray
    find: Callable[[int], np.ndarray]

    def value_at(self, row: int) -> np.ndarray | None:
        """The version that a row was last used with; None if it never was.

        Parameters
        ----------
        row : int
            Its number among all rows, as `map_with_index` gives it.

        Raises
        ------
        KeyError
            If the row is none of those that the function was called with.
        """
        places = np.flatnonzero(self.index == row)
        if not len(places):
            raise KeyError(f"row {row} is none of those of this call; see `index`")
        version = int(self.versions[places[0]])
        return None if version == NEVER else self.find(version)

    def groups(self) -> Iterator[tuple[np.ndarray | None, np.ndarray]]:
        """Versions, and the places in the block of the rows that were last used with each.

        Yields
        ------
        (ndarray or None, ndarray of int64)
            In ascending order of the versions. None: of rows that were never used.
        """
        order = np.argsort(self.versions, kind="stable")
        found, starts = np.unique(self.versions[order], return_index=True)
        for version, places in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            yield None if version == NEVER else self.find(version), places
