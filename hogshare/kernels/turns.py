"""Many blocks in one call: the compiled form of the worker's loop.

A call of a kernel from Python costs microseconds and holds the interpreter's lock; an epoch of a
small data set costs a millisecond. So a worker asks for a *turn*: claim, compute and push up to so
many blocks without Python, watching the stop word at every block. The loop in Python
(`hogshare.engine.loop`) is the same loop with turns as its computing step; waiting is never done
here.
"""

import numpy as np

from hogshare.kernels import layout, losses, penalties, schedules
from hogshare.kernels.asaga import asaga_rows
from hogshare.kernels.atomics import compare_exchange, fetch_add, load, store
from hogshare.kernels.barriers import FREE, enter, may_pass
from hogshare.kernels.dual import dual_rows, half_squares, mean_of_duals, sum_of_duals
from hogshare.kernels.epochs import apply_criterion, claim, complete, stop_now
from hogshare.kernels.exchange import ALL, TRY, WAIT, adopt_shared, exchange, pull, record_push
from hogshare.kernels.hogwild import hogwild_rows
from hogshare.kernels.jit import helper, inlined, kernel
from hogshare.kernels.saga import saga_rows, sum_of_gradients, tame
from hogshare.kernels.scores import held_out_scores
from hogshare.kernels.sgd import DUAL, GRADIENT, SAGA, fold_scale, sgd_rows

FIRST_INTERVAL = 128
UNEXCHANGED = layout.T_UNEXCHANGED
LOCK_FREE = 0
EXCHANGE = 1
ALONE = 2


@helper
def push_private(rule, shared, private, me, how):
    """One exchange, counted."""
    decay = (1.0 - rule.l1_ratio) * rule.alpha if rule.penalty != 0 else 0.0
    exchange(shared, private, me, decay, rule.keep, rule.stretch, how)
    record_push(shared, me)


@inlined
def interval_now(plan, rows_done):
    """Rows between exchanges: few at first, when the model moves fast."""
    return min(plan.interval, max(FIRST_INTERVAL, rows_done))


@helper
def rows_of(ticket, plan, orders, first_t):
    """A block: its epoch's order, where it begins and ends there, and its first row's time."""
    epoch = ticket // plan.n_blocks
    order = orders[epoch % 2]
    n_rows = order.shape[0]
    first = (ticket % plan.n_blocks) * plan.block_rows
    t = first_t + np.float64(epoch) * n_rows + first
    return order, first, min(n_rows, first + plan.block_rows), t


@helper
def start_block(local):
    """Begin a block's sums."""
    local[layout.L_LOSS, :] = 0.0
    local[layout.L_CRITERION, :] = 0.0
    local[layout.L_CHANGE, :] = 0.0


@helper
def any_nonfinite(private, shared, plan):
    """Whether the model has left the floating-point range (every value is looked at)."""
    w = shared.w if plan.private == LOCK_FREE else private.w
    for j in range(w.shape[0]):
        if not np.isfinite(w[j]):
            return True
    for c in range(shared.intercept.shape[0]):
        intercept = (
            shared.intercept[c]
            if plan.private == LOCK_FREE
            else private.local[layout.L_INTERCEPT, c]
        )
        if not np.isfinite(intercept):
            return True
    return False


@helper
def end_epoch(rows, rule, plan, shared, private, epoch):
    """Decide whether learning goes on; the worker holds the ENDER word."""
    control = shared.control
    local = private.local
    w = shared.w if plan.private == LOCK_FREE else private.w
    n_columns = local.shape[1]
    n_rows = np.float64(shared.order.shape[1])
    if any_nonfinite(private, shared, plan):
        stop_now(control, layout.STOPPED_BY_DIVERGENCE)
        store(control, layout.EPOCHS, epoch + 1)
        return
    sums = shared.sums[epoch % 2]
    if epoch < shared.history.shape[0]:
        total = 0.0
        for c in range(n_columns):
            total += sums[c]
        # a loss that couples the columns is counted once per row
        parts = 1 if rule.loss == losses.MULTINOMIAL else n_columns
        shared.history[epoch] = total / (n_rows * parts)
    # the block's scratch is free here: its sums have been added to the epoch's
    criterion = local[layout.L_STEP]
    score = local[layout.L_LOSS]
    for c in range(n_columns):
        criterion[c] = sums[n_columns + c] / n_rows
        if rule.method != GRADIENT and rule.penalty != penalties.NONE:
            squares, absolutes = half_squares(w, rule.threshold, n_columns, c)
            l2 = (1.0 - rule.l1_ratio) * squares
            criterion[c] += rule.alpha * (l2 + rule.l1_ratio * absolutes)
        score[c] = 0.0
    if rule.loss == losses.MULTINOMIAL:
        # coupled columns are one model: they stop together, or none does
        for c in range(1, n_columns):
            criterion[0] += criterion[c]
        for c in range(1, n_columns):
            criterion[c] = criterion[0]
    if plan.early_stopping:
        if plan.private == LOCK_FREE:
            for c in range(n_columns):
                local[layout.L_SCALE, c] = 1.0
                local[layout.L_INTERCEPT, c] = shared.intercept[c]
        held_out_scores(rows, rule, plan.regression, shared.held_out, w, local, score)
    if rule.method == SAGA and rule.tamed != 0:
        tame(shared.columns, sums, epoch, rule.loss == losses.MULTINOMIAL)
    adaptive = rule.schedule == schedules.ADAPTIVE
    if apply_criterion(shared, plan, adaptive, criterion, score, epoch):
        stop_now(control, layout.STOPPED_BY_CRITERION)
    store(control, layout.EPOCHS, epoch + 1)


