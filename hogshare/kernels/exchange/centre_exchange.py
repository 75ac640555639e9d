"""The work of a worker for its centre after a block, in one call: fold, send, take in, wait.

    LOCK    take the centre's lock, and finish the operation of a dead owner
    FOLD    once per block: fold the worker's change, and advance the centre's clock
    SEND    send the changes that pass the filter to each reader not yet notified of this clock
    TAKE    take the messages of other centres; in step, once every awaited message has come
    CHECK   check whether the worker may go on; if so, it adopts the mirror
    WAIT    wait without the lock, until another pass may achieve something

The call (`go`) returns GO_ON when all phases are done. If the caller has to act first, the call
returns the name of the action, and the next call continues from the same phase. The actions are:
wait (FOR_CLOCK, FOR_VALUES, FOR_LOCK, FOR_CAPACITY); ask a user's function which changes are
significant (ASK); pass a message to a transport (HAND_OVER); determine whether the next block reads
announced values (READS); adopt the mirror of a home whose iterates are averaged (ADOPT). Each
worker's `at` records its phase. A worker owns the lock except while it waits.

Writers: the owner of a centre's lock writes the centre's rows and its edges' rows, as the head of
`hogshare.planes.mirrors.centre` says; a worker writes its own rows. Readers: the same workers;
waiting workers also read the clocks. Nothing is freed in this file.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange import centre_edges
from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import exact_helper, exact_kernel
from hogshare.kernels.jit.host import nanoseconds, yield_core
from hogshare.kernels.mail.edge_slots import has_mail, next_slot, post, slot_of, take

# answers
GO_ON = -1
FOR_CLOCK, FOR_VALUES, FOR_LOCK, FOR_CAPACITY = range(4)  # reasons to wait; indices of `waits`
ASK, HAND_OVER, READS, ADOPT = range(4, 8)

# at : int64 [N_AT]
A_PHASE, A_OUT, A_ASKED, A_KIND, A_SIZE, A_COUNT, A_WHY, A_PASSED, A_ROUND = range(9)
A_ONE_OF = 9  # the count of `note_proposals` for the vector at which the block began
N_AT = 16
LOCK, FOLD, SEND, SENT, TAKE, CHECK, UNLOCK, WAIT = range(8)  # A_PHASE

UPDATE, BARRIER, CLOCK = range(3)  # of `sent`: kinds of messages
MESSAGES, BYTES = range(2)
KINDS_OF_ROUND = 2  # a message's round is this number times the clock, plus 1 in an announcement
SPANS, SPANS_OF_DOUBLE = 96, 3.0  # spans of clocks in `course`; spans over which a clock doubles
C_PASSED, C_CHANGED, C_BYTES, C_DENSE = range(4)  # of a span
EASIER = 0.1  # part of the way from the hard threshold to the soft one, per clock
NOBODY = 0  # value of a free lock; otherwise 1 + its owner
PYTHON, KERNEL, NOT = range(3)  # where the mirror is adopted; NOT: blocks move it themselves


class Map(NamedTuple):
    """The centres, their workers and the edges between them.

    groups : int64 [n_workers], the centre of each worker
    senders : int64 [n_edges], the centre at which each edge begins
    readers : int64 [n_edges], the centre at which each edge ends
    out : int64, edges that begin at this centre
    into : int64, edges that end at this centre
    passes_on : uint8 [n_edges, len(out)], 1 if an edge of `out` passes on the messages of an edge
    others : int64 [n_centres - 1, 3]; for each other centre (1) the number of its workers, (2) the
        edge by which its changes come, and (3) the number of edges that its changes cross
    first : the first worker of this centre
    is_inner : uint8 [n_edges], 1 if both ends are parts of the same centre; parts of the same
        centre send each other all changes
    every : float64 [1], the threshold of an inner edge: 0
    is_close : whether every centre of the run receives all changes directly, and none through a
        third centre
    """

    groups: np.ndarray
    senders: np.ndarray
    readers: np.ndarray
    out: np.ndarray
    into: np.ndarray
    passes_on: np.ndarray
    others: np.ndarray
    first: int
    is_inner: np.ndarray
    every: np.ndarray
    is_close: bool


class CentreTerms(NamedTuple):
    """The constants of a run.

    per : number of a worker's blocks in one clock of its centre
    in_epoch : number of blocks of its own rows that a worker has in an epoch; 0 if a worker claims
        any block
    difference : number of clocks by which a centre may be ahead of the slowest centre
    delay : seconds from the first failed attempt to send until values are announced
    queue : number of slots of an edge; the last slot is reserved for announcements
    kind : one of `centre_edges.ABSOLUTE`, `RELATIVE`, `GIVEN`
    hard : float64 [1] or [n], thresholds
    soft : the threshold to which `hard` is eased; NaN if it is not eased
    falls : whether thresholds fall with the square root of the clock
    single : whether values are sent as float32
    header : number of bytes of a message's header
    place_bytes : number of bytes of a value's place in a message
    at_once : whether a message arrives as soon as it is posted
    adopts : where the mirror is adopted: PYTHON, KERNEL or NOT
    """

    per: int
    in_epoch: int
    difference: int
    delay: float
    queue: int
    kind: int
    hard: np.ndarray
    soft: float
    falls: bool
    single: bool
    header: int
    place_bytes: int
    at_once: bool
    adopts: int


@exact_helper
def are_all_gone(table, groups, centre):
    """Return whether all workers of a centre are done, dead or paused, so that none sends now."""
    for k in range(groups.shape[0]):
        if groups[k] == centre and load(table[k], layout.T_STATE) < layout.DONE:
            return False
    return True


@exact_helper
def are_all_over(table, groups, centre):
    """Return whether all workers of a centre are done or dead, so that none reads any more."""
    for k in range(groups.shape[0]):
        state = load(table[k], layout.T_STATE)
        if groups[k] == centre and not (state == layout.DONE or state == layout.DEAD):
            return False
    return True


@exact_helper
def are_all_dead(table, groups, centre):
    """Return whether all workers of a centre have died."""
    for k in range(groups.shape[0]):
        if groups[k] == centre and load(table[k], layout.T_STATE) != layout.DEAD:
            return False
    return True


@exact_helper
def under_way(box, edge):
    """Return the number of an edge's messages that were sent and not yet acknowledged."""
    counters = box.counters[edge]
    return load(counters, layout.M_POSTED) - load(counters, layout.M_TAKEN)


