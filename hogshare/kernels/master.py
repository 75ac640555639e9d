"""A master that owns the model: consistent snapshots out, changes in by mail, summed updates.

Source: Lian et al. 2015, AsySG-con, Algorithm 1: the master sums the first M gradients that arrive,
whoever sends them, and updates the model at once, so that what a worker reads is a state that the
model has been in. Departures: a message is a change (step size times gradient, penalties on the
rows' support as in `hogwild`) on the coordinates of a worker's rows; the sum of fewer than M that
is left at the end of a run is applied.

Who writes:

- The model (`w`, `intercept`), VERSION and the sum: the master alone. WRITES is a seqlock: odd
  while it writes. A worker reads the coordinates of its rows, and reads again if WRITES has moved.
- The mailbox, of which edge k is from worker k to the master: as `mailbox` says. The master takes
  a message after it has added it to the sum: if the message filled that, after the update and as
  part of it.
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
from hogshare.kernels.epochs import note_event
from hogshare.kernels.host import nanoseconds, yield_core
from hogshare.kernels.jit import helper, inlined, kernel
from hogshare.kernels.mailbox import has_mail, next_slot, slot_of, take
from hogshare.kernels.rows import column_of, row_bounds

ATTEMPTS = 64  # to read, before the master is asked to wait
MOST_ATTEMPTS = 4096  # before the worker lets others run; the master may have died
COURTESY = 20_000  # looks of the master at readers that it lets go first
OVER = -1  # answer of `serve`


@helper
def copy_support(rows, order, first, last, vector, private):
    """Copy the coordinates of some rows, and the intercepts, from the model; how many numbers."""
    local = private.local
    n_columns = local.shape[1]
    w = private.w
    base = private.base
    count = n_columns
    if rows.width > 0 or (last - first) * 8 > w.shape[0]:
        for j in range(w.shape[0]):
            value = vector.w[j]
            w[j] = value
            base[j] = value
        count += w.shape[0]
    else:
        for i in range(first, last):
            start, end = row_bounds(rows, order[i])
            count += (end - start) * n_columns
            for k in range(start, end):
                place = column_of(rows, start, k) * np.uint64(n_columns)
                for c in range(n_columns):
                    j = place + np.uint64(c)
                    value = vector.w[j]
                    w[j] = value
                    base[j] = value
    for c in range(n_columns):
        local[layout.L_INTERCEPT, c] = vector.intercept[c]
        local[layout.L_INTERCEPT_BASE, c] = vector.intercept[c]
    return count


@helper
def read_once(rows, order, first, last, schedule, vector, private, me):
    """Try to copy a state that the model has been in. False: the master wrote meanwhile."""
    control = schedule.control
    before = load(control, layout.WRITES)
    if before % 2 != 0:
        return False
    version = load(control, layout.VERSION)
    pulled = load(control, layout.APPLIED) - load(schedule.table[me], layout.T_APPLIED)
    count = copy_support(rows, order, first, last, vector, private)
    fence()  # the copies come before the second look
    if load(control, layout.WRITES) != before:
        return False
    schedule.table[me, layout.T_VERSION] = version
    schedule.table[me, layout.T_PULLED] = pulled
    schedule.table[me, layout.T_READS] += 1
    schedule.table[me, layout.T_VALUES_READ] += count
    return True


@helper
def read_snapshot(rows, order, first, last, schedule, vector, private, me):
    """Copy a state that the model has been in; False if that does not come about.

    A master that writes without a pause might starve readers, so after some attempts it is asked
    to let this one go first.
    """
    for _ in range(ATTEMPTS):
        if read_once(rows, order, first, last, schedule, vector, private, me):
            return True
    fetch_add(schedule.control, layout.READERS, 1)
    done = False
    for _ in range(MOST_ATTEMPTS):
        if read_once(rows, order, first, last, schedule, vector, private, me):
            done = True
            break
    fetch_add(schedule.control, layout.READERS, -1)
    return done


@helper
def write_message(rows, order, first, last, schedule, mail, private, me, ticket):
    """Put what has changed in the copy since the snapshot into the worker's next slot.

    A coordinate is written once: then the copy and its base agree. One that is NaN agrees with
    nothing, and comes again with every row that has it, while a slot has room for every coordinate
    of the block once. What there is no room for then is lost, in a run that is.
    """
    box = mail.box
    slot = next_slot(box, me)
    places = box.places[me, slot]
    changes = box.values[me, slot]
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
        changes[places.shape[0] + c] = change
    box.heads[me, slot, layout.H_COUNT] = count
    box.heads[me, slot, layout.H_DENSE] = n_columns
    address(schedule, mail, me, ticket)


@helper
def address(schedule, mail, me, ticket):
    """Say of the message in the worker's next slot what it was computed from, and for."""
    state = schedule.table[me]
    head = mail.box.heads[me, next_slot(mail.box, me)]
    head[layout.H_VERSION] = state[layout.T_VERSION]
    head[layout.H_PULLED] = state[layout.T_PULLED]
    head[layout.H_TICKET] = ticket


