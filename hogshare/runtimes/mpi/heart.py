"""Heartbeats of a call: they detect a rank whose process is halted, whatever its task.

The ranks form a ring: each sends a word to the next one every second of a call, from a thread of
its own, and counts its own seconds since the last word of the one before. A rank may thus compute,
compile or be in a callback for any time, and a rank that was halted itself counts none of that
time.

Writer: the call's own thread, on a separate communicator; only it writes `silent`. Reader: the
calling thread. MPI must allow several threads; otherwise a call has no such heartbeats.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.door import is_death, leave_behind, library

EVERY_SECONDS = 1.0
SILENT_SECONDS = 15.0  # below 30 with a launcher's time to end a halted process


@contextlib.contextmanager
def unless_dead() -> Iterator[None]:
    """Ignore errors by a dead rank."""
    try:
        yield
    except Exception as error:
        if not is_death(error):
            raise


class Heart:
    """A rank's heartbeats.

    comm : a communicator of the call's ranks, for heartbeats alone
    before : the rank whose heartbeats this one checks
    silent : this rank's seconds without a word of that rank
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self._next, self.before = (rank + 1) % size, (rank - 1) % size
        self.silent = 0.0
        self._stop: threading.Event | None = None
        self._may = library().Query_thread() == library().THREAD_MULTIPLE

    def start(self) -> None:
        """Start to beat, once all ranks are in the call."""
        if not self._may or self._stop is not None:
            return
        self.silent, self._stop = 0.0, threading.Event()
        threading.Thread(target=self._beat, args=(self._stop,), daemon=True).start()

    def stop(self) -> None:
        """Stop beating, at the end of the call."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    @property
    def misses(self) -> bool:
        """Whether the rank before has been silent for too long."""
        return self._stop is not None and self.silent > SILENT_SECONDS

    def _beat(self, stop: threading.Event) -> None:
        comm, going = self._comm, None
        sent, come = np.zeros(1, np.int64), np.zeros(1, np.int64)
        while not stop.is_set():
            with unless_dead():
                if going is None or going.Test():
                    going = comm.Isend(sent, dest=self._next)
            self.silent += EVERY_SECONDS
            with unless_dead():
                while comm.Iprobe(source=self.before):
                    comm.Recv(come, source=self.before)  # it has come: no wait within MPI
                    self.silent = 0.0
            stop.wait(EVERY_SECONDS)
        leave_behind(going)
