"""What goes along the edges between centres: one pass each to fold, to send and to take in.

    fold    a worker's weighted change goes into the mirror, the total and every edge's residual
    pack    what of a residual is sent goes into the next slot of the edge
    let go  what was sent is taken out of the residual
    take    a message goes into the mirror, and into the residuals of edges that pass it on

For each parameter, with what each fold counts of a worker's change (weight times change, rounded
once), exactly: what was sent along an edge and its residual are what was counted and passed on; a
mirror is what was counted and what has come.

Who writes: the holder of the centre's lock the centre's rows of a `Book`, and those of its edges.
Who reads: the same; the mirror also who evaluates the model while others work. Who frees: nobody
here.

Order, so that a holder may die at any store: all is done in chunks of `CHUNK` numbers. A chunk's
new values are staged, then J_STEP says so, releasing, then they are put in place, then J_STEP names
the next chunk. Who finds the lock with a dead holder puts what is staged in place, which may be
done twice, and goes on from there (`bring_to_an_end`): a message that was sent is let go whole, one
that was being taken is taken whole, and of a fold what has not been staged is lost with its worker,
from all arrays alike.

A residual is a sum of its own for each edge, and no difference of two sums: so a message has the
bits of the changes that it is made of, as the papers' sums have, and what stays is exact. A fold
writes one vector an edge for it. `open` has a byte for 64 parameters, 0 where a residual has
nothing: no pass reads those.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.jit.atomics import add_float, store
from hogshare.kernels.jit.decorators import exact_helper, exact_inlined, exact_kernel
from hogshare.kernels.mail.edge_slots import next_slot, slot_of, take

CHUNK = 1024  # numbers that are staged at once: what is staged for an edge or two fits a cache
PLACES = 64  # parameters that have one byte of `open`
CLOSED, OPEN, SENT = range(3)  # of `open`; SENT: whatever is there has been sent, up to rounding
NOTHING, FOLDING, TAKING, SENDING = range(4)  # of J_DOING
J_DOING, J_EDGE, J_NUMBER, J_STEP = range(4)  # J_STEP: twice the chunk, and 1 if it is staged
SUM, WEIGHTED, MEAN, MOMENTUM = range(4)  # how changes of several workers are folded
ABSOLUTE, RELATIVE, GIVEN = range(3)  # what is significant; GIVEN: what `chosen` says
SMALL = 0.01  # of a value: changes below are counted, as in section 3 of Gaia's paper
OWN_ROWS = 5  # of `staged`: mirror, total or what has come, change, what is withheld, momentum


class Book(NamedTuple):
    """The arrays of all centres, edges and workers, by rows, as `Mirrors.arrays` lists them.

    mirror, total : float64 [n_centres, n]; the model, and what the centre's workers changed of it
    staged : float64 [n_centres, OWN_ROWS + most edges that leave one, CHUNK]
    journal : int64 [n_centres, WORD]
    residual, got : float64 [n_edges, n]; what is still to be sent, and what has come
    open : uint8 [n_edges, n / PLACES]
    outer : float64 [n_workers, n], or [n_workers, 0]; the momentum of a worker's changes
    chosen, announced, blocked : uint8 [n_centres or n_edges, n]; what is sent, what was announced
        and not sent, what was announced and is still to come; `n_blocked` and `n_announced` of them
    """

    lock: np.ndarray
    journal: np.ndarray
    mirror: np.ndarray
    total: np.ndarray
    staged: np.ndarray
    chosen: np.ndarray
    clock: np.ndarray
    before: np.ndarray
    small: np.ndarray
    course: np.ndarray
    residual: np.ndarray
    open: np.ndarray
    got: np.ndarray
    got_number: np.ndarray
    blocked: np.ndarray
    n_blocked: np.ndarray
    announced: np.ndarray
    n_announced: np.ndarray
    heard: np.ndarray
    notified: np.ndarray
    wanted: np.ndarray
    ease: np.ndarray
    sent: np.ndarray
    base: np.ndarray
    outer: np.ndarray
    passes: np.ndarray
    rounds: np.ndarray


class Live(NamedTuple):
    """The vector that a worker has moved: coefficients times their scales, and intercepts.

    w : float32 or float64 [at least m]
    tail : float64 [n - m], intercepts
    scales : float64 [n_columns]
    is_direct : whether others write it meanwhile, so that it is changed by atomic adds alone
    """

    w: np.ndarray
    tail: np.ndarray
    scales: np.ndarray
    is_direct: bool


class Weights(NamedTuple):
    """By what changes are multiplied; see `hogshare.kernels.exchange.copy_exchange` and
    docs/exchange.md.

    kind : SUM, WEIGHTED, MEAN or MOMENTUM
    curvature : float32 [n_features], and of intercepts float64 [1]
    etas : float64 [n_columns], step sizes
    rows : that a change is of
    decay : strength of l2
    clips : whether zeros are exact, by l1
    """

    kind: int
    curvature: np.ndarray
    of_intercepts: np.ndarray
    etas: np.ndarray
    rows: float
    decay: float
    clips: bool


@exact_inlined
def begin(journal, doing, edge, number):
    """Write down what is begun; nothing of it has been staged."""
    store(journal, J_EDGE, edge)
    store(journal, J_NUMBER, number)
    store(journal, J_STEP, 0)
    store(journal, J_DOING, doing)


@exact_inlined
def end(journal):
    """Write down that nothing is half done."""
    store(journal, J_DOING, NOTHING)


@exact_inlined
def open_words(flags, first, last):
    """Say of places first to last that a residual may have something there."""
    for word in range(first // PLACES, (last - 1) // PLACES + 1):
        flags[word] = OPEN


# -- fold


@exact_kernel
def are_equal(one, other):
    """Whether two vectors are the same."""
    for j in range(one.shape[0]):
        if one[j] != other[j]:
            break
    else:
        return True
    return False


@exact_helper
def read_live(live, m, first, last, out):
    """Copy the worker's numbers from first to last."""
    n_columns = live.scales.shape[0]
    w = live.w[first : max(first, min(m, last))]
    if n_columns == 1:
        scale = live.scales[0]
        for i in range(w.shape[0]):
            out[i] = np.float64(w[i]) * scale
    else:
        for i in range(w.shape[0]):
            out[i] = np.float64(w[i]) * live.scales[(first + i) % n_columns]
    for j in range(max(first, m), last):
        out[j - first] = live.tail[j - m]


