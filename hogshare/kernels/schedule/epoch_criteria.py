"""The end of an epoch: the criterion, the held-out score, and whether learning goes on.

Writers: only the worker that has taken the ENDER word writes columns, history and EPOCHS, and
lowers LIMIT. The count-down of the epoch's blocks acquires, so this worker sees all sums that were
added before.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import compare_exchange, load, store
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.rows.row_scores import held_out_scores
from hogshare.kernels.rules import losses, penalties, step_schedules
from hogshare.kernels.rules.dual_ascent import half_squares
from hogshare.kernels.rules.proximal_points import shrunk
from hogshare.kernels.rules.saga_steps import fade, strengths, tame
from hogshare.kernels.rules.sgd_steps import GRADIENT, SAGA
from hogshare.kernels.schedule.epoch_schedule import (
    ALONE,
    LOCK_FREE,
    MASTER,
    apply_criterion,
    open_epoch,
    slot_of,
    stop_now,
)


@helper
def any_nonfinite(private, vector, plan):
    """Return whether any coefficient or intercept of the model is not finite."""
    in_shared = plan.private == LOCK_FREE or plan.private == MASTER
    w = vector.w if in_shared else private.w
    outside = 0
    # the loop counts over all values: without an early exit it runs at the speed of memory
    for j in range(w.shape[0]):
        outside += 0 if np.isfinite(w[j]) else 1
    if outside > 0:
        return True
    for c in range(vector.intercept.shape[0]):
        intercept = vector.intercept[c] if in_shared else private.local[layout.L_INTERCEPT, c]
        if not np.isfinite(intercept):
            return True
    return False


@helper
def add_cells(sums, n_columns):
    """Add the losses of an epoch's cells to the epoch's sums, in the order of the cells' numbers.

    The fixed order makes the total the same bit for bit in every run.

    sums : float64[3 * n_columns + n_cells], sums of an epoch and then the loss of each cell; the
        sums of the first column are updated
    """
    total = 0.0
    for k in range(3 * n_columns, sums.shape[0]):
        total += sums[k]
    sums[0] += total
    sums[n_columns] += total


@helper
def find_criteria(rule, sums, w, divisors, n_rows, criterion):
    """Write the mean of an epoch's losses and penalties, column by column, into `criterion`.

    sums : float64[3 * n_columns], sums over the epoch's blocks
    w : the model's coefficients
    divisors : the features' divisors, see `half_squares`
    n_rows : number of training rows
    criterion : float64[n_columns], overwritten
    """
    n_columns = criterion.shape[0]
    for c in range(n_columns):
        criterion[c] = sums[n_columns + c] / n_rows
        if rule.method != GRADIENT and rule.penalty != penalties.NONE:
            squares, absolutes = half_squares(w, divisors, rule.threshold, n_columns, c)
            l2 = (1.0 - rule.l1_ratio) * squares
            criterion[c] += rule.alpha * (l2 + rule.l1_ratio * absolutes)
    if rule.loss == losses.MULTINOMIAL:
        # coupled columns are one model: they stop together, or none does
        for c in range(1, n_columns):
            criterion[0] += criterion[c]
        for c in range(1, n_columns):
            criterion[c] = criterion[0]


@helper
def settle_columns(rule, plan, columns, sums, criterion, score, epoch):
    """Set the step sizes from an epoch's sums; return True if no column learns any more."""
    if rule.method == SAGA and rule.tamed != 0:
        tame(columns, sums, epoch, rule.loss == losses.MULTINOMIAL)
    fade(rule, columns, epoch)
    adaptive = rule.schedule == step_schedules.ADAPTIVE
    return apply_criterion(columns, plan, adaptive, criterion, score, epoch)


@helper
def end_epoch(rows, rule, plan, schedule, vector, memory, private, epoch):
    """Decide after `epoch` whether learning goes on.

    The caller must have taken the ENDER word.
    """
    control = schedule.control
    local = private.local
    in_shared = plan.private == LOCK_FREE or plan.private == MASTER
    w = vector.w if in_shared else private.w
    n_columns = local.shape[1]
    n_rows = np.float64(schedule.order.shape[1])
    # the caller checks the model that it receives, so this check may be left out after the run's
    # last epoch
    handed_back = plan.private == ALONE and epoch + 1 >= plan.max_epochs and not plan.report_epochs
    if not handed_back and any_nonfinite(private, vector, plan):
        stop_now(control, layout.STOPPED_BY_DIVERGENCE)
        store(control, layout.EPOCHS, epoch + 1)
        return
    sums = schedule.sums[slot_of(schedule, epoch)]
    if plan.grid > 0:
        add_cells(sums, n_columns)
    if epoch < schedule.history.shape[0]:
        total = 0.0
        for c in range(n_columns):
            total += sums[c]
        # a loss that couples the columns is counted once per row
        parts = 1 if rule.loss == losses.MULTINOMIAL else n_columns
        schedule.history[epoch] = total / (n_rows * parts)
    # the block's scratch is free now: its sums have been added to the epoch's sums
    criterion = local[layout.L_STEP]
    score = local[layout.L_LOSS]
    find_criteria(rule, sums, w, memory.divisors, n_rows, criterion)
    for c in range(n_columns):
        score[c] = 0.0
    if plan.early_stopping:
        if in_shared:
            for c in range(n_columns):
                local[layout.L_SCALE, c] = 1.0
                local[layout.L_INTERCEPT, c] = vector.intercept[c]
        held_out_scores(rows, rule, plan.regression, schedule.held_out, w, local, score)
    if settle_columns(rule, plan, schedule.columns, sums, criterion, score, epoch):
        stop_now(control, layout.STOPPED_BY_CRITERION)
    if rule.method != GRADIENT:
        average = memory.average if in_shared else private.average
        means = memory.dual_mean if in_shared else local[layout.L_DUAL_MEAN]
        call(rule, schedule, memory, sums, w, average, means, epoch)
    if plan.free != 0:
        open_epoch(schedule, plan, epoch + schedule.sums.shape[0])
    # last, releasing: a worker that sees the new EPOCHS sees LIMIT, STOP and the step sizes too
    store(control, layout.EPOCHS, epoch + 1)


