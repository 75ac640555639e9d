"""What goes along the edges between centres: one pass each to fold, to send and to take in.

    fold    a worker's weighted change goes into the mirror, the total and every edge's residual
    pack    what of a residual is sent goes into the next slot of the edge
    let go  what was sent is taken out of the residual
    take    a message goes into the mirror, and into the residuals of edges that pass it on

For each parameter, with what each fold counts of a worker's change (weight times change, rounded
once), exactly: what was sent along an edge and its residual are what was counted and passed on; a
mirror is what was counted and what has come.

Who writes: the holder of the centre's lock the centre's rows of a `Book`, and those of its edges. Who
reads: the same; the mirror also who evaluates the model while others work. Who frees: nobody here.

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
from hogshare.kernels.atomics import add_float, store
from hogshare.kernels.exchange import exchange_weight
from hogshare.kernels.jit import exact_helper, exact_inlined, exact_kernel
from hogshare.kernels.mailbox import next_slot, slot_of, take

CHUNK = 1024  # numbers that are staged at once: what is staged for an edge or two fits a cache
PLACES = 64  # parameters that have one byte of `open`
CLOSED, OPEN, SENT = range(3)  # of `open`; SENT: whatever is there has been sent, up to rounding
NOTHING, FOLDING, TAKING, SENDING = range(4)  # of J_DOING
J_DOING, J_EDGE, J_NUMBER, J_STEP = range(4)  # J_STEP: twice the chunk, and 1 if it is staged
SUM, WEIGHTED, MEAN = range(3)  # how changes of several workers are folded
ABSOLUTE, RELATIVE, GIVEN = range(3)  # what is significant; GIVEN: what `chosen` says
SMALL = 0.01  # of a value: changes below are counted, as in section 3 of Gaia's paper
OWN_ROWS = 4  # of `staged`: mirror, total or what has come, the change, what of it is withheld


class Book(NamedTuple):
    """The arrays of all centres, edges and workers, by rows, as `Mirrors.arrays` lists them.

    mirror, total : float64 [n_centres, n]; the model, and what the centre's workers changed of it
    staged : float64 [n_centres, OWN_ROWS + most edges that leave one, CHUNK]
    journal : int64 [n_centres, WORD]
    residual, got : float64 [n_edges, n]; what is still to be sent, and what has come
    open : uint8 [n_edges, n / PLACES]
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
    """By what changes are multiplied; see `hogshare.kernels.exchange` and docs/exchange.md.

    kind : SUM, WEIGHTED or MEAN
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
            return False
    return True


@exact_helper
def read_live(live, m, first, last, out):
    """Copy the worker's numbers from first to last."""
    n_columns = live.scales.shape[0]
    end_of_w = min(m, last)
    if n_columns == 1:
        scale = live.scales[0]
        for j in range(first, end_of_w):
            out[j - first] = np.float64(live.w[j]) * scale
    else:
        for j in range(first, end_of_w):
            out[j - first] = np.float64(live.w[j]) * live.scales[j % n_columns]
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
        reach = weights.etas[0] * weights.rows
        for j in range(first, end_of_w):
            z = reach * (np.float64(weights.curvature[j]) + weights.decay)
            change[j - first] *= exchange_weight(z, one_of)
    else:
        for j in range(first, end_of_w):
            curved = np.float64(weights.curvature[j // n_columns]) + weights.decay
            z = weights.etas[j % n_columns] * weights.rows * curved
            change[j - first] *= exchange_weight(z, one_of)
    for j in range(max(first, m), last):
        z = weights.etas[(j - m) % n_columns] * weights.rows * weights.of_intercepts[0]
        change[j - first] *= exchange_weight(z, one_of)


@exact_kernel
def fold(book, centre, out, live, base, weights, one_of, is_own):
    """Fold what a worker has changed since `base` into all that it belongs to.

    one_of : how many changes from about the same vector this is one of
    is_own : whether nobody else has moved the mirror since: it becomes the worker's own vector, of
        which no sum is rounded
    """
    mirror, total = book.mirror[centre], book.total[centre]
    staged, journal, small = book.staged[centre], book.journal[centre], book.small[centre]
    n = mirror.shape[0]
    m = n - live.tail.shape[0]
    after, added, change, withheld = staged[0], staged[1], staged[2], staged[3]
    begin(journal, FOLDING, 0, 0)
    for chunk in range((n + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(n, chunk * CHUNK + CHUNK)
        size = last - first
        read_live(live, m, first, last, after)
        n_changed = 0
        n_small = 0
        for i in range(size):
            change[i] = after[i] - base[first + i]
            n_changed += change[i] != 0.0
            n_small += (change[i] != 0.0) & (abs(change[i]) <= SMALL * abs(mirror[first + i]))
        if n_changed == 0:
            continue
        small[0] += n_small
        small[1] += n_changed
        if weights.kind != SUM:
            for i in range(size):
                withheld[i] = change[i]
            weigh(weights, one_of, m, first, last, change)
            if weights.clips:
                # what clipped the base to zero clips anything smaller: l1's zeros stay exact
                for i in range(min(size, m - first)):
                    before = mirror[first + i]
                    if after[i] == 0.0 and abs(before) <= abs(base[first + i]):
                        change[i] = -before
            for i in range(size):
                withheld[i] -= change[i]
        if weights.kind != SUM or not is_own:
            for i in range(size):
                after[i] = mirror[first + i] + change[i]
            if live.is_direct:
                round_as(live.w, m, first, last, after)
        for i in range(size):
            added[i] = total[first + i] + change[i]
        for k in range(out.shape[0]):
            residual, sum_of = book.residual[out[k]], staged[OWN_ROWS + k]
            for i in range(size):
                sum_of[i] = residual[first + i] + change[i]
            open_words(book.open[out[k]], first, last)
        store(journal, J_STEP, 2 * chunk + 1)
        if live.is_direct and weights.kind != SUM:
            withhold(live, m, first, last, withheld)
        put_fold(book, centre, out, first, last)
        store(journal, J_STEP, 2 * chunk + 2)
    end(journal)


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
def put_fold(book, centre, out, first, last):
    """Put what is staged of a fold in place."""
    mirror, total, staged = book.mirror[centre], book.total[centre], book.staged[centre]
    for i in range(last - first):
        mirror[first + i] = staged[0, i]
        total[first + i] = staged[1, i]
    for k in range(out.shape[0]):
        residual = book.residual[out[k]]
        for i in range(last - first):
            residual[first + i] = staged[OWN_ROWS + k, i]


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
        in_word = 0
        passed_in_word = 0
        for j in range(first, last):
            moved = residual[j] != 0.0
            in_word += moved
            if kind != GIVEN:
                limit = limits[0] if limits.shape[0] == 1 else limits[j]
                if kind == RELATIVE:  # of a value of 0 all is significant, unless nothing ever is
                    limit *= abs(mirror[j]) if limit < np.inf else 1.0
                chosen[j] = moved & (abs(residual[j]) > limit)
            passed_in_word += chosen[j] != 0
        if waits:
            for j in range(first, last):
                chosen[j] |= announced[j]
        chosen_in_word = 0
        for j in range(first, last):
            chosen_in_word += chosen[j] != 0
        changed += in_word
        passed += passed_in_word
        count += chosen_in_word
        if in_word == 0 and chosen_in_word == 0:
            flags[word] = CLOSED
        else:
            flags[word] = SENT if chosen_in_word >= in_word else OPEN
    return passed, changed, count


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
        for j in range(n):
            values[capacity + j] = as_sent(residual[j], single)
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
        if step != 2 * chunk + 1:  # else it stands there: who has staged it has died
            for i in range(first, last):
                j = i if is_whole else places[i]
                staged[i - first] = residual[j] - values[at + i]
                if staged[i - first] != 0.0:
                    flags[j // PLACES] = OPEN
            store(journal, J_STEP, 2 * chunk + 1)
        for i in range(first, last):
            j = i if is_whole else places[i]
            residual[j] = staged[i - first]
            if was_announced:
                announced[j] = 0
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
    for chunk in range(step // 2, (count + CHUNK - 1) // CHUNK):
        first, last = chunk * CHUNK, min(count, chunk * CHUNK + CHUNK)
        is_again = step == 2 * chunk + 1  # who has staged it has died
        if not is_again:
            for i in range(first, last):
                j = i if is_whole else places[i]
                after = mirror[j] + values[at + i]
                if live.is_direct and j < m:
                    after = np.float64(kind(after))  # what it will be, if nobody writes meanwhile
                staged[0, i - first] = after
                staged[1, i - first] = got[j] + values[at + i]
            for k in range(passes_on.shape[0]):
                row = out[passes_on[k]]
                residual, flags = book.residual[row], book.open[row]
                sum_of = staged[OWN_ROWS + passes_on[k]]
                for i in range(first, last):
                    j = i if is_whole else places[i]
                    sum_of[i - first] = residual[j] + values[at + i]
                    flags[j // PLACES] = OPEN
            store(journal, J_STEP, 2 * chunk + 1)
        for i in range(first, last):
            j = i if is_whole else places[i]
            if live.is_direct and is_again:
                # of which nobody knows how much had been added
                if j < m:
                    live.w[j] = kind(staged[0, i - first])
                else:
                    live.tail[j - m] = staged[0, i - first]
            elif live.is_direct and values[at + i] != 0.0:
                if j < m:
                    add_float(live.w, j, kind(values[at + i]))
                else:
                    add_float(live.tail, j - m, values[at + i])
            mirror[j] = staged[0, i - first]
            got[j] = staged[1, i - first]
            blocked[j] = 0
        for k in range(passes_on.shape[0]):
            residual = book.residual[out[passes_on[k]]]
            sum_of = staged[OWN_ROWS + passes_on[k]]
            for i in range(first, last):
                j = i if is_whole else places[i]
                residual[j] = sum_of[i - first]
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
        put_fold(book, centre, out, first, last)
    end(book.journal[centre])


@exact_kernel
def end_of(journal):
    """Write down that nothing is half done."""
    end(journal)


@exact_kernel
def adopt(mirror, live, base):
    """Have a worker go on from its centre's mirror, and count its changes from there."""
    w, tail = live.w, live.tail
    m = mirror.shape[0] - tail.shape[0]
    kind = w.dtype.type
    for j in range(m):
        w[j] = kind(mirror[j])
        base[j] = np.float64(w[j])
    for j in range(m, mirror.shape[0]):
        tail[j - m] = mirror[j]
        base[j] = mirror[j]
    for c in range(live.scales.shape[0]):
        live.scales[c] = 1.0
