"""One reduce of a worker with a model of its own, in one call: post, wait briefly, average.

The call (`reduce`) handles the usual case of `hogshare.planes.replicas.reducer`: models are sent,
acknowledged and averaged, no worker has died or been left out, and there is only one graph. In
every other case, and if the wait would be long, the call returns a code for the part that it has
done, and the reducer does the remainder.

Writers: a worker writes its own slots, its vector, and TAKEN of the edges that it reads. Readers:
the two workers at an edge's ends. The order of accesses is as in
`hogshare.kernels.mail.edge_slots`; all sends of a round come before its waits. Nothing is freed in
this file.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.centre_edges import read_live
from hogshare.kernels.jit.atomics import load
from hogshare.kernels.jit.decorators import exact_helper, exact_kernel
from hogshare.kernels.jit.host import nanoseconds, yield_core
from hogshare.kernels.mail.edge_slots import has_capacity, has_mail, next_slot, post, slot_of, take

DONE, POSTED, NOTHING = range(3)  # part of the reduce that was done: all, the sends, or nothing
MESSAGE, ACKNOWLEDGEMENT = range(2)  # of `waited`
WHOLE, SPARSE = range(2)  # of `sent`
MESSAGES, BYTES = range(2)


class Round(NamedTuple):
    """The constants of a worker's rounds.

    out : int64, edges along which the worker sends
    into : int64, edges that the worker reads, ordered by their senders
    shares : float64 [1 + len(into)], weights of the worker's own model and of the senders' models;
        the sum of the weights is 1
    item : number of bytes of a value
    header : number of bytes of a message's header
    place_bytes : number of bytes of a value's place
    """

    out: np.ndarray
    into: np.ndarray
    shares: np.ndarray
    item: int
    header: int
    place_bytes: int


@exact_helper
def wait_for(box, edges, is_slot, round_, until):
    """Wait until all edges have space, or until all edges have this round's message.

    Return False if the wait reaches its limit, or if a message is of another round.

    is_slot : whether to wait for space; if not, the call waits for messages
    until : limit of the wait, in the time of `nanoseconds`
    """
    for k in range(edges.shape[0]):
        edge = edges[k]
        while not (has_capacity(box, edge) if is_slot else has_mail(box, edge)):
            if nanoseconds() > until:
                return False
            yield_core()
        if not is_slot:
            slot = slot_of(box, box.counters[edge, layout.M_TAKEN] + 1)
            if box.heads[edge, slot, layout.H_ROUND] != round_:
                return False
    return True


@exact_helper
def send_model(box, edge, vector, placed, round_):
    """Post a model along an edge: the whole vector, or if `placed` its nonzero values with places.

    placed : whether only nonzero values are sent
    """
    slot = next_slot(box, edge)
    head, places, values = box.heads[edge, slot], box.places[edge, slot], box.values[edge, slot]
    n = vector.shape[0]
    if not placed:
        whole = values[places.shape[0] : places.shape[0] + n]
        for j in range(n):
            whole[j] = vector[j]
        head[layout.H_COUNT], head[layout.H_DENSE] = 0, n
    else:
        k = 0
        for j in range(n):
            if vector[j] != 0.0:
                places[k], values[k] = j, vector[j]
                k += 1
        head[layout.H_COUNT], head[layout.H_DENSE] = k, 0
    head[layout.H_ROUND], head[layout.H_FOOTER] = round_, round_
    post(box, edge)


@exact_kernel
def reduce(box, what, live, table, suspects, round_, vector, sent, waited, spin_ns):
    """Do one round of the reduce, as far as possible without a long wait.

    Return DONE, POSTED (only the sends are done) or NOTHING. With DONE the average is in `live`.

    suspects : int64 [n_workers], nonzero for workers that this worker does not wait for
    vector : float64 [n], scratch
    sent : int64 [n_edges, 2, 2], numbers of messages and bytes sent; the call adds to them
    waited : float64 [at least 2], seconds waited for messages and for acknowledgements; the call
        adds to them
    spin_ns : nanoseconds that each of the two waits may take
    """
    for k in range(table.shape[0]):
        if suspects[k] != 0 or load(table[k], layout.T_STATE) == layout.DEAD:
            return NOTHING
    began = nanoseconds()
    in_time = wait_for(box, what.out, True, round_, began + spin_ns)  # space on all edges
    now = nanoseconds()
    waited[ACKNOWLEDGEMENT] += 1e-9 * (now - began)
    if not in_time:
        return NOTHING
    n = vector.shape[0]
    m = n - live.tail.shape[0]
    read_live(live, m, 0, n, vector)
    count = 0
    for j in range(n):
        count += vector[j] != 0.0
    placed = count > 0 and count * (what.item + what.place_bytes) < n * what.item
    size = what.header + (count * (what.item + what.place_bytes) if placed else n * what.item)
    for k in range(what.out.shape[0]):
        send_model(box, what.out[k], vector, placed, round_)
        sent[what.out[k], SPARSE if placed else WHOLE, MESSAGES] += 1
        sent[what.out[k], SPARSE if placed else WHOLE, BYTES] += size
    began = nanoseconds()
    in_time = wait_for(box, what.into, False, round_, began + spin_ns)
    waited[MESSAGE] += 1e-9 * (nanoseconds() - began)
    if not in_time:
        return POSTED
    average(box, what, vector)  # it reads the slots, so messages are acknowledged only at the end
    kind = live.w.dtype.type
    w, tail = live.w[:m], live.tail
    for j in range(m):
        w[j] = kind(vector[j])
    for j in range(tail.shape[0]):
        tail[j] = vector[m + j]
    for c in range(live.scales.shape[0]):
        live.scales[c] = 1.0
    for k in range(what.into.shape[0]):
        edge = what.into[k]
        take(box, edge, box.counters[edge, layout.M_TAKEN] + 1)
    return DONE


@exact_helper
def average(box, what, total):
    """Average `total`, in place, with the messages that have come, in the order of `into`."""
    n = total.shape[0]
    for j in range(n):
        total[j] *= what.shares[0]
    for k in range(what.into.shape[0]):
        edge, share = what.into[k], what.shares[1 + k]
        slot = slot_of(box, box.counters[edge, layout.M_TAKEN] + 1)
        places, values = box.places[edge, slot], box.values[edge, slot]
        if box.heads[edge, slot, layout.H_DENSE] > 0:
            whole = values[places.shape[0] : places.shape[0] + n]
            for j in range(n):
                total[j] += share * whole[j]
        else:
            for i in range(box.heads[edge, slot, layout.H_COUNT]):
                total[places[i]] += share * values[i]