@helper
def epoch_is_over(shared, plan):
    """Whether the oldest epoch that has not been ended has no block left."""
    epoch = load(shared.control, layout.EPOCHS)
    return (
        epoch < plan.max_epochs
        and load(shared.control, layout.READY) > epoch
        and load(shared.remaining, (epoch % 2) * layout.WORD) == 0
        and load(shared.control, layout.STOP) == layout.RUNNING
    )


@helper
def end_epochs(rows, rule, plan, shared, private, me):
    """End every epoch that is over, in order.

    Two short epochs may be over before the first has been decided on, so this is not left to
    whoever completes a last block: whoever does takes the ENDER word, or leaves the work to the
    holder, who looks again after giving the word back.
    """
    control = shared.control
    while epoch_is_over(shared, plan):
        if compare_exchange(control, layout.ENDER, 0, me + 1) != 0:
            return
        if epoch_is_over(shared, plan):
            epoch = load(control, layout.EPOCHS)
            end_epoch(rows, rule, plan, shared, private, epoch)
        store(control, layout.ENDER, 0)


@helper
def pause(rule, plan, shared, private, me, wanted):
    """Stand still while what a dead worker has left is put in order; called at a turn's start.

    The vector of the dual rule and SAGA's average are sums over the rows' entries, and a worker
    that is killed leaves them off by what it had not folded, or had half folded. The monitor asks
    for a repair by its number. Every worker folds all that it has and writes that number into its
    row; when all have, the monitor opens SUMMER, and whoever takes it sums anew. So nobody is in
    the middle of anything meanwhile, and nothing is outside the shared arrays. The number in SUMMER
    and the second look at REPAIRED make a monitor harmless that opens too late.

    wanted : the last repair that has been asked for

    Returns whether this worker is to sum anew, and then to call `end_pause`.
    """
    control = shared.control
    state = shared.table[me]
    if state[layout.T_PAUSED] != wanted:
        # who has just joined, or has rested, has nothing to fold, and others may be summing already
        if plan.private == EXCHANGE and state[layout.T_ROWS] > state[layout.T_ROWS_AT_JOIN]:
            push_private(rule, shared, private, me, ALL)
        store(state, layout.T_PAUSED, wanted)
    elif compare_exchange(control, layout.SUMMER, -wanted, me + 1) == -wanted:
        if load(control, layout.REPAIRED) != wanted:
            return True
        store(control, layout.SUMMER, 0)
    return False


@helper
def end_pause(control, wanted):
    """Give SUMMER back: the sums are whole."""
    store(control, layout.REPAIRED, wanted)
    store(control, layout.SUMMER, 0)


@kernel
def join(rule, plan, shared, private, me):
    """Enter the run: count as live and pull for the first time. False: the run was closed first."""
    state = shared.table[me]
    if compare_exchange(state, layout.T_STATE, layout.STARTING, layout.ACTIVE) != layout.STARTING:
        return False
    fetch_add(shared.control, layout.LIVE, 1)
    state[layout.T_ROWS_AT_JOIN] = state[layout.T_ROWS]
    enter(shared.table, me)
    if plan.private == EXCHANGE:
        adopt_shared(shared, private, me, rule.stretch)
    return True


@kernel
def leave(rule, plan, shared, private, me):
    """Push what is left and count as gone; the state is the last word written."""
    if plan.private == EXCHANGE:
        push_private(rule, shared, private, me, ALL)
    elif plan.private == ALONE:
        fold_scale(private, 0, private.local.shape[1])
        for c in range(private.local.shape[1]):
            shared.intercept[c] = private.local[layout.L_INTERCEPT, c]
    fetch_add(shared.control, layout.LIVE, -1)
    store(shared.table[me], layout.T_STATE, layout.DONE)


@kernel
def stop(control, reason):
    """Ask everybody to stop at their next block, from outside of the run; the first reason stands.

    A compare-exchange as in the run's own stops: between a look and a store somebody else may stop.
    """
    stop_now(control, reason)


@helper
def pass_barrier(plan, shared, private, me):
    """Whether the worker may claim its next block; it has the others' pushes then."""
    if not may_pass(plan, shared.table, shared.control, me):
        return False
    if plan.private == EXCHANGE:
        pull(shared, private, me)
    return True


