"""A master that owns the model: workers read snapshots and mail changes; the master applies sums.

    snapshot -> rows, on the worker's copy -> weighted change -> slot -> journal -> model

Source: Lian et al. 2015, AsySG-con, Algorithm 1. The master sums the first M gradients that arrive,
from any worker, and updates the model in one step. A worker reads a state that the model has been
in. Departures from the paper: (1) a message is a change (step size times gradient, penalties on the
rows' support as in `hogwild_steps`) on the coordinates of a worker's rows; (2) a sum of fewer than
M messages at the end of a run is applied; (3) by default a worker multiplies its changes by
weights, and a message covers thousands of rows.

Writers:

- "The master" below is the owner of SERVING: the master itself, or a worker that has posted a
  message and finds SERVING free (`help_master`). SERVING is taken by a compare-exchange (acquiring)
  and given back by a releasing store. So each owner sees all stores of the previous owners.
- The master alone writes the model (`w`, `intercept`), VERSION and the sum. WRITES is a seqlock:
  odd while the master writes. A worker reads the coordinates of its rows, or all coordinates, and
  reads again if WRITES has changed.
- The mailbox is written as `edge_slots` says; its edge k leads from worker k to the master. The
  master acknowledges a message after adding it to the sum. If the message filled the sum, the
  acknowledgement is part of the update.
- The master writes T_STALENESS, T_PUSHES, T_APPLIED, APPLIED, and the histograms of staleness and
  age.

When the master takes a message, two counts measure how old the message is. (1) The *age* is the
paper's tau: the number of updates of the model since the message's snapshot, from any worker's
messages. Cutoff and damping use the age. (2) The *staleness* is defined as on every plane: the
number of pushes by other workers between the message's pull and its push. On this plane it counts
the other workers' messages, without dropped messages, that the master has taken and that the
snapshot does not contain. With M = 1 the two counts differ if a worker has read the model before
the model contained the worker's own last message.

The weight is the weight of an exchange, c(z, P) (`copy_exchange.exchange_weight`). For a
coordinate, z = step size x rows x (curvature + l2). P is the number of messages that start from
about the same point (`proposals`). The derivation is in `docs/exchange.md`. A worker multiplies its
changes by the weights before it writes them into its slot, and the master only adds. So the model
changes by the weight times the worker's change. If l1 has clipped coordinate j to zero, the message
contains the place -1 - j and minus the coordinate's former value (`clipped`).

A message either has a place for each value, or is whole (H_WHOLE). A whole message has a value of
the model's dtype for each coordinate, and loops over vectors add it. If a whole message is an
update by itself, it is added straight into the journal.

If the master dies: before an update, the master writes the new values of all coordinates into the
journal, and then writes JOURNAL. If the journal is open, the dead master's successor writes the
journal into the model again, which has the same effect as writing it once. If the journal is
closed, the successor discards the unfinished sum: up to M - 1 messages, and nothing else, are lost.
A dead owner stays the owner of SERVING until this has been done (`take_over`). A worker that dies
without SERVING leaves nothing half done.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import decay_of, exchange_weight
from hogshare.kernels.jit.atomics import compare_exchange, fence, fetch_add, load, store
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.jit.host import nanoseconds, sleep_briefly, yield_core
from hogshare.kernels.mail.edge_slots import has_mail, next_slot, slot_of, take
from hogshare.kernels.rows.row_views import column_of, row_bounds
from hogshare.kernels.rules.penalties import ELASTICNET, L1
from hogshare.kernels.rules.sgd_steps import fold_scale
from hogshare.kernels.schedule.epoch_schedule import MEAN, SUM, WEIGHTED, note_event, workers_left

ATTEMPTS = 64  # reads before the worker asks the master to wait
MOST_ATTEMPTS = 4096  # reads before the worker gives up its core: the master may have died
COURTESY = 20_000  # polls of READERS before the master writes in spite of waiting readers
OVER = -1  # answer of `serve`


@inlined
def copy_place(vector, private, j):
    """Copy coordinate `j` of the model into the worker's copy."""
    value = vector.w[j]
    private.w[j] = value
    private.base[j] = value


