"""One worker on the calling thread. Ctrl-C is noticed between turns, a few milliseconds apart.

A thread keeps the memory of its last small run: to make fifty arrays takes a tenth of such a run.
Nothing of it is in a report; a run whose caller is told of epochs, and may keep what he is told
with, has memory of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from hogshare.engine.arrays import NOTHING, RunMemory, Shapes
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.loop import loop_of
from hogshare.engine.session import Session
from hogshare.runtimes.driver import drive
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.protocol import Outcome, Runtime

_spare = threading.local()


class Caller(Runtime):
    """The runtime of one worker: no thread, no process, the caller's own arrays."""

    name = "caller"
    is_inside = True

    def __init__(self) -> None:
        self._room: RunMemory | None = None

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Private memory; the rows, and what is handed over, as they are."""
        room, _spare.room = getattr(_spare, "room", None), None
        if room is not None and room.fits(shapes, assigned):
            room.clear()
        else:
            room = RunMemory(shapes, assigned)
        self._room = room
        return {**room.arrays(assigned), **rows}

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run to the end."""
        if on_epoch is not None or checks is not None:
            self._room = None
        with EpochHook(session, on_epoch, checks) as hook:
            drive(loop_of(session, 0), hook.poll)
            hook.poll()
        return Outcome([])

    def close(self) -> None:
        """Keep the memory for the next run, if it is little."""
        if self._room is not None and self._room.is_small:
            _spare.room = self._room