@helper
def count_age(schedule, mail, worker, head):
    """Count a message that is taken in both histograms; returns its age."""
    control = schedule.control
    state = schedule.table[worker]
    age = load(control, layout.VERSION) - head[layout.H_VERSION]
    mail.ages[worker, min(age, layout.HISTOGRAM - 1)] += 1
    taken = load(control, layout.APPLIED) + load(control, layout.GATHERED)
    of_others = taken - state[layout.T_PUSHES]
    # after a master's death the counts may be one off
    staleness = max(0, of_others - head[layout.H_PULLED])
    schedule.staleness[worker, min(staleness, layout.HISTOGRAM - 1)] += 1
    state[layout.T_STALENESS] = staleness
    return age


@inlined
def is_dropped(plan, age):
    """Whether a message of that age, in versions, is left out of the sum."""
    return 0 <= plan.cutoff < age


@helper
def gather(plan, schedule, mail, worker, slot):
    """Add a message to the sum, or drop it."""
    control = schedule.control
    head = mail.box.heads[worker, slot]
    state = schedule.table[worker]
    age = count_age(schedule, mail, worker, head)
    if is_dropped(plan, age):
        state[layout.T_DROPPED] += 1
        return
    state[layout.T_PUSHES] += 1
    share = 1.0 / (1.0 + age) if plan.damped != 0 else 1.0
    total = mail.gathered
    marks = mail.gathered_marks
    mark = load(control, layout.VERSION) + 1
    known = load(control, layout.PLACES)
    places = mail.box.places[worker, slot]
    changes = mail.box.values[worker, slot]
    count = head[layout.H_COUNT]
    for k in range(count):
        j = np.uint64(places[k])
        if marks[j] != mark:
            marks[j] = mark
            total[j] = 0.0
            mail.gathered_places[known] = j
            known += 1
        total[j] += share * changes[k]
    store(control, layout.PLACES, known)
    for c in range(mail.gathered_intercepts.shape[0]):
        mail.gathered_intercepts[c] += share * changes[places.shape[0] + c]
    store(control, layout.GATHERED, load(control, layout.GATHERED) + 1)


@helper
def write_journal(schedule, vector, mail, worker, number):
    """Write the values of the next version beside the model's, and then that they are there.

    worker, number : the message that filled the sum; -1 where none did
    """
    control = schedule.control
    count = load(control, layout.PLACES)
    for k in range(count):
        j = mail.gathered_places[k]
        mail.journal[k] = np.float64(vector.w[j]) + mail.gathered[j]
    for c in range(vector.intercept.shape[0]):
        mail.journal[vector.w.shape[0] + c] = vector.intercept[c] + mail.gathered_intercepts[c]
    store(control, layout.JOURNAL_WORKER, worker)
    store(control, layout.JOURNAL_NUMBER, number)
    messages = load(control, layout.APPLIED) + load(control, layout.GATHERED)
    store(control, layout.JOURNAL_APPLIED, messages)
    store(control, layout.JOURNAL, load(control, layout.VERSION) + 2)


@helper
def count_applied(schedule, worker):
    """Say whose messages are in the model that is being written; readers see it with the model.

    worker : whose message filled the sum; -1 where none did
    """
    control, table = schedule.control, schedule.table
    if worker >= 0 and load(control, layout.GATHERED) == 1:
        store(table[worker], layout.T_APPLIED, table[worker, layout.T_PUSHES])
    else:
        for k in range(table.shape[0]):
            store(table[k], layout.T_APPLIED, table[k, layout.T_PUSHES])
    store(control, layout.APPLIED, load(control, layout.JOURNAL_APPLIED))


@helper
def write_model(schedule, vector, mail):
    """Copy the journal into the model; may be begun anew at any point."""
    control = schedule.control
    kind = vector.w.dtype.type
    writes = load(control, layout.WRITES)
    if writes % 2 == 0:
        writes += 1
        store(control, layout.WRITES, writes)
    fence()  # WRITES is odd before anything changes
    for k in range(load(control, layout.PLACES)):
        vector.w[mail.gathered_places[k]] = kind(mail.journal[k])
    for c in range(vector.intercept.shape[0]):
        vector.intercept[c] = mail.journal[vector.w.shape[0] + c]
    worker = load(control, layout.JOURNAL_WORKER)
    count_applied(schedule, worker)
    store(control, layout.VERSION, load(control, layout.JOURNAL) - 1)
    store(control, layout.WRITES, writes + 1)
    if worker >= 0:
        take(mail.box, worker, load(control, layout.JOURNAL_NUMBER))
    forget_sum(schedule, mail)
    store(control, layout.JOURNAL, 0)


