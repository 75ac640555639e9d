"""What sites whose workers have homes know of each other's workers while they work.

    a message: meetings so far | generations of the throttled barrier | words of each worker here |
    POSTED of each edge from here to other sites | rows of the plane's arrays that others read at
    any moment

Each site sends its own to every other when something in it has changed: at once if a worker has
left the run or come back, or somebody may be waiting at a barrier, else so many seconds after the
one before. The last one counts.

    worker: post, then the clock or a rest     this thread: read states and clocks, then POSTED
    message: POSTED, then states and clocks    the other's: write POSTED, wait for the mail, then
                                               write clocks and states

What is told of a worker travels behind what it has done: a message is taken in when the mail that
it counts has arrived here. So who passes a barrier on account of a clock finds the mail of the
blocks that it counts, and who sees that a sender has left the run knows how many messages it had
posted.

A message that was sent before a meeting may come after it, when those that it calls resting work
again: it has fewer meetings than its reader, and is left out.

Who writes: the thread of a rank that talks to the others, the rows of other sites' workers in the
table, POSTED of the edges that come from there, GENERATION, and rows of the plane's arrays that
belong to those workers. Who reads: the workers here. Who frees: `close`, which takes back the
receives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.kernels import layout
from hogshare.runtimes.mpi.assembly import Assembly
from hogshare.runtimes.mpi.boards import BoardsWire
from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.clocks import STATE, WORDS, Clocks
from hogshare.runtimes.mpi.door import leave_behind, take_back
from hogshare.runtimes.mpi.wire import Wire

PACE_SECONDS = 0.01


# an array of a plane, and the rows of it that each machine's workers write
Owned = tuple[np.ndarray, list[np.ndarray]]


class Other:
    """Another machine.

    size_in, size_out : numbers of a message from there, and of one to it
    """

    def __init__(self, comm: Any, rank: int, size_in: int, size_out: int) -> None:
        self.comm, self.rank = comm, rank
        self.come, self.sent = np.zeros(size_in), np.full(size_out, np.nan)
        self.coming = comm.Irecv(self.come, source=rank)
        self.going: Any = None
        self.meetings = 0  # as of the last message from there
        self.n_sent = self.n_come = 0
        self.due = 0.0  # when the next one may be sent

    def may_send(self) -> bool:
        """Whether the message before has gone."""
        return self.going is None or bool(self.going.Test())

    def send(self, message: np.ndarray, now: float) -> None:
        """Send one."""
        self.sent[:] = message
        self.going = self.comm.Isend(self.sent, dest=self.rank)
        self.n_sent += 1
        self.due = now + PACE_SECONDS

    def close(self) -> None:
        """Expect nothing more."""
        leave_behind(self.going)
        take_back(self.coming)


class Progress:
    """A site's news for the others, and theirs.

    comm : for nothing else
    seen : the plane's arrays that others read at any moment
    wire : what brings the mail
    """

    def __init__(
        self,
        comm: Any,
        homes: Homes,
        clocks: Clocks,
        seen: Sequence[Owned],
        wire: Wire,
        traffic: EdgeTraffic,
    ) -> None:
        self.me, self.clocks, self.traffic = comm.Get_rank(), clocks, traffic
        self.boards = wire if isinstance(wire, BoardsWire) else None
        self.box, self._seen = homes.session.mail.box, seen
        self.meetings, self.is_over = 0, False
        # whether somebody may wait for what a message tells
        self._is_waited_for = clocks.are_waited_for or (self.boards is not None and bool(seen))
        senders, readers = np.array(list(homes.edges), np.int64).reshape(-1, 2).T
        site_of, sites = clocks.world.site_of, range(comm.Get_size())
        from_, to = site_of[senders], site_of[readers]
        self._edges = [np.flatnonzero((from_ == k) & (to != k)) for k in sites]
        self._are_to_here = [to[edges] == self.me for edges in self._edges]
        sizes = [self._size_of(k) for k in sites]
        self.others = [Other(comm, k, sizes[k], sizes[self.me]) for k in sites if k != self.me]

    def poll(self) -> bool:
        """Take in what has come, and tell what there is to tell; whether anything has come."""
        moved = False
        for other in self.others:
            while other.coming.Test() and self._take_in(other):
                other.coming = other.comm.Irecv(other.come, source=other.rank)
                other.n_come += 1
                moved = True
        if self.is_over or self._is_behind():
            return moved
        now, message = time.monotonic(), self._message()
        for other in self.others:
            is_due = now >= other.due or self._is_urgent(message, other.sent)
            if is_due and not np.array_equal(message, other.sent) and other.may_send():
                other.send(message, now)
                self.traffic.add_to("progress", self.me, other.rank, message.nbytes)
        return moved

    def meet(self, are_over: np.ndarray) -> None:
        """All sites have met, with all that they have done, and go on but for some.

        are_over : bools by site
        """
        self.meetings += 1
        for other in self.others:
            if other.meetings < self.meetings:
                state = layout.DONE if are_over[other.rank] else layout.RESTING
                self.clocks.rows_of(other.rank)[:, layout.T_STATE] = state

    def finish(self, assembly: Assembly) -> None:
        """Send nothing more, and take in all that was sent: MPI would bring it in a later run."""
        self.is_over, sent = True, np.zeros(assembly.size)
        for other in self.others:
            sent[other.rank] = other.n_sent
        to_here = assembly.gathered(sent)[:, self.me]
        assembly.wait(lambda: all(one.n_come == to_here[one.rank] for one in self.others))

    def close(self) -> None:
        """Expect nothing more; the other ranks send nothing more."""
        for other in self.others:
            other.close()

    def _size_of(self, site: int) -> int:
        rows = sum(array[rows[site]].size for array, rows in self._seen)
        return 1 + self.clocks.size_of(site) + len(self._edges[site]) + rows

    def _message(self) -> np.ndarray:
        words = self.clocks.words()  # the first: what belongs to them was written before
        edges = self._edges[self.me]
        posted = self.box.counters[edges, layout.M_POSTED]
        if self.boards is not None:
            posted = np.array([self.boards.sent(int(edge)) for edge in edges], np.int64)
        rows = [array[rows[self.me]].reshape(-1) for array, rows in self._seen]
        return np.concatenate([[self.meetings], words, posted, *rows]).astype(float)

    def _is_behind(self) -> bool:
        """Whether boards that somebody may wait for are still to be sent: they go before."""
        boards = self.boards
        return self._is_waited_for and boards is not None and not boards.has_sent_all

    def _is_urgent(self, message: np.ndarray, before: np.ndarray) -> bool:
        """Whether somebody has left the run, or come back, or may be waiting at a barrier."""
        if self._is_waited_for or message[0] != before[0]:
            return True
        states = slice(1 + 1 + STATE, 1 + self.clocks.size_of(self.me), len(WORDS))
        now, then = (one[states] >= layout.DONE for one in (message, before))
        return not np.array_equal(now, then)

    def _take_in(self, other: Other) -> bool:
        """Write down what another site has told; False: the mail that it counts is still to come.

        Its slots are free, or it would not be posted: so it comes, whatever waits here.
        """
        message, site = other.come, other.rank
        if message[0] < self.meetings:
            return True
        edges, begin = self._edges[site], 1 + self.clocks.size_of(site)
        posted = message[begin : begin + len(edges)].astype(np.int64)
        arrived, to_here = self.box.counters[edges, layout.M_ARRIVED], self._are_to_here[site]
        if self.boards is None:
            self.box.counters[edges, layout.M_POSTED] = posted
        else:
            arrived = np.array([self.boards.come(int(edge)) for edge in edges], np.int64)
        if (arrived[to_here] < posted[to_here]).any():
            return False
        other.meetings, at = int(message[0]), begin + len(edges)
        for array, rows in self._seen:
            part = array[rows[site]]
            array[rows[site]] = message[at : at + part.size].reshape(part.shape)
            at += part.size
        self.clocks.take_in(site, message[1:begin].astype(np.int64))
        return True