@exact_helper
def weigh(weights, one_of, m, first, last, change):
    """Multiply the changes of places first to last by their weights."""
    even = 1.0 / one_of
    if weights.kind == MEAN:
        for i in range(last - first):
            change[i] *= even
        return
    n_columns = weights.etas.shape[0]
    end_of_w = min(m, last)
    if n_columns == 1:
        # `exchange_weight`, with what is one for all in registers
        rest, half = 1.0 - even, 0.5 * one_of * weights.etas[0] * weights.rows
        offset = 1.0 + half * weights.decay
        curvature = weights.curvature[first : max(first, end_of_w)]
        for i in range(curvature.shape[0]):
            change[i] *= even + rest / (offset + half * np.float64(curvature[i]))
    else:
        for j in range(first, end_of_w):
            curved = np.float64(weights.curvature[j // n_columns]) + weights.decay
            z = weights.etas[j % n_columns] * weights.rows * curved
            change[j - first] *= exchange_weight(z, one_of)
    for j in range(max(first, m), last):
        z = weights.etas[(j - m) % n_columns] * weights.rows * weights.of_intercepts[0]
        change[j - first] *= exchange_weight(z, one_of)


@exact_kernel
def fold(book, centre, out, live, base, weights, one_of, momentum, who, is_own):
    """Fold what a worker has changed since `base` into all that it belongs to.

    one_of : how many changes from about the same vector this is one of
    momentum : what of the changes so far counts again, where weights are of that kind
    who : the worker whose momentum it is
    is_own : whether nobody else has moved the mirror since: it becomes the worker's own vector, of
        which no sum is rounded
    """
    mirror, total = book.mirror[centre], book.total[centre]
    staged, journal, small = book.staged[centre], book.journal[centre], book.small[centre]
    n = mirror.shape[0]
    m = n - live.tail.shape[0]
    after, added, change, withheld, gained = staged[0], staged[1], staged[2], staged[3], staged[4]
    outer = book.outer[who]
    begin(journal, FOLDING, 0, who)
    for chunk in range((n + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(n, chunk * CHUNK + CHUNK)
        size = last - first
        # loops over views from 0 on: an index that may be negative keeps them from being vectors
        was, began, counted = mirror[first:last], base[first:last], total[first:last]
        read_live(live, m, first, last, after)
        n_changed = 0
        n_small = 0
        for i in range(size):
            change[i] = after[i] - began[i]
            moved = change[i] != 0.0
            n_changed += moved
            n_small += moved & (abs(change[i]) <= SMALL * abs(was[i]))
        held, n_moved = outer[first : min(outer.shape[0], last)], n_changed
        for i in range(held.shape[0]):
            n_changed += held[i] != 0.0
        if n_changed == 0:
            continue
        small[0] += n_small
        small[1] += n_moved
        if weights.kind != SUM:
            if live.is_direct:
                for i in range(size):
                    withheld[i] = change[i]
            if weights.kind == MOMENTUM:
                gather_pace(held, momentum, 1.0 / one_of, change, gained)
            else:
                weigh(weights, one_of, m, first, last, change)
            if weights.clips:
                # what clipped the base to zero clips anything smaller: l1's zeros stay exact
                for i in range(min(size, m - first)):
                    if after[i] == 0.0 and abs(was[i]) <= abs(began[i]):
                        change[i] = -was[i]
            if live.is_direct:
                for i in range(size):
                    withheld[i] -= change[i]
        if weights.kind != SUM or not is_own:
            for i in range(size):
                after[i] = was[i] + change[i]
            if live.is_direct:
                round_as(live.w, m, first, last, after)
        for i in range(size):
            added[i] = counted[i] + change[i]
        for k in range(out.shape[0]):
            residual, sum_of = book.residual[out[k], first:last], staged[OWN_ROWS + k]
            for i in range(size):
                sum_of[i] = residual[i] + change[i]
            open_words(book.open[out[k]], first, last)
        store(journal, J_STEP, 2 * chunk + 1)
        if live.is_direct and weights.kind != SUM:
            withhold(live, m, first, last, withheld)
        put_fold(book, centre, out, first, last, who)
        store(journal, J_STEP, 2 * chunk + 2)
    end(journal)


@exact_inlined
def gather_pace(held, momentum, even, change, gained):
    """Add to changes what is held of those before, as Nesterov has it; all of it counts evenly."""
    for i in range(held.shape[0]):
        gained[i] = momentum * held[i] + change[i]
        change[i] = even * (momentum * gained[i] + change[i])


@exact_helper
def round_as(w, m, first, last, values):
    """Round coefficients as a vector that is written by all has them."""
    kind = w.dtype.type
    for j in range(first, min(m, last)):
        values[j - first] = np.float64(kind(values[j - first]))


@exact_helper
def withhold(live, m, first, last, withheld):
    """Take what a weight withholds out of a vector that others write meanwhile."""
    kind = live.w.dtype.type
    for j in range(first, min(m, last)):
        if withheld[j - first] != 0.0:
            add_float(live.w, j, kind(-withheld[j - first]))
    for j in range(max(first, m), last):
        if withheld[j - first] != 0.0:
            add_float(live.tail, j - m, -withheld[j - first])


@exact_inlined
def put(staged, place):
    """Put what is staged in place, as far as that goes."""
    for i in range(place.shape[0]):
        place[i] = staged[i]


@exact_inlined
def put_fold(book, centre, out, first, last, who):
    """Put what is staged of a fold in place."""
    outer = book.outer[who]
    put(book.staged[centre, 4], outer[first : min(outer.shape[0], last)])
    put(book.staged[centre, 0], book.mirror[centre, first:last])
    put(book.staged[centre, 1], book.total[centre, first:last])
    for k in range(out.shape[0]):
        put(book.staged[centre, OWN_ROWS + k], book.residual[out[k], first:last])


# -- send


@exact_kernel
def choose(book, centre, edge, kind, limits):
    """Choose what of a residual is sent: what is significant, and what its reader waits for.

    kind, limits : ABSOLUTE or RELATIVE, and float64 [1] or [n]; GIVEN: `chosen` says what is

    `chosen` is written where `open` says that there is something.

    Returns how many are significant, how many have changed, and how many are chosen.
    """
    residual, mirror, flags = book.residual[edge], book.mirror[centre], book.open[edge]
    chosen, announced = book.chosen[centre], book.announced[edge]
    waits = book.n_announced[edge] > 0
    n = residual.shape[0]
    passed = 0
    changed = 0
    count = 0
    for word in range(flags.shape[0]):
        if flags[word] == CLOSED:
            continue
        first, last = word * PLACES, min(n, word * PLACES + PLACES)
        left, value, take = residual[first:last], mirror[first:last], chosen[first:last]
        size = last - first
        in_word = 0
        for i in range(size):
            in_word += left[i] != 0.0
        if kind != GIVEN:
            mark(left, value, take, kind, limits[first:last] if limits.shape[0] > 1 else limits)
        passed_in_word = 0
        for i in range(size):
            passed_in_word += np.int64(take[i])
        chosen_in_word = passed_in_word
        if waits:
            chosen_in_word = 0
            for i in range(size):
                take[i] |= announced[first + i]
                chosen_in_word += np.int64(take[i])
        changed += in_word
        passed += passed_in_word
        count += chosen_in_word
        if in_word == 0 and chosen_in_word == 0:
            flags[word] = CLOSED
        else:
            flags[word] = SENT if chosen_in_word >= in_word else OPEN
    return passed, changed, count


@exact_helper
def mark(left, value, take, kind, limits):
    """Mark which residuals of a word are significant; of what has not changed none is."""
    size = left.shape[0]
    if limits.shape[0] > 1:
        for i in range(size):
            limit = limits[i]
            if kind == RELATIVE and limit < np.inf:
                limit *= abs(value[i])
            take[i] = (left[i] != 0.0) & (abs(left[i]) > limit)
        return
    limit = limits[0]
    if kind == RELATIVE and limit < np.inf:  # of a value of 0 all is, unless nothing ever is
        for i in range(size):
            take[i] = (left[i] != 0.0) & (abs(left[i]) > limit * abs(value[i]))
    else:
        for i in range(size):
            take[i] = (left[i] != 0.0) & (abs(left[i]) > limit)


@exact_inlined
def as_sent(value, single):
    """A value in the bytes that it is counted by."""
    return np.float64(np.float32(value)) if single else value


@exact_kernel
def pack(book, box, centre, edge, is_whole, single, round_):
    """Write what is chosen into the next slot of an edge, and into the journal that it is sent.

    is_whole : whether all numbers go, without their places
    single : whether values are rounded to float32, whose bytes are counted
    """
    residual, flags, chosen = book.residual[edge], book.open[edge], book.chosen[centre]
    n = residual.shape[0]
    slot = next_slot(box, edge)
    head, places = box.heads[edge, slot], box.places[edge, slot]
    values = box.values[edge, slot]
    capacity = places.shape[0]
    count = 0
    if is_whole:
        whole = values[capacity : capacity + n]
        for j in range(n):
            whole[j] = as_sent(residual[j], single)
        for word in range(flags.shape[0]):
            flags[word] = SENT
    else:
        for word in range(flags.shape[0]):
            if flags[word] == CLOSED:
                continue
            for j in range(word * PLACES, min(n, word * PLACES + PLACES)):
                if chosen[j] != 0:
                    places[count] = j
                    values[count] = as_sent(residual[j], single)
                    count += 1
    head[layout.H_ROUND] = round_
    head[layout.H_COUNT] = count
    head[layout.H_DENSE] = n if is_whole else 0
    head[layout.H_FOOTER] = round_
    begin(book.journal[centre], SENDING, edge, box.counters[edge, layout.M_POSTED] + 1)


@exact_kernel
def let_go(book, box, centre):
    """Take what the journal says was sent out of its residual, from where that stands on."""
    journal = book.journal[centre]
    edge, number, step = journal[J_EDGE], journal[J_NUMBER], journal[J_STEP]
    slot = slot_of(box, number)
    head, places = box.heads[edge, slot], box.places[edge, slot]
    values = box.values[edge, slot]
    residual, flags, staged = book.residual[edge], book.open[edge], book.staged[centre, 0]
    announced, was_announced = book.announced[edge], book.n_announced[edge] > 0
    count, at = head[layout.H_COUNT], 0
    is_whole = head[layout.H_DENSE] > 0
    if is_whole:
        count, at = head[layout.H_DENSE], places.shape[0]
    for chunk in range(step // 2, (count + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(count, chunk * CHUNK + CHUNK)
        size = last - first
        sent, where = values[at + first : at + last], places[first : max(first, last - at)]
        if step != 2 * chunk + 1:  # else it stands there: who has staged it has died
            if is_whole:
                left = residual[first:last]
                for i in range(size):
                    staged[i] = left[i] - sent[i]
                for word in range((size + PLACES - 1) // PLACES):
                    some = 0
                    part = staged[word * PLACES : min(size, word * PLACES + PLACES)]
                    for i in range(part.shape[0]):
                        some += part[i] != 0.0
                    if some > 0:
                        flags[first // PLACES + word] = OPEN
            else:
                for i in range(size):
                    staged[i] = residual[where[i]] - sent[i]
                    if staged[i] != 0.0:
                        flags[where[i] // PLACES] = OPEN
            store(journal, J_STEP, 2 * chunk + 1)
        if is_whole:
            put(staged, residual[first:last])
        else:
            for i in range(size):
                residual[where[i]] = staged[i]
        if was_announced:
            for i in range(size):
                announced[first + i if is_whole else where[i]] = 0
        store(journal, J_STEP, 2 * chunk + 2)
    for word in range(flags.shape[0]):
        if flags[word] == SENT:
            flags[word] = CLOSED
    book.n_announced[edge] = 0
    end(journal)


# -- take in


@exact_kernel
def begin_taking(book, box, centre, edge):
    """Write into the journal that the next message of an edge is taken in."""
    begin(book.journal[centre], TAKING, edge, box.counters[edge, layout.M_TAKEN] + 1)


@exact_helper
def stage_sum(vector, come, where, first, is_whole, out):
    """Stage a vector with what has come: from `first` on where that is whole, else `where`."""
    if is_whole:
        part = vector[first : first + come.shape[0]]
        for i in range(come.shape[0]):
            out[i] = part[i] + come[i]
    else:
        for i in range(come.shape[0]):
            out[i] = vector[where[i]] + come[i]


@exact_helper
def put_at(staged, vector, where, first, size, is_whole):
    """Put what is staged where it belongs."""
    if is_whole:
        put(staged, vector[first : first + size])
    else:
        for i in range(size):
            vector[where[i]] = staged[i]


@exact_helper
def move_live(live, m, come, where, first, is_whole, staged, is_again):
    """Add what has come to a vector that others write meanwhile.

    is_again : of which nobody knows how much had been added: what is staged takes its place
    """
    kind = live.w.dtype.type
    for i in range(come.shape[0]):
        j = first + i if is_whole else where[i]
        if is_again:
            if j < m:
                live.w[j] = kind(staged[i])
            else:
                live.tail[j - m] = staged[i]
        elif come[i] != 0.0:
            if j < m:
                add_float(live.w, j, kind(come[i]))
            else:
                add_float(live.tail, j - m, come[i])


@exact_kernel
def take_in(book, box, centre, out, live, passes_on):
    """Add the message that the journal names to the mirror, from where that stands on; take it.

    passes_on : int64, which of the edges in `out` pass it on
    """
    journal, mirror, staged = book.journal[centre], book.mirror[centre], book.staged[centre]
    edge, number, step = journal[J_EDGE], journal[J_NUMBER], journal[J_STEP]
    got, blocked = book.got[edge], book.blocked[edge]
    slot = slot_of(box, number)
    head, places = box.heads[edge, slot], box.places[edge, slot]
    values = box.values[edge, slot]
    count, at = head[layout.H_COUNT], 0
    is_whole = head[layout.H_DENSE] > 0
    if is_whole:
        count, at = head[layout.H_DENSE], places.shape[0]
    m = mirror.shape[0] - live.tail.shape[0]
    kind = live.w.dtype.type
    was_blocked = book.n_blocked[edge] > 0
    for chunk in range(step // 2, (count + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(count, chunk * CHUNK + CHUNK)
        size = last - first
        come, where = values[at + first : at + last], places[first : max(first, last - at)]
        is_again = step == 2 * chunk + 1  # who has staged it has died
        if not is_again:
            stage_sum(mirror, come, where, first, is_whole, staged[0])
            if live.is_direct:  # what it will be, if nobody writes meanwhile
                for i in range(size):
                    if (first + i if is_whole else where[i]) < m:
                        staged[0, i] = np.float64(kind(staged[0, i]))
            stage_sum(got, come, where, first, is_whole, staged[1])
            for k in range(passes_on.shape[0]):
                row = out[passes_on[k]]
                sums, flags = staged[OWN_ROWS + passes_on[k]], book.open[row]
                stage_sum(book.residual[row], come, where, first, is_whole, sums)
                for i in range(size):
                    flags[(first + i if is_whole else where[i]) // PLACES] = OPEN
            store(journal, J_STEP, 2 * chunk + 1)
        if live.is_direct:
            move_live(live, m, come, where, first, is_whole, staged[0], is_again)
        put_at(staged[0], mirror, where, first, size, is_whole)
        put_at(staged[1], got, where, first, size, is_whole)
        for k in range(passes_on.shape[0]):
            sums = staged[OWN_ROWS + passes_on[k]]
            put_at(sums, book.residual[out[passes_on[k]]], where, first, size, is_whole)
        if was_blocked:
            for i in range(size):
                blocked[first + i if is_whole else where[i]] = 0
        store(journal, J_STEP, 2 * chunk + 2)
    if book.n_blocked[edge] > 0:
        left = 0
        for j in range(blocked.shape[0]):
            left += blocked[j] != 0
        book.n_blocked[edge] = left
    # the last: who takes over after this sees that the message is taken, and does nothing
    take(box, edge, number)
    end(journal)


@exact_kernel
def finish_fold(book, centre, out, live):
    """Put what a dead holder has staged of a fold in place; the rest of it is lost."""
    step, n = book.journal[centre, J_STEP], book.mirror.shape[1]
    m = n - live.tail.shape[0]
    kind = live.w.dtype.type
    if step % 2 == 1:
        first = step // 2 * CHUNK
        last = min(n, first + CHUNK)
        if live.is_direct:  # of which nobody knows how much had been withheld
            for j in range(first, min(m, last)):
                live.w[j] = kind(book.staged[centre, 0, j - first])
            for j in range(max(first, m), last):
                live.tail[j - m] = book.staged[centre, 0, j - first]
        put_fold(book, centre, out, first, last, book.journal[centre, J_NUMBER])
    end(book.journal[centre])


@exact_kernel
def end_of(journal):
    """Write down that nothing is half done."""
    end(journal)


@exact_kernel
def adopt(mirror, live, base):
    """Have a worker go on from its centre's mirror, and count its changes from there."""
    tail = live.tail
    m = mirror.shape[0] - tail.shape[0]
    w, part = live.w[:m], base[:m]
    kind = w.dtype.type
    for j in range(m):
        w[j] = kind(mirror[j])
        part[j] = np.float64(w[j])
    for j in range(tail.shape[0]):
        tail[j] = mirror[m + j]
        base[m + j] = mirror[m + j]
    for c in range(live.scales.shape[0]):
        live.scales[c] = 1.0
