"""What all ranks of a communicator report to each other before and after a run.

By MPI's collective calls, of which those that wait do so on a core; so calls that do not wait are
begun, and looked after now and then, asleep in between. Meanwhile a rank hears whether another has
failed, and then waits no longer. In a run there is a `Channel` instead: a collective call that a
broken-off run leaves behind cannot be taken back.

Who writes and reads: the thread of a rank that talks to the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.channel import NAP_SECONDS, Living, Wait


class RankPool:
    """The ranks of a communicator, one for each machine, as one of them has them.

    watch : called while this rank waits; raises if another one has failed
    living : what brings ranks together that go on without those that die; None: they do not
    lost : ranks that have died, of whom all know; the same on all
    rows, training : of each rank, all and those to train on
    """

    living: Living | None = None
    lost: Sequence[int] = ()
    rows = training = np.zeros(0)

    def __init__(self, comm: Any, watch: Callable[[], Any]) -> None:
        self.comm, self.watch = comm, watch
        self.me, self.size = comm.Get_rank(), comm.Get_size()

    def copy_of_comm(self, agree: Callable[[], Any] | None = None) -> Any:
        """A communicator of the same ranks, whose messages meet none of the others'.

        All ranks have come here before one begins: a copy that only some have begun would be
        paired with the others' next one, in another call too.

        agree : callable, default=None
            Returns once all ranks have called it, or raises; None: by the communicator itself,
            which has to be of this call alone.
        """
        if agree is None:
            self.gathered(np.zeros(1))
        else:
            agree()
        copy, request = self.comm.Idup()
        self._wait(request)
        return copy

    def added(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of all ranks' arrays, on each; the same bits everywhere.

        numbers : float64, of one shape on all
        """
        parts = self.gathered(numbers)
        return np.asarray(parts.sum(axis=0))

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """All ranks' arrays, in their order, on each."""
        own = np.ascontiguousarray(numbers, np.float64)
        found = np.empty((self.size, *own.shape))
        self._wait(self.comm.Iallgather(own, found))
        return found

    def of_first(self, make: Callable[[], np.ndarray], wait: Wait | None = None) -> np.ndarray:
        """The two numbers that the first rank makes, on each."""
        return np.asarray(self.gathered(make() if self.me == 0 else np.zeros(2))[0])

    def spread(self, content: bytes) -> bytes:
        """What the first rank has, on each."""
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
    """Free a run's communicator, unless the run was broken off.

    MPI may give the number of one that is free to the next one. Messages that nobody has received,
    of a run that was broken off, would then be received in another run.
    """
    if is_over:
        comm.Free()
    else:
        _never_freed.append(comm)


_never_freed: list[Any] = []
