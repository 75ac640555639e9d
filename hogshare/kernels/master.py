"""A master that owns the model: consistent snapshots out, changes in by mail, summed updates.

Source: Lian et al. 2015, AsySG-con, Algorithm 1: the master sums the first M gradients that arrive,
whoever sends them, and updates the model at once, so that what a worker reads is a state that the
model has been in. Departures: a message is a change (step size times gradient, penalties on the
rows' support as in `hogwild`) on the coordinates of a worker's rows; the sum of fewer than M that
is left at the end of a run is applied.

Who writes:

- The model (`w`, `intercept`), VERSION and the sum: the master alone. WRITES is a seqlock: odd
  while it writes. A worker reads the coordinates of its rows, and reads again if WRITES has moved.
- A worker's slots: the worker, while the master has taken all that the slot ever held; the number
  in the head is stored last, releasing. The master takes messages of a worker in their order, and
  then stores T_TAKEN, releasing: if the message filled the sum, after the update and as part of it.
- T_STALENESS, T_PUSHES, T_APPLIED, APPLIED, the histograms of staleness and age: the master.

Two counts of how old a message is when it is taken. Its *age* is the paper's tau: the updates of
the model since its snapshot, whoever sent what was in them; cutoff and damping go by it. Its
*staleness* is what it is on every plane: pushes of others between its pull and its push, which
here are those of their messages, none of the dropped, that the master has taken by then and the
snapshot has not. With M = 1 the two differ where a worker has read before its own last message was
in the model.

If the master dies: before an update it writes the new values of all coordinates beside, then
JOURNAL. Who takes over writes them again if there is a journal, which is the same as once, and
otherwise throws the unfinished sum away: up to M - 1 messages, and nothing else, are lost.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.atomics import fence, fetch_add, load, store
from hogshare.kernels.clock import nanoseconds
from hogshare.kernels.cores import yield_core
from hogshare.kernels.epochs import note_event
from hogshare.kernels.jit import helper, inlined, kernel
from hogshare.kernels.rows import column_of, row_bounds

SLOTS = 2  # messages of a worker that may be under way
ATTEMPTS = 64  # to read, before the master is asked to wait
MOST_ATTEMPTS = 4096  # before the worker lets others run; the master may have died
COURTESY = 20_000  # looks of the master at readers that it lets go first
OVER = -1  # answer of `serve`


@inlined
def slot_of(me, number):
    """Place of a worker's message of that number (from 1)."""
    return me * SLOTS + (number - 1) % SLOTS


@helper
def has_room(shared, me):
    """Whether a slot is free for the worker's next message."""
    state = shared.table[me]
    return state[layout.T_MAILED] - load(state, layout.T_TAKEN) < SLOTS


@helper
def all_taken(shared, me):
    """Whether the master has taken all messages of the worker."""
    state = shared.table[me]
    return state[layout.T_MAILED] == load(state, layout.T_TAKEN)


@helper
def copy_support(rows, order, first, last, shared, private):
    """Copy the coordinates of some rows, and the intercepts, from the model."""
    local = private.local
    n_columns = local.shape[1]
    w = private.w
    base = private.base
    if rows.width > 0 or (last - first) * 8 > w.shape[0]:
        for j in range(w.shape[0]):
            value = shared.w[j]
            w[j] = value
            base[j] = value
    else:
        for i in range(first, last):
            start, end = row_bounds(rows, order[i])
            for k in range(start, end):
                place = column_of(rows, start, k) * np.uint64(n_columns)
                for c in range(n_columns):
                    j = place + np.uint64(c)
                    value = shared.w[j]
                    w[j] = value
                    base[j] = value
    for c in range(n_columns):
        local[layout.L_INTERCEPT, c] = shared.intercept[c]
        local[layout.L_INTERCEPT_BASE, c] = shared.intercept[c]


