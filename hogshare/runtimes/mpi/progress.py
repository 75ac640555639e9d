"""What machines whose workers have homes know of each other's workers while they work.

    a message: meetings so far | words of each worker here | POSTED of each edge from here to
    elsewhere | rows of the plane's arrays that others read at any moment

Each machine sends its own to every other when something in it has changed: at once if a worker has
left the run or come back, else so many seconds after the one before. The last one counts.

    worker: post, then rest          this thread: read the states, then POSTED
    message: POSTED, then states     the other's: write POSTED, then the states

So who sees that a sender has left the run sees how many messages it had posted, and waits for them.

A message that was sent before a meeting may come after it, when those that it calls resting work
again: it has fewer meetings than its reader, and is left out.

Who writes: the thread of a rank that talks to the others, the rows of other machines' workers in
`all_tables`, POSTED of the edges that come from there, and rows of the plane's arrays that belong
to those workers. Who reads: the workers here. Who frees: `close`, which takes back the receives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.kernels import layout, locks
from hogshare.runtimes.mpi.wire import EdgeTraffic, leave_behind, take_back

PACE_SECONDS = 0.01
# the state is the last: whoever sees it sees the others
WORDS = (
    *(layout.T_BLOCKS, layout.T_CLOCK, layout.T_ROWS, layout.T_HELD, layout.T_HOLDS),
    layout.T_STATE,
)


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
        self.due = 0.0  # when the next one may be sent

    def may_send(self) -> bool:
        """Whether the message before has gone."""
        return self.going is None or bool(self.going.Test())

    def send(self, message: np.ndarray, now: float) -> None:
        """Send one."""
        self.sent[:] = message
        self.going = self.comm.Isend(self.sent, dest=self.rank)
        self.due = now + PACE_SECONDS

    def close(self) -> None:
        """Expect nothing more."""
        leave_behind(self.going)
        take_back(self.coming)


class Progress:
    """A machine's word to the others, and theirs.

    comm : for nothing else
    machine_of : int64 array of shape (n_workers,); where each worker is
    seen : the plane's arrays that others read at any moment
    """

    def __init__(
        self,
        comm: Any,
        homes: Homes,
        machine_of: np.ndarray,
        seen: Sequence[Owned],
        traffic: EdgeTraffic,
    ) -> None:
        self.me, self.table, self.traffic = comm.Get_rank(), homes.table, traffic
        self.box, self._seen = homes.session.mail.box, seen
        self.meetings = 0
        senders, readers = np.array(list(homes.edges), np.int64).reshape(-1, 2).T
        from_, to = machine_of[senders], machine_of[readers]
        machines = range(comm.Get_size())
        self._workers = [np.flatnonzero(machine_of == k) for k in machines]
        self._edges = [np.flatnonzero((from_ == k) & (to != k)) for k in machines]
        sizes = [len(self._message(k)) for k in machines]
        self.others = [Other(comm, k, sizes[k], sizes[self.me]) for k in machines if k != self.me]

    def poll(self) -> bool:
        """Take in what has come, and tell what there is to tell; whether anything has come."""
        moved = False
        for other in self.others:
            while other.coming.Test():
                self._take_in(other)
                other.coming = other.comm.Irecv(other.come, source=other.rank)
                moved = True
        now, message = time.monotonic(), self._message(self.me)
        for other in self.others:
            is_due = now >= other.due or self._is_urgent(message, other.sent)
            if is_due and not np.array_equal(message, other.sent) and other.may_send():
                other.send(message, now)
                self.traffic.add_to("progress", self.me, other.rank, message.nbytes)
        return moved

    def meet(self) -> None:
        """All machines have met, and their workers go on."""
        self.meetings += 1
        for other in self.others:
            if other.meetings < self.meetings:
                states = self.table[:, layout.T_STATE]
                workers = self._workers[other.rank]
                states[workers[states[workers] == layout.RESTING]] = layout.STARTING

    def close(self) -> None:
        """Expect nothing more; the other ranks send nothing more."""
        for other in self.others:
            other.close()

    def _message(self, machine: int) -> np.ndarray:
        workers = self._workers[machine]
        # the states first: what belongs to them was written before
        states = [locks.holder(self.table[k], layout.T_STATE) + 1 for k in workers]
        words = self.table[np.ix_(workers, np.array(WORDS))]
        words[:, -1] = states
        posted = self.box.counters[self._edges[machine], layout.M_POSTED]
        rows = [array[rows[machine]].reshape(-1) for array, rows in self._seen]
        return np.concatenate([[self.meetings], words.reshape(-1), posted, *rows]).astype(float)

    def _is_urgent(self, message: np.ndarray, before: np.ndarray) -> bool:
        """Whether somebody has left the run, or come back."""
        n, width = len(self._workers[self.me]), len(WORDS)
        now, then = (one[width : n * width + 1 : width] >= layout.DONE for one in (message, before))
        return message[0] != before[0] or not np.array_equal(now, then)

    def _take_in(self, other: Other) -> None:
        message, machine = other.come, other.rank
        if message[0] < self.meetings:
            return
        other.meetings = int(message[0])
        workers, edges = self._workers[machine], self._edges[machine]
        begin = 1 + len(workers) * len(WORDS)
        self.box.counters[edges, layout.M_POSTED] = message[begin : begin + len(edges)]
        at = begin + len(edges)
        for array, rows in self._seen:
            part = array[rows[machine]]
            array[rows[machine]] = message[at : at + part.size].reshape(part.shape)
            at += part.size
        words = message[1:begin].reshape(len(workers), len(WORDS))
        for place, word in enumerate(WORDS[:-1]):
            self.table[workers, word] = words[:, place]
        for worker, state in zip(workers, words[:, -1], strict=True):
            locks.note(self.table[worker], layout.T_STATE, int(state))