@exact_helper
def find(box, edge):
    """Return the slot of an edge's next message, if it has arrived and is due; otherwise -1."""
    if not has_mail(box, edge):
        return -1
    slot = slot_of(box, box.counters[edge, layout.M_TAKEN] + 1)
    due = box.heads[edge, slot, layout.H_DUE]  # 0 unless the link is emulated
    return -1 if due > 0 and due > nanoseconds() else slot


@exact_helper
def is_silent(book, where, box, table, edge):
    """Return whether an edge's sender is gone and all of the edge's messages are taken."""
    return are_all_gone(table, where.groups, where.senders[edge]) and under_way(box, edge) <= 0


@exact_helper
def is_due(book, where, table, edge, now):
    """Return whether an edge's reader is not yet notified of clock `now`, and may still read."""
    return book.notified[edge] < now and not are_all_over(table, where.groups, where.readers[edge])


@exact_helper
def has_capacity(box, edge, queue):
    """Return whether an edge has space for values; its last slot is reserved for announcements."""
    return under_way(box, edge) <= queue - 2


# -- fold


@exact_helper
def note_proposals(book, where, table, centre, at):
    """Record in A_ONE_OF how many changes start from about the same vector as the next block.

    A worker of this centre counts once. A worker of another centre counts once for each clock that
    its centre is behind in that vector, and once more for each centre that passes its changes on. A
    centre whose workers have all died does not count: its clock stands still, so its count would
    grow at every clock, and the weights of changes would fall to zero. A worker that is done still
    counts, because the moment at which others see that it is done depends on timing.
    """
    found = 0
    for k in range(where.groups.shape[0]):
        found += where.groups[k] == centre
    now = book.clock[centre] + 1
    for k in range(where.others.shape[0]):
        edge, hops = where.others[k, 1], where.others[k, 2]
        if are_all_dead(table, where.groups, k if k < centre else k + 1):
            continue
        found += where.others[k, 0] * max(1, now - book.heard[edge] + hops - 1)
    at[A_ONE_OF] = found


