"""Mailboxes in Python: the arrays of a run's edges, the two ends of an edge, and transports.

    writer: post -> POSTED -> transport -> ARRIVED -> poll, take: reader
              ^                                          |
              +------------------ TAKEN <----------------+

`hogshare.kernels.mail.edge_slots` defines the counters, their writers and their memory order. In
this file, every operation on more than one memory word calls a kernel of that module. An edge has
one writer, which calls `Edge.post`, and one reader, which calls `Edge.take`. Freeing: the owner of
the arrays. A `Message` is a view of its slot, and is valid until the reader takes it.
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

HEADER_BYTES = 32  # as traffic counts a message: number, version or round, count, block
PLACE_BYTES = 4  # for a value that is sent with its place
NO_PLACES = np.empty(0, np.int64)
PREFIX = "mail_"  # prefix of the names of a mailbox's arrays in a run


def places_pay(count: int, n: int, value_bytes: int) -> bool:
    """Whether `count` values with places make a shorter message than n values without places."""
    return count * (value_bytes + PLACE_BYTES) < n * value_bytes


def mail_bytes(count: int, dense: int, value_bytes: int) -> int:
    """Return the bytes of a message.

    count : number of values with a place
    dense : number of values without a place
    """
    return (count + dense) * value_bytes + count * PLACE_BYTES + HEADER_BYTES


class Message(NamedTuple):
    """A message as its reader gets it: read-only views of the slot, valid until `take`.

    Attributes
    ----------
    number : int
        Number of the message among the messages of its edge, counted from 1 without gaps.
    round : int
        The number that the writer has passed to `Edge.post`.
    values : float64 array of shape (n,)
    places : int64 array of shape (n,), or None
        Places of the values. If None, the values are the whole vector, in order.
    """

    number: int
    round: int
    values: np.ndarray
    places: np.ndarray | None
    footer: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the rounds before and after the values agree; if not, the message is torn."""
        return self.round == self.footer


class Transport(Protocol):
    """The protocol of transports, which move messages from writers to readers.

    Writers and readers need only this protocol, so a transport over a wire or on a virtual clock is
    one class. The contract of a transport:

    - An edge's writer calls `send`, in its thread, when it has written the next slot. `send` calls
      `hogshare.kernels.mail.edge_slots.send_next`, and must not wait for the reader.
    - Later, or at once, the transport delivers each message once, in the order of its edge's sends.
      It copies values, places and head to the same slot of the reader's own `Mailbox`, the head's
      number last. If writer and reader share a mailbox, there is nothing to copy. `deliver_next` on
      the reader's mailbox stores the head's number, and increases ARRIVED. The transport must not
      write to a slot whose message the reader has not taken. Delivery in order ensures this,
      because the writer never writes that far ahead.
    - If writer and reader each have a mailbox, TAKEN must come back: the transport sets the
      writer's TAKEN to the reader's TAKEN (`take` with its number). The writer's TAKEN may be late,
      but never ahead.
    - Edges do not wait for each other.

    `tests/test_mailbox.py` runs the contract against every implementation.
    """

    def send(self, box: Mailbox, edge: int) -> None:
        """Send the message that has been written into the edge's next slot."""
        ...


class RegisterTransport(Transport, Protocol):
    """A transport that may also overwrite messages that have not been taken."""

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Overwrite the reader's register (`hogshare.kernels.mail.register`) with a message.

        The caller may change the arrays after the call. If `places` is empty, `values` is the
        whole vector.
        """
        ...


class AtOnce:
    """The transport in one memory: a sent message arrives at once."""

    def send(self, box: Mailbox, edge: int) -> None:
        """Send and deliver the message."""
        edge_slots.send_next(box, edge)
        edge_slots.deliver_next(box, edge)

    def show(
        self, box: Mailbox, edge: int, round: int, places: np.ndarray, values: np.ndarray
    ) -> None:
        """Write the message into the register."""
        register.write(box, edge, round, places, values)


AT_ONCE = AtOnce()


@functools.cache
def shapes(
    n_edges: int, queue: int, n_places: int, n_dense: int = 0
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return names, shapes and dtypes of a mailbox's arrays; all entries must begin as zeros.

    queue : number of messages of an edge that may be under way, at least 1
    n_places : largest number of values with a place in a message
    n_dense : largest number of values without a place in a message
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
    """Return the mailbox of a run's arrays, which have the names of `shapes`."""
    return Mailbox(*(arrays[f"{PREFIX}{name}"] for name in Mailbox._fields))


