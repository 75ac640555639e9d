"""A mailbox's transport by MPI: messages between ranks, two-sided, moved by one thread of each.

    writer's thread:  post -> POSTED                         POSTED <- TAKEN: poll of that rank
    poll:             slot -> buffer -> Isend ... Irecv -> buffer -> slot, ARRIVED: poll there

Every rank has a mailbox of its own, and a wire that joins the edges which end or begin at it to the
other ranks'. `send` only raises POSTED; whatever MPI has to do is done in `poll`, by one thread of
the rank (MPI_THREAD_FUNNELED is enough), which never blocks in it: a blocked receive takes a whole
core, and nothing arrives at a rank that does not call MPI.

Who writes: `poll` a sender's TAKEN, a reader's slots and ARRIVED, and all buffers; `send` POSTED.
In which order: as `hogshare.shm.mailbox.Transport` says. MPI keeps the order of messages between
two ranks with one tag. The k-th edge from one rank to another has two tags, 2 k for its messages
and 2 k + 1 for TAKEN; both ends count edges in their order.

Credits: a slot is written again when its TAKEN has come back, so that at most `queue` messages of
an edge are under way, and as many receives wait for them from the beginning: MPI never has to keep
one that nobody has asked for. TAKEN is a running count, of which one message covers many.

Who frees: `close`, which takes back the receives that nothing will come for. Buffers are allocated
once. Only what is used of a slot is sent: eight words of head, places of four bytes, values.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.kernels import layout, mailbox
from hogshare.kernels.mailbox import Mailbox, slot_of
from hogshare.links.link import Line, Link
from hogshare.links.network import Network
from hogshare.runtimes.mpi.channel import EdgeTraffic
from hogshare.runtimes.mpi.door import leave_behind, take_back

HEAD = slice(layout.H_NUMBER, layout.H_ROUND + 1)  # words of a slot's head that are sent
UNDER_WAY = HEAD.stop  # the word after them: seconds for which a link still has the message
HEAD_BYTES = 8 * (UNDER_WAY + 1)
TAKEN_BYTES = 16  # how many, and how long that is under way
FARTHEST_PLACE = 2**31  # which four bytes hold
MAIL, TAKEN = 0, 1  # which of an edge's two tags
CONTROL = "control"  # the kind of the messages that bring TAKEN back


class Wire:
    """The edges of a mailbox that begin or end at this rank.

    comm : for nothing else: another wire's messages would have the same tags
    box : this rank's own
    ends : the ranks from which and to which each of its edges goes. An edge of others, and one from
        a rank to itself (whose `Edge` is in one memory), is left alone.
    kinds : of the edges' messages, in `traffic`: one for all, or of each
    traffic : where messages are counted when they are sent
    values : of the values on their way. With "float32" whoever posts has rounded them.
    network : links that stand between the ranks besides the real ones
    links : of each edge; None: those of the network between its ranks
    """

    def __init__(
        self,
        comm: Any,
        box: Mailbox,
        ends: Sequence[tuple[int, int]],
        kinds: str | Sequence[str] = "mail",
        traffic: EdgeTraffic | None = None,
        values: Any = "float64",
        network: Network | None = None,
        links: Sequence[Link] | None = None,
    ) -> None:
        self.comm, self.box = comm, box
        self.kinds = [kinds] * len(ends) if isinstance(kinds, str) else list(kinds)
        self.traffic = traffic or EdgeTraffic()
        self.values = np.dtype(values)
        self.network, self.links = network or Network(), links
        self.me = comm.Get_rank()
        capacity = box.places.shape[2]
        self.places = np.dtype("int32" if capacity < FARTHEST_PLACE else "int64")
        self.message_bytes = HEAD_BYTES + _padded(capacity * self.places.itemsize)
        self.message_bytes += box.values.shape[2] * self.values.itemsize
        self.is_over = False  # whether nothing more is sent that nobody waits for
        self.moving: list[Outgoing | Incoming] = []
        for edge, (sender, to) in enumerate(ends):
            if sender != to and self.me in (sender, to):
                end = self.ends[sender != self.me]
                which = ends[:edge].count((sender, to))
                self.moving.append(end(self, edge, sender + to - self.me, which))

    @property
    def ends(self) -> tuple[type[Outgoing], type[Incoming]]:
        """What its edges are written and read by."""
        return Outgoing, Incoming

    def send(self, box: Mailbox, edge: int) -> None:
        """Let the message that has been written into the edge's next slot go on its way."""
        mailbox.send_next(box, edge)

    def poll(self) -> bool:
        """Move whatever can be moved; whether anything has been. In the rank's one MPI thread."""
        moved = False
        for end in self.moving:
            moved |= end.poll()
        return moved

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of this rank's is under way: all it sent is taken, all it took is told.

        Ranks that end together poll until this is so for all of them.
        """
        return all(end.is_quiet for end in self.moving)

    def close(self) -> None:
        """Take back the receives that wait; the other ranks send nothing more."""
        for end in self.moving:
            end.close()
        self.moving.clear()


def _padded(n_bytes: int) -> int:
    """Bytes after which words of eight may stand."""
    return -(-n_bytes // 8) * 8


class _End:
    """What both ends of an edge have."""

    def __init__(self, wire: Wire, edge: int, other: int, which: int) -> None:
        self.wire, self.edge, self.other, self.which = wire, edge, other, which
        link = wire.links[edge] if wire.links else wire.network.between(wire.me, other)
        self.queue = wire.box.heads.shape[1]
        self.line = Line(link)

    def receive(self, buffer: np.ndarray, what: int) -> Any:
        """Begin to receive a message, or what has been taken."""
        return self.wire.comm.Irecv(buffer, source=self.other, tag=2 * self.which + what)

    def send(self, buffer: np.ndarray, what: int) -> Any:
        """Begin to send one, or the other."""
        return self.wire.comm.Isend(buffer, dest=self.other, tag=2 * self.which + what)

    def counter(self, which: int) -> int:
        """One of the edge's counters in this rank's mailbox."""
        return int(mailbox.counter_of(self.wire.box, self.edge, which))

    def count(self, kind: str, n_bytes: int) -> None:
        """Count a message that is sent."""
        self.wire.traffic.add_to(kind, self.wire.me, self.other, n_bytes)


class Outgoing(_End):
    """An edge's end where it is written."""

    def __init__(self, wire: Wire, edge: int, to: int, which: int) -> None:
        super().__init__(wire, edge, to, which)
        self.sent = 0  # messages that MPI has been given
        self.buffers = np.zeros((self.queue, wire.message_bytes), np.uint8)
        self.requests: list[Any] = [None] * self.queue
        self.taken = np.zeros(TAKEN_BYTES, np.uint8)
        self.coming = self.receive(self.taken, TAKEN)
        self.held: deque[tuple[float, int]] = deque()  # moments, and TAKEN from then on

    def poll(self) -> bool:
        """Send what has been posted, and hear what has been taken."""
        moved = False
        while self.sent < self.counter(layout.M_POSTED) and self._is_free(self.sent + 1):
            self._send(self.sent + 1)
            moved = True
        return moved | self.hear()

    def hear(self) -> bool:
        """Hear what the reader has taken; whether it has taken anything."""
        moved = False
        while self.coming.Test():
            number, under_way = self.taken[:8].view(np.int64)[0], self.taken[8:].view(np.float64)[0]
            self.held.append((time.monotonic() + float(under_way), int(number)))
            self.coming = self.receive(self.taken, TAKEN)
        while self.held and self.held[0][0] <= time.monotonic():
            self.note_taken(self.held.popleft()[1])
            moved = True
        return moved

    def note_taken(self, number: int) -> None:
        """Let the writer have the slots up to a message again."""
        mailbox.taken_up_to(self.wire.box, self.edge, number)

    def _is_free(self, number: int) -> bool:
        """Whether MPI has done with the buffer of the message that was in this one's slot."""
        before = self.requests[slot_of(self.wire.box, number)]
        return before is None or bool(before.Test())

    def _send(self, number: int) -> None:
        box, wire = self.wire.box, self.wire
        slot = slot_of(box, number)
        head, buffer = box.heads[self.edge, slot], self.buffers[slot]
        count, dense = int(head[layout.H_COUNT]), int(head[layout.H_DENSE])
        words = buffer[:HEAD_BYTES].view(np.int64)
        words[HEAD] = head[HEAD]
        words[layout.H_NUMBER] = number
        places, values, n_bytes = parts_of(wire, buffer, count, dense)
        places[:] = box.places[self.edge, slot, :count]
        values[:count] = box.values[self.edge, slot, :count]
        first = box.places.shape[2]
        values[count:] = box.values[self.edge, slot, first : first + dense]
        self.hand_over(number, buffer, n_bytes)

    def hand_over(self, number: int, buffer: np.ndarray, n_bytes: int) -> None:
        """Give MPI a message, which is in the buffer of its slot."""
        words = buffer[:HEAD_BYTES].view(np.int64)
        words[UNDER_WAY : UNDER_WAY + 1].view(np.float64)[0] = self.line.send(n_bytes)
        slot = slot_of(self.wire.box, number)
        self.requests[slot] = self.send(buffer[:n_bytes], MAIL)
        self.sent = number
        self.count(self.wire.kinds[self.edge], n_bytes)

    @property
    def is_quiet(self) -> bool:
        """Whether all that was posted is taken."""
        requests = (request for request in self.requests if request is not None)
        all_taken = self.counter(layout.M_POSTED) == self.counter(layout.M_TAKEN)
        return all_taken and all(request.Test() for request in requests)

    def close(self) -> None:
        """Expect no TAKEN any more."""
        take_back(self.coming)
        leave_behind(*self.requests)