@helper
def nothing_to_claim(shared, plan, me):
    """What a turn answers whose worker finds no block."""
    control = shared.control
    shared.table[me, layout.T_BLOCK] = layout.NO_BLOCK
    epochs = load(control, layout.EPOCHS)
    if epochs >= plan.max_epochs:
        stop_now(control, layout.STOPPED_BY_LIMIT)
        return layout.TURN_DONE
    return layout.TURN_REST if epochs >= load(control, layout.LIMIT) else layout.TURN_WAIT


def turn_of(name, method, lock_free):
    """Make the kernel of a turn by one rule, on the shared vector itself or on a private one.

    Both are constants of the kernel. Numba leaves out a branch on a constant before it looks at
    types, so that a fit compiles its own rule's rows and no other's.

    Parameters
    ----------
    name : str
        What the kernel is called in the cache folder, in profiles and in tracebacks.
    method : int
        As `sgd.Rule.method`.
    lock_free : bool
        Whether all workers write the one vector.
    """

    def take_turn(rows, rule, plan, shared, private, scratch, me, n_blocks):
        """Claim and compute up to `n_blocks` blocks; returns one of the ``TURN_`` answers."""
        control = shared.control
        table = shared.table
        for _ in range(n_blocks):
            if load(control, layout.STOP) != layout.RUNNING:
                return layout.TURN_DONE
            wanted = load(control, layout.REPAIR_WANTED)
            if method != GRADIENT and wanted != load(control, layout.REPAIRED):
                if pause(rule, plan, shared, private, me, wanted):
                    mean = shared.dual_mean
                    n = rule.dual_rows
                    if method == DUAL:
                        sum_of_duals(rows, shared.dual, rule.dual_scale, shared.w)
                        mean_of_duals(shared.dual, n, mean)
                    else:
                        sum_of_gradients(rows, shared.gradients, 1.0 / n, shared.average, mean)
                    end_pause(control, wanted)
                return layout.TURN_WAIT
            if plan.barrier != FREE and not pass_barrier(plan, shared, private, me):
                return layout.TURN_WAIT
            ticket = claim(shared, plan, me)
            if ticket == layout.NO_BLOCK:
                return nothing_to_claim(shared, plan, me)
            if table[me, layout.T_STATE] != layout.ACTIVE:
                store(table[me], layout.T_STATE, layout.ACTIVE)
            last, completed = True, 0
            if ticket != layout.FINISH_EPOCH:
                order, first, end, t = rows_of(ticket, plan, shared.order, rule.first_t)
                start_block(private.local)
                columns = shared.columns
                alone = plan.private == ALONE
                if lock_free:
                    table[me, layout.T_VERSION] = load(control, layout.VERSION)
                    atomic = plan.atomic != 0
                    if method == SAGA:
                        asaga_rows(rows, rule, order, first, end, shared, private.local, atomic)
                    else:
                        args = shared, private, columns, scratch, atomic
                        hogwild_rows(rows, rule, order, first, end, t, *args)
                else:
                    i = first
                    while i < end:
                        interval = interval_now(plan, table[me, layout.T_ROWS] + i - first)
                        room = end - i if alone else interval - table[me, UNEXCHANGED]
                        until = min(end, i + max(room, 1))
                        if method == DUAL:
                            args = shared.dual, private, columns, alone
                            dual_rows(rows, rule, order, i, until, *args)
                        elif method == SAGA:
                            saga_rows(rows, rule, order, i, until, shared, private, alone)
                        else:
                            sgd_rows(rows, rule, order, i, until, t, private, columns)
                        table[me, UNEXCHANGED] += until - i
                        t += until - i
                        i = until
                        if not alone and table[me, UNEXCHANGED] >= interval:
                            push_private(rule, shared, private, me, TRY)
                if lock_free or alone:
                    record_push(shared, me)
                elif plan.barrier != FREE and table[me, UNEXCHANGED] > 0:
                    push_private(rule, shared, private, me, WAIT)  # before its clock
                table[me, layout.T_ROWS] += end - first
                last, completed = complete(shared, plan, ticket, private.local)
                table[me, layout.T_BLOCK] = layout.NO_BLOCK
                table[me, layout.T_BLOCKS] += 1
                store(table[me], layout.T_CLOCK, table[me, layout.T_CLOCK] + 1)
            if last:
                looked_at = plan.early_stopping or plan.report_epochs
                if not lock_free and plan.private == EXCHANGE and looked_at:
                    push_private(rule, shared, private, me, TRY)
                end_epochs(rows, rule, plan, shared, private, me)
            if plan.record_every > 0 and completed % plan.record_every == 0 and completed > 0:
                return layout.TURN_RECORD
            if last and plan.report_epochs:
                return layout.TURN_EPOCH
        return layout.TURN_OVER

    take_turn.__name__ = take_turn.__qualname__ = name
    return kernel(take_turn)


# by Rule.method and whether the plane is lock-free
TURNS = {
    (GRADIENT, False): turn_of("sgd_turn", GRADIENT, False),
    (GRADIENT, True): turn_of("hogwild_turn", GRADIENT, True),
    (DUAL, False): turn_of("dual_turn", DUAL, False),
    (SAGA, False): turn_of("saga_turn", SAGA, False),
    (SAGA, True): turn_of("asaga_turn", SAGA, True),
}