@helper
def copy_all(vector, private):
    """Copy the model, without the intercepts, into the worker's copy, at the speed of memory."""
    w, base = private.w, private.base
    for j in range(w.shape[0]):
        value = vector.w[j]
        w[j] = value
        base[j] = value


@helper
def copy_support(rows, order, first, last, vector, private):
    """Copy the rows' coordinates of the model into the worker's copy; return their number.

    If the rows are dense or many, copy all coordinates.
    """
    n_columns = private.local.shape[1]
    if rows.width > 0 or (last - first) * 8 > private.w.shape[0]:
        copy_all(vector, private)
        return private.w.shape[0]
    count = 0
    for i in range(first, last):
        start, end = row_bounds(rows, order[i])
        count += np.int64(end - start) * n_columns  # bounds may be unsigned: mixed they are a float
        for k in range(start, end):
            place = column_of(rows, start, k) * np.uint64(n_columns)
            for c in range(n_columns):
                copy_place(vector, private, place + np.uint64(c))
    return count


@helper
def read_once(rows, order, first, last, plan, schedule, vector, mail, private, me):
    """Try to copy a state that the model has been in; return False if the master wrote meanwhile.

    The state is copied into the worker's private arrays.
    """
    control = schedule.control
    state = schedule.table[me]
    before = load(control, layout.WRITES)  # acquiring: all copies below come after it
    if before % 2 != 0:
        return False
    version = load(control, layout.VERSION)
    # the counts belong to the snapshot, so they are loaded inside the seqlock
    mine = load(state, layout.T_APPLIED)
    pulled = load(control, layout.APPLIED) - mine
    if plan.copied != 0:
        copy_all(vector, private)
        count = private.w.shape[0]
    else:
        count = copy_support(rows, order, first, last, vector, private)
    local = private.local
    for c in range(local.shape[1]):
        local[layout.L_SCALE, c] = 1.0
        local[layout.L_INTERCEPT, c] = vector.intercept[c]
        local[layout.L_INTERCEPT_BASE, c] = vector.intercept[c]
    fence()  # the copies come before the second load of WRITES
    if load(control, layout.WRITES) != before:
        return False
    state[layout.T_VERSION] = version
    state[layout.T_PULLED] = pulled
    state[layout.T_READS] += 1
    state[layout.T_VALUES_READ] += count + local.shape[1]
    sent = mail.box.counters[me, layout.M_POSTED] - load(state, layout.T_DROPPED)
    state[layout.T_UNDER_WAY] = max(0, sent - mine)
    return True


@helper
def read_snapshot(rows, order, first, last, plan, schedule, vector, mail, private, me):
    """Copy a state that the model has been in; return False if no attempt succeeds.

    A master that writes without a pause might starve readers. So after ATTEMPTS attempts the worker
    asks the master to wait (READERS).
    """
    for _ in range(ATTEMPTS):
        if read_once(rows, order, first, last, plan, schedule, vector, mail, private, me):
            return True
    fetch_add(schedule.control, layout.READERS, 1)
    done = False
    for _ in range(MOST_ATTEMPTS):
        if read_once(rows, order, first, last, plan, schedule, vector, mail, private, me):
            done = True
            break
    fetch_add(schedule.control, layout.READERS, -1)
    return done


@helper
def taken_since(schedule, worker, pulled):
    """Count the other workers' messages that the master has taken since a snapshot.

    pulled : number of other workers' messages in the snapshot
    """
    control = schedule.control
    taken = load(control, layout.APPLIED) + load(control, layout.GATHERED)
    # the maximum: after a master's death the counts may be one off
    return max(0, taken - load(schedule.table[worker], layout.T_PUSHES) - pulled)