class Incoming(_End):
    """An edge's end where it is read."""

    def __init__(self, wire: Wire, edge: int, sender: int, which: int) -> None:
        super().__init__(wire, edge, sender, which)
        self.come = 0  # messages that MPI has brought
        self.told = 0  # TAKEN, as the sender has been told
        self.buffers = np.zeros((self.queue, wire.message_bytes), np.uint8)
        self.requests = [self.receive(buffer, MAIL) for buffer in self.buffers]
        self.due: list[float] = [0.0] * self.queue
        self.taken = np.zeros(TAKEN_BYTES, np.uint8)
        self.telling: Any = None

    def poll(self) -> bool:
        """Deliver what has come, and tell what has been taken."""
        moved = False
        while self.come - self._arrived < self.queue:  # else all buffers wait to be delivered
            slot = self.come % self.queue
            if not self.requests[slot].Test():
                break
            words = self.buffers[slot][:HEAD_BYTES].view(np.int64)
            under_way = words[UNDER_WAY : UNDER_WAY + 1].view(np.float64)[0]
            self.due[slot] = time.monotonic() + float(under_way)
            self.come += 1
        while (
            self._arrived < self.come and self.due[self._arrived % self.queue] <= time.monotonic()
        ):
            self._deliver(self._arrived % self.queue)
            moved = True
        taken = self.taken_here
        if taken > self.told and (self.telling is None or self.telling.Test()):
            self._tell(taken)
            moved = True
        return moved

    @property
    def _arrived(self) -> int:
        return self.counter(layout.M_ARRIVED)

    @property
    def taken_here(self) -> int:
        """Messages that the reader has taken."""
        return self.counter(layout.M_TAKEN)

    def _deliver(self, slot: int) -> None:
        box, buffer = self.wire.box, self.buffers[slot]
        words = buffer[:HEAD_BYTES].view(np.int64)
        count, dense = int(words[layout.H_COUNT]), int(words[layout.H_DENSE])
        places, values, _ = parts_of(self.wire, buffer, count, dense)
        box.places[self.edge, slot, :count] = places
        box.values[self.edge, slot, :count] = values[:count]
        first = box.places.shape[2]
        box.values[self.edge, slot, first : first + dense] = values[count:]
        rest = slice(layout.H_NUMBER + 1, HEAD.stop)
        box.heads[self.edge, slot, rest] = words[rest]
        box.heads[self.edge, slot, layout.H_FOOTER] = words[layout.H_ROUND]  # MPI tears nothing
        self.requests[slot] = self.receive(buffer, MAIL)
        mailbox.deliver_next(box, self.edge)

    def _tell(self, taken: int) -> None:
        self.taken[:8].view(np.int64)[0] = taken
        self.taken[8:].view(np.float64)[0] = self.line.send(TAKEN_BYTES)
        self.telling = self.send(self.taken, TAKEN)
        self.told = taken
        self.count(CONTROL, TAKEN_BYTES)

    @property
    def is_quiet(self) -> bool:
        """Whether all that has come is taken, and the sender told."""
        all_taken = self.come == self.taken_here == self.told
        return all_taken and (self.telling is None or bool(self.telling.Test()))

    def close(self) -> None:
        """Expect no messages any more."""
        for request in self.requests:
            take_back(request)
        leave_behind(self.telling)


def parts_of(
    wire: Wire, buffer: np.ndarray, count: int, dense: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Places and values in a buffer, and where they end."""
    first = HEAD_BYTES + count * wire.places.itemsize
    begin = _padded(first)
    end = begin + (count + dense) * wire.values.itemsize
    return buffer[HEAD_BYTES:first].view(wire.places), buffer[begin:end].view(wire.values), end
