"""One worker on the calling thread. Ctrl-C is noticed between turns, a few milliseconds apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hogshare.engine.arrays import NOTHING, Shapes, private_memory
from hogshare.engine.checks import AtRest
from hogshare.engine.loop import worker_loop
from hogshare.engine.session import Session
from hogshare.runtimes.driver import drive
from hogshare.runtimes.hooks import EpochHook, OnEpoch


class Caller:
    """The runtime of one worker: no thread, no process, the caller's own arrays."""

    name = "caller"
    is_private = True  # what it allocates stays as long as anybody has it

    def allocate(
        self,
        shapes: Shapes,
        rows: Mapping[str, np.ndarray],
        lent: Mapping[str, np.ndarray] = NOTHING,
    ) -> dict[str, np.ndarray]:
        """Private memory; the rows, and what is lent, as they are."""
        return {**private_memory(shapes, lent), **rows}

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtRest | None = None
    ) -> list[str]:
        """Run to the end; returns notes for the report."""
        worker = session.worker(0)
        with EpochHook(session, on_epoch, checks) as hook:
            drive(worker_loop(worker), lambda: hook.poll(worker.model))
            hook.poll()
        return []

    def close(self) -> None:
        """Nothing to free."""
