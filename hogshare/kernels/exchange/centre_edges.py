"""The values on the edges between centres: passes that fold, send or take in these values.

    fold    add a worker's weighted change to the mirror, the total and every edge's residual
    pack    write the chosen part of a residual into the next slot of the edge
    let go  subtract the sent values from the residual
    take    add a message to the mirror, and to the residuals of edges that pass it on

A fold *counts* a worker's change: it adds weight times change, rounded once. Two equations are
exact for each parameter. (1) The values sent along an edge plus the edge's residual equal the
changes that were counted or passed on. (2) A mirror equals the changes that were counted plus the
values that have come.

Writers: the owner of the centre's lock writes the centre's rows and its edges' rows of a `Book`.
Readers: the same owner; an evaluation of the model also reads the mirror while workers run. Nothing
is freed in this file.

Order: the lock's owner may die at any store, so every pass works in chunks of `CHUNK` values. (1)
The pass writes a chunk's new values into `staged`. (2) A releasing store of J_STEP marks the chunk
as staged. (3) The pass copies the staged values to their place. (4) J_STEP names the next chunk. A
worker that finds the lock with a dead owner copies the staged values to their place, which may be
done twice, and continues the pass (`bring_to_an_end`). So a sent message is subtracted as a whole,
and a message is taken as a whole. The part of a fold that was not staged is lost with its worker:
it is missing from all arrays.

Each edge has its own residual, which is a sum and not the difference of two sums. So a message has
the bits of its changes' sum, as in the papers, and the remaining residual is exact. A fold
therefore writes one vector per edge. `open` has one byte for each 64 parameters. If the byte is 0,
the residual of these 64 parameters is zero, and no pass reads them.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.jit.atomics import add_float, store
from hogshare.kernels.jit.decorators import exact_helper, exact_inlined, exact_kernel
from hogshare.kernels.mail.edge_slots import next_slot, slot_of, take

CHUNK = 1024  # values that are staged at once: the staged values of an edge or two fit a cache
PLACES = 64  # parameters that have one byte of `open`
CLOSED, OPEN, SENT = range(3)  # of `open`; SENT: all of it is chosen or has been sent
NOTHING, FOLDING, TAKING, SENDING = range(4)  # of J_DOING
J_DOING, J_EDGE, J_NUMBER, J_STEP = range(4)  # J_STEP: twice the chunk, and 1 if it is staged
SUM, WEIGHTED, MEAN, MOMENTUM = range(4)  # how changes of several workers are folded
ABSOLUTE, RELATIVE, GIVEN = range(3)  # which changes are significant; GIVEN: `chosen` says it
SMALL = 0.01  # part of a value: `small` counts changes below it, as in section 3 of Gaia's paper
OWN_ROWS = 5  # of `staged`: mirror, total or got, change, withheld part, momentum


class Book(NamedTuple):
    """The arrays of all centres, edges and workers; each has one row. `Mirrors.arrays` lists them.

    mirror : float64 [n_centres, n], the model of each centre
    total : float64 [n_centres, n], the model's change by the centre's own workers
    staged : float64 [n_centres, OWN_ROWS + most edges that leave one, CHUNK]
    journal : int64 [n_centres, WORD]
    residual : float64 [n_edges, n], changes still to be sent
    got : float64 [n_edges, n], changes that have come
    open : uint8 [n_edges, n / PLACES]
    outer : float64 [n_workers, n], the momentum of a worker's changes; [n_workers, 0] without
        momentum
    chosen : uint8 [n_centres, n], flags of the parameters whose changes are sent
    announced : uint8 [n_edges, n], flags of the parameters that the centre has announced along an
        edge and has not sent yet
    blocked : uint8 [n_edges, n], flags of the parameters that were announced by an edge's sender
        and have not come yet
    n_blocked, n_announced : int64 [n_edges], number of an edge's flags that are set in `blocked`
        and in `announced`
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
    """The vector that a worker has changed: coefficients times their scales, and intercepts.

    w : float32 or float64 [at least m], coefficients without their scales
    tail : float64 [n - m], intercepts
    scales : float64 [n_columns]
    is_direct : whether other workers write the vector at the same time; if so, it is changed only
        by atomic adds
    """

    w: np.ndarray
    tail: np.ndarray
    scales: np.ndarray
    is_direct: bool


