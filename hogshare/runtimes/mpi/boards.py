"""Boards by MPI: the newest message of an edge, which its writer may write over before it is sent.

    writer's thread:  show -> its register                  poll there: what it took, acknowledged
    poll:             register -> buffer -> Isend ... Irecv -> buffer -> register: poll there

Of what a writer shows in quick succession only the newest is sent: the next message goes when the
one before has been written into the reader's register. So a slow link brings fewer messages, and
none of them waits for others.

Who writes: `poll` the registers of edges that come from other ranks, and all buffers; `show` those
that begin here. Who frees: `close`.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout, register
from hogshare.kernels.mailbox import Mailbox
from hogshare.runtimes.mpi.wire import HEAD, HEAD_BYTES, MAIL, Incoming, Outgoing, Wire, parts_of


class BoardsWire(Wire):
    """A `Wire` whose edges are boards; a plane uses its edges as one of the two for a whole run."""

    @property
    def ends(self) -> tuple[type[Outgoing], type[Incoming]]:
        """What its edges are written and read by."""
        return OutgoingBoard, IncomingBoard

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Write a message over the last; it is sent when the one before has come."""
        register.write(box, edge, round, places, values)

    @property
    def has_sent_all(self) -> bool:
        """Whether all that has been shown here was sent, or written over."""
        outgoing = (end for end in self.moving if isinstance(end, OutgoingBoard))
        return all(end.counter(layout.M_POSTED) == end.seen for end in outgoing)

    def sent(self, edge: int) -> int:
        """Messages that were sent along an edge that begins here."""
        return next(
            (one.sent for one in self.moving if isinstance(one, Outgoing) and one.edge == edge), 0
        )

    def come(self, edge: int) -> int:
        """Messages that have come along an edge that ends here."""
        return next(
            (
                one.shown
                for one in self.moving
                if isinstance(one, IncomingBoard) and one.edge == edge
            ),
            0,
        )


class OutgoingBoard(Outgoing):
    """An edge's end where it is written."""

    def __init__(self, wire: Wire, edge: int, to: int, which: int) -> None:
        super().__init__(wire, edge, to, which)
        self.seen = self.round = self.acknowledged = 0  # POSTED, and the round, that was sent last
        room = wire.box.places.shape[2], wire.box.values.shape[2] - wire.box.places.shape[2]
        self._places, self._values = np.empty(room[0], np.int64), np.empty(room[1])

    def poll(self) -> bool:
        """Send the newest message, if the one before has come."""
        moved = self.hear()
        posted = self.counter(layout.M_POSTED)
        is_free = self.acknowledged == self.sent and self._is_free(self.sent + 1)
        if not self.wire.is_over and posted > self.seen and is_free:
            found = register.read(self.wire.box, self.edge, self.round, self._places, self._values)
            state, round_, count, dense = (int(one) for one in found)
            if state == register.WHOLE:
                self._send_board(round_, count, dense)
                self.seen, self.round, moved = posted, round_, True
            elif state == register.NOTHING:  # it came between the count and the last reading
                self.seen = posted
        return moved

    def note_taken(self, number: int) -> None:
        """Note that the reader has the messages up to a number."""
        self.acknowledged = number

    def _send_board(self, round_: int, count: int, dense: int) -> None:
        number = self.sent + 1
        buffer = self.buffers[(number - 1) % self.queue]
        words = buffer[:HEAD_BYTES].view(np.int64)
        words[HEAD] = 0
        words[layout.H_NUMBER], words[layout.H_ROUND] = number, round_
        words[layout.H_COUNT], words[layout.H_DENSE] = count, dense
        places, values, n_bytes = parts_of(self.wire, buffer, count, dense)
        places[:] = self._places[:count]
        values[:] = self._values[: max(count, dense)]
        self.hand_over(number, buffer, n_bytes)

    @property
    def is_quiet(self) -> bool:
        """Whether all that was sent has come."""
        requests = (request for request in self.requests if request is not None)
        return self.acknowledged == self.sent and all(request.Test() for request in requests)


class IncomingBoard(Incoming):
    """An edge's end where it is read."""

    shown = 0  # messages that stand, or stood, in the register here

    @property
    def _arrived(self) -> int:
        return self.shown

    @property
    def taken_here(self) -> int:
        """Messages that the writer may count as come."""
        return self.shown

    def _deliver(self, slot: int) -> None:
        box, buffer = self.wire.box, self.buffers[slot]
        words = buffer[:HEAD_BYTES].view(np.int64)
        count, dense = int(words[layout.H_COUNT]), int(words[layout.H_DENSE])
        places, values, _ = parts_of(self.wire, buffer, count, dense)
        where = places.astype(np.int64)
        round_ = int(words[layout.H_ROUND])
        register.write(box, self.edge, round_, where, values.astype(np.float64))
        self.shown += 1
        self.requests[slot] = self.receive(buffer, MAIL)
