"""Heartbeats of a call: they detect a rank whose process is halted, whatever its task.

The ranks form a ring. Every second during a call, each rank sends a heartbeat to the next rank,
from a thread of its own, and counts the seconds since the last heartbeat of the previous rank. So
a rank may compute, compile or be in a callback for any time. If the counting rank itself is
halted, it does not count the time of its halt.

Writer: the heartbeat thread, on a separate communicator; only it writes `silent`. Reader: the
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
SILENT_SECONDS = 15.0  # below 30, including a launcher's time to end a halted process


@contextlib.contextmanager
def unless_dead() -> Iterator[None]:
    """Ignore errors that a dead rank causes, within a with block."""
    try:
        yield
    except Exception as error:
        if not is_death(error):
            raise


class Heart:
    """A rank's heartbeats.

    comm : a communicator of the call's ranks, only for heartbeats
    before : the rank whose heartbeats this rank checks
    silent : seconds since that rank's last heartbeat, counted by this rank
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
        """Whether the previous rank of the ring has been silent for too long."""
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
                    comm.Recv(come, source=self.before)  # the message has come: no wait within MPI
                    self.silent = 0.0
            stop.wait(EVERY_SECONDS)
        leave_behind(going)
