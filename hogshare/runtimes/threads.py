"""Workers as threads of this process, on the caller's own arrays: kernels release the GIL.

The calling thread only waits (so that Ctrl-C is noticed at once, whatever the kernels do) and
reports epochs. Who frees: nobody needs to; the arrays are ordinary.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from hogshare.engine.checks import Checks
from hogshare.engine.loop import worker_loop
from hogshare.engine.session import Session, Shapes, private_memory
from hogshare.kernels import layout
from hogshare.runtimes.driver import drive
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.placement import SETTLED_SECONDS, Placement

POLL_SECONDS = 0.05


class Crowd:
    """Threads that run workers of one session, and an event that tells of their news."""

    def __init__(self, session: Session, workers: range) -> None:
        self.session = session
        self.news = threading.Event()
        self.errors: list[BaseException] = []
        self._placement = Placement(len(workers))
        self._running = len(workers)
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(k,), name=f"hogshare-{k}", daemon=True)
            for k in workers
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def _work(self, me: int) -> None:
        try:
            self._placement.bind(me)
            drive(worker_loop(self.session.worker(me)), self.news.set)
        except BaseException as error:
            self.errors.append(error)
            self.session.stop()
        finally:
            with self._lock:
                self._running -= 1
            self.news.set()

    @property
    def running(self) -> bool:
        """Whether any thread still works."""
        return self._running > 0

    def wait(self, seconds: float) -> None:
        """Wait for news, or that long."""
        self.news.wait(seconds)
        self.news.clear()

    def settle(self) -> None:
        """Give the threads the time to find a core each; they are free afterwards."""
        self.wait(SETTLED_SECONDS)
        self._placement.free()

    def finish(self) -> None:
        """Join the threads and raise what one of them raised."""
        for thread in self._threads:
            thread.join()
        self._placement.free()
        if self.errors:
            raise self.errors[0]


class Threads:
    """The runtime of threads."""

    name = "threads"

    def allocate(self, shapes: Shapes, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Private memory; the rows as they are."""
        return {**private_memory(shapes), **rows}

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: Checks | None = None
    ) -> list[str]:
        """Run to the end; returns notes for the report."""
        hook = EpochHook(session, on_epoch, checks)
        crowd = Crowd(session, range(session.settings.n_workers))
        crowd.start()
        try:
            crowd.settle()
            while crowd.running:
                hook.poll()
                crowd.wait(POLL_SECONDS)
        except BaseException:
            session.stop(layout.STOPPED_BY_CALLER)
            raise
        finally:
            crowd.finish()
        hook.poll()
        return []

    def close(self) -> None:
        """Nothing to free."""