@helper
def read_once(rows, order, first, last, shared, private, me):
    """Try to copy a state that the model has been in. False: the master wrote meanwhile."""
    control = shared.control
    before = load(control, layout.WRITES)
    if before % 2 != 0:
        return False
    version = load(control, layout.VERSION)
    pulled = load(control, layout.APPLIED) - load(shared.table[me], layout.T_APPLIED)
    copy_support(rows, order, first, last, shared, private)
    fence()  # the copies come before the second look
    if load(control, layout.WRITES) != before:
        return False
    shared.table[me, layout.T_VERSION] = version
    shared.table[me, layout.T_PULLED] = pulled
    return True


@helper
def read_snapshot(rows, order, first, last, shared, private, me):
    """Copy a state that the model has been in; False if that does not come about.

    A master that writes without a pause might starve readers, so after some attempts it is asked
    to let this one go first.
    """
    for _ in range(ATTEMPTS):
        if read_once(rows, order, first, last, shared, private, me):
            return True
    fetch_add(shared.control, layout.READERS, 1)
    done = False
    for _ in range(MOST_ATTEMPTS):
        if read_once(rows, order, first, last, shared, private, me):
            done = True
            break
    fetch_add(shared.control, layout.READERS, -1)
    return done


@helper
def write_message(rows, order, first, last, shared, private, me, ticket):
    """Put what has changed in the copy since the snapshot into the worker's next slot.

    A coordinate is written once: then the copy and its base agree. One that is NaN agrees with
    nothing, and comes again with every row that has it, while a slot has room for every coordinate
    of the block once. What there is no room for then is lost, in a run that is.
    """
    number = shared.table[me, layout.T_MAILED] + 1
    slot = slot_of(me, number)
    places = shared.mail_places[slot]
    changes = shared.mail_changes[slot]
    local = private.local
    n_columns = local.shape[1]
    w = private.w
    base = private.base
    count = 0
    for i in range(first, last):
        start, end = row_bounds(rows, order[i])
        for k in range(start, end):
            place = column_of(rows, start, k) * np.uint64(n_columns)
            for c in range(n_columns):
                j = place + np.uint64(c)
                if w[j] != base[j] and count < places.shape[0]:
                    places[count] = j
                    changes[count] = np.float64(w[j]) - np.float64(base[j])
                    base[j] = w[j]
                    count += 1
    for c in range(n_columns):
        change = local[layout.L_INTERCEPT, c] - local[layout.L_INTERCEPT_BASE, c]
        shared.mail_intercepts[slot, c] = change
    head = shared.mail_heads[slot]
    head[layout.H_VERSION] = shared.table[me, layout.T_VERSION]
    head[layout.H_PULLED] = shared.table[me, layout.T_PULLED]
    head[layout.H_COUNT] = count
    head[layout.H_TICKET] = ticket


@helper
def post(shared, me):
    """Let the master have the message that has been written."""
    number = shared.table[me, layout.T_MAILED] + 1
    shared.table[me, layout.T_MAILED] = number
    store(shared.mail_heads[slot_of(me, number)], layout.H_NUMBER, number)


@helper
def count_age(shared, worker, head):
    """Count a message that is taken in both histograms; returns its age."""
    control = shared.control
    state = shared.table[worker]
    age = load(control, layout.VERSION) - head[layout.H_VERSION]
    shared.ages[worker, min(age, layout.HISTOGRAM - 1)] += 1
    taken = load(control, layout.APPLIED) + load(control, layout.GATHERED)
    of_others = taken - state[layout.T_PUSHES]
    # after a master's death the counts may be one off
    staleness = max(0, of_others - head[layout.H_PULLED])
    shared.staleness[worker, min(staleness, layout.HISTOGRAM - 1)] += 1
    state[layout.T_STALENESS] = staleness
    return age


@inlined
def is_dropped(plan, age):
    """Whether a message of that age, in versions, is left out of the sum."""
    return 0 <= plan.cutoff < age


