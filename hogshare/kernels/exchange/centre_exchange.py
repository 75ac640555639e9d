"""A worker's part in its centre after a block, in one call: fold, send, take in, wait a moment.

    LOCK    take the centre's lock, and bring to its end what a dead holder was at
    FOLD    once a block: fold the worker's change, and move the centre's clock
    SEND    to each reader that is to be notified of this clock, what the filter lets through
    TAKE    what other centres have sent, in step when each has come that is waited for
    CHECK   whether the worker may go on; then it adopts the mirror
    WAIT    without the lock, until another pass may come to something

The call ends at GO_ON, or where its caller has to do something, and goes on from there when called
again: wait (FOR_CLOCK and its like), ask a function of the user's which changes are significant
(ASK), hand a message to a transport (HAND_OVER), say whether the next block reads what was
announced (READS), or adopt the mirror of a home whose iterates are averaged (ADOPT). `at` says
where it stands, a worker's own; the lock is held but where it waits.

Who writes: the holder of a centre's lock the centre's rows and those of its edges, as the head of
`hogshare.planes.mirrors.centre` says; a worker its own rows. Who reads: the same, and who waits the
clocks. Who frees: nobody here.
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
FOR_CLOCK, FOR_VALUES, FOR_LOCK, FOR_CAPACITY = range(4)  # wait, and for what; places of `waits`
ASK, HAND_OVER, READS, ADOPT = range(4, 8)

# at : int64 [N_AT]
A_PHASE, A_OUT, A_ASKED, A_KIND, A_SIZE, A_COUNT, A_WHY, A_PASSED, A_ROUND = range(9)
A_ONE_OF = 9  # as `note_proposals` has it of the vector that the block began at
N_AT = 16
LOCK, FOLD, SEND, SENT, TAKE, CHECK, UNLOCK, WAIT = range(8)  # A_PHASE

UPDATE, BARRIER, CLOCK = range(3)  # of `sent`: kinds of messages
MESSAGES, BYTES = range(2)
KINDS_OF_ROUND = 2  # a message's round is the clock times so many, and 1 where it announces
SPANS, SPANS_OF_DOUBLE = 96, 3.0  # of clocks, in `course`, and between a clock and its double
C_PASSED, C_CHANGED, C_BYTES, C_DENSE = range(4)  # of a span
EASIER = 0.1  # of the way from the hard threshold to the soft one, at a clock
NOBODY = 0  # of a lock; else its holder and 1
PYTHON, KERNEL, NOT = range(3)  # who adopts the mirror; NOT: blocks move it themselves


class Map(NamedTuple):
    """Who is where.

    groups : int64 [n_workers], the centre of each
    senders, readers : int64 [n_edges], centres
    out, into : int64, edges of this centre
    passes_on : uint8 [n_edges, len(out)], whether an edge of `out` passes on what comes along one
    others : int64 [n_centres - 1, 3]; of each other centre its workers, the edge by which its
        changes come, and over how many edges
    first : the first worker of this centre
    is_inner : uint8 [n_edges], whether both ends are parts of one centre, which send each other all
    every : float64 [1], the threshold of such an edge: 0
    is_close : whether no centre of the run hears of another through a third
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
    """Numbers of a run.

    per : blocks of a worker in a clock
    in_epoch : blocks of its own rows that a worker has in an epoch; 0: it claims any
    difference : clocks by which a centre may be ahead of the slowest
    delay : seconds
    queue : messages of an edge, the last place for announcements
    kind : of `centre_edges.ABSOLUTE`, `RELATIVE`, `GIVEN`
    hard : float64 [1] or [n], thresholds
    soft : the threshold that `hard` is eased to; NaN: to none
    falls : whether they fall with the root of the clock
    single : whether values are sent as float32
    header, place_bytes : of a message, and of a value's place in it
    at_once : whether what is posted has arrived
    adopts : PYTHON, KERNEL or NOT
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
    """Whether all workers of a centre are done, dead or resting: nothing comes by itself."""
    for k in range(groups.shape[0]):
        if groups[k] == centre and load(table[k], layout.T_STATE) < layout.DONE:
            return False
    return True


@exact_helper
def are_all_over(table, groups, centre):
    """Whether a centre's workers are done or dead; who rests reads when it goes on."""
    for k in range(groups.shape[0]):
        state = load(table[k], layout.T_STATE)
        if groups[k] == centre and not (state == layout.DONE or state == layout.DEAD):
            return False
    return True


