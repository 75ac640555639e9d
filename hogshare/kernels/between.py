"""Folding a machine's vector into the global one, which others change, too: by messages.

A machine's workers share one vector, as `exchange` says. Machines do on the next level what workers
do on theirs, with a message in place of a lock: a machine *offers* what its vector has changed,
each coordinate by a weight, the owner of the global vector adds that, and its answer says where the
global vector is now; the machine takes that in, beside what its workers have changed meanwhile.

The weight is that of `exchange`, by the same derivation. The workers of a machine together contract
a coordinate of curvature h by about rho = 1 / (1 + z) between two offers, z = eta h R, with R the
rows that all of them have done: their own exchange has seen to it that so many rows are worth what
they are by one worker. M machines that start from the same point each offer -(1 - rho) e. So the
share is c(z) = 1/M + (1 - 1/M) / (1 + M z / 2) with M machines for P workers and the machine's rows
for a worker's: the longer two offers are apart, the more coordinates are averaged.

A machine's account with the owner, coordinate by coordinate of the *flat* vector (coefficients,
intercepts, means of the duals, SAGA's average):

- `known`: the global value, as the owner has last told it;
- `base`: what the machine's value is counted from: `known`, or, while an offer is under way, the
  value that was offered from, less what the weight has held back and the rule keeps.

The dual rule's coefficients are a sum, of which nothing may be lost, and late changes of hot
coordinates overshoot. There a machine steps as if all M were doing alike (`dual`), so that its
vector holds M times what its rows have done, and offers one M-th: every step is added whole.

So value - base is what is to be offered, at any time, and ``value = known + (value - base)`` takes
an answer in without touching what came between. Where nothing did the value is `known` exactly, and
all machines have the same bits. Sums (the means of the duals, SAGA's average, and the coefficients
of the dual rule) lose nothing: what rounding for the wire leaves of them stays in value - base.

Who writes: the machine's vector, under each segment's word, the thread of the machine that talks to
the others, as one more worker; its account that thread alone; the global vector, and what it has
told whom, the owner's thread alone. On the one vector without locks (`hogwild`) it adds, as the
workers do. Who frees: nobody in a kernel.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.atomics import add_float, compare_exchange, store
from hogshare.kernels.endings import find_criteria, settle_columns
from hogshare.kernels.exchange import exchange_weight
from hogshare.kernels.jit import helper, inlined, kernel


class Account(NamedTuple):
    """A machine's account with the owner of the global vector; all of the flat vector's length.

    known, base : float64, see the file's head
    offered : float64, the last offer
    """

    known: np.ndarray
    base: np.ndarray
    offered: np.ndarray


class Terms(NamedTuple):
    """What an offer depends on.

    n_machines : of which this is one
    rows : of all workers of this one since the last offer
    decay : strength of l2, as far as it contracts a coordinate
    keep : 1.0 leaves what a weight holds back in the machine's vector; 0.0 drops it
    whole : 1 offers everything, whatever the weights: what is a sum
    stretch : what a change of the machine's coefficients is divided by when it is offered
    zeros : 1 where exact zeros are claimed, see `settle_offer`
    single : 1 rounds what is offered to four bytes
    locks : 1 where segments have words; 0 on the one vector
    atomic : 1 where adds to the one vector are atomic
    me : whoever holds the words
    """

    n_machines: float
    rows: float
    decay: float
    keep: float
    whole: int
    stretch: float
    zeros: int
    single: int
    locks: int
    atomic: int
    me: int


@inlined
def on_the_wire(value, single):
    """A value as it arrives."""
    return np.float64(np.float32(value)) if single != 0 else value


@helper
def offer_place(account, terms, at, value, weight, keep, stretch):
    """Settle what is offered of one coordinate."""
    base = account.base[at]
    change = value - base
    offered = on_the_wire(weight * change / stretch, terms.single)
    account.offered[at] = offered
    account.base[at] = value - keep * (change - stretch * offered)


@inlined
def take_place_in(account, at, value):
    """A coordinate's value with the owner's answer taken in."""
    known = account.known[at]
    now = known + (value - account.base[at])
    account.base[at] = known
    return now


@helper
def hold_segment(segments, word, terms):
    """Take a segment's word."""
    while terms.locks != 0 and compare_exchange(segments, word, 0, terms.me) != 0:
        pass


@helper
def release_segment(segments, word, terms):
    """Give it back."""
    if terms.locks != 0:
        store(segments, word, 0)


@helper
def offer_rest(vector, memory, account, terms, etas):
    """Offer intercepts and means of duals; the first segment's word is held."""
    m, n_columns = vector.w.shape[0], vector.intercept.shape[0]
    for c in range(n_columns):
        z = etas[c] * terms.rows * vector.intercept_curvature[0]
        weight = exchange_weight(z, terms.n_machines)
        kept = terms.keep if memory.average.shape[0] > 0 else 0.0
        offer_place(account, terms, m + c, vector.intercept[c], weight, kept, 1.0)
        offer_place(account, terms, m + n_columns + c, memory.dual_mean[c], 1.0, 1.0, 1.0)


