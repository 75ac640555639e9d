"""Mailboxes as Python sees them: the arrays of a run's edges, one edge's two ends, transports.

    writer: post -> POSTED -> transport -> ARRIVED -> poll, take: reader
              ^                                          |
              +------------------ TAKEN <----------------+

What the counters are, who writes them and in which order is told, and kept, in
`hogshare.kernels.mail.edge_slots`; all that is done here with more than one word goes through its
kernels. Who writes: `Edge.post` an edge's one writer; `Edge.take` its one reader. Who reads: the
two. Who frees: the owner of the arrays; a `Message` is a view of its slot, and good until it is
taken.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.mail import edge_slots, register
from hogshare.kernels.mail.edge_slots import NO_SLOT, Mailbox
from hogshare.shm.spacing import PAIR

HEADER_BYTES = 32  # of a message, as it is counted: number, version or round, count, block
PLACE_BYTES = 4  # of a value that is sent with its place
NO_PLACES = np.empty(0, np.int64)
PREFIX = "mail_"  # of the names of a mailbox's arrays among a run's


def places_pay(count: int, n: int, value_bytes: int) -> bool:
    """Whether so many of n values are shorter with their places than all of them without."""
    return count * (value_bytes + PLACE_BYTES) < n * value_bytes


def mail_bytes(count: int, dense: int, value_bytes: int) -> int:
    """Bytes of a message: values that each have a place, values without one, and its header."""
    return (count + dense) * value_bytes + count * PLACE_BYTES + HEADER_BYTES


class Message(NamedTuple):
    """What an edge's reader finds: views of the slot, not to be written, good until it is taken.

    Attributes
    ----------
    number : int
        Which message of its edge it is, from 1: one after the other, none left out.
    round : int
        What the writer has said.
    values : float64 array of shape (n,)
    places : int64 array of shape (n,), or None
        Where the values belong; None: to the whole vector, one after the other.
    """

    number: int
    round: int
    values: np.ndarray
    places: np.ndarray | None
    footer: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the round before the values is that after them; else a transport has torn it."""
        return self.round == self.footer


class Transport(Protocol):
    """What brings messages from where they are written to where they are read.

    Writer and reader need no more of it than this, so that one by wire, or by a clock, is one
    class:

    - `send` is called by an edge's writer, in its thread, when it has written the next slot. It
      calls `hogshare.kernels.mail.edge_slots.send_next`, and must not wait for the reader.
    - Later, or at once, each message is delivered once, in the order in which an edge's were sent:
      values, places and head are copied to the same slot of the reader's own `Mailbox` (nothing to
      do if both have one), the number of the head last. `deliver_next` on the reader's mailbox does
      that last store, and moves ARRIVED. Nothing may be brought into a slot that the reader has not
      taken: there the order of an edge's messages is enough, as the writer does not write so far
      ahead.
    - Where the two have a mailbox each, TAKEN has to come back: the writer's is set to the
      reader's, which may be late, and never ahead (`take` with its number).
    - Edges do not wait for each other.

    `tests/test_mailbox.py` runs the contract against every implementation.
    """

    def send(self, box: Mailbox, edge: int) -> None:
        """Let the message that has been written into the edge's next slot go on its way."""
        ...


class RegisterTransport(Transport, Protocol):
    """A transport that may also write over what has not been taken."""

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Let a message be written over the reader's slot (`hogshare.kernels.mail.register`).

        The arrays are the caller's again when this returns. Empty places: of the whole vector.
        """
        ...


class AtOnce:
    """In one memory: what has been sent has arrived."""

    def send(self, box: Mailbox, edge: int) -> None:
        """Let the reader have the message."""
        edge_slots.send_next(box, edge)
        edge_slots.deliver_next(box, edge)

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Write it where the reader reads."""
        register.write(box, edge, round, places, values)


AT_ONCE = AtOnce()