@exact_helper
def tick(book, where, terms, table, me, centre):
    """Advance the centre's clock to the least clock of the centre's workers in the run.

    If workers have rows of their own, only blocks of these rows count, not blocks taken over from a
    worker that is gone. All workers have equally many blocks of their own, so no centre waits for a
    clock that no worker reaches.
    """
    done = table[me, layout.T_SHARE] if terms.in_epoch > 0 else table[me, layout.T_CLOCK]
    store(book.rounds, me, done // terms.per)
    least = done // terms.per
    for k in range(where.groups.shape[0]):
        state = load(table[k], layout.T_STATE)
        in_run = state == layout.ACTIVE or state == layout.WAITING
        if where.groups[k] == centre and in_run:
            least = min(least, book.rounds[k])
    # the maximum: a worker that joins late must not set the clock back
    store(book.clock, centre, max(book.clock[centre], least))


# -- send


@exact_helper
def limits_of(book, terms, edge, t, out):
    """Write an edge's thresholds at clock t into `out`: one for all places, or one per place."""
    factor = 1.0 / math.sqrt(np.float64(t)) if terms.falls else 1.0
    ease = book.ease[edge]
    for j in range(out.shape[0]):
        hard = terms.hard[j]
        if terms.soft == terms.soft and ease > 0.0:  # not NaN
            hard += ease * (terms.soft - hard)
        out[j] = hard * factor


@exact_helper
def span_of(clock):
    """Return the index of a clock's span in `course`.

    Spans are logarithmic: over `SPANS_OF_DOUBLE` spans the clock doubles.
    """
    return min(SPANS - 1, int(SPANS_OF_DOUBLE * math.log2(np.float64(clock))))


@exact_helper
def choose_for(book, where, terms, centre, edge, now, limits):
    """Call `centre_edges.choose` for an edge at this clock."""
    if where.is_inner[edge] != 0:
        return centre_edges.choose(book, centre, edge, centre_edges.ABSOLUTE, where.every)
    if terms.kind != centre_edges.GIVEN:
        limits_of(book, terms, edge, max(1, book.before[centre] + now), limits)
    return centre_edges.choose(book, centre, edge, terms.kind, limits)


@exact_helper
def ease(book, terms, edge, towards):
    """Move an edge's threshold by `towards` times EASIER on its way from hard to soft.

    The caller eases the threshold (1.0) if the edge had space at once, and tightens it (-1.0) if
    the edge had none.
    """
    if terms.soft == terms.soft:
        book.ease[edge] = min(1.0, max(0.0, book.ease[edge] + towards * EASIER))


@exact_helper
def write_update(book, where, terms, box, centre, edge, now, limits, at):
    """Write the significant changes into the next slot of an edge, and kind and size into `at`."""
    ease(book, terms, edge, -1.0 if book.wanted[edge] != 0.0 else 1.0)
    passed, changed, count = choose_for(book, where, terms, centre, edge, now, limits)
    n, item = book.mirror.shape[1], 4 if terms.single else 8
    is_whole = count > 0 and count * (item + terms.place_bytes) >= n * item
    size = terms.header + (n * item if is_whole else count * (item + terms.place_bytes))
    if where.is_inner[edge] == 0:
        course = book.course[centre, span_of(max(1, book.before[centre] + now))]
        course[C_PASSED] += passed
        course[C_CHANGED] += changed
        course[C_BYTES] += size
        course[C_DENSE] += terms.header + n * item
    at[A_KIND], at[A_SIZE] = UPDATE if count > 0 else CLOCK, size
    centre_edges.pack(book, box, centre, edge, is_whole, terms.single, now * KINDS_OF_ROUND)


@exact_helper
def write_announcement(book, where, terms, box, centre, edge, now, limits, at):
    """Announce in an edge's last slot which values will come; return whether there are any.

    In step this function is never called: a worker then waits for every clock with all its values.
    If the worker also waited for announced values of a clock that it may not take yet, it would
    wait forever (`tests/models/mirrors.pml`, twin NAMES_IN_STEP).
    """
    choose_for(book, where, terms, centre, edge, now, limits)
    chosen, flags, known = book.chosen[centre], book.open[edge], book.announced[edge]
    slot = next_slot(box, edge)
    capacity = box.places.shape[2]
    names = box.values[edge, slot][capacity:].view(np.int32)  # places, two per float64
    count = 0
    for j in range(known.shape[0]):
        if (
            flags[j // centre_edges.PLACES] != centre_edges.CLOSED
            and chosen[j] != 0
            and known[j] == 0
        ):
            names[count] = j
            count += 1
    if count == 0:
        return False
    if count % 2 == 1:
        names[count] = -1  # padding: the reader takes both halves of a value
    for k in range(count):
        known[names[k]] = 1
    book.n_announced[edge] += count
    head = box.heads[edge, slot]
    round_ = now * KINDS_OF_ROUND + 1
    head[layout.H_ROUND], head[layout.H_FOOTER] = round_, round_
    head[layout.H_COUNT], head[layout.H_DENSE] = 0, (count + 1) // 2
    at[A_KIND], at[A_SIZE] = BARRIER, terms.header + count * terms.place_bytes
    return True


@exact_helper
def note_sent(book, where, box, centre, edge, now, at):
    """Account for a sent message: update the residual, the notified clock and the counts.

    An announcement changes the counts only.
    """
    if at[A_KIND] != BARRIER:
        centre_edges.let_go(book, box, centre)
        store(book.notified, edge, now)
        book.wanted[edge] = 0.0
    book.sent[edge, at[A_KIND], MESSAGES] += 1
    book.sent[edge, at[A_KIND], BYTES] += at[A_SIZE]


@exact_helper
def write_next(book, where, terms, box, centre, edge, now, seconds, limits, at):
    """Write the message of an edge whose reader is due.

    Return 1 if the message has to be sent, 0 if there is none, and -1 if the caller has to ask the
    user's function first.
    """
    has_space = has_capacity(box, edge, terms.queue)
    if not has_space:
        if terms.difference == 0:
            return 0
        if book.wanted[edge] == 0.0:
            book.wanted[edge] = max(seconds, 1e-300)  # 0 would mean that nothing is wanted
            return 0
        if seconds - book.wanted[edge] < terms.delay or under_way(box, edge) >= terms.queue:
            return 0
    if terms.kind == centre_edges.GIVEN and where.is_inner[edge] == 0 and at[A_ASKED] != edge + 1:
        at[A_ASKED] = edge + 1
        return -1
    at[A_ASKED] = 0
    if has_space:
        write_update(book, where, terms, box, centre, edge, now, limits, at)
        return 1
    return 1 if write_announcement(book, where, terms, box, centre, edge, now, limits, at) else 0


# -- take in


@exact_helper
def way_of(where, edge, out):
    """Write into `out` the indices in `Map.out` of the edges that pass on the messages of `edge`.

    Return the number of these edges.
    """
    n = 0
    for k in range(where.out.shape[0]):
        if where.passes_on[edge, k] != 0:
            out[n] = k
            n += 1
    return n


@exact_helper
def finish_taking(book, where, box, live, centre, way):
    """Take in the remainder of the message that the journal names; this may be repeated."""
    journal = book.journal[centre]
    edge, number = journal[centre_edges.J_EDGE], journal[centre_edges.J_NUMBER]
    head = box.heads[edge, slot_of(box, number)]
    # a maximum and an assignment: a successor may repeat both (`bring_to_an_end`)
    book.heard[edge] = max(book.heard[edge], head[layout.H_ROUND] // KINDS_OF_ROUND)
    book.got_number[edge] = number
    n = way_of(where, edge, way)
    centre_edges.take_in(book, box, centre, where.out, live, way[:n])


@exact_helper
def block(book, box, edge, slot):
    """Block the parameters that a message announces, and acknowledge the message.

    Blocks that read these parameters wait for the values.
    """
    capacity, dense = box.places.shape[2], box.heads[edge, slot, layout.H_DENSE]
    names = box.values[edge, slot][capacity : capacity + dense].view(np.int32)
    blocked = book.blocked[edge]
    for k in range(names.shape[0]):
        if names[k] >= 0 and blocked[names[k]] == 0:
            blocked[names[k]] = 1
            book.n_blocked[edge] += 1
    take(box, edge, box.counters[edge, layout.M_TAKEN] + 1)


@exact_helper
def find_next(book, terms, box, centre, edge):
    """Return the slot of an edge's next message if it may be taken in this clock; otherwise -1.

    An announcement may always be taken. In step a message is early, and stays in its slot, if the
    message of this clock has already been taken. The test is >= because a centre may skip clocks
    when its slowest worker dies.
    """
    slot = find(box, edge)
    if slot < 0 or terms.difference > 0:
        return slot
    if box.heads[edge, slot, layout.H_ROUND] % KINDS_OF_ROUND != 0:
        return slot
    return -1 if book.heard[edge] >= book.clock[centre] else slot


@exact_helper
def may_take(book, where, terms, box, table, centre):
    """Return whether messages with values may be taken now.

    In step they may be taken once every awaited message has come.
    """
    if terms.difference > 0:
        return True
    for k in range(where.into.shape[0]):
        edge = where.into[k]
        if book.heard[edge] >= book.clock[centre]:
            continue
        # `is_silent` before `find`: a centre posts before it leaves, so `find` sees its last
        # message
        silent = is_silent(book, where, box, table, edge)
        if find(box, edge) < 0 and not silent:
            return False
    return True


@exact_helper
def take_mail(book, where, terms, box, table, live, centre, way):
    """Take in all messages that may be taken: each pass takes one message per edge, in edge order.

    In step, centres may not differ by a clock, and messages are taken only when every awaited
    message has come. So a run with one worker per centre repeats bit for bit.
    """
    took = True
    while took:
        # decided once per pass: a message that comes meanwhile waits for the next pass
        took, allowed = False, may_take(book, where, terms, box, table, centre)
        for k in range(where.into.shape[0]):
            edge = where.into[k]
            slot = find_next(book, terms, box, centre, edge)
            while slot >= 0 and box.heads[edge, slot, layout.H_ROUND] % KINDS_OF_ROUND != 0:
                block(book, box, edge, slot)
                slot = find_next(book, terms, box, centre, edge)
            if slot >= 0 and allowed:
                centre_edges.begin_taking(book, box, centre, edge)
                finish_taking(book, where, box, live, centre, way)
                took = True


# -- wait


@exact_helper
def is_behind_in_step(book, where, terms, box, table, centre):
    """Return whether, in step, a reader that goes on is not yet notified of this clock.

    Across sites an acknowledgement may come after the reader's own next message. If the sender did
    not wait for the acknowledgement, it would notify the reader of two clocks in one message. If
    the sender took the reader's message before it sends, other changes would be significant.
    """
    if terms.difference > 0:
        return False
    now = book.clock[centre]
    for k in range(where.out.shape[0]):
        edge = where.out[k]
        if is_due(book, where, table, edge, now) and not are_all_gone(
            table, where.groups, where.readers[edge]
        ):
            return True
    return False


@exact_helper
def is_owed(book, where, terms, table, me, centre, opened):
    """Return whether a reader may wait for a message that has no space and cannot be sent later.

    A worker that has done its rows of an epoch sends nothing more until the other workers have done
    their rows of the same epoch.

    opened : number of epochs that the worker may begin without the others; 0 if all workers begin
        an epoch together
    """
    done = table[me, layout.T_SHARE]
    if terms.in_epoch == 0 or done % terms.in_epoch != 0 or done < terms.in_epoch * opened:
        return False
    now = book.clock[centre]
    for k in range(where.out.shape[0]):
        edge = where.out[k]
        if is_due(book, where, table, edge, now) and book.clock[where.readers[edge]] < now:
            return True
    return False


@exact_helper
def is_blocked(book, where, box, table):
    """Return whether announced values have not come yet and may still come."""
    for k in range(where.into.shape[0]):
        edge = where.into[k]
        if book.n_blocked[edge] > 0 and not is_silent(book, where, box, table, edge):
            return True
    return False


@exact_helper
def wait_reason(book, where, terms, box, table, me, centre, opened):
    """Return the worker's reason to wait: FOR_CLOCK, FOR_CAPACITY, READS or GO_ON.

    READS means that the worker waits only if its next block reads announced values; GO_ON means
    that it waits for nothing.
    """
    now = book.clock[centre]
    for k in range(where.into.shape[0]):
        edge = where.into[k]
        is_ahead = now - book.heard[edge] > terms.difference
        if is_ahead and not is_silent(book, where, box, table, edge):
            return FOR_CLOCK
    if is_owed(book, where, terms, table, me, centre, opened):
        return FOR_CAPACITY
    return READS if is_blocked(book, where, box, table) else GO_ON


@exact_helper
def has_any_capacity(book, where, terms, box, table, centre):
    """Return whether any edge whose reader is due has space."""
    for k in range(where.out.shape[0]):
        edge = where.out[k]
        if is_due(book, where, table, edge, book.clock[centre]) and has_capacity(
            box, edge, terms.queue
        ):
            return True
    return False


@exact_kernel
def has_news(book, where, terms, box, table, me, at, opened):
    """Return whether another pass may take or send a message, or end the wait."""
    centre = where.groups[me]
    if at[A_WHY] == FOR_LOCK:
        owner = load(book.lock[centre], 0) - 1
        return owner < 0 or load(table[owner], layout.T_STATE) == layout.DEAD
    if is_behind_in_step(book, where, terms, box, table, centre):
        return has_any_capacity(book, where, terms, box, table, centre)
    allowed = may_take(book, where, terms, box, table, centre)
    for k in range(where.into.shape[0]):
        edge = where.into[k]
        slot = find_next(book, terms, box, centre, edge)
        announces = slot >= 0 and box.heads[edge, slot, layout.H_ROUND] % KINDS_OF_ROUND != 0
        if slot >= 0 and (allowed or announces):
            return True
    why = wait_reason(book, where, terms, box, table, me, centre, opened)
    if why == GO_ON or (why == READS and at[A_WHY] != FOR_VALUES):
        return True
    return has_any_capacity(book, where, terms, box, table, centre)


@exact_helper
def take_lock(book, table, me, centre):
    """Take the centre's lock if it is free or its owner is dead; return whether it was taken."""
    words = book.lock[centre]
    owner = compare_exchange(words, 0, NOBODY, me + 1)
    if owner == NOBODY:
        return True
    if load(table[owner - 1], layout.T_STATE) != layout.DEAD:
        return False
    # of several workers that find the same owner dead only one succeeds
    return compare_exchange(words, 0, owner, me + 1) == owner


@exact_helper
def bring_to_an_end(book, where, box, live, centre, way):
    """Finish the operation that a dead owner of the lock had begun, as the journal says."""
    journal = book.journal[centre]
    doing, edge, number = (
        journal[centre_edges.J_DOING],
        journal[centre_edges.J_EDGE],
        journal[centre_edges.J_NUMBER],
    )
    counters = box.counters[edge]
    if doing == centre_edges.FOLDING:
        centre_edges.finish_fold(book, centre, where.out, live)
    elif doing == centre_edges.TAKING and load(counters, layout.M_TAKEN) < number:
        finish_taking(book, where, box, live, centre, way)
    elif doing == centre_edges.SENDING and load(counters, layout.M_POSTED) >= number:
        centre_edges.let_go(book, box, centre)
    centre_edges.end_of(journal)


@exact_kernel
def go(book, where, terms, box, table, live, weights, scratch, at, me, opened, seconds, spin_ns):
    """Advance through the phases after a block until the caller has to act; see the file's head.

    scratch : float64 [1] or [n] for thresholds, and int64 [len(out)] for edges; overwritten
    at : int64 [N_AT], the worker's phase and its other state between two calls; updated
    opened : see `is_owed`
    seconds : time by the run's clock
    spin_ns : nanoseconds to wait in this call before the caller has to wait
    """
    limits, way = scratch
    centre = where.groups[me]
    began = nanoseconds() if spin_ns > 0 else 0
    while True:
        phase = at[A_PHASE]
        if phase <= FOLD:
            if not take_lock(book, table, me, centre):
                at[A_WHY] = FOR_LOCK
                if spin_ns == 0 or nanoseconds() - began > spin_ns:
                    return FOR_LOCK
                yield_core()
                continue
            # left open by an owner that died, or whose caller gave up (`release`)
            if book.journal[centre, centre_edges.J_DOING] != centre_edges.NOTHING:
                bring_to_an_end(book, where, box, live, centre, way)
            if phase == FOLD:
                base = book.mirror[centre] if live.is_direct else book.base[me]
                is_own = live.is_direct or centre_edges.are_equal(book.mirror[centre], base)
                if terms.adopts == NOT or at[A_ONE_OF] == 0:
                    note_proposals(book, where, table, centre, at)
                one_of = np.float64(at[A_ONE_OF])
                # momentum for all workers or for none: otherwise the changes of some workers would
                # count more in the long run
                is_level = where.is_close and terms.difference == 0
                momentum = 1.0 - 1.0 / one_of if is_level else 0.0
                who = where.first if live.is_direct else me
                more = live, base, weights, one_of, momentum, who, is_own
                centre_edges.fold(book, centre, where.out, *more)
                tick(book, where, terms, table, me, centre)
            at[A_PHASE], at[A_OUT], at[A_ASKED] = SEND, 0, 0
        elif phase == SEND:
            now = book.clock[centre]
            if at[A_OUT] == where.out.shape[0]:
                at[A_PHASE] = TAKE
                if is_behind_in_step(book, where, terms, box, table, centre):
                    at[A_PHASE], at[A_WHY] = UNLOCK, FOR_CAPACITY
                continue
            edge = where.out[at[A_OUT]]
            if is_due(book, where, table, edge, now):
                has_to_go = write_next(
                    book, where, terms, box, centre, edge, now, seconds, limits, at
                )
                if has_to_go < 0:
                    return ASK
                if has_to_go > 0:
                    at[A_PHASE], at[A_ROUND] = SENT, now
                    if not terms.at_once:
                        return HAND_OVER  # the caller sends it before it calls again
                    post(box, edge)
                    continue
            at[A_OUT] += 1
        elif phase == SENT:
            note_sent(book, where, box, centre, where.out[at[A_OUT]], at[A_ROUND], at)
            at[A_PHASE] = SEND
            at[A_OUT] += 1
        elif phase == TAKE:
            take_mail(book, where, terms, box, table, live, centre, way)
            at[A_PHASE], at[A_PASSED] = CHECK, 0
        elif phase == CHECK:
            why = wait_reason(book, where, terms, box, table, me, centre, opened)
            if why == READS:
                if at[A_PASSED] == 0:
                    at[A_PASSED] = 1  # the caller sets FOR_VALUES if the next block reads one
                    return READS
                if at[A_WHY] == FOR_VALUES:
                    why = FOR_VALUES
                else:
                    book.passes[me] += at[A_WHY] != ADOPT  # after ADOPT it has been counted
                    why = GO_ON
            if why == GO_ON and terms.adopts == PYTHON and at[A_WHY] != ADOPT:
                at[A_WHY] = ADOPT
                return ADOPT
            if why == GO_ON:
                if terms.adopts == KERNEL:
                    centre_edges.adopt(book.mirror[centre], live, book.base[me])
                note_proposals(book, where, table, centre, at)
            at[A_PHASE], at[A_WHY] = UNLOCK, why
        elif phase == UNLOCK:
            at[A_PHASE] = WAIT
            store(book.lock[centre], 0, NOBODY)
        elif at[A_WHY] == GO_ON:
            return GO_ON
        elif has_news(book, where, terms, box, table, me, at, opened):
            at[A_PHASE], at[A_WHY] = LOCK, GO_ON
        else:
            if spin_ns == 0 or nanoseconds() - began > spin_ns:
                return at[A_WHY]
            yield_core()


@exact_kernel
def release(book, me, centre):
    """Give the lock back if the worker owns it, for a caller that does not call `go` again."""
    compare_exchange(book.lock[centre], 0, me + 1, NOBODY)
