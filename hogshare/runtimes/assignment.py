"""The memory of a run that other processes are assigned, and what is the user's, packed for them.

Who writes: the caller allocates and fills, before anybody is handed anything; from then on all
write as `hogshare.engine.workspace` says. Who frees: the caller closes its handles at the end of
the run; who is handed the memory drops its mappings with the session; it has no name, so nothing
stays.
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
    """What a run's caller hands to processes that run workers of it."""

    def __init__(self) -> None:
        self.arena: Arena | None = None
        self.shared: dict[str, tuple[Arena, int, str, int]] = {}
        self.parcels: dict[str, Parcel] = {}  # what is the user's

    def allocate(self, shapes: Shapes, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """One arena for everything that is not in shared memory already.

        Rows made by `hogshare.share` are used where they are; others are copied.
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
        """Pack what is the user's; its large arrays are copied once, for all processes."""
        users = {what: getattr(session, what) for what in ("barrier", "stragglers", "plane")}
        self.parcels = {what: Parcel(packed(what, thing)) for what, thing in users.items()}
        self.parcels["outside"] = Parcel.of("gradient", session.outside)

    def handed(self, session: Session) -> tuple[list[int], dict[str, Any]]:
        """Descriptors of the memory, and what `session_of` needs besides: plain data."""
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
    """The session of a run, in a process that is assigned it.

    fds : descriptors; the caller still closes them
    handed : as `Assignment.handed` answered
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