@helper
def proposals(plan, schedule, mail, me):
    """Count the messages that start from about the same point as the worker's next message.

    Three kinds of messages will be in the model and are not in the snapshot. (1) Messages of other
    workers that the master has taken since the snapshot or has yet to take. (2) The worker's own
    messages that were under way when it read the snapshot. (3) The worker's next message.

    The count is at least the number of workers, because each computes a message, and at least the
    number of messages that an update sums. If there are no messages of kind (1), and the staleness
    of the worker's last message was 0, the other workers do not run, and the number of workers
    counts as 1. In rounds the count is the number of workers that have not died, or the number of
    messages that an update sums if that number is larger.
    """
    state = schedule.table[me]
    if state[layout.T_PROPOSALS] > 0:
        return state[layout.T_PROPOSALS]
    if plan.inline != 0:
        return plan.gradients
    if plan.ordered != 0:
        return max(workers_left(schedule), plan.gradients)
    counters = mail.box.counters
    live = 0
    others = taken_since(schedule, me, state[layout.T_PULLED])
    for k in range(schedule.table.shape[0]):
        now = load(schedule.table[k], layout.T_STATE)
        if k == me or now == layout.ACTIVE or now == layout.WAITING:
            live += 1
        if k != me:
            others += load(counters[k], layout.M_POSTED) - load(counters[k], layout.M_TAKEN)
    own = state[layout.T_UNDER_WAY]
    if others == 0 and state[layout.T_STALENESS] == 0 and state[layout.T_PUSHES] > 0:
        live = 1
    return max(1 + own + others, live + own, plan.gradients)


@helper
def write_message(rows, rule, order, first, last, t, plan, schedule, vector, mail, private, me):
    """Write the copy's changes since the snapshot into the worker's next slot.

    A coordinate is written once: after that the copy equals its base. A NaN equals nothing, so it
    is written again for every row that has the coordinate, but a slot has space for every
    coordinate of the block only once. Changes beyond that space are lost; a run with a NaN is lost
    anyway. The message is not posted. The function sets `base` of `private` to the copy.

    t : number of rows visited before the row after the block
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
    one_of = np.int64(1)
    if plan.fold != SUM:
        one_of = proposals(plan, schedule, mail, me)
    clips = plan.fold != SUM and (rule.penalty == L1 or rule.penalty == ELASTICNET)
    even = 1.0 / one_of
    uneven = 1.0 - even if plan.fold == WEIGHTED else 0.0
    half = 0.5 * one_of * (last - first)
    decay = decay_of(rule)
    iterates = t - max(rule.first_t, rule.average)
    averaging = plan.fold != SUM and 0 < rule.average < t
    for i in range(first, last):
        start, end = row_bounds(rows, order[i])
        for k in range(start, end):
            f = column_of(rows, start, k)
            place = f * np.uint64(n_columns)
            for c in range(n_columns):
                j = place + np.uint64(c)
                # the second condition: NaN differs from its base every time
                if w[j] != base[j] and count < places.shape[0]:
                    places[count] = j
                    change = np.float64(w[j]) - np.float64(base[j])
                    if one_of > 1:
                        if clips and w[j] == 0.0:
                            places[count] = -1 - np.int64(j)
                        else:
                            z = half * local[layout.L_ETA, c]
                            z *= np.float64(vector.curvature[f]) + decay if uneven > 0.0 else 1.0
                            whole = change
                            change *= even + uneven / (1.0 + z)
                            if averaging:
                                # the block's iterates come from the copy, later iterates from the
                                # model
                                private.lag[j] += iterates * (whole - change)
                    changes[count] = change
                    base[j] = w[j]
                    count += 1
    write_intercepts(plan, vector, mail, private, me, slot, places.shape[0], one_of, last - first)
    head = box.heads[me, slot]
    head[layout.H_COUNT] = count
    head[layout.H_DENSE] = n_columns
    head[layout.H_WHOLE] = 0
    head[layout.H_PROPOSALS] = one_of


@helper
def write_intercepts(plan, vector, mail, private, me, slot, at, one_of, n_rows):
    """Write the intercepts' changes after a message's values, from index `at` on."""
    local = private.local
    changes = mail.box.values[me, slot]
    for c in range(local.shape[1]):
        change = local[layout.L_INTERCEPT, c] - local[layout.L_INTERCEPT_BASE, c]
        if plan.fold == MEAN:
            change /= one_of
        elif plan.fold == WEIGHTED:
            z = local[layout.L_ETA, c] * n_rows * vector.intercept_curvature[0]
            change *= exchange_weight(z, np.float64(one_of))
        changes[at + c] = change


@inlined
def whole_size(vector):
    """Return the number of the mailbox's float64 values that a whole message occupies."""
    return (vector.w.shape[0] * vector.w.itemsize + 7) // 8