@exact_helper
def are_all_dead(table, groups, centre):
    """Whether all workers of a centre have died."""
    for k in range(groups.shape[0]):
        if groups[k] == centre and load(table[k], layout.T_STATE) != layout.DEAD:
            return False
    return True


@exact_helper
def under_way(box, edge):
    """Messages of an edge that were sent and are not acknowledged."""
    counters = box.counters[edge]
    return load(counters, layout.M_POSTED) - load(counters, layout.M_TAKEN)


@exact_helper
def find(box, edge):
    """Slot of an edge's next message, if it has arrived, by an emulated link too; else -1."""
    if not has_mail(box, edge):
        return -1
    slot = slot_of(box, box.counters[edge, layout.M_TAKEN] + 1)
    due = box.heads[edge, slot, layout.H_DUE]
    return -1 if due > 0 and due > nanoseconds() else slot


@exact_helper
def is_silent(book, where, box, table, edge):
    """Whether nothing more comes along an edge: its centre is gone, and all it sent is taken."""
    return are_all_gone(table, where.groups, where.senders[edge]) and under_way(box, edge) <= 0


@exact_helper
def is_due(book, where, table, edge, now):
    """Whether an edge's reader is still to be notified of this clock, and may come to read it."""
    return book.notified[edge] < now and not are_all_over(table, where.groups, where.readers[edge])


@exact_helper
def has_capacity(box, edge, queue):
    """Whether an edge has room for values; its last place is for announcements."""
    return under_way(box, edge) <= queue - 2


# -- fold


