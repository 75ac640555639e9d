"""Entering a run, pausing for a repair, and leaving it.

A worker is in the run from `enter_run` to `leave_run`. T_ENTERS of its row is written before the
run. If T_ENTERS is set, the worker's first quantum enters the run, and the quantum that finds
nothing more to claim leaves it (`may_begin`, `parting`). If not, the loop calls `join` and `leave`.

Writers: every worker writes its own row, its private arrays, and the shared vector under the
segments' locks. LIVE is changed by atomic adds.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import ALL, adopt_shared, push_private
from hogshare.kernels.jit.atomics import compare_exchange, fetch_add, load, store
from hogshare.kernels.jit.decorators import helper, kernel
from hogshare.kernels.rules.sgd_steps import fold_scale
from hogshare.kernels.schedule.barrier_codes import enter
from hogshare.kernels.schedule.epoch_schedule import ALONE, EXCHANGE, workers_left
from hogshare.kernels.schedule.ordered_rounds import take_place
from hogshare.kernels.schedule.worker_life import CLOSE, JOIN, LEAVE, PAUSE, move


@helper
def pause(rule, plan, schedule, vector, memory, private, me, wanted):
    """Pause while sums are repaired after a worker's death; called between two blocks.

    The vector of the dual rule and SAGA's average are sums over the rows' entries. After a worker's
    death, the sums lack the changes that the dead worker had not folded, or had folded only in
    part. The monitor asks for a repair by number. Every worker folds all its changes and writes
    that number into T_PAUSED of its row. When all workers have done so, the monitor opens SUMMER,
    and the worker that takes SUMMER computes the sums anew. So during the repair no worker is
    inside a block, and all changes are in the shared arrays.

    wanted : number of the last repair that the monitor has asked for

    Return True if this worker has to compute the sums anew and then call `end_pause`.
    """
    control = schedule.control
    state = schedule.table[me]
    if state[layout.T_PAUSED] != wanted:
        # a worker that has just joined has nothing to fold, and others may be summing already
        if plan.private == EXCHANGE and state[layout.T_ROWS] > state[layout.T_ROWS_AT_JOIN]:
            push_private(rule, schedule, vector, memory, private, me, ALL)
        store(state, layout.T_PAUSED, wanted)
    # the monitor may open SUMMER late: the repair's number and the check of REPAIRED make it safe
    elif compare_exchange(control, layout.SUMMER, -wanted, me + 1) == -wanted:
        if load(control, layout.REPAIRED) != wanted:
            return True
        store(control, layout.SUMMER, 0)
    return False


@helper
def end_pause(control, wanted):
    """Mark the repair `wanted` as done, and give SUMMER back."""
    store(control, layout.REPAIRED, wanted)  # first: the next owner of SUMMER checks it
    store(control, layout.SUMMER, 0)


@helper
def enter_run(rule, plan, schedule, vector, memory, private, me):
    """Count the worker as live and do its first pull; return False if the run is closed."""
    state = schedule.table[me]
    if not move(state, JOIN):
        return False
    fetch_add(schedule.control, layout.LIVE, 1)
    state[layout.T_ROWS_AT_JOIN] = state[layout.T_ROWS]
    enter(plan, schedule.table, me)
    take_place(schedule, me)
    if plan.private == EXCHANGE:
        left = workers_left(schedule) if plan.ordered else load(schedule.control, layout.LIVE)
        live = np.int64(left)
        adopt_shared(schedule, vector, memory, private, me, live, rule.stretch)
    return True


@helper
def leave_run(rule, plan, schedule, vector, memory, private, me, event):
    """Push the remaining changes and leave the run; set the state by `event`, LEAVE or PAUSE, last.

    A single worker on the vector itself has nothing to push; it writes its scale and intercepts.
    """
    if plan.private == EXCHANGE:
        push_private(rule, schedule, vector, memory, private, me, ALL)
    elif plan.private == ALONE:
        fold_scale(private, 0, private.local.shape[1])
        for c in range(private.local.shape[1]):
            vector.intercept[c] = private.local[layout.L_INTERCEPT, c]
    fetch_add(schedule.control, layout.LIVE, -1)
    move(schedule.table[me], event)


@kernel
def join(rule, plan, schedule, vector, memory, private, me):
    """Enter the run by a separate call; return False if the run is closed."""
    return enter_run(rule, plan, schedule, vector, memory, private, me)


@kernel
def leave(rule, plan, schedule, vector, memory, private, me, event):
    """Leave the run by a separate call."""
    leave_run(rule, plan, schedule, vector, memory, private, me, event)


@helper
def may_begin(rule, plan, schedule, vector, memory, private, me):
    """Enter the run if T_ENTERS asks for it; return False if the run is closed or over."""
    state = schedule.table[me]
    now = load(state, layout.T_STATE)
    if state[layout.T_ENTERS] == 0 or now == layout.ACTIVE or now == layout.WAITING:
        return True
    outside = now == layout.STARTING or now == layout.RESTING
    if outside and load(schedule.control, layout.STOP) != layout.RUNNING:
        move(state, CLOSE)
        return False
    return enter_run(rule, plan, schedule, vector, memory, private, me)


@helper
def parting(rule, plan, schedule, vector, memory, private, me, answer):
    """Leave the run if T_ENTERS is set and `answer` is its end or a pause; return `answer`."""
    if schedule.table[me, layout.T_ENTERS] != 0:
        if answer == layout.QUANTUM_DONE:
            leave_run(rule, plan, schedule, vector, memory, private, me, LEAVE)
        elif answer == layout.QUANTUM_PAUSE:
            leave_run(rule, plan, schedule, vector, memory, private, me, PAUSE)
    return answer
