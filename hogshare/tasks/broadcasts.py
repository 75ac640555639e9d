"""A broadcast variable as its user has it: one version of it, and the versions of rows.

Who writes: nobody. Who frees: when the user has it no longer its version lives on for as long as
tasks or rows need it (`hogshare.tasks.versions`).
"""

from __future__ import annotations

import weakref

import numpy as np

from hogshare.tasks.handles import NEVER
from hogshare.tasks.versions import Variable


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