class Weights(NamedTuple):
    """The weights of changes; see `hogshare.kernels.exchange.copy_exchange` and docs/exchange.md.

    kind : SUM, WEIGHTED, MEAN or MOMENTUM
    curvature : float32 [n_features]
    of_intercepts : float64 [1], the intercepts' curvature
    etas : float64 [n_columns], step sizes
    rows : number of rows whose steps make a change
    decay : strength of the l2 part of the penalty
    clips : whether l1 makes exact zeros
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
    """Open the journal for an operation that has staged nothing yet."""
    store(journal, J_EDGE, edge)
    store(journal, J_NUMBER, number)
    store(journal, J_STEP, 0)
    store(journal, J_DOING, doing)  # last, releasing: it makes the other three entries valid


@exact_inlined
def end(journal):
    """Close the journal: nothing is half done."""
    store(journal, J_DOING, NOTHING)


@exact_inlined
def open_words(flags, first, last):
    """Mark the places ``first:last`` as OPEN: their residuals may be nonzero."""
    for word in range(first // PLACES, (last - 1) // PLACES + 1):
        flags[word] = OPEN


# -- fold


@exact_kernel
def are_equal(one, other):
    """Return whether two vectors have equal values."""
    for j in range(one.shape[0]):
        if one[j] != other[j]:
            break
    else:
        return True
    return False


@exact_helper
def read_live(live, m, first, last, out):
    """Copy the places ``first:last`` of the worker's model, with the scales applied, into `out`."""
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
    """Multiply the changes of the places ``first:last`` by their weights, in place."""
    even = 1.0 / one_of
    if weights.kind == MEAN:
        for i in range(last - first):
            change[i] *= even
        return
    n_columns = weights.etas.shape[0]
    end_of_w = min(m, last)
    if n_columns == 1:
        # `exchange_weight`, with the factors common to all places in registers
        uneven, half = 1.0 - even, 0.5 * one_of * weights.etas[0] * weights.rows
        offset = 1.0 + half * weights.decay
        curvature = weights.curvature[first : max(first, end_of_w)]
        for i in range(curvature.shape[0]):
            change[i] *= even + uneven / (offset + half * np.float64(curvature[i]))
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
    """Fold a worker's change since `base` into mirror, total and residuals.

    out : int64, the edges that begin at the centre; the change is added to their residuals
    one_of : number of changes that start from about the same vector, including this change
    momentum : factor of the earlier changes, with weights of kind MOMENTUM
    who : number of the worker whose momentum is used
    is_own : whether no other worker has moved the mirror since `base`. If so, the mirror becomes
        the worker's own vector, without the rounding of a sum.
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
        # loops run over views, from 0: LLVM does not vectorise an index that may be negative
        was, began, counted = mirror[first:last], base[first:last], total[first:last]
        read_live(live, m, first, last, after)
        n_changed = 0
        n_small = 0
        for i in range(size):
            change[i] = after[i] - began[i]
            moved = change[i] != 0.0
            n_changed += moved
            n_small += moved & (abs(change[i]) <= SMALL * abs(was[i]))
        momenta, n_moved = outer[first : min(outer.shape[0], last)], n_changed
        for i in range(momenta.shape[0]):
            n_changed += momenta[i] != 0.0
        if n_changed == 0:
            continue
        small[0] += n_small
        small[1] += n_moved
        if weights.kind != SUM:
            if live.is_direct:
                for i in range(size):
                    withheld[i] = change[i]
            if weights.kind == MOMENTUM:
                gather_pace(momenta, momentum, 1.0 / one_of, change, gained)
            else:
                weigh(weights, one_of, m, first, last, change)
            if weights.clips:
                # zeros of l1 stay exact: the penalty that clipped the base to zero clips any
                # smaller value
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
        store(journal, J_STEP, 2 * chunk + 1)  # staged: from now on the chunk survives a death
        if live.is_direct and weights.kind != SUM:
            withhold(live, m, first, last, withheld)
        put_fold(book, centre, out, first, last, who)
        store(journal, J_STEP, 2 * chunk + 2)  # only now may `staged` be written again
    end(journal)


@exact_inlined
def gather_pace(momenta, momentum, even, change, gained):
    """Add the momentum of earlier changes to `change` as Nesterov does; multiply it by `even`.

    The new momentum is written into `gained`.
    """
    for i in range(momenta.shape[0]):
        gained[i] = momentum * momenta[i] + change[i]
        change[i] = even * (momentum * gained[i] + change[i])


@exact_helper
def round_as(w, m, first, last, values):
    """Round coefficients to the dtype of the vector that all workers write."""
    kind = w.dtype.type
    for j in range(first, min(m, last)):
        values[j - first] = np.float64(kind(values[j - first]))


@exact_helper
def withhold(live, m, first, last, withheld):
    """Subtract the withheld part of a change from a vector that others write at the same time."""
    kind = live.w.dtype.type
    for j in range(first, min(m, last)):
        if withheld[j - first] != 0.0:
            add_float(live.w, j, kind(-withheld[j - first]))
    for j in range(max(first, m), last):
        if withheld[j - first] != 0.0:
            add_float(live.tail, j - m, -withheld[j - first])


@exact_inlined
def put(staged, place):
    """Copy the first ``len(place)`` staged values into `place`."""
    for i in range(place.shape[0]):
        place[i] = staged[i]


@exact_inlined
def put_fold(book, centre, out, first, last, who):
    """Copy the staged values of a fold to their places; the copy may be repeated."""
    outer = book.outer[who]
    put(book.staged[centre, 4], outer[first : min(outer.shape[0], last)])
    put(book.staged[centre, 0], book.mirror[centre, first:last])
    put(book.staged[centre, 1], book.total[centre, first:last])
    for k in range(out.shape[0]):
        put(book.staged[centre, OWN_ROWS + k], book.residual[out[k], first:last])


# -- send


@exact_kernel
def choose(book, centre, edge, kind, limits):
    """Choose the values of a residual to send: significant values, and announced values.

    The choice is written into `chosen` of the centre, only where `open` is not CLOSED. `open` is
    updated: SENT if all nonzero residuals of a byte are chosen.

    kind : ABSOLUTE or RELATIVE, or GIVEN if `chosen` already flags the significant changes
    limits : float64 [1] or [n], thresholds

    Return the numbers of significant, of changed, and of chosen values.
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
    """Mark the significant residuals; a residual of zero is never significant."""
    size = left.shape[0]
    if limits.shape[0] > 1:
        for i in range(size):
            limit = limits[i]
            if kind == RELATIVE and limit < np.inf:
                limit *= abs(value[i])
            take[i] = (left[i] != 0.0) & (abs(left[i]) > limit)
        return
    limit = limits[0]
    # for a value of 0 every change is significant; an infinite limit admits none (inf * 0 is NaN)
    if kind == RELATIVE and limit < np.inf:
        for i in range(size):
            take[i] = (left[i] != 0.0) & (abs(left[i]) > limit * abs(value[i]))
    else:
        for i in range(size):
            take[i] = (left[i] != 0.0) & (abs(left[i]) > limit)