@exact_helper
def note_proposals(book, where, table, centre, at):
    """Note of how many changes from about the same vector that of the worker's next block is one.

    By what is in the vector that it begins at: of a worker of another centre there is under way
    what its clocks are behind, and one more for each centre that passes them on. A centre that has
    died has no clock any more: counted by its last one it would have more at every clock, and
    changes would count less, without end. Who is done counts: when that is seen depends on timing.
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
    """Move the centre's clock to what all its workers have passed.

    Of who has rows of its own, its own blocks count, and none of a worker's that is gone: all have
    as many, so that no centre waits for a clock that nobody comes to.
    """
    done = table[me, layout.T_SHARE] if terms.in_epoch > 0 else table[me, layout.T_CLOCK]
    store(book.rounds, me, done // terms.per)
    least = done // terms.per
    for k in range(where.groups.shape[0]):
        state = load(table[k], layout.T_STATE)
        in_run = state == layout.ACTIVE or state == layout.WAITING
        if where.groups[k] == centre and in_run:
            least = min(least, book.rounds[k])
    store(book.clock, centre, max(book.clock[centre], least))


# -- send


@exact_helper
def limits_of(book, terms, edge, t, out):
    """The threshold of an edge at clock t; where it is one for all, in `out`."""
    factor = 1.0 / math.sqrt(np.float64(t)) if terms.falls else 1.0
    ease = book.ease[edge]
    for j in range(out.shape[0]):
        hard = terms.hard[j]
        if terms.soft == terms.soft and ease > 0.0:
            hard += ease * (terms.soft - hard)
        out[j] = hard * factor


@exact_helper
def span_of(clock):
    """In which span of `course` a clock lies: each is a quarter longer than the one before."""
    return min(SPANS - 1, int(SPANS_OF_DOUBLE * math.log2(np.float64(clock))))


@exact_helper
def choose_for(book, where, terms, centre, edge, now, limits):
    """`centre_edges.choose`, for an edge at this clock."""
    if where.is_inner[edge] != 0:
        return centre_edges.choose(book, centre, edge, centre_edges.ABSOLUTE, where.every)
    if terms.kind != centre_edges.GIVEN:
        limits_of(book, terms, edge, max(1, book.before[centre] + now), limits)
    return centre_edges.choose(book, centre, edge, terms.kind, limits)


@exact_helper
def ease(book, terms, edge, towards):
    """Ease the threshold where the link has had room at once, tighten it where it had not."""
    if terms.soft == terms.soft:
        book.ease[edge] = min(1.0, max(0.0, book.ease[edge] + towards * EASIER))


@exact_helper
def write_update(book, where, terms, box, centre, edge, now, limits, at):
    """Write what is significant into the next slot of an edge."""
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
    """Write which values are to come into the last slot; whether there are any.

    Not in step: there every clock is waited for, with all its values. Who waited for values of a
    clock that it may not take yet would do so for ever (`tests/models/mirrors.pml`, twin
    NAMES_IN_STEP).
    """
    choose_for(book, where, terms, centre, edge, now, limits)
    chosen, flags, known = book.chosen[centre], book.open[edge], book.announced[edge]
    slot = next_slot(box, edge)
    capacity = box.places.shape[2]
    names = box.values[edge, slot][capacity:].view(np.int32)
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
        names[count] = -1  # two to a value
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
    """Do what remains when a message has been sent."""
    if at[A_KIND] != BARRIER:
        centre_edges.let_go(book, box, centre)
        store(book.notified, edge, now)
        book.wanted[edge] = 0.0
    book.sent[edge, at[A_KIND], MESSAGES] += 1
    book.sent[edge, at[A_KIND], BYTES] += at[A_SIZE]


@exact_helper
def write_next(book, where, terms, box, centre, edge, now, seconds, limits, at):
    """Write a message for an edge that is due; 1: it has to go, 0: there is none, -1: ask first."""
    room = has_capacity(box, edge, terms.queue)
    if not room:
        if terms.difference == 0:
            return 0
        if book.wanted[edge] == 0.0:
            book.wanted[edge] = max(seconds, 1e-300)
            return 0
        if seconds - book.wanted[edge] < terms.delay or under_way(box, edge) >= terms.queue:
            return 0
    if terms.kind == centre_edges.GIVEN and where.is_inner[edge] == 0 and at[A_ASKED] != edge + 1:
        at[A_ASKED] = edge + 1
        return -1
    at[A_ASKED] = 0
    if room:
        write_update(book, where, terms, box, centre, edge, now, limits, at)
        return 1
    return 1 if write_announcement(book, where, terms, box, centre, edge, now, limits, at) else 0


# -- take in


@exact_helper
def way_of(where, edge, out):
    """Write which edges of `out` pass on what comes along an edge; how many."""
    n = 0
    for k in range(where.out.shape[0]):
        if where.passes_on[edge, k] != 0:
            out[n] = k
            n += 1
    return n


@exact_helper
def finish_taking(book, where, box, live, centre, way):
    """Take in what remains of the message that the journal names; done twice it is done once."""
    journal = book.journal[centre]
    edge, number = journal[centre_edges.J_EDGE], journal[centre_edges.J_NUMBER]
    head = box.heads[edge, slot_of(box, number)]
    book.heard[edge] = max(book.heard[edge], head[layout.H_ROUND] // KINDS_OF_ROUND)
    book.got_number[edge] = number
    n = way_of(where, edge, way)
    centre_edges.take_in(book, box, centre, where.out, live, way[:n])


@exact_helper
def block(book, box, edge, slot):
    """Have reads of the parameters that a message announces wait for their values."""
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
    """Slot of an edge's next message, if it announces values, or its time has come; else -1.

    In step it comes before its time where this clock's has been taken. A centre may skip clocks,
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
    """Whether messages with values may be taken by now: in step, when each has come."""
    if terms.difference > 0:
        return True
    for k in range(where.into.shape[0]):
        edge = where.into[k]
        if book.heard[edge] >= book.clock[centre]:
            continue
        silent = is_silent(book, where, box, table, edge)  # first: its last message is found then
        if find(box, edge) < 0 and not silent:
            return False
    return True


