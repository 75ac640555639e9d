"""A mailbox: messages from one to one other, in order, each taken once; an *edge* is who to whom.

An edge has one writer, one reader and a queue of slots. Messages are numbered from 1, and number n
is in the slot ``(n - 1) % queue``. Three counters tell where an edge stands, and only ever rise:

- POSTED, the writer's: messages that it has written;
- ARRIVED, the transport's: of those, the ones that stand where the reader reads;
- TAKEN, the reader's: of those, the ones that it has done with.

Always TAKEN <= ARRIVED <= POSTED <= TAKEN + queue. In which order, and what makes it seen:

1. The writer asks for room (`has_capacity`: POSTED - TAKEN < queue, TAKEN by an acquiring load),
writes
   values, places and head of the next slot by plain stores, and stores POSTED, releasing (`send`).
2. The transport brings the slot to the reader, the number in the head last of all, releasing, and
   stores ARRIVED, releasing (`deliver`). In one memory there is nothing to bring: `post` does both.
   Elsewhere a service, or a clock, delivers later, in the order of the numbers.
3. The reader asks for mail (`has_mail`: ARRIVED is beyond TAKEN, by an acquiring load, and the
   head has the number that comes next), reads the slot as long as it likes, and acknowledges it:
   it stores TAKEN, releasing (`take`). Only then may the slot be written again.

So no message is torn, mixed or overwritten. A number that does not fit, of a transport that has let
ARRIVED overtake the message, is not taken, but waited for. That all has been taken (`all_taken`,
POSTED == TAKEN) is what ASAP calls NOTIFY-ACK (Kadav and Kruus 2016, section 3.3).

After a death: `deliver` and `take` name a number and may be done again. What a dead writer had sent
and nobody delivered is whole, and whoever writes in its place delivers it first; what it had not
sent never was. Who reads in a dead reader's place finds the message that was in hand again.

Who frees: nobody in a kernel; the owner of the memory.

Departure from a ring with a head and a tail (Lamport 1983): a third counter, so that sending and
arriving may be two things.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import load, store
from hogshare.kernels.jit.decorators import helper, inlined, kernel

NO_SLOT = -1  # there is no room, or no mail


class Mailbox(NamedTuple):
    """The edges of a run that end in one memory.

    A message has H_COUNT values that each have a place, and from `capacity` on H_DENSE that have
    none: of a vector that writer and reader know by themselves. Either may be 0. (Right behind the
    others, where they begin is known late: a master's messages of 100 values took twice as long.)

    counters : int64 [n_edges, N_COUNTERS], see `layout`
    heads : int64 [n_edges, queue, WORD], see `layout`
    places : int64 [n_edges, queue, capacity]
    values : float64 [n_edges, queue, at least capacity]
    """

    counters: np.ndarray
    heads: np.ndarray
    places: np.ndarray
    values: np.ndarray


@inlined
def slot_of(box, number):
    """Slot of an edge's message of that number (from 1)."""
    return (number - 1) % box.heads.shape[1]


@helper
def has_capacity(box, edge):
    """Whether a slot is free for the writer's next message."""
    counters = box.counters[edge]
    return counters[layout.M_POSTED] - load(counters, layout.M_TAKEN) < box.heads.shape[1]


@helper
def all_taken(box, edge):
    """Whether the reader has taken all that the writer has sent."""
    counters = box.counters[edge]
    return load(counters, layout.M_POSTED) == load(counters, layout.M_TAKEN)


@inlined
def next_slot(box, edge):
    """Slot of the writer's next message, if there is room."""
    return slot_of(box, box.counters[edge, layout.M_POSTED] + 1)


@inlined
def count_values(counters, head):
    """Count the values of the writer's next message, for `Report.traffic`."""
    counters[layout.M_PLACED] += head[layout.H_COUNT]
    counters[layout.M_DENSE] += head[layout.H_DENSE]


@helper
def send(box, edge):
    """Let the transport have the message that has been written."""
    counters = box.counters[edge]
    count_values(counters, box.heads[edge, next_slot(box, edge)])
    store(counters, layout.M_POSTED, counters[layout.M_POSTED] + 1)


@helper
def deliver(box, edge, number):
    """Let the reader have message `number`, whose values, places and other words are there."""
    store(box.heads[edge, slot_of(box, number)], layout.H_NUMBER, number)
    store(box.counters[edge], layout.M_ARRIVED, number)


@helper
def post(box, edge):
    """Let the reader have the message that has been written, in one memory."""
    send(box, edge)
    deliver(box, edge, box.counters[edge, layout.M_POSTED])


@helper
def has_mail(box, edge):
    """Whether there is a message that has not been taken."""
    counters = box.counters[edge]
    number = counters[layout.M_TAKEN] + 1
    if load(counters, layout.M_ARRIVED) < number:
        return False
    return load(box.heads[edge, slot_of(box, number)], layout.H_NUMBER) == number


@helper
def take(box, edge, number):
    """Acknowledge the messages up to `number`: their slots are the writer's again."""
    store(box.counters[edge], layout.M_TAKEN, number)


# -- for who calls from Python


@kernel
def find_slot(box, edge):
    """Slot that the writer's next message goes into; NO_SLOT while there is no room."""
    return next_slot(box, edge) if has_capacity(box, edge) else NO_SLOT


@kernel
def is_quiet(box, edge):
    """Whether the reader has taken all that the writer has sent."""
    return all_taken(box, edge)


@kernel
def send_next(box, edge):
    """Let the transport have the message that has been written."""
    send(box, edge)


@kernel
def deliver_next(box, edge):
    """Let the reader have the oldest message that has been sent and has not arrived."""
    deliver(box, edge, box.counters[edge, layout.M_ARRIVED] + 1)


@kernel
def find_mail(box, edge):
    """Slot of the oldest message that has not been taken; NO_SLOT if there is none."""
    number = box.counters[edge, layout.M_TAKEN] + 1
    return slot_of(box, number) if has_mail(box, edge) else NO_SLOT


@kernel
def take_next(box, edge):
    """Acknowledge the oldest message that has not been taken."""
    take(box, edge, box.counters[edge, layout.M_TAKEN] + 1)


@kernel
def taken_up_to(box, edge, number):
    """Let the writer have the slots of the messages up to `number`, which the reader has taken."""
    take(box, edge, number)


@kernel
def counter_of(box, edge, counter):
    """One of an edge's counters, and what was written before it."""
    return load(box.counters[edge], counter)
