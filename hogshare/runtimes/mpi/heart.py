"""Heartbeats of a call: a rank whose process is halted is known, whatever it was doing.

The ranks stand in a ring: each sends a word to the next one every second of a call, from a thread
of its own, and counts its own seconds since the last word of the one before. So a rank may
compute, compile or be in a callback for as long as it takes; and one that was halted itself counts
nothing of that time.

Who writes: the thread of the call, on a communicator that nobody else uses; `silent` it alone. Who
reads: the thread that calls. MPI has to allow several threads; else there are no such heartbeats.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.door import is_death, leave_behind, library

EVERY_SECONDS = 1.0
SILENT_SECONDS = 15.0  # with what a launcher takes to end a halted process less than 30


@contextlib.contextmanager
def unless_dead() -> Iterator[None]:
    """Leave out what a rank that has died would have a part in."""
    try:
        yield
    except Exception as error:
        if not is_death(error):
            raise


class Heart:
    """A rank's heartbeats.

    comm : of the ranks of the call, for nothing else
    before : the rank that is listened for
    silent : seconds of this rank in which nothing came from there
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self._next, self.before = (rank + 1) % size, (rank - 1) % size
        self.silent = 0.0
        self._stop: threading.Event | None = None
        self._may = library().Query_thread() == library().THREAD_MULTIPLE

    def start(self) -> None:
        """Beat from now on: all ranks are in the call."""
        if not self._may or self._stop is not None:
            return
        self.silent, self._stop = 0.0, threading.Event()
        threading.Thread(target=self._beat, args=(self._stop,), daemon=True).start()

    def stop(self) -> None:
        """Beat no more: the call is over."""
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
                    comm.Recv(come, source=self.before)  # it has come: nobody waits within MPI
                    self.silent = 0.0
            stop.wait(EVERY_SECONDS)
        leave_behind(going)