@helper
def write_copy(rule, n_rows, plan, schedule, vector, mail, private, me):
    """Write the changes of a scaled copy since the snapshot into the worker's next slot.

    The message is whole, or, if the mailbox has places, it contains the changed coordinates. It is
    not posted.

    n_rows : number of rows of the block
    """
    box = mail.box
    slot = next_slot(box, me)
    places = box.places[me, slot]
    changes = box.values[me, slot]
    local = private.local
    n_columns = local.shape[1]
    w = private.w
    base = private.base
    one_of = proposals(plan, schedule, mail, me)
    kind = w.dtype.type
    even = kind(1.0 / one_of)
    uneven = kind(1.0 - 1.0 / one_of) if plan.fold == WEIGHTED else kind(0.0)
    half = kind(0.5 * one_of * n_rows)
    decay = kind(decay_of(rule))
    one = kind(1.0)
    if private.lag.shape[0] > 0:
        fold_scale(private, 0, n_columns)
    count, at = 0, whole_size(vector)
    whole = changes.view(w.dtype)
    if places.shape[0] > 0:
        at = places.shape[0]
        for j in range(w.shape[0]):
            f, c = j // n_columns, j % n_columns
            mine = kind(local[layout.L_SCALE, c]) * w[j]
            change = mine - base[j]
            if change != 0.0:
                places[count] = j
                if mine == 0.0:
                    places[count] = -1 - j
                elif one_of > 1:
                    slope = half * kind(local[layout.L_ETA, c])
                    curved = slope * (kind(vector.curvature[f]) + decay) if uneven > 0.0 else slope
                    change *= even + uneven / (one + curved)
                changes[count] = np.float64(change)
                count += 1
    elif one_of == 1 or uneven == 0.0:
        for c in range(n_columns):
            scale = kind(local[layout.L_SCALE, c])
            for j in range(c, w.shape[0], n_columns):
                whole[j] = even * (scale * w[j] - base[j])
    elif n_columns == 1:
        scale = kind(local[layout.L_SCALE, 0])
        slope = half * kind(local[layout.L_ETA, 0])
        offset = one + slope * decay
        for j in range(w.shape[0]):
            weight = even + uneven / (slope * kind(vector.curvature[j]) + offset)
            whole[j] = weight * (scale * w[j] - base[j])
    else:
        for f in range(np.uint64(vector.curvature.shape[0])):
            curved = half * (kind(vector.curvature[f]) + decay)
            for c in range(n_columns):
                j = f * np.uint64(n_columns) + np.uint64(c)
                weight = even + uneven / (one + curved * kind(local[layout.L_ETA, c]))
                whole[j] = weight * (kind(local[layout.L_SCALE, c]) * w[j] - base[j])
    write_intercepts(plan, vector, mail, private, me, slot, at, one_of, n_rows)
    head = box.heads[me, slot]
    head[layout.H_COUNT] = count
    head[layout.H_DENSE] = n_columns if places.shape[0] > 0 else at + n_columns
    head[layout.H_WHOLE] = 0 if places.shape[0] > 0 else 1
    head[layout.H_PROPOSALS] = one_of


@helper
def address(schedule, mail, me, ticket):
    """Write the snapshot's version and the block's ticket into the head of the next message."""
    state = schedule.table[me]
    head = mail.box.heads[me, next_slot(mail.box, me)]
    head[layout.H_VERSION] = state[layout.T_VERSION]
    head[layout.H_PULLED] = state[layout.T_PULLED]
    head[layout.H_TICKET] = ticket


@helper
def count_age(schedule, mail, worker, head):
    """Add a message to the histograms of staleness and age, when the master takes the message.

    Return the message's age.
    """
    state = schedule.table[worker]
    age = load(schedule.control, layout.VERSION) - head[layout.H_VERSION]
    mail.ages[worker, min(age, layout.HISTOGRAM - 1)] += 1
    staleness = taken_since(schedule, worker, head[layout.H_PULLED])
    schedule.staleness[worker, min(staleness, layout.HISTOGRAM - 1)] += 1
    state[layout.T_STALENESS] = staleness
    return age


@inlined
def is_dropped(plan, age):
    """Return whether a message of this age (in versions) is left out of the sum."""
    return 0 <= plan.cutoff < age


