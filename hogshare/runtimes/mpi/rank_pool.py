"""The exchange between all ranks of a communicator before and after a run.

The exchange uses MPI's nonblocking collective calls, because blocking calls take a core while they
wait. A rank polls such a call, sleeps between polls, and stops waiting if another rank has failed.
During a run, ranks use a `Channel` instead: if an aborted run left a collective call behind, this
call could not be cancelled.

Writer and reader: each rank's thread that communicates with the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.channel import NAP_SECONDS, Living, Wait


class RankPool:
    """The ranks of a communicator, one for each machine.

    watch : called while this rank waits; raises an error if another rank has failed
    living : the exchange of ranks that continue without dead ranks; None if they do not continue
    lost : dead ranks that all survivors know to be dead; the same on all survivors
    rows : each rank's number of rows
    training : each rank's number of rows to train on
    """

    living: Living | None = None
    lost: Sequence[int] = ()
    rows = training = np.zeros(0)

    def __init__(self, comm: Any, watch: Callable[[], Any]) -> None:
        self.comm, self.watch = comm, watch
        self.me, self.size = comm.Get_rank(), comm.Get_size()

    def copy_of_comm(self, agree: Callable[[], Any] | None = None) -> Any:
        """Return a communicator of the same ranks, with messages of its own (collective).

        No rank begins the copy before all ranks have called this. If only some ranks began a copy,
        MPI would pair their copy with the other ranks' next copy, even in another call.

        agree : callable, default=None
            Returns once all ranks have called it, or raises an error. If None, the communicator
            itself is used for this agreement, and must belong to this call alone.
        """
        if agree is None:
            self.gathered(np.zeros(1))
        else:
            agree()
        copy, request = self.comm.Idup()
        self._wait(request)
        return copy

    def added(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sum of all ranks' arrays, with the same bits on each; all ranks must call it.

        numbers : float64 array, of the same shape on all ranks
        """
        parts = self.gathered(numbers)
        return np.asarray(parts.sum(axis=0))

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """Return all ranks' arrays, in the order of ranks; all ranks must call it."""
        own = np.ascontiguousarray(numbers, np.float64)
        found = np.empty((self.size, *own.shape))
        self._wait(self.comm.Iallgather(own, found))
        return found

    def of_first(self, make: Callable[[], np.ndarray], wait: Wait | None = None) -> np.ndarray:
        """Return the first rank's two numbers on each rank; all ranks must call it."""
        return np.asarray(self.gathered(make() if self.me == 0 else np.zeros(2))[0])

    def spread(self, content: bytes) -> bytes:
        """Return the first rank's content on each rank; all ranks must call it."""
        size = int(self.gathered(np.array([len(content)]))[0, 0])
        buffer = np.zeros(size, np.uint8)
        if self.me == 0:
            buffer[:] = np.frombuffer(content, np.uint8)
        self._wait(self.comm.Ibcast(buffer, root=0))
        return buffer.tobytes()

    def _wait(self, request: Any) -> None:
        while not request.Test():
            self.watch()
            time.sleep(NAP_SECONDS)


def give_back(comm: Any, is_over: bool) -> None:
    """Free a run's communicator, unless the run was aborted.

    MPI may reuse the number of a freed communicator. Another run would then receive the messages
    that an aborted run has left unreceived.
    """
    if is_over:
        comm.Free()
    else:
        _never_freed.append(comm)


_never_freed: list[Any] = []