@helper
def gather(plan, shared, worker, slot):
    """Add a message to the sum, or drop it."""
    control = shared.control
    head = shared.mail_heads[slot]
    state = shared.table[worker]
    age = count_age(shared, worker, head)
    if is_dropped(plan, age):
        state[layout.T_DROPPED] += 1
        return
    state[layout.T_PUSHES] += 1
    share = 1.0 / (1.0 + age) if plan.damped != 0 else 1.0
    total = shared.gathered
    marks = shared.gathered_marks
    mark = load(control, layout.VERSION) + 1
    known = load(control, layout.PLACES)
    places = shared.mail_places[slot]
    changes = shared.mail_changes[slot]
    for k in range(head[layout.H_COUNT]):
        j = np.uint64(places[k])
        if marks[j] != mark:
            marks[j] = mark
            total[j] = 0.0
            shared.gathered_places[known] = j
            known += 1
        total[j] += share * changes[k]
    store(control, layout.PLACES, known)
    for c in range(shared.intercept.shape[0]):
        shared.gathered_intercepts[c] += share * shared.mail_intercepts[slot, c]
    store(control, layout.GATHERED, load(control, layout.GATHERED) + 1)


@helper
def write_journal(shared, worker, number):
    """Write the values of the next version beside the model's, and then that they are there.

    worker, number : the message that filled the sum; -1 where none did
    """
    control = shared.control
    count = load(control, layout.PLACES)
    for k in range(count):
        j = shared.gathered_places[k]
        shared.journal[k] = np.float64(shared.w[j]) + shared.gathered[j]
    for c in range(shared.intercept.shape[0]):
        shared.journal[shared.w.shape[0] + c] = shared.intercept[c] + shared.gathered_intercepts[c]
    store(control, layout.JOURNAL_WORKER, worker)
    store(control, layout.JOURNAL_NUMBER, number)
    messages = load(control, layout.APPLIED) + load(control, layout.GATHERED)
    store(control, layout.JOURNAL_APPLIED, messages)
    store(control, layout.JOURNAL, load(control, layout.VERSION) + 2)


@helper
def count_applied(shared, worker):
    """Say whose messages are in the model that is being written; readers see it with the model.

    worker : whose message filled the sum; -1 where none did
    """
    control, table = shared.control, shared.table
    if worker >= 0 and load(control, layout.GATHERED) == 1:
        store(table[worker], layout.T_APPLIED, table[worker, layout.T_PUSHES])
    else:
        for k in range(table.shape[0]):
            store(table[k], layout.T_APPLIED, table[k, layout.T_PUSHES])
    store(control, layout.APPLIED, load(control, layout.JOURNAL_APPLIED))


@helper
def write_model(shared):
    """Copy the journal into the model; may be begun anew at any point."""
    control = shared.control
    kind = shared.w.dtype.type
    writes = load(control, layout.WRITES)
    if writes % 2 == 0:
        writes += 1
        store(control, layout.WRITES, writes)
    fence()  # WRITES is odd before anything changes
    for k in range(load(control, layout.PLACES)):
        shared.w[shared.gathered_places[k]] = kind(shared.journal[k])
    for c in range(shared.intercept.shape[0]):
        shared.intercept[c] = shared.journal[shared.w.shape[0] + c]
    worker = load(control, layout.JOURNAL_WORKER)
    count_applied(shared, worker)
    store(control, layout.VERSION, load(control, layout.JOURNAL) - 1)
    store(control, layout.WRITES, writes + 1)
    if worker >= 0:
        store(shared.table[worker], layout.T_TAKEN, load(control, layout.JOURNAL_NUMBER))
    forget_sum(shared)
    store(control, layout.JOURNAL, 0)


@helper
def forget_sum(shared):
    """Begin a new sum."""
    control = shared.control
    store(control, layout.GATHERED, 0)
    store(control, layout.PLACES, 0)
    for c in range(shared.intercept.shape[0]):
        shared.gathered_intercepts[c] = 0.0


