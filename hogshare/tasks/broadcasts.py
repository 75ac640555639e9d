"""Broadcast variables: their versions, and the version with which each row was last used.

Writers: only the caller's thread. `broadcast` makes a version. The table of rows changes only when
a result is accepted. So the table does not change if a task is lost or done twice, or if its result
is dropped. Readers: the caller, and tasks, which get a version's value from the `Shelf` (the store
of the caller's objects). Freeing: the user's handle, each task that needs the version, and each row
that was last used with the version have a reference to it. When the last reference is released, the
version is dropped from the shelf, and workers are notified to drop their copies.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from hogshare.tasks.handles import NEVER
from hogshare.tasks.nested_values import bytes_of, own
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import VALUE, Key, Value


class Variable:
    """All versions of one broadcast variable.

    shelf : store of the versions' values
    """

    def __init__(self, number: int, name: str, shelf: Shelf) -> None:
        self.number, self.name, self._shelf = number, name, shelf
        self.newest = NEVER
        self._counts: dict[int, int] = {}  # references to each version
        self._bytes: dict[int, int] = {}
        self._tables: dict[int, np.ndarray] = {}  # by data set: the last version of each row
        self.nbytes = 0

    def add(self, value: Any) -> int:
        """Store a value, without a copy, as a version with one reference, which the caller has."""
        self.newest += 1
        self._shelf.put(self._key(self.newest), value)
        self._counts[self.newest] = 1
        self._bytes[self.newest] = bytes_of(value)
        self.nbytes += self._bytes[self.newest]
        return self.newest

    def value(self, version: int) -> Any:
        """Return the value of a version that has references."""
        return own(self._shelf.things[self._key(version)])

    @property
    def alive(self) -> int:
        """Number of versions with references."""
        return len(self._counts)

    def retain(self, version: int, by: int = 1) -> None:
        """Add references to a version."""
        self._counts[version] += by

    def release(self, version: int, by: int = 1) -> None:
        """Remove references to a version; drop the version when its last reference is removed."""
        left = self._counts[version] - by
        self._counts[version] = left
        if left == 0:
            del self._counts[version]
            self.nbytes -= self._bytes.pop(version)
            self._shelf.drop(self._key(version))

    def table(self, data: int, n_rows: int) -> np.ndarray:
        """Return the version with which each row of a data set was last used, or `NEVER`."""
        if data not in self._tables:
            self._tables[data] = np.full(n_rows, NEVER, np.int64)
        return self._tables[data]

    @property
    def tables(self) -> list[np.ndarray]:
        """The tables of all data sets whose rows have been used with their history."""
        return list(self._tables.values())

    def used(self, data: int, rows: np.ndarray, version: int) -> None:
        """Record in the table that rows (without repeats) have been used with a version."""
        table = self._tables[data]
        before, counts = np.unique(table[rows], return_counts=True)
        table[rows] = version
        # retain before release: both may be the same version, which must not be dropped
        self.retain(version, len(rows))
        for old, count in zip(before.tolist(), counts.tolist(), strict=True):
            if old != NEVER:
                self.release(old, count)

    def _key(self, version: int) -> Key:
        return VALUE, self.number, version


class Broadcast:
    """One version of a broadcast variable; made by `AsyncContext.broadcast`.

    Source: Soori et al. 2019 (ASYNC), ``ASYNCbroadcast`` of Table I.

    Attributes
    ----------
    version : int
        Number of this version among the versions of its variable, from 0.
    """

    def __init__(self, variable: Variable, value: Any, context: int) -> None:
        self.variable, self.context = variable, context
        self.version = variable.add(value)
        self._value = value
        weakref.finalize(self, variable.release, self.version).atexit = False

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.variable.name

    @property
    def value(self) -> Any:
        """The broadcast value; its arrays are read-only."""
        return own(self._value)

    def value_at(self, row: int) -> Any:
        """Return the value with which a row was last used, or None if the row was never used.

        The row belongs to the collection that has used this variable with its history. The array
        is read-only, and is not a copy.

        Parameters
        ----------
        row : int
            Number of the row among all rows of the collection, from 0.

        Raises
        ------
        LookupError
            If no collection or more than one collection has used the variable with its history, or
            if the collection has no such row.
        """
        tables = self.variable.tables
        if len(tables) != 1:
            raise LookupError(
                f"{len(tables)} collections have used {self.name!r} with map(..., history=True): "
                "value_at needs exactly one."
            )
        (table,) = tables
        if not -len(table) <= row < len(table):
            raise LookupError(f"there is no row {row}: the collection has {len(table)} rows.")
        version = int(table[row])
        return None if version == NEVER else self.variable.value(version)

    def __repr__(self) -> str:
        return f"<Broadcast {self.name!r}, version {self.version}>"


def retain_all(variables: dict[int, Variable], values: Iterable[Value]) -> None:
    """Add references to the versions that a task needs, until `release_all`."""
    for value in values:
        for _, number, version in value.needs:
            variables[number].retain(version)


def release_all(variables: dict[int, Variable], values: Iterable[Value]) -> None:
    """Remove a task's references to the versions that `retain_all` added."""
    for value in values:
        for _, number, version in value.needs:
            variables[number].release(version)
