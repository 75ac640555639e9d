"""What all machines report to each other, each its part to every other.

Before and after a run by MPI's collective calls (`Pool`), of which those that wait do so on a core;
so calls that do not wait are begun, and looked after now and then, asleep in between. Meanwhile a
rank hears whether another has failed, and then waits no longer.

In a run (`Assembly`) point to point, and not by MPI's collective calls: one that a broken-off run
leaves behind cannot be taken back, and MPI would go on writing to its buffer. Nobody is more than a
step ahead, and MPI keeps the order of messages between two ranks, so that they need no numbers.

Who writes and reads: the thread of a rank that talks to the others. Who frees: `close`, which takes
back the receives. Of sends that nobody will receive the buffers are kept, since MPI may read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.door import leave_behind, take_back

NAP_SECONDS = 0.0005


class Assembly:
    """A machine's seat.

    comm : for nothing else
    wait : ``wait(ready)`` returns when ``ready()`` is true; raises if another rank has failed
    """

    def __init__(
        self, comm: Any, wait: Callable[[Callable[[], bool]], None], traffic: EdgeTraffic
    ) -> None:
        self._comm, self.wait, self._traffic = comm, wait, traffic
        self.me, self.size = comm.Get_rank(), comm.Get_size()
        self._coming: list[Any] = []
        self._going: list[Any] = []

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """All machines' arrays, in their order, on each: float64, of one shape on all."""
        own = np.ascontiguousarray(numbers, np.float64)
        parts = self.gathered_bytes(own.view(np.uint8).reshape(-1), [own.nbytes] * self.size)
        return np.stack([part.view(np.float64).reshape(own.shape) for part in parts])

    def gathered_bytes(self, own: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
        """All machines' bytes, in their order, on each.

        own : uint8
        counts : how many each machine has
        """
        found = [own if k == self.me else np.empty(n, np.uint8) for k, n in enumerate(counts)]
        others = [k for k in range(self.size) if k != self.me]
        self._coming = [self._comm.Irecv(found[k], source=k) for k in others]
        self._going = [self._comm.Isend(own, dest=k) for k in others]
        for k in others:
            self._traffic.add_to("meeting", self.me, k, len(own))
        requests = (*self._coming, *self._going)
        self.wait(lambda: all(request.Test() for request in requests))
        return found

    def close(self) -> None:
        """Take back what a run that was broken off waits for; else there is nothing."""
        for request in self._coming:
            take_back(request)
        leave_behind(*self._going)


class Pool:
    """The ranks of a communicator, one for each machine, as one of them has them.

    look : called while this rank waits; raises if another one has failed
    """

    def __init__(self, comm: Any, look: Callable[[], Any]) -> None:
        self.comm, self.look = comm, look
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
            self.look()
            time.sleep(NAP_SECONDS)