@exact_inlined
def as_sent(value, single):
    """Round a value to float32 if values are sent as float32."""
    return np.float64(np.float32(value)) if single else value


@exact_kernel
def pack(book, box, centre, edge, is_whole, single, round_):
    """Write the chosen values into the next slot of an edge, and open the journal for its sending.

    is_whole : whether the values of all places are sent, without the places
    single : whether values are rounded to float32 before they are sent
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
    # before the post: POSTED shows a successor whether the message has been sent
    begin(book.journal[centre], SENDING, edge, box.counters[edge, layout.M_POSTED] + 1)


@exact_kernel
def let_go(book, box, centre):
    """Subtract the sent message that the journal names from the edge's residual.

    The pass begins at the chunk that J_STEP names.
    """
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
        if step != 2 * chunk + 1:  # otherwise a dead owner has staged this chunk already
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
    """Open the journal for taking in the next message of an edge."""
    begin(book.journal[centre], TAKING, edge, box.counters[edge, layout.M_TAKEN] + 1)


@exact_helper
def stage_sum(vector, come, where, first, is_whole, out):
    """Write the sums of the vector and a message's values into `out`.

    The values belong to the places from `first` on if the message is whole, otherwise to `where`.
    """
    if is_whole:
        part = vector[first : first + come.shape[0]]
        for i in range(come.shape[0]):
            out[i] = part[i] + come[i]
    else:
        for i in range(come.shape[0]):
            out[i] = vector[where[i]] + come[i]


@exact_helper
def put_at(staged, vector, where, first, size, is_whole):
    """Copy staged values to their places in the vector.

    The places are those from `first` on if the message is whole, otherwise `where`.
    """
    if is_whole:
        put(staged, vector[first : first + size])
    else:
        for i in range(size):
            vector[where[i]] = staged[i]


@exact_helper
def move_live(live, m, come, where, first, is_whole, staged, is_again):
    """Add the values of a message to a vector that other workers write at the same time.

    is_again : whether a dead owner had begun to add the message. The number of values that it had
        added is unknown, so the staged values replace the values of the vector.
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
    """Add the message that the journal names to the mirror, then acknowledge it.

    The pass begins at the chunk that J_STEP names.

    passes_on : int64, indices in `out` of the edges that pass the message on
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
        is_again = step == 2 * chunk + 1  # a dead owner has staged this chunk
        if not is_again:
            stage_sum(mirror, come, where, first, is_whole, staged[0])
            if live.is_direct:  # these values are right if no other worker writes meanwhile
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
    # last: a worker that takes over after this sees that the message is taken, and does nothing
    take(box, edge, number)
    end(journal)


@exact_kernel
def finish_fold(book, centre, out, live):
    """Copy the chunk of a fold that a dead owner has staged to its place; later chunks are lost."""
    step, n = book.journal[centre, J_STEP], book.mirror.shape[1]
    m = n - live.tail.shape[0]
    kind = live.w.dtype.type
    if step % 2 == 1:
        first = step // 2 * CHUNK
        last = min(n, first + CHUNK)
        if live.is_direct:  # the part withheld so far is unknown: the staged values replace it
            for j in range(first, min(m, last)):
                live.w[j] = kind(book.staged[centre, 0, j - first])
            for j in range(max(first, m), last):
                live.tail[j - m] = book.staged[centre, 0, j - first]
        put_fold(book, centre, out, first, last, book.journal[centre, J_NUMBER])
    end(book.journal[centre])


@exact_kernel
def end_of(journal):
    """Close the journal, for callers outside this file."""
    end(journal)


@exact_kernel
def adopt(mirror, live, base):
    """Copy a centre's mirror into a worker's vector and into its base; set its scales to 1.

    The worker's next change is counted from the base.
    """
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
