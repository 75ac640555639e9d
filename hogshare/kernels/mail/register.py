"""A register: a mailbox's slots without acknowledgement, whose writer writes whenever it likes.

A reader finds the newest message that the writer has begun, if it is whole; earlier ones are lost.
A reader that comes during a write, or is overtaken by the writer, finds a *torn* message, which the
two rounds around it reveal (ASAP, section 4: header and footer):

1. The writer stores the round into the header by an exchange, writes the body by plain stores, and
   stores the round into the footer, releasing.
2. The reader loads the footer, acquiring, and the header; copies the body; and reads the header
   again. The message is whole if all three rounds are equal.

Writers: an edge's one writer writes all of it, POSTED too, which counts the messages begun. Its one
reader writes nothing but an atomic add of 0. The arrays are those of `edge_slots`; an edge is used
as one of the two for a whole run.
"""

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import exchange, fetch_add, load, store
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.jit.host import yield_core
from hogshare.kernels.mail.edge_slots import count_values, slot_of

CHUNK = 4096  # numbers written before the core is given up for a moment
NOTHING, WHOLE, TORN = 0, 1, 2


@kernel
def write(box, edge, round_, places, values):
    """Write a message over the oldest slot.

    places : int64 [n], or empty: values of the whole vector
    values : float64 [n]
    """
    counters = box.counters[edge]
    number = counters[layout.M_POSTED] + 1
    slot = slot_of(box, number)
    head = box.heads[edge, slot]
    n = values.shape[0]
    begin = box.places.shape[2] if places.shape[0] == 0 else 0
    exchange(head, layout.H_ROUND, round_)  # a store would let the body's stores pass it
    store(counters, layout.M_POSTED, number)
    head[layout.H_COUNT] = places.shape[0]
    head[layout.H_DENSE] = n if places.shape[0] == 0 else 0
    count_values(counters, head)
    for k in range(places.shape[0]):
        box.places[edge, slot, k] = places[k]
    for k in range(n):
        box.values[edge, slot, begin + k] = values[k]
        if k % CHUNK == CHUNK - 1:
            yield_core()
    store(head, layout.H_FOOTER, round_)  # releasing: after the body


@kernel
def read(box, edge, seen, places, values):
    """Copy the newest message, if there is one after round `seen`.

    places, values : int64 and float64 [capacity], written

    Returns NOTHING, WHOLE or TORN, the message's round, and its numbers of values with and without
    places.
    """
    counters = box.counters[edge]
    number = load(counters, layout.M_POSTED)
    if number == 0:
        return NOTHING, 0, 0, 0
    slot = slot_of(box, number)
    head = box.heads[edge, slot]
    footer = load(head, layout.H_FOOTER)  # before the header: the writer stores them vice versa
    header = load(head, layout.H_ROUND)
    if header <= seen:
        return NOTHING, header, 0, 0
    if footer != header:
        return TORN, header, 0, 0
    # these words may be another message's by now, so they are bounded by the arrays' lengths
    count = min(head[layout.H_COUNT], places.shape[0])
    dense = min(head[layout.H_DENSE], values.shape[0])
    begin = box.places.shape[2] if dense > 0 else 0
    for k in range(count):
        places[k] = box.places[edge, slot, k]
    for k in range(max(count, dense)):
        values[k] = box.values[edge, slot, begin + k]
    # an add of 0 and not a load: its release part makes all copying above come before it
    if fetch_add(head, layout.H_ROUND, 0) != header:
        return TORN, header, 0, 0
    return WHOLE, header, count, dense
