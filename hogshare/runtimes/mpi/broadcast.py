"""What workers of a rank tell all other ranks: messages of any length, each from one worker.

Workers post from their own threads, and the thread that talks to the others moves what they have
posted. A rank is never more than a round of its workers ahead of any other, so that no more than
two messages of a worker are under way, and nobody has to count them.

Who writes: a worker's thread appends to what is to go, and takes out what has come for a worker
that it drives; all else the rank's thread that talks to the others. A buffer that is under way is
kept until MPI says that it has gone. Who frees: `close`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hogshare.links.link import Line
from hogshare.links.network import Network
from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.door import leave_behind, library

KIND = "block"  # of the messages, in what is counted
HEAD_BYTES = 16  # the worker, and seconds for which a link still has the message


class Arriving(NamedTuple):
    """A message that MPI brings, or that a link still has.

    request : MPI's, until it is done
    """

    request: Any
    content: np.ndarray


class Broadcast:
    """The messages of one rank to all others, and theirs to it.

    comm : for nothing else
    ring : called when a worker has posted something
    network : links between the ranks besides the real ones; None: there are none
    workers : of the other ranks
    """

    def __init__(
        self,
        comm: Any,
        ring: Callable[[], None],
        traffic: EdgeTraffic,
        network: Network | None,
        workers: Sequence[int],
    ) -> None:
        self._comm, self.ring, self._traffic = comm, ring, traffic
        self.me, size = comm.Get_rank(), comm.Get_size()
        others = [rank for rank in range(size) if rank != self.me]
        links = network or Network()
        self._lines = {to: Line(links.between(self.me, to)) for to in others}
        self._library = library()
        self._status = self._library.Status()
        self._posted: deque[np.ndarray] = deque()
        self._going: list[tuple[Any, np.ndarray]] = []
        self._coming: dict[int, deque[Arriving]] = {source: deque() for source in others}
        self._late: dict[int, deque[tuple[float, np.ndarray]]] = {k: deque() for k in others}
        self._come: dict[int, deque[np.ndarray]] = {worker: deque() for worker in workers}

    def post(self, worker: int, parts: Sequence[np.ndarray]) -> None:
        """Send arrays end to end, from any thread; returns at once."""
        head = np.array([worker, 0], np.int64)
        pieces = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in (head, *parts)]
        self._posted.append(np.concatenate(pieces))
        self.ring()

    def take(self, worker: int) -> np.ndarray | None:
        """The oldest message of another rank's worker that has not been taken; None: none is here.

        From the thread that drives the worker.
        """
        come = self._come[worker]
        return come.popleft() if come else None

    def poll(self) -> bool:
        """Move what can be moved; whether anything has been."""
        moved = bool(self._posted)
        while self._posted:
            self._send(self._posted.popleft())
        self._going = [one for one in self._going if not one[0].Test()]
        return self._receive() | self._deliver() | moved

    def _send(self, message: np.ndarray) -> None:
        for to, line in self._lines.items():
            content = message
            if (seconds := line.send(len(message))) > 0.0:
                content = message.copy()
                content[8:HEAD_BYTES].view(np.float64)[0] = seconds
            request = self._comm.Isend([content, self._library.BYTE], dest=to)
            self._going.append((request, content))
            self._traffic.add_to(KIND, self.me, to, len(content))

    def _receive(self) -> bool:
        moved, anybody = False, self._library.ANY_SOURCE
        status, any_tag = self._status, self._library.ANY_TAG
        while (message := self._comm.Improbe(anybody, any_tag, status)) is not None:
            content = np.empty(status.Get_count(self._library.BYTE), np.uint8)
            request = message.Irecv([content, self._library.BYTE])
            self._coming[status.Get_source()].append(Arriving(request, content))
            moved = True
        return moved

    def _deliver(self) -> bool:
        """Hand out what is here, of each rank in the order in which it was sent."""
        moved = False
        for source, queue in self._coming.items():
            late = self._late[source]
            while queue and queue[0].request.Test():
                content = queue.popleft().content
                seconds = float(content[8:HEAD_BYTES].view(np.float64)[0])
                late.append((time.monotonic() + seconds if seconds else 0.0, content))
            while late and late[0][0] <= time.monotonic():
                content = late.popleft()[1]
                self._come[int(content[:8].view(np.int64)[0])].append(content[HEAD_BYTES:])
                moved = True
        return moved

    @property
    def is_quiet(self) -> bool:
        """Whether all that was posted has gone."""
        return not self._posted and all(request.Test() for request, _ in self._going)

    def close(self) -> None:
        """Expect nothing more."""
        leave_behind(*(request for request, _ in self._going))
        leave_behind(*(one.request for queue in self._coming.values() for one in queue))
