"""One worker on the calling thread. Ctrl-C is noticed between quanta, after some milliseconds.

A thread caches the memory of its last small run, because allocating fifty arrays takes a tenth of
such a run's time. No report refers to cached memory. The memory of a run that reports epochs is not
cached: such a run passes arrays to the caller, which may store them.
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
        self._memory: RunMemory | None = None

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        assigned: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Return private memory; the rows and the assigned arrays are used in place."""
        memory, _spare.memory = getattr(_spare, "memory", None), None
        if memory is not None and memory.fits(shapes, assigned):
            memory.clear()
        else:
            memory = RunMemory(shapes, assigned)
        self._memory = memory
        return {**memory.arrays(assigned), **rows}

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run the session's only worker to the end of the run."""
        if on_epoch is not None or checks is not None:
            self._memory = None  # its arrays reach the caller: never reuse them
        with EpochHook(session, on_epoch, checks) as hook:
            drive(loop_of(session, 0), hook.poll)
            hook.poll()
        return Outcome([])

    def close(self) -> None:
        """Cache the memory for the next run, if it is small."""
        if self._memory is not None and self._memory.is_small:
            _spare.memory = self._memory