@helper
def forget_sum(schedule, mail):
    """Begin a new sum."""
    control = schedule.control
    store(control, layout.GATHERED, 0)
    store(control, layout.PLACES, 0)
    for c in range(mail.gathered_intercepts.shape[0]):
        mail.gathered_intercepts[c] = 0.0


@helper
def update(schedule, vector, mail, worker, number):
    """Make the next version of the model; waits a moment for who has often read in vain."""
    for _ in range(COURTESY):
        if load(schedule.control, layout.READERS) <= 0:
            break
    write_journal(schedule, vector, mail, worker, number)
    write_model(schedule, vector, mail)


@helper
def take_message(plan, schedule, vector, mail, worker):
    """Take a worker's oldest message, if there is one."""
    box = mail.box
    if not has_mail(box, worker):
        return False
    number = box.counters[worker, layout.M_TAKEN] + 1
    slot = slot_of(box, number)
    gather(plan, schedule, mail, worker, slot)
    head = box.heads[worker, slot]
    note_event(schedule, worker, head[layout.H_TICKET], head[layout.H_VERSION])
    if load(schedule.control, layout.GATHERED) >= plan.gradients:
        update(schedule, vector, mail, worker, number)
    else:
        take(box, worker, number)
    return True


@helper
def take_round(plan, schedule, vector, mail):
    """One message of every worker that has one; returns how many."""
    taken = 0
    for worker in range(schedule.table.shape[0]):
        if take_message(plan, schedule, vector, mail, worker):
            taken += 1
    return taken


@helper
def somebody_may_write(schedule):
    """Whether a worker is in the run, or about to join it."""
    for k in range(schedule.table.shape[0]):
        state = load(schedule.table[k], layout.T_STATE)
        if state == layout.STARTING or state == layout.ACTIVE or state == layout.WAITING:
            return True
    return False


@helper
def apply_rest(schedule, vector, mail):
    """Apply a sum of fewer messages than are wanted."""
    if load(schedule.control, layout.GATHERED) > 0:
        note_event(schedule, layout.NO_WORKER, 0, 0)
        update(schedule, vector, mail, -1, 0)


@helper
def wait_for_mail(schedule, mail, looks):
    """Look so often whether there is mail, or nobody who might write any."""
    for _ in range(looks):
        for worker in range(schedule.table.shape[0]):
            if has_mail(mail.box, worker):
                return
        if not somebody_may_write(schedule):
            return
        yield_core()  # who is to write may have none


@kernel
def serve(plan, schedule, vector, mail, n_rounds, looks):
    """Be the master for a while: returns how many messages were taken, or OVER.

    Whenever nobody is in the run (it is over, or all rest), what is left of a sum is applied.

    looks : how often it looks for the first message
    """
    control = schedule.control
    began = nanoseconds()
    wait_for_mail(schedule, mail, looks)
    control[layout.MAIL_WAIT] += nanoseconds() - began
    store(control, layout.SERVING, 1)
    taken = 0
    for _ in range(n_rounds):
        expected = somebody_may_write(schedule)
        in_round = take_round(plan, schedule, vector, mail)
        taken += in_round
        if in_round == 0:
            if not expected:
                apply_rest(schedule, vector, mail)
            break
    store(control, layout.SERVING, 0)
    over = not expected and taken == 0
    for k in range(schedule.table.shape[0]):
        over = over and load(schedule.table[k], layout.T_STATE) != layout.RESTING
    return OVER if over else taken


@kernel
def take_over(schedule, vector, mail):
    """Put in order what a master that died has left; nobody else is the master now."""
    control = schedule.control
    if load(control, layout.JOURNAL) != 0:
        write_model(schedule, vector, mail)
    else:
        # what is lost with the sum is missing nowhere from now on
        messages = load(control, layout.APPLIED) + load(control, layout.GATHERED)
        store(control, layout.JOURNAL_APPLIED, messages)
        count_applied(schedule, -1)
        forget_sum(schedule, mail)
        # marks of the sum that is thrown away must not count for the next
        for j in range(mail.gathered_marks.shape[0]):
            mail.gathered_marks[j] = 0
    store(control, layout.SERVING, 0)
