"""What all machines tell each other when they meet: each its part to every other.

Point to point, and not by MPI's collective calls: one that a broken-off run leaves behind cannot
be taken back, and MPI would go on writing to its buffer. Nobody is more than a step ahead, and
MPI keeps the order of messages between two ranks, so that they need no numbers.

Who writes and reads: the thread of a rank that talks to the others. Who frees: `close`, which takes
back the receives. Of sends that nobody will receive the buffers are kept, since MPI may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.wire import EdgeTraffic, leave_behind, take_back


class Assembly:
    """A machine's seat.

    comm : for nothing else
    wait : ``wait(ready)`` returns when ``ready()`` is true; raises if another rank has failed
    """

    def __init__(
        self, comm: Any, wait: Callable[[Callable[[], bool]], None], traffic: EdgeTraffic
    ) -> None:
        self._comm, self._wait, self._traffic = comm, wait, traffic
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
        self._wait(lambda: all(request.Test() for request in requests))
        return found

    def close(self) -> None:
        """Take back what a run that was broken off waits for; else there is nothing."""
        for request in self._coming:
            take_back(request)
        leave_behind(*self._going)
