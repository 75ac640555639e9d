"""The memory of a run for other processes, and the user's objects, packed for them.

Writers: the caller allocates and fills the memory before it sends the descriptors to other
processes. From then on all processes write as `hogshare.engine.workspace` describes. Freeing: the
caller closes its handles at the end of the run; other processes drop their mappings with the
session. The memory has no name, so no file is left behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hogshare.engine.arrays import Shapes
from hogshare.engine.session import Session
from hogshare.engine.workspace import ROW_ARRAYS
from hogshare.runtimes.user_objects import Parcel, packed
from hogshare.shm import shared_rows
from hogshare.shm.arena import Arena


class Assignment:
    """The memory and objects that a run's caller passes to processes that run its workers."""

    def __init__(self) -> None:
        self.arena: Arena | None = None
        self.shared: dict[str, tuple[Arena, int, str, int]] = {}
        self.parcels: dict[str, Parcel] = {}  # the user's objects

    def allocate(self, shapes: Shapes, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Allocate one arena for all arrays that are not in shared memory yet; return all arrays.

        shapes : shape and dtype of each array to allocate, by name
        rows : read-only arrays by name. An array made by `hogshare.share` is used in place; another
            array is copied into the arena.

        The returned arrays are views of shared memory. Writes `self.arena` and `self.shared`.
        """
        shapes, copied = dict(shapes), {}
        for name, array in rows.items():
            found = shared_rows.find(array) if array.size else None
            if found is None:
                shapes[name] = (array.shape, array.dtype.name)
                copied[name] = array
            else:
                self.shared[name] = (found[0], found[1], array.dtype.name, array.size)
        self.arena = Arena.create(shapes)
        arrays = {name: self.arena[name] for name in shapes}
        for name, array in copied.items():
            self.arena.fill(name, array)
        arrays.update({name: rows[name] for name in self.shared})
        return arrays

    def close(self) -> None:
        """Drop this process's handles."""
        if self.arena is not None:
            self.arena.close()
            self.arena = None
        for parcel in self.parcels.values():
            if parcel.arena is not None:
                parcel.arena.close()
        self.shared, self.parcels = {}, {}

    def pack(self, session: Session) -> None:
        """Pack the user's objects into `self.parcels`; copy large arrays once for all processes."""
        users = {what: getattr(session, what) for what in ("barrier", "stragglers", "plane")}
        self.parcels = {what: Parcel(packed(what, thing)) for what, thing in users.items()}
        self.parcels["outside"] = Parcel.of("gradient", session.outside)

    def handed(self, session: Session) -> tuple[list[int], dict[str, Any]]:
        """Return the memory's descriptors, and the plain data for `session_of`."""
        assert self.arena is not None
        fds, shared, seen = [self.arena.fileno()], {}, {}
        for name, (arena, offset, kind, size) in self.shared.items():
            if id(arena) not in seen:
                seen[id(arena)] = len(fds)
                fds.append(arena.fileno())
            shared[name] = (seen[id(arena)], arena.describe(), offset, kind, size)
        parcels_from = len(fds)
        arenas = (parcel.arena for parcel in self.parcels.values())
        return [*fds, *(arena.fileno() for arena in arenas if arena is not None)], {
            "arena": self.arena.describe(),
            "shared": shared,
            "settings": session.settings,
            "parcels": self.parcels,
            "parcels_from": parcels_from,
        }


def session_of(fds: Sequence[int], handed: Mapping[str, Any]) -> Session:
    """Return the session of a run, in a process to which the run is assigned.

    The session's arrays are views of the caller's shared memory.

    fds : descriptors of the run's memory, in the order of `Assignment.handed`; the caller of this
        function must still close them
    handed : plain data, as returned by `Assignment.handed`
    """
    own = Arena.attach(fds[0], handed["arena"])
    arrays: dict[str, np.ndarray] = {name: own[name] for name in own.names}
    others: dict[int, Arena] = {}
    for name, (number, description, offset, kind, size) in handed["shared"].items():
        if number not in others:
            others[number] = Arena.attach(fds[number], description)
        arrays[name] = others[number].view(offset, kind, size)
    assert set(ROW_ARRAYS) <= set(arrays)
    left = iter(fds[handed["parcels_from"] :])
    users: dict[str, Any] = {name: one.opened(left) for name, one in handed["parcels"].items()}
    return Session(arrays, handed["settings"], **users)