@functools.cache
def shapes(
    n_edges: int, queue: int, n_places: int, n_dense: int = 0
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Names, shapes and dtypes of a mailbox's arrays; they begin as zeros.

    queue : messages of an edge that may be under way, at least 1
    n_places : most values with a place in a message
    n_dense : most values without one
    """
    slots, step = (n_edges, queue), PAIR // 8
    places = -(-n_places // step) * step
    values = -(-(places + n_dense) // step) * step
    return {
        f"{PREFIX}counters": ((n_edges, layout.N_COUNTERS), "int64"),
        f"{PREFIX}heads": ((*slots, layout.WORD), "int64"),
        f"{PREFIX}places": ((*slots, places), "int64"),
        f"{PREFIX}values": ((*slots, values), "float64"),
    }


def mailbox_of(arrays: Mapping[str, np.ndarray]) -> Mailbox:
    """The mailbox of a run's arrays, as `shapes` has named them."""
    return Mailbox(*(arrays[f"{PREFIX}{name}"] for name in Mailbox._fields))


class Edge:
    """One edge's two ends.

    index : which of its edges
    """

    def __init__(self, box: Mailbox, index: int, transport: Transport = AT_ONCE) -> None:
        self._box, self._index, self._transport = box, index, transport
        self._places, self._values = box.places[index], box.values[index]
        self._heads = box.heads[index]

    @property
    def all_taken(self) -> bool:
        """Whether the reader has acknowledged all that has been posted."""
        return bool(edge_slots.is_quiet(self._box, self._index))

    def post(self, values: np.ndarray, places: np.ndarray | None = None, round: int = 0) -> bool:
        """Send a message; False if there is no room, and then nothing has happened.

        values : array of shape (n,)
        places : int array of shape (n,), or None; where they belong; None: to the whole vector
        round : what the reader is told with them
        """
        slot, n = edge_slots.find_slot(self._box, self._index), len(values)
        if slot == NO_SLOT:
            return False
        head = self._heads[slot]
        head[layout.H_ROUND] = round
        begin = 0 if places is not None else self._places.shape[1]
        self._values[slot, begin : begin + n] = values
        if places is not None:
            self._places[slot, :n] = places
        head[layout.H_COUNT], head[layout.H_DENSE] = (0, n) if places is None else (n, 0)
        head[layout.H_FOOTER] = round
        self._transport.send(self._box, self._index)
        return True

    def send(self) -> None:
        """Let the message go that a kernel has written into the next slot."""
        self._transport.send(self._box, self._index)

    def poll(self) -> Message | None:
        """The oldest message that has not been taken, if one has arrived."""
        slot = edge_slots.find_mail(self._box, self._index)
        if slot == NO_SLOT or self._left_ns(slot):
            return None
        head = self._heads[slot]
        count, dense = head.item(layout.H_COUNT), head.item(layout.H_DENSE)
        begin, n = (self._places.shape[1], dense) if dense else (0, count)
        values, places = self._values[slot, begin : begin + n].view(), None
        values.flags.writeable = False
        if not dense:
            places = self._places[slot, :count].view()
            places.flags.writeable = False
        rounds = head.item(layout.H_ROUND), head.item(layout.H_FOOTER)
        return Message(head.item(layout.H_NUMBER), rounds[0], values, places, rounds[1])

    @property
    def transport(self) -> Transport:
        """What brings its messages."""
        return self._transport

    @property
    def posted(self) -> int:
        """The number of the last message that has been sent; 0: none has."""
        return int(edge_slots.counter_of(self._box, self._index, layout.M_POSTED))

    @property
    def taken(self) -> int:
        """The number of the last message that has been acknowledged."""
        return int(edge_slots.counter_of(self._box, self._index, layout.M_TAKEN))

    @property
    def under_way(self) -> int:
        """How many messages have been sent and not been acknowledged."""
        return self.posted - self.taken

    @property
    def has_capacity(self) -> bool:
        """Whether the writer may send another message."""
        return bool(edge_slots.find_slot(self._box, self._index) != NO_SLOT)

    @property
    def has_mail(self) -> bool:
        """Whether there is a message that has not been taken."""
        slot = edge_slots.find_mail(self._box, self._index)
        return bool(slot != NO_SLOT and not self._left_ns(slot))

    def _left_ns(self, slot: int) -> int:
        """Nanoseconds for which an emulated link still has a message."""
        due = self._heads.item(slot, layout.H_DUE)
        return max(0, due - time.perf_counter_ns()) if due else 0

    @property
    def due_in(self) -> float | None:
        """Seconds for which an emulated link still has the next message; None: it has none."""
        slot = edge_slots.find_mail(self._box, self._index)
        left = 0 if slot == NO_SLOT else self._left_ns(slot)
        return 1e-9 * left if left else None

    def take(self) -> None:
        """Acknowledge the message that `poll` has found: its slot is the writer's again.

        Raises RuntimeError if there is none.
        """
        if edge_slots.find_mail(self._box, self._index) == NO_SLOT:
            raise RuntimeError("There is no message to take: poll() has to find one first.")
        edge_slots.take_next(self._box, self._index)


class RegisterEdge(Edge):
    """An edge whose writer may also write over its last message, taken or not.

    box, index : as of `Edge`
    boards : what brings messages
    """

    def __init__(self, box: Mailbox, index: int, boards: RegisterTransport = AT_ONCE) -> None:
        super().__init__(box, index, boards)
        self._boards = boards

    def show(self, values: np.ndarray, places: np.ndarray | None = None, round: int = 0) -> None:
        """Write a message over the last, taken or not: the edge is a board."""
        where = NO_PLACES if places is None else places
        self._boards.show(self._box, self._index, round, where, values)

    def see(self, seen: int) -> tuple[int, Message | None]:
        """The newest message on a board, a copy, if it is of a round after `seen`.

        Returns ``register.NOTHING``, ``register.WHOLE`` or ``register.TORN``.
        """
        places = np.empty(self._places.shape[1], np.int64)
        values = np.empty(self._values.shape[1] - self._places.shape[1], np.float64)
        found = register.read(self._box, self._index, seen, places, values)
        state, round_, count, dense = (int(one) for one in found)
        if state != register.WHOLE:
            return state, None
        where = places[:count] if count or not dense else None
        return state, Message(0, round_, values[: max(count, dense)], where, round_)