@kernel
def offer(vector, memory, account, terms, etas):
    """Write into ``account.offered`` what this machine offers of each coordinate.

    etas : float64[n_columns], last step sizes
    """
    w = vector.w
    n_columns = vector.intercept.shape[0]
    m, n_features = w.shape[0], vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    size = (n_features + n_segments - 1) // n_segments
    half = 0.5 * terms.n_machines * terms.rows
    even = 1.0 / terms.n_machines
    for segment in range(n_segments):
        first, last = segment * size, min(n_features, segment * size + size)
        hold_segment(vector.segments, segment * layout.WORD, terms)
        for f in range(first, last):
            curved = half * (np.float64(vector.curvature[f]) + terms.decay)
            for c in range(n_columns):
                j = f * n_columns + c
                weight = 1.0
                if terms.whole == 0:
                    weight = even + (1.0 - even) / (1.0 + curved * etas[c])
                value = np.float64(w[j])
                if terms.zeros != 0 and value == 0.0 and account.base[j] != 0.0:
                    account.offered[j] = -account.known[j]
                    account.base[j] = 0.0
                else:
                    offer_place(account, terms, j, value, weight, terms.keep, terms.stretch)
        if memory.average.shape[0] > 0:
            for j in range(first * n_columns, last * n_columns):
                at = m + 2 * n_columns + j
                offer_place(account, terms, at, memory.average[j], 1.0, 1.0, 1.0)
        if segment == 0:
            offer_rest(vector, memory, account, terms, etas)
        release_segment(vector.segments, segment * layout.WORD, terms)


@helper
def add_in_place(array, j, now, terms):
    """Move a coordinate of the one vector, which others write meanwhile."""
    change = now - np.float64(array[j])
    if change == 0.0:
        return
    if terms.atomic != 0:
        add_float(array, j, array.dtype.type(change))
    else:
        array[j] += array.dtype.type(change)


@kernel
def take_in(vector, memory, account, terms):
    """Take the owner's answer, which is in ``account.known``, into the machine's vector."""
    w = vector.w
    kind = w.dtype.type
    n_columns = vector.intercept.shape[0]
    m, n_features = w.shape[0], vector.curvature.shape[0]
    n_segments = vector.segments.shape[0] // layout.WORD
    size = (n_features + n_segments - 1) // n_segments
    for segment in range(n_segments):
        first = segment * size * n_columns
        last = min(n_features, segment * size + size) * n_columns
        hold_segment(vector.segments, segment * layout.WORD, terms)
        for j in range(first, last):
            now = take_place_in(account, j, np.float64(w[j]))
            if terms.locks != 0:
                w[j] = kind(now)
            else:
                add_in_place(w, j, now, terms)
        if memory.average.shape[0] > 0:
            for j in range(first, last):
                now = take_place_in(account, m + 2 * n_columns + j, memory.average[j])
                if terms.locks != 0:
                    memory.average[j] = now
                else:
                    add_in_place(memory.average, j, now, terms)
        if segment == 0:
            for c in range(n_columns):
                vector.intercept[c] = take_place_in(account, m + c, vector.intercept[c])
                at = m + n_columns + c
                memory.dual_mean[c] = take_place_in(account, at, memory.dual_mean[c])
        release_segment(vector.segments, segment * layout.WORD, terms)


@kernel
def settle_offer(total, told, places, values, n_machines, zeros):
    """Add a machine's offer to the global vector.

    A coordinate that a machine's l1 has clipped to exactly zero is offered as minus what the
    machine was told. It sets the global one to zero if that is no larger by now: what has clipped
    the one clips anything smaller. Otherwise it counts as one of so many.

    total : float64, the global vector
    told : float64, what this machine has been told of it
    places : int64, of the values; empty: they are all
    """
    n = values.shape[0]
    for k in range(n):
        j = places[k] if places.shape[0] > 0 else k
        value = values[k]
        if zeros != 0 and value != 0.0 and value == -told[j]:
            total[j] = 0.0 if abs(total[j]) <= abs(told[j]) else total[j] + value / n_machines
        else:
            total[j] += value


@kernel
def list_news(total, told, places, values, single):
    """List where the global vector is not what a machine has been told, and how many places.

    Beyond as many as `places` holds they are counted, and not listed. `told` is brought up to date.
    """
    count = 0
    for j in range(total.shape[0]):
        now = on_the_wire(total[j], single)
        if now != told[j]:
            told[j] = now
            if count < places.shape[0]:
                places[count] = j
                values[count] = now
            count += 1
    return count


@kernel
def decide(rule, plan, columns, sums, w, divisors, scratch, n_rows, epoch):
    """What an epoch of all machines makes of step sizes; True if no column learns any more.

    sums : float64[3 * n_columns], of all machines
    scratch : float64[2, n_columns], the second row with the scores on held-out rows, if there are
    """
    criterion, score = scratch[0], scratch[1]
    find_criteria(rule, sums, w, divisors, n_rows, criterion)
    return settle_columns(rule, plan, columns, sums, criterion, score, epoch)