@exact_helper
def take_mail(book, where, terms, box, table, live, centre, way):
    """Take in what may be taken: by turns, a message of each edge in their order.

    In step, where centres may not differ by a clock, messages are taken when each has come that is
    waited for: so a run with a worker in each centre has the same bits again.
    """
    took = True
    while took:
        # who comes meanwhile is of the next pass
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
    """Whether somebody who goes on has still to be notified of this clock, where all are in step.

    Between machines the word that a message was taken may come after the next one from there. Who
    did not wait for it would notify of two clocks at once, and who took that one first would not
    find the same changes significant.
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
    """Whether somebody may wait for what has no room, and nobody here will send it later.

    Who has done its rows of an epoch, and waits for the others to do theirs, comes no more before.

    opened : epochs that it may begin without the others; 0 where all begin together
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
    """Whether values were announced that are still to come."""
    for k in range(where.into.shape[0]):
        edge = where.into[k]
        if book.n_blocked[edge] > 0 and not is_silent(book, where, box, table, edge):
            return True
    return False


@exact_helper
def wait_reason(book, where, terms, box, table, me, centre, opened):
    """What the worker has to wait for; READS: perhaps for values; GO_ON: for nothing."""
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
    """Whether there is room for what is due."""
    for k in range(where.out.shape[0]):
        edge = where.out[k]
        if is_due(book, where, table, edge, book.clock[centre]) and has_capacity(
            box, edge, terms.queue
        ):
            return True
    return False


@exact_kernel
def has_news(book, where, terms, box, table, me, at, opened):
    """Whether another pass may come to something."""
    centre = where.groups[me]
    if at[A_WHY] == FOR_LOCK:
        holder = load(book.lock[centre], 0) - 1
        return holder < 0 or load(table[holder], layout.T_STATE) == layout.DEAD
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
    """Take the centre's lock if it is free, or its holder is dead."""
    words = book.lock[centre]
    holder = compare_exchange(words, 0, NOBODY, me + 1)
    if holder == NOBODY:
        return True
    if load(table[holder - 1], layout.T_STATE) != layout.DEAD:
        return False
    return compare_exchange(words, 0, holder, me + 1) == holder


@exact_helper
def bring_to_an_end(book, where, box, live, centre, way):
    """Do what remains of what a dead holder was at."""
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
    """Go on with what is to be done after a block, as far as it goes; see the file's head.

    scratch : float64 [1] or [n] for limits, and int64 [len(out)]
    opened : as of `is_owed`
    seconds : of the run's clock
    spin_ns : how long to wait here before the caller has to
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
            if book.journal[centre, centre_edges.J_DOING] != centre_edges.NOTHING:
                bring_to_an_end(book, where, box, live, centre, way)
            if phase == FOLD:
                base = book.mirror[centre] if live.is_direct else book.base[me]
                is_own = live.is_direct or centre_edges.are_equal(book.mirror[centre], base)
                if terms.adopts == NOT or at[A_ONE_OF] == 0:
                    note_proposals(book, where, table, centre, at)
                one_of = np.float64(at[A_ONE_OF])
                # for all or for nobody: else some workers' changes would count more in the long run
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
                        return HAND_OVER
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
                    book.passes[me] += at[A_WHY] != ADOPT  # then it has been counted
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
    """Give the lock back if the worker holds it: its caller goes no further."""
    compare_exchange(book.lock[centre], 0, me + 1, NOBODY)