@helper
def update(shared, worker, number):
    """Make the next version of the model; waits a moment for who has often read in vain."""
    for _ in range(COURTESY):
        if load(shared.control, layout.READERS) <= 0:
            break
    write_journal(shared, worker, number)
    write_model(shared)


@helper
def has_mail(shared, worker):
    """Whether there is a message of the worker that has not been taken."""
    number = shared.table[worker, layout.T_TAKEN] + 1
    return load(shared.mail_heads[slot_of(worker, number)], layout.H_NUMBER) == number


@helper
def take_message(plan, shared, worker):
    """Take a worker's oldest message, if there is one."""
    if not has_mail(shared, worker):
        return False
    state = shared.table[worker]
    number = state[layout.T_TAKEN] + 1
    slot = slot_of(worker, number)
    gather(plan, shared, worker, slot)
    head = shared.mail_heads[slot]
    note_event(shared, worker, head[layout.H_TICKET], head[layout.H_VERSION])
    if load(shared.control, layout.GATHERED) >= plan.gradients:
        update(shared, worker, number)
    else:
        store(state, layout.T_TAKEN, number)
    return True


@helper
def take_round(plan, shared):
    """One message of every worker that has one; returns how many."""
    taken = 0
    for worker in range(shared.table.shape[0]):
        if take_message(plan, shared, worker):
            taken += 1
    return taken


@helper
def somebody_may_write(shared):
    """Whether a worker is in the run, or about to join it."""
    for k in range(shared.table.shape[0]):
        state = load(shared.table[k], layout.T_STATE)
        if state == layout.STARTING or state == layout.ACTIVE or state == layout.WAITING:
            return True
    return False


@helper
def apply_rest(shared):
    """Apply a sum of fewer messages than are wanted."""
    if load(shared.control, layout.GATHERED) > 0:
        note_event(shared, layout.NO_WORKER, 0, 0)
        update(shared, -1, 0)


@helper
def wait_for_mail(shared, looks):
    """Look so often whether there is mail, or nobody who might write any."""
    for _ in range(looks):
        for worker in range(shared.table.shape[0]):
            if has_mail(shared, worker):
                return
        if not somebody_may_write(shared):
            return
        yield_core()  # who is to write may have none


@kernel
def serve(plan, shared, n_rounds, looks):
    """Be the master for a while: returns how many messages were taken, or OVER.

    Whenever nobody is in the run (it is over, or all rest), what is left of a sum is applied.

    looks : how often it looks for the first message
    """
    control = shared.control
    began = nanoseconds()
    wait_for_mail(shared, looks)
    control[layout.MAIL_WAIT] += nanoseconds() - began
    store(control, layout.SERVING, 1)
    taken = 0
    for _ in range(n_rounds):
        expected = somebody_may_write(shared)
        in_round = take_round(plan, shared)
        taken += in_round
        if in_round == 0:
            if not expected:
                apply_rest(shared)
            break
    store(control, layout.SERVING, 0)
    over = not expected and taken == 0
    for k in range(shared.table.shape[0]):
        over = over and load(shared.table[k], layout.T_STATE) != layout.RESTING
    return OVER if over else taken


@kernel
def take_over(shared):
    """Put in order what a master that died has left; nobody else is the master now."""
    control = shared.control
    if load(control, layout.JOURNAL) != 0:
        write_model(shared)
    else:
        # what is lost with the sum is missing nowhere from now on
        messages = load(control, layout.APPLIED) + load(control, layout.GATHERED)
        store(control, layout.JOURNAL_APPLIED, messages)
        count_applied(shared, -1)
        forget_sum(shared)
        # marks of the sum that is thrown away must not count for the next
        for j in range(shared.gathered_marks.shape[0]):
            shared.gathered_marks[j] = 0
    store(control, layout.SERVING, 0)
