"""A register: a mailbox's slots without acknowledgement; the writer may write at any time.

A reader finds the newest message that the writer has begun, if the message is whole; earlier
messages are lost. If a reader reads during a write, or the writer overtakes the reader, the reader
finds a *torn* message. The round is stored before and after the body, and two different rounds
reveal a torn message (header and footer in ASAP, section 4):

1. The writer stores the round into the header by an exchange, writes the body by plain stores, and
   stores the round into the footer, releasing.
2. The reader loads the footer, acquiring, and the header; copies the body; and reads the header
   again. The message is whole if all three rounds are equal.

Writers: an edge's one writer writes the edge's slots and POSTED, the number of messages begun. The
edge's one reader writes nothing except an atomic add of 0. The arrays are the arrays of
`edge_slots`; during a run an edge is used either as a mailbox or as a register.
"""

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import exchange, fetch_add, load, store
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.jit.host import yield_core
from hogshare.kernels.mail.edge_slots import count_values, slot_of

CHUNK = 4096  # number of values written before the core is given up for a moment
NOTHING, WHOLE, TORN = 0, 1, 2


@kernel
def write(box, edge, round_, places, values):
    """Write a message over the oldest slot.

    places : int64 [n], the places of the values; if empty, the values are the whole vector
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
    """Copy the newest message if its round is later than `seen`.

    places : int64 [capacity], the caller's own array, overwritten
    values : float64 [capacity], the caller's own array, overwritten

    Return (1) NOTHING, WHOLE or TORN, (2) the message's round, (3) its number of values with
    places, and (4) its number of values without places.
    """
    counters = box.counters[edge]
    number = load(counters, layout.M_POSTED)
    if number == 0:
        return NOTHING, 0, 0, 0
    slot = slot_of(box, number)
    head = box.heads[edge, slot]
    footer = load(head, layout.H_FOOTER)  # before the header: the writer's order, reversed
    header = load(head, layout.H_ROUND)
    if header <= seen:
        return NOTHING, header, 0, 0
    if footer != header:
        return TORN, header, 0, 0
    # these words may be of another message by now, so they are bounded by the arrays' lengths
    count = min(head[layout.H_COUNT], places.shape[0])
    dense = min(head[layout.H_DENSE], values.shape[0])
    begin = box.places.shape[2] if dense > 0 else 0
    for k in range(count):
        places[k] = box.places[edge, slot, k]
    for k in range(max(count, dense)):
        values[k] = box.values[edge, slot, begin + k]
    # an add of 0 and not a load: the add also releases, so all copying above comes before it
    if fetch_add(head, layout.H_ROUND, 0) != header:
        return TORN, header, 0, 0
    return WHOLE, header, count, dense
