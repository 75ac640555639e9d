"""A mailbox: messages from one writer to one reader, taken once each, in the order sent.

An *edge* has one writer, one reader and a queue of slots. Messages are numbered from 1, and message
n is in the slot ``(n - 1) % queue``. Three counters give the state of an edge; they never decrease:

- POSTED, written by the writer: number of messages that the writer has written;
- ARRIVED, written by the transport: number of messages that have arrived in the reader's memory;
- TAKEN, written by the reader: number of messages that the reader has acknowledged.

Always TAKEN <= ARRIVED <= POSTED <= TAKEN + queue. The order of accesses:

1. The writer checks for space (`has_capacity`: POSTED - TAKEN < queue, TAKEN by an acquiring load).
   It writes values, places and head of the next slot by plain stores. Then it stores POSTED,
   releasing (`send`).
2. The transport copies the slot to the reader; the last word it writes there is the number in the
   head, releasing. Then it stores ARRIVED, releasing (`deliver`). In one memory there is nothing to
   copy: `post` sends and delivers. Across memories a service, or a simulation's clock, delivers
   later, in the order of the numbers.
3. The reader checks for mail (`has_mail`: ARRIVED > TAKEN, ARRIVED by an acquiring load, and the
   head has the next number). It reads the slot for as long as it needs. Then it acknowledges the
   message: it stores TAKEN, releasing (`take`). The slot may be written again only after that.

So no message is torn, mixed or overwritten. If a transport lets ARRIVED overtake the message, the
number in the head is wrong, and the reader waits for the message. The condition that all messages
have been taken (`all_taken`, POSTED == TAKEN) is ASAP's NOTIFY-ACK (Kadav and Kruus 2016, section
3.3).

After a death: `deliver` and `take` name a number and may be repeated. If a dead writer had sent a
message that was not delivered, the message is whole, and the writer's successor delivers it first.
A message that the dead writer had not sent does not exist. A dead reader's successor finds the
message that the dead reader was reading, and reads it again.

Freeing: no kernel frees memory; the memory's owner does.

Departure from a ring with a head and a tail (Lamport 1983): a third counter, which separates
sending from arriving.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import load, store
from hogshare.kernels.jit.decorators import helper, inlined, kernel

NO_SLOT = -1  # there is no space, or no mail


class Mailbox(NamedTuple):
    """The edges of a run that end in one memory.

    A message has H_COUNT values with a place each and, from index `capacity` on, H_DENSE values
    without a place, of a vector that writer and reader both know. Either count may be 0. (If the
    values without a place directly followed the values with a place, their start would be known
    late: a master's messages of 100 values took twice as long.)

    counters : int64 [n_edges, N_COUNTERS], see `layout`
    heads : int64 [n_edges, queue, WORD], see `layout`
    places : int64 [n_edges, queue, capacity], the places of each message's values
    values : float64 [n_edges, queue, at least capacity], each message's values
    """

    counters: np.ndarray
    heads: np.ndarray
    places: np.ndarray
    values: np.ndarray


@inlined
def slot_of(box, number):
    """Return the slot of message `number` (from 1) of an edge."""
    return (number - 1) % box.heads.shape[1]


@helper
def has_capacity(box, edge):
    """Return whether a slot is free for the writer's next message; only the writer may call it."""
    counters = box.counters[edge]
    # The caller alone writes POSTED, so a plain load is enough. TAKEN is loaded acquiring: the
    # reader has finished with the slot.
    return counters[layout.M_POSTED] - load(counters, layout.M_TAKEN) < box.heads.shape[1]


@helper
def all_taken(box, edge):
    """Return whether the reader has taken every message that the writer has sent."""
    counters = box.counters[edge]
    return load(counters, layout.M_POSTED) == load(counters, layout.M_TAKEN)


@inlined
def next_slot(box, edge):
    """Return the slot of the writer's next message; write it only if `has_capacity` is true."""
    return slot_of(box, box.counters[edge, layout.M_POSTED] + 1)


@inlined
def count_values(counters, head):
    """Count the values of the writer's next message, for `Report.traffic`."""
    counters[layout.M_PLACED] += head[layout.H_COUNT]
    counters[layout.M_DENSE] += head[layout.H_DENSE]


@helper
def send(box, edge):
    """Pass the message that has been written to the transport."""
    counters = box.counters[edge]
    count_values(counters, box.heads[edge, next_slot(box, edge)])
    # releasing: the transport sees the whole slot
    store(counters, layout.M_POSTED, counters[layout.M_POSTED] + 1)


@helper
def deliver(box, edge, number):
    """Make message `number` visible to the reader; all its other words must have been written."""
    # the head's number before ARRIVED: `has_mail` checks both
    store(box.heads[edge, slot_of(box, number)], layout.H_NUMBER, number)
    store(box.counters[edge], layout.M_ARRIVED, number)


@helper
def post(box, edge):
    """Send and deliver the message that has been written, in one memory."""
    send(box, edge)
    deliver(box, edge, box.counters[edge, layout.M_POSTED])


@helper
def has_mail(box, edge):
    """Return whether a message has arrived that the reader, the caller, has not taken."""
    counters = box.counters[edge]
    number = counters[layout.M_TAKEN] + 1
    if load(counters, layout.M_ARRIVED) < number:
        return False
    return load(box.heads[edge, slot_of(box, number)], layout.H_NUMBER) == number


@helper
def take(box, edge, number):
    """Acknowledge messages up to `number` (releasing), so the writer may reuse their slots."""
    store(box.counters[edge], layout.M_TAKEN, number)


# -- for calls from Python


@kernel
def find_slot(box, edge):
    """Return the slot for the writer's next message, or NO_SLOT if there is no space."""
    return next_slot(box, edge) if has_capacity(box, edge) else NO_SLOT


@kernel
def is_quiet(box, edge):
    """Return whether the reader has taken every message that the writer has sent."""
    return all_taken(box, edge)


@kernel
def send_next(box, edge):
    """Pass the message that has been written to the transport."""
    send(box, edge)


@kernel
def deliver_next(box, edge):
    """Deliver the oldest message that has been sent and has not arrived."""
    deliver(box, edge, box.counters[edge, layout.M_ARRIVED] + 1)


@kernel
def find_mail(box, edge):
    """Return the slot of the oldest message that has not been taken, or NO_SLOT."""
    number = box.counters[edge, layout.M_TAKEN] + 1
    return slot_of(box, number) if has_mail(box, edge) else NO_SLOT


@kernel
def take_next(box, edge):
    """Acknowledge the oldest message that has not been taken."""
    take(box, edge, box.counters[edge, layout.M_TAKEN] + 1)


@kernel
def taken_up_to(box, edge, number):
    """Free the writer's slots of the messages up to `number`, which the reader has taken."""
    take(box, edge, number)


@kernel
def counter_of(box, edge, counter):
    """Load one of an edge's counters (acquiring): all stores before its store are visible."""
    return load(box.counters[edge], counter)