@helper
def share_of(plan, schedule, mail, worker, slot):
    """Count a message when the master takes it.

    Return the message's factor in the sum, or -1 if the message is dropped.
    """
    state = schedule.table[worker]
    age = count_age(schedule, mail, worker, mail.box.heads[worker, slot])
    if is_dropped(plan, age):
        state[layout.T_DROPPED] += 1
        return -1.0
    state[layout.T_PUSHES] += 1
    return 1.0 / (1.0 + age) if plan.damped != 0 else 1.0


@inlined
def clipped(before, change, share, one_of):
    """Return the model's change of a coordinate that a worker clipped to zero.

    The coordinate's value at the worker was minus `change`. The zeros of l1 stay exact: the penalty
    that clipped the worker's value clips any smaller value.
    """
    return -before if abs(before) <= abs(change) else share * change / one_of


@inlined
def intercepts_at(mail, vector):
    """Return the index of a message's first intercept change among its values."""
    capacity = mail.box.places.shape[2]
    return capacity if capacity > 0 else whole_size(vector)


@helper
def gather(vector, schedule, mail, worker, slot, share):
    """Add a message to the sum.

    Entries of the sum are valid where they are marked, or everywhere if PLACES is ALL_PLACES.
    """
    control = schedule.control
    head = mail.box.heads[worker, slot]
    total = mail.gathered
    marks = mail.gathered_marks
    mark = load(control, layout.VERSION) + 1
    known = load(control, layout.PLACES)
    places = mail.box.places[worker, slot]
    changes = mail.box.values[worker, slot]
    if head[layout.H_WHOLE] != 0:
        if known != layout.ALL_PLACES:
            for j in range(total.shape[0]):
                total[j] = total[j] if marks[j] == mark else 0.0
            known = layout.ALL_PLACES
        whole = changes.view(vector.w.dtype)
        for j in range(total.shape[0]):
            total[j] += share * whole[j]
    else:
        for k in range(head[layout.H_COUNT]):
            place = places[k]
            j = np.uint64(place if place >= 0 else -1 - place)
            if known != layout.ALL_PLACES and marks[j] != mark:
                marks[j] = mark
                total[j] = 0.0
                mail.gathered_places[known] = j
                known += 1
            if place >= 0:
                total[j] += share * changes[k]
            else:
                model = np.float64(vector.w[j])
                before = model + total[j]
                change = clipped(before, changes[k], share, head[layout.H_PROPOSALS])
                total[j] = -model if change == -before else total[j] + change
    store(control, layout.PLACES, known)
    at = intercepts_at(mail, vector)
    for c in range(mail.gathered_intercepts.shape[0]):
        mail.gathered_intercepts[c] += share * changes[at + c]
    store(control, layout.GATHERED, load(control, layout.GATHERED) + 1)


@helper
def write_journal(schedule, vector, mail, worker, number):
    """Write the values of the next version into the journal, then open it.

    worker : sender of the message that filled the sum; -1 if none did
    number : number of that message; -1 if none did
    """
    control = schedule.control
    count = load(control, layout.PLACES)
    journal = mail.journal
    if count == layout.ALL_PLACES:
        kind = vector.w.dtype.type
        whole = journal.view(vector.w.dtype)
        for j in range(vector.w.shape[0]):
            whole[j] = kind(np.float64(vector.w[j]) + mail.gathered[j])
    for k in range(count):
        j = mail.gathered_places[k]
        journal[k] = np.float64(vector.w[j]) + mail.gathered[j]
    for c in range(vector.intercept.shape[0]):
        journal[vector.w.shape[0] + c] = vector.intercept[c] + mail.gathered_intercepts[c]
    open_journal(control, worker, number)


@helper
def write_journal_of_one(schedule, vector, mail, worker, number, slot, share):
    """Write the values of the next version into the journal, then open it, for one whole message.

    This does the work of `gather` and `write_journal` in one pass; the message is a sum by itself.
    """
    control = schedule.control
    kind = vector.w.dtype.type
    changes = mail.box.values[worker, slot]
    after, whole = mail.journal.view(vector.w.dtype), changes.view(vector.w.dtype)
    for j in range(vector.w.shape[0]):
        after[j] = kind(np.float64(vector.w[j]) + share * whole[j])
    at = intercepts_at(mail, vector)
    for c in range(vector.intercept.shape[0]):
        mail.journal[vector.w.shape[0] + c] = vector.intercept[c] + share * changes[at + c]
    store(control, layout.PLACES, layout.ALL_PLACES)
    store(control, layout.GATHERED, 1)
    open_journal(control, worker, number)


