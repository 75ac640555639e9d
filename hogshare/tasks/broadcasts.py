"""Broadcast variables: their versions, and with which of them each row was last used.

Who writes: the caller's thread alone. A version is made by `broadcast`. The table of rows changes
when a result is accepted, and at no other moment: a task that is lost, dropped or done twice
changes nothing. A version is held by a user's handle, by tasks that need it, and by each row that
was last used with it. Who frees: whoever lets go of it last; then it leaves the shelf, and workers
are told to forget it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import numpy as np

from hogshare.tasks.handles import NEVER
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import VALUE, Key, Value


class Variable:
    """All versions of one broadcast variable.

    shelf : where its arrays are
    """

    def __init__(self, number: int, name: str, shelf: Shelf) -> None:
        self.number, self.name, self._shelf = number, name, shelf
        self.newest = NEVER
        self._holders: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._tables: dict[int, np.ndarray] = {}  # of each data set's rows
        self.nbytes = 0

    def add(self, array: np.ndarray) -> int:
        """Make a version, which the caller holds."""
        self.newest += 1
        self._shelf.put(self._key(self.newest), array)
        self._holders[self.newest] = 1
        self._bytes[self.newest] = array.nbytes
        self.nbytes += array.nbytes
        return self.newest

    def array(self, version: int) -> np.ndarray:
        """A version that somebody holds."""
        found: np.ndarray = self._shelf.things[self._key(version)]
        return found

    @property
    def alive(self) -> int:
        """How many versions somebody holds."""
        return len(self._holders)

    def hold(self, version: int, by: int = 1) -> None:
        """Add holders of a version."""
        self._holders[version] += by

    def let_go(self, version: int, by: int = 1) -> None:
        """Take away holders of a version, which goes with the last."""
        left = self._holders[version] - by
        self._holders[version] = left
        if left == 0:
            del self._holders[version]
            self.nbytes -= self._bytes.pop(version)
            self._shelf.drop(self._key(version))

    def table(self, data: int, n_rows: int) -> np.ndarray:
        """The version that each row of a data set was last used with; `NEVER`: none."""
        if data not in self._tables:
            self._tables[data] = np.full(n_rows, NEVER, np.int64)
        return self._tables[data]

    @property
    def tables(self) -> list[np.ndarray]:
        """The tables of all data sets whose rows have been used with their history."""
        return list(self._tables.values())

    def used(self, data: int, rows: np.ndarray, version: int) -> None:
        """Note that rows, each of them once, have been used with a version."""
        table = self._tables[data]
        before, counts = np.unique(table[rows], return_counts=True)
        table[rows] = version
        self.hold(version, len(rows))
        for old, count in zip(before.tolist(), counts.tolist(), strict=True):
            if old != NEVER:
                self.let_go(old, count)

    def _key(self, version: int) -> Key:
        return VALUE, self.number, version


class Broadcast:
    """One version of a broadcast variable; made by `AsyncContext.broadcast`.

    Source: Soori et al. 2019 (ASYNC), ``ASYNCbroadcast`` of Table I.

    Attributes
    ----------
    version : int
        Which version of its variable it is, from 0.
    """

    def __init__(self, variable: Variable, array: np.ndarray, context: int) -> None:
        self.variable, self.context = variable, context
        self.version = variable.add(array)
        self._array = array
        weakref.finalize(self, variable.let_go, self.version).atexit = False

    @property
    def name(self) -> str:
        """Of the variable."""
        return self.variable.name

    @property
    def value(self) -> np.ndarray:
        """The array as it was broadcast; read-only."""
        return self._array

    def value_at(self, row: int) -> np.ndarray | None:
        """The version that a row was last used with; None if it never was.

        Of the rows of the one collection that has used this variable with its history.

        Parameters
        ----------
        row : int
            Its number among all rows, from 0.

        Raises
        ------
        LookupError
            If no collection, or more than one, has been used so, or there is no such row.
        """
        tables = self.variable.tables
        if len(tables) != 1:
            raise LookupError(
                f"{len(tables)} collections have used {self.name!r} with map(..., history=True): "
                "value_at needs the rows of one."
            )
        (table,) = tables
        if not -len(table) <= row < len(table):
            raise LookupError(f"there is no row {row}: the collection has {len(table)}.")
        version = int(table[row])
        return None if version == NEVER else self.variable.array(version)

    def __repr__(self) -> str:
        return f"<Broadcast {self.name!r}, version {self.version}>"


def retain_all(variables: dict[int, Variable], values: Iterable[Value]) -> None:
    """Hold what a task needs, until `let_go_of_all`."""
    for value in values:
        for _, number, version in value.needs:
            variables[number].hold(version)


def let_go_of_all(variables: dict[int, Variable], values: Iterable[Value]) -> None:
    """Hold what a task needed no longer."""
    for value in values:
        for _, number, version in value.needs:
            variables[number].let_go(version)