@helper
def steepest(rule, units, w, average, means):
    """Return the largest component of the gradient mapping, in the features' units if known.

    The gradient comes from SAGA's average: its terms were computed at recent models, not at the
    present one.
    """
    l2, l1 = strengths(rule)
    n_columns = means.shape[0]
    largest = 0.0
    for j in range(units.shape[1]):
        inverse = units[1, j]
        if inverse == 0.0:
            continue
        for c in range(n_columns):
            k = j * n_columns + c
            value = np.float64(w[k])
            slope = average[k] - units[0, j] * means[c] + l2 * value
            if l1 > 0.0:
                place = value / (inverse * inverse)
                slope = place - shrunk(place - slope, l1)
            largest = max(largest, abs(slope) * inverse)
    return largest


@helper
def call(rule, schedule, memory, sums, w, average, means, epoch):
    """Pause the workers for a convergence check, once an epoch has changed little enough.

    SAGA stores a value for each row, and an epoch changes these values. While the gradient is far
    from zero, the epoch's change decays like the gradient. Later the gradient has few directions,
    which change little from one epoch to the next. Then SAGA's average differs from the gradient by
    a few per cent. So the change and the average indicate convergence without an evaluation.

    The owner of the ENDER word lowers LIMIT before it advances EPOCHS. At that time no worker has
    claimed a block of epoch + 2. With several workers, some may have claimed blocks of epoch + 1.
    So the pause comes after epoch + 1, whose change is predicted at the recent rate.

    The caller's thread sets C_ENOUGH, C_SMALL and C_SOONEST (see `layout`). This function writes
    C_CHANGE, and in C_ENOUGH minus the epoch after which the check is due. ``sums[2 * n_columns:]``
    are the squared changes of the rows' memory; `w`, `average` and `means` are only read.
    """
    columns = schedule.columns
    n_columns = columns.shape[1]
    before = columns[layout.C_CHANGE, 0]
    change = 0.0
    for c in range(n_columns):
        change += sums[2 * n_columns + c]
    columns[layout.C_CHANGE, 0] = change
    first_free = epoch + 1
    if schedule.table.shape[0] > 1:
        first_free = epoch + 2
        if change < before:
            change *= change / before
    if columns[layout.C_ENOUGH, 0] <= 0.0 or change > columns[layout.C_ENOUGH, 0]:
        return
    if first_free < columns[layout.C_SOONEST, 0]:
        return
    small = columns[layout.C_SMALL, 0]
    has_gradient = small > 0.0 and average.shape[0] > 0
    if has_gradient and steepest(rule, memory.units, w, average, means) > small:
        return
    columns[layout.C_ENOUGH, 0] = -np.float64(first_free)
    if first_free < load(schedule.control, layout.LIMIT):
        store(schedule.control, layout.LIMIT, first_free)


@helper
def epoch_is_over(schedule, plan):
    """Return whether the oldest epoch that has not ended has no block left, and no stop is set."""
    epoch = load(schedule.control, layout.EPOCHS)
    return (
        epoch < plan.max_epochs
        and load(schedule.control, layout.READY) > epoch
        and load(schedule.remaining, slot_of(schedule, epoch) * layout.WORD) == 0
        and load(schedule.control, layout.STOP) == layout.RUNNING
    )


@helper
def end_epochs(rows, rule, plan, schedule, vector, memory, private, me):
    """End every epoch that is over, in the order of their numbers.

    Two short epochs may be over before the first has been ended. So a worker that completes an
    epoch's last block takes the ENDER word and ends all epochs that are over. If another worker
    owns the word, that owner ends them: it checks again after it has given the word back.
    """
    control = schedule.control
    while epoch_is_over(schedule, plan):
        if compare_exchange(control, layout.ENDER, 0, me + 1) != 0:
            return
        # again, under the word: another worker may have ended the epoch in between
        if epoch_is_over(schedule, plan):
            epoch = load(control, layout.EPOCHS)
            end_epoch(rows, rule, plan, schedule, vector, memory, private, epoch)
        store(control, layout.ENDER, 0)