class Edge:
    """The two ends of an edge: its writer posts, and its reader polls and takes.

    index : number of the edge in the mailbox
    """

    def __init__(self, box: Mailbox, index: int, transport: Transport = AT_ONCE) -> None:
        self._box, self._index, self._transport = box, index, transport
        self._places, self._values = box.places[index], box.values[index]
        self._heads = box.heads[index]

    @property
    def all_taken(self) -> bool:
        """Whether the reader has acknowledged all posted messages."""
        return bool(edge_slots.is_quiet(self._box, self._index))

    def post(self, values: np.ndarray, places: np.ndarray | None = None, round: int = 0) -> bool:
        """Send a message; return False, without any effect, if no slot is free.

        The values and places are copied into the slot.

        values : array of shape (n,)
        places : int array of shape (n,), the places of the values, or None if `values` is the whole
            vector
        round : a number that the reader gets with the message
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
        # H_ROUND before the values, H_FOOTER after them: a torn message has two different rounds
        head[layout.H_FOOTER] = round
        self._transport.send(self._box, self._index)
        return True

    def send(self) -> None:
        """Send the message that a kernel has written into the next slot."""
        self._transport.send(self._box, self._index)

    def poll(self) -> Message | None:
        """Return the oldest arrived message that has not been taken (views), or None."""
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
        """The transport of its messages."""
        return self._transport

    @property
    def posted(self) -> int:
        """Number of the last message that has been sent; 0 before the first message."""
        return int(edge_slots.counter_of(self._box, self._index, layout.M_POSTED))

    @property
    def taken(self) -> int:
        """Number of the last message that has been acknowledged."""
        return int(edge_slots.counter_of(self._box, self._index, layout.M_TAKEN))

    @property
    def under_way(self) -> int:
        """Number of messages that have been sent but not acknowledged."""
        return self.posted - self.taken

    @property
    def has_capacity(self) -> bool:
        """Whether the writer may send another message."""
        return bool(edge_slots.find_slot(self._box, self._index) != NO_SLOT)

    @property
    def has_mail(self) -> bool:
        """Whether a message has arrived that has not been taken."""
        slot = edge_slots.find_mail(self._box, self._index)
        return bool(slot != NO_SLOT and not self._left_ns(slot))

    def _left_ns(self, slot: int) -> int:
        """Return the nanoseconds until an emulated link delivers a message."""
        due = self._heads.item(slot, layout.H_DUE)
        return max(0, due - time.perf_counter_ns()) if due else 0

    @property
    def due_in(self) -> float | None:
        """Seconds until an emulated link delivers the next message, or None if none is due."""
        slot = edge_slots.find_mail(self._box, self._index)
        left = 0 if slot == NO_SLOT else self._left_ns(slot)
        return 1e-9 * left if left else None

    def take(self) -> None:
        """Acknowledge the message that `poll` has returned; the writer may then reuse its slot.

        Raises RuntimeError if no message has arrived.
        """
        if edge_slots.find_mail(self._box, self._index) == NO_SLOT:
            raise RuntimeError("There is no message to take: call take() after poll() returns one.")
        edge_slots.take_next(self._box, self._index)


class RegisterEdge(Edge):
    """An edge whose writer may also overwrite its last message, whether it was taken or not.

    box, index : as in `Edge`
    transport : the transport of the edge's messages
    """

    def __init__(self, box: Mailbox, index: int, transport: RegisterTransport = AT_ONCE) -> None:
        super().__init__(box, index, transport)
        self._registers = transport

    def show(self, values: np.ndarray, places: np.ndarray | None = None, round: int = 0) -> None:
        """Overwrite the last message, whether it was taken or not."""
        where = NO_PLACES if places is None else places
        self._registers.show(self._box, self._index, round, where, values)

    def see(self, seen: int) -> tuple[int, Message | None]:
        """Return a copy of a register's message, if the message's round is after `seen`.

        Returns the state of the register (``register.NOTHING``, ``register.WHOLE`` or
        ``register.TORN``), and the message. The message is None unless the state is
        ``register.WHOLE``.
        """
        places = np.empty(self._places.shape[1], np.int64)
        values = np.empty(self._values.shape[1] - self._places.shape[1], np.float64)
        found = register.read(self._box, self._index, seen, places, values)
        state, round_, count, dense = (int(one) for one in found)
        if state != register.WHOLE:
            return state, None
        where = places[:count] if count or not dense else None
        return state, Message(0, round_, values[: max(count, dense)], where, round_)