@helper
def open_journal(control, worker, number):
    """Mark the journal as complete: it contains the values of the next version."""
    store(control, layout.JOURNAL_WORKER, worker)
    store(control, layout.JOURNAL_NUMBER, number)
    messages = load(control, layout.APPLIED) + load(control, layout.GATHERED)
    store(control, layout.JOURNAL_APPLIED, messages)
    # the last store, releasing: a successor that sees JOURNAL sees the whole journal
    store(control, layout.JOURNAL, load(control, layout.VERSION) + 2)


@helper
def count_applied(schedule, worker):
    """Record how many messages of each worker are in the version that is being written.

    The counts are stored while WRITES is odd, like the version itself.

    worker : sender of the message that filled the sum; -1 if none did
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
    """Copy the journal into the model; after a death a successor may repeat this from the start."""
    control = schedule.control
    kind = vector.w.dtype.type
    writes = load(control, layout.WRITES)
    if writes % 2 == 0:  # it is odd already if a dead master had begun to write
        writes += 1
        store(control, layout.WRITES, writes)
    fence()  # WRITES is odd before anything changes
    count = load(control, layout.PLACES)
    if count == layout.ALL_PLACES:
        whole = mail.journal.view(vector.w.dtype)
        for j in range(vector.w.shape[0]):
            vector.w[j] = whole[j]
    for k in range(count):
        vector.w[mail.gathered_places[k]] = kind(mail.journal[k])
    for c in range(vector.intercept.shape[0]):
        vector.intercept[c] = mail.journal[vector.w.shape[0] + c]
    worker = load(control, layout.JOURNAL_WORKER)
    count_applied(schedule, worker)
    store(control, layout.VERSION, load(control, layout.JOURNAL) - 1)
    store(control, layout.WRITES, writes + 1)  # even: readers may trust their copies again
    if worker >= 0:
        take(mail.box, worker, load(control, layout.JOURNAL_NUMBER))
    forget_sum(schedule, mail)
    store(control, layout.JOURNAL, 0)  # last: until this store a successor repeats all of it


@helper
def forget_sum(schedule, mail):
    """Begin a new, empty sum."""
    control = schedule.control
    store(control, layout.GATHERED, 0)
    store(control, layout.PLACES, 0)
    for c in range(mail.gathered_intercepts.shape[0]):
        mail.gathered_intercepts[c] = 0.0


@helper
def let_readers_go(control):
    """Wait a moment for workers whose reads have failed many times."""
    for _ in range(COURTESY):
        if load(control, layout.READERS) <= 0:
            break


@helper
def take_message(plan, schedule, vector, mail, worker):
    """Take a worker's oldest message; return False if there is none.

    The message is added to the sum, and a full sum is written into the model. A message that is too
    old is dropped.
    """
    box = mail.box
    if not has_mail(box, worker):
        return False
    control = schedule.control
    number = box.counters[worker, layout.M_TAKEN] + 1
    slot = slot_of(box, number)
    head = box.heads[worker, slot]
    share = share_of(plan, schedule, mail, worker, slot)
    of_message = head[layout.H_VERSION], head[layout.H_PROPOSALS]
    note_event(schedule, worker, head[layout.H_TICKET], *of_message)
    if share < 0.0:
        take(box, worker, number)
    elif plan.gradients == 1 and head[layout.H_WHOLE] != 0:
        let_readers_go(control)
        write_journal_of_one(schedule, vector, mail, worker, number, slot, share)
        write_model(schedule, vector, mail)
    else:
        gather(vector, schedule, mail, worker, slot, share)
        if load(control, layout.GATHERED) < plan.gradients:
            take(box, worker, number)
        else:
            let_readers_go(control)
            write_journal(schedule, vector, mail, worker, number)
            write_model(schedule, vector, mail)
    return True


@helper
def take_round(plan, schedule, vector, mail):
    """Take one message of every worker that has posted one; return how many were taken."""
    taken = 0
    for worker in range(schedule.table.shape[0]):
        if take_message(plan, schedule, vector, mail, worker):
            taken += 1
    return taken


@helper
def help_master(plan, schedule, vector, mail, me):
    """Take a message of each worker if SERVING is free; count the messages and the nanoseconds.

    The message that a worker has just posted is in the worker's cache. If the worker helps, it need
    not wait until a master gets a core.
    """
    control = schedule.control
    if schedule.table[me, layout.T_HELPS] == 0:
        return
    if compare_exchange(control, layout.SERVING, 0, me + 1) != 0:
        return
    began = nanoseconds()
    control[layout.MAIL_HELPED] += take_round(plan, schedule, vector, mail)
    control[layout.MAIL_HELPED_NS] += nanoseconds() - began
    store(control, layout.SERVING, 0)


@helper
def somebody_may_write(schedule):
    """Return whether any worker is in the run, or about to join it."""
    for k in range(schedule.table.shape[0]):
        state = load(schedule.table[k], layout.T_STATE)
        if state == layout.STARTING or state == layout.ACTIVE or state == layout.WAITING:
            return True
    return False


@helper
def apply_partial_sum(schedule, vector, mail):
    """Apply an unfinished sum to the model, although it has fewer messages than an update."""
    if load(schedule.control, layout.GATHERED) > 0:
        note_event(schedule, layout.NO_WORKER, 0, 0, 0)
        let_readers_go(schedule.control)
        write_journal(schedule, vector, mail, -1, 0)
        write_model(schedule, vector, mail)


@helper
def wait_for_mail(schedule, mail, polls):
    """Poll until there is mail, no worker can write mail any more, or the polls are used up.

    polls : number of polls; if negative, workers occupy all cores, and the master sleeps between
        two polls. A master that only yields its core would get the core back after milliseconds,
        for the remainder of a time slice. After a sleep it gets a core at once.
    """
    for _ in range(abs(polls)):
        for worker in range(schedule.table.shape[0]):
            if has_mail(mail.box, worker):
                return
        if not somebody_may_write(schedule):
            return
        if polls < 0:
            sleep_briefly()
        else:
            yield_core()  # the worker that has to write may have no core


@kernel
def serve(plan, schedule, vector, mail, n_rounds, polls):
    """Do the master's work for a while; return the number of messages taken, or OVER.

    If no worker is in the run, because the run is over or all workers pause, an unfinished sum is
    applied. If SERVING is taken, the call does no work and returns 0.

    n_rounds : largest number of rounds; a round takes at most one message of each worker
    polls : number of polls for the first message, see `wait_for_mail`
    """
    control = schedule.control
    began = nanoseconds()
    wait_for_mail(schedule, mail, polls)
    control[layout.MAIL_WAIT] += nanoseconds() - began
    if compare_exchange(control, layout.SERVING, 0, schedule.table.shape[0] + 1) != 0:
        return 0
    taken = 0
    for _ in range(n_rounds):
        expected = somebody_may_write(schedule)  # before the round, which takes the last messages
        in_round = take_round(plan, schedule, vector, mail)
        taken += in_round
        if in_round == 0:
            if not expected:
                apply_partial_sum(schedule, vector, mail)
            break
    store(control, layout.SERVING, 0)
    over = not expected and taken == 0
    for k in range(schedule.table.shape[0]):
        over = over and load(schedule.table[k], layout.T_STATE) != layout.RESTING
    return OVER if over else taken


@kernel
def take_over(schedule, vector, mail, dead):
    """Finish the master's work of a dead worker, if the dead worker was the owner of SERVING.

    dead : number of the dead worker; the master's number comes after the last worker's
    """
    control = schedule.control
    if load(control, layout.SERVING) != dead + 1:
        return  # nothing is half done, or another owner finishes it
    if load(control, layout.JOURNAL) != 0:
        write_model(schedule, vector, mail)
    else:
        # the sum's messages are lost but count as applied, so no later count waits for them
        messages = load(control, layout.APPLIED) + load(control, layout.GATHERED)
        store(control, layout.JOURNAL_APPLIED, messages)
        count_applied(schedule, -1)
        forget_sum(schedule, mail)
        # marks of the discarded sum must not count for the next sum, which has the same version
        for j in range(mail.gathered_marks.shape[0]):
            mail.gathered_marks[j] = 0
    store(control, layout.SERVING, 0)
