"""SAGA on a vector that only one worker writes: gradients are stored per row, and noise vanishes.

For each row and column, the table contains the loss's derivative at the row's last visit. A step
follows the new derivative minus the stored derivative, plus the table's average. So the variance
vanishes while the step size stays. On sparse rows a step writes only the row's own features:
average, penalty and the proximal step of l1 are scaled by each feature's rarity (the diagonal D).
With this scale the expected step is SAGA's step.

Source: Defazio, Bach and Lacoste-Julien (2014), SAGA; Leblond, Pedregosa and Lacoste-Julien (2017),
ASAGA, for the sparse form with D and the old average in the step; Pedregosa et al. (2017),
ProxASAGA, for the proximal operator on the support. The intercept is a coordinate whose feature is
one.

Writers: the worker that has claimed the block of row r writes the row's entry in `gradients`. Two
workers may have the same row for a moment (see `dual_ascent`). So several workers swap the entry
atomically, and add to the average exactly the difference between the new and the old entry: while
no worker steps, the average is the mean of the table. With several workers, each worker has a copy
of vector and average. An exchange multiplies the changes of the vector by weights, and adds the
changes of the average whole. `asaga_steps` describes SAGA without exchanges. If a worker was
killed, the average lacks the changes that this worker had not exchanged, until the average is
computed anew (`run_membership.pause`).

The step size falls within an epoch: it is constant for a share of the epoch (`level`), and then
falls linearly to zero. In a first epoch that begins with an empty table, it falls from the start,
and more steeply. So the step is long far from the optimum, and short before the model is evaluated.
The mean step size of an epoch is the same as without the fall. `docs/tried/2026-11/auto.md` has
measurements. Departure: in the papers the step size is constant; a step size that the user sets is
constant.

The derivative of a loss with a kink may jump when the model changes little. So with such a loss a
row's entry is the derivative at its proximal point, for a step from the point without the row's old
entry. The fixed point is the optimum for any step size, and no step is too long. In the first
epochs the step size also falls from one epoch to the next (`fade`), because these epochs decide at
which end of the kink most rows are. Afterwards the step size is the same in all epochs. If it fell
to zero, the entries of rows in the kink would jump from one end to the other again and again.
Source: Defazio (2016), Point-SAGA. Departures: with sparse rows the average and the penalty act as
above, and their share of the step is missing in the prediction from which the proximal point
starts.

If rows have unequal chances p of being drawn (Schmidt et al. 2015), the change of a row counts 1 /
(n p) times in the step (`gain`) and once in the average, and D is one over the chance that a drawn
row has the feature. With both factors the expected step and the fixed point are the same as with
equal chances.
"""

import math

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import prefetch_to_write, swap_float
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.rows.row_views import (
    column_of,
    margin,
    margins,
    row_at,
    row_bounds,
    row_label,
    row_weight,
    squared_norm,
)
from hogshare.kernels.rules import losses, penalties
from hogshare.kernels.rules.block_sums import count_loss, start_block
from hogshare.kernels.rules.proximal_points import kinked_slope, shrunk
from hogshare.kernels.rules.sgd_steps import (
    PREFETCH_LABELS,
    SAGA,
    couple,
    prefetch_ahead,
    target,
    weight_of,
)
from hogshare.kernels.rules.simd import PLAIN, move_four, move_two

LOUDER = 10.0  # see `tame`
LOUD = 0.1
PATIENCE = 3
FILLED = 2
STEEP = -1.0  # in place of a level: the step starts at 5/2 of its mean, and falls as power 3/2


@inlined
def row_change(rows, rule, r, w, intercept, gradients, local, columns, length, alone, single):
    """Replace a row's entry in the table, and write the entry's change into ``local[L_STEP]``.

    w, intercept : coefficients and intercepts of the model at which the row is evaluated
    length : factor of a column's step size in the following step; 0 if no step follows
    alone : whether no other worker may process the same row
    single : see `sgd_rows`

    Return whether any column learns, and the change of the last column (for a model of one column).
    If a column does not learn, its change and ``L_ETA`` are zero.
    """
    n_columns = 1 if single else local.shape[1]
    margin_of = local[layout.L_MARGIN]
    change = local[layout.L_STEP]
    kind = gradients.dtype.type
    start, end = row_bounds(rows, r)
    only = 0.0
    coupled = False
    kinked = length > 0.0 and losses.is_kinked(rule.loss)
    reach = 0.0
    if kinked:
        reach = length * (squared_norm(rows.data, start, end) + rule.intercept_step)
    if single:
        only = margin(rows, start, end, w)
    else:
        margins(rows, start, end, w, margin_of)
        coupled = couple(rule.loss, local, margin_of, intercept)
    label = row_label(rows, r)
    weight = row_weight(rows, r)
    active = False
    last = 0.0
    for c in range(n_columns):
        change[c] = 0.0
        local[layout.L_ETA, c] = 0.0
        if columns[layout.C_ACTIVE, c] == 0.0:
            continue
        active = True
        p = only if single else margin_of[c]
        if not coupled:
            p += intercept[c]
        y = target(rule.loss, label, c, n_columns)
        count_loss(rule, local, c, y, p, 0.0)
        size = weight_of(columns, c, y, weight)
        place = np.uint64(r) * np.uint64(n_columns) + np.uint64(c)
        way = reach * columns[layout.C_ETA, c]
        if way > 0.0:
            own = p + way * np.float64(gradients[place])
            slope = kinked_slope(rule.loss, rule.epsilon, y, own, way, size)
        else:
            slope = size * losses.loss_derivative(rule.loss, rule.epsilon, y, p)
        # rounded as stored, so the average changes by the table's difference, to the last bit
        after = kind(slope)
        if alone:
            before = gradients[place]
            gradients[place] = after
        else:
            # a load and a store could lose another worker's entry: the average would differ from
            # the table's mean
            before = swap_float(gradients, place, after)
        last = np.float64(after) - np.float64(before)
        change[c] = last
        if before != 0.0:  # a first visit only fills the table, so it does not measure the step
            local[layout.L_CHANGE, c] += last * last
        local[layout.L_ETA, c] = columns[layout.C_ETA, c]
    return active, last


@inlined
def single_step(rows, start, end, rarity, private, change, step, gain, share, l2, l1):
    """Take the step of `saga_step` for one column; its change and step size are arguments."""
    w = private.w
    average = private.average
    if rows.width > 0:
        dense_step(rows, start, w, average, change, step, gain, share, l2, l1)
        return
    kind = w.dtype.type
    size = gain * change
    push = change * share
    if not PLAIN and l1 == 0.0:
        vectors = w, average, rarity, rows.indices, rows.data
        reach = step * gain
        while end - start >= np.uint64(4):
            move_four(*vectors, start, step, reach, share, change, l2)
            start += np.uint64(4)
        if end - start >= np.uint64(2):
            move_two(*vectors, start, step, reach, share, change, l2)
            start += np.uint64(2)
    for k in range(start, end):
        j = np.uint64(rows.indices[k])
        x = np.float64(rows.data[k])
        old = average[j]
        rarity_j = np.float64(rarity[j])
        w[j] = kind(saga_move(np.float64(w[j]), size * x, old, step, rarity_j, l2, l1))
        average[j] = old + push * x


@inlined
def saga_step(rows, start, end, rarity, private, step, gain, share, l2, l1, stretch):
    """Move one row's features by ``-step (gain change x + D average)``, then shrink for l1 and l2.

    `w` and `average` of `private` are written. The penalties act by their proximal operator, times
    D: a gradient step on l2 would overshoot for a feature so rare that ``step D l2`` is above 2.
    """
    w = private.w
    average = private.average
    change = private.local[layout.L_STEP]
    n_columns = np.uint64(change.shape[0])
    if rows.width > 0:
        dense_columns_step(rows, start, private, step, gain, share, l2, l1, stretch)
        return
    kind = w.dtype.type
    for k in range(start, end):
        f = np.uint64(rows.indices[k])
        x = np.float64(rows.data[k])
        rarity_f = np.float64(rarity[f])
        for c in range(n_columns):
            j = f * n_columns + c
            before = np.float64(w[j])
            pull = gain * change[c] * x
            w[j] = kind(saga_move(before, pull, average[j], stretch * step[c], rarity_f, l2, l1))
            average[j] += change[c] * x * share


@inlined
def dense_step(rows, start, w, average, change, long, gain, share, l2, l1):
    """Take the step of `saga_step` for a dense row and one column.

    D is one, and the loop has no division.
    """
    kind = w.dtype.type
    pull = long * gain * change
    push = change * share
    shrink = 1.0 / (1.0 + long * l2)
    bound = long * l1
    for j in range(np.uint64(rows.width)):
        x = np.float64(rows.data[start + j])
        old = average[j]
        after = np.float64(w[j]) - pull * x - long * old
        if l1 > 0.0:
            after = shrunk(after, bound)
        w[j] = kind(after * shrink)
        average[j] = old + push * x


@inlined
def dense_columns_step(rows, start, private, step, gain, share, l2, l1, stretch):
    """Take the step of `dense_step` for several columns.

    The factors common to all features are computed before the loop.
    """
    w = private.w
    average = private.average
    local = private.local
    change = local[layout.L_STEP]
    pull = local[layout.L_MARGIN]  # scratch: this row's margins are no longer needed
    shrink = local[layout.L_GAIN]
    kind = w.dtype.type
    n_columns = np.uint64(change.shape[0])
    for c in range(n_columns):
        pull[c] = stretch * step[c] * gain * change[c]
        shrink[c] = 1.0 / (1.0 + stretch * step[c] * l2)
    for f in range(np.uint64(rows.width)):
        x = np.float64(rows.data[start + f])
        base = f * n_columns
        for c in range(n_columns):
            old = average[base + c]
            long = stretch * step[c]
            after = np.float64(w[base + c]) - pull[c] * x - long * old
            if l1 > 0.0:
                after = shrunk(after, long * l1)
            w[base + c] = kind(after * shrink[c])
            average[base + c] = old + change[c] * share * x


@inlined
def step_in_units(rows, start, private, divisors, step, gain, share, l2, l1, stretch):
    """Take the step of `saga_step` for a dense row whose features have been divided.

    The penalty acts on the coefficients of the original features.

    divisors : the features' divisors; a coefficient is its divisor times the coefficient of the
        original feature
    """
    w = private.w
    average = private.average
    change = private.local[layout.L_STEP]
    kind = w.dtype.type
    n_columns = np.uint64(change.shape[0])
    for f in range(np.uint64(rows.width)):
        x = np.float64(rows.data[start + f])
        own = 1.0 / divisors[f]
        own_l2, own_l1 = l2 * own * own, l1 * own
        for c in range(n_columns):
            j = f * n_columns + c
            pull = gain * change[c] * x
            long = stretch * step[c]
            w[j] = kind(saga_move(np.float64(w[j]), pull, average[j], long, 1.0, own_l2, own_l1))
            average[j] += change[c] * share * x


@inlined
def saga_move(before, pull, average, step, rarity, l2, l1):
    """Return one coordinate after its step; see `saga_step`."""
    rare = step * rarity
    shrink = 1.0 / (1.0 + rare * l2)  # does not wait for the row's change
    after = before - step * pull - rare * average
    if l1 > 0.0:
        after = shrunk(after, rare * l1)
    return after * shrink


@inlined
def strengths(rule):
    """Return the strengths of l2 and l1."""
    alpha = 0.0 if rule.penalty == penalties.NONE else rule.alpha
    return (1.0 - rule.l1_ratio) * alpha, rule.l1_ratio * alpha


@inlined
def gain_of(chances, r):
    """Return the factor of a row's step that corrects for unequal chances; 1 if they are equal."""
    return 1.0 / chances[np.uint64(r)] if chances.shape[0] > 0 else 1.0


@inlined
def prefetch_ahead_in(gradients, rows, order, i, n_columns):
    """Prefetch the data of rows soon after ``order[i]``, and their entries in the table."""
    prefetch_ahead(rows, order, i)
    if i + PREFETCH_LABELS < order.shape[0]:
        prefetch_to_write(gradients, row_at(order, i + PREFETCH_LABELS) * np.uint64(n_columns))


@inlined
def level_of(rule, plan, columns, ticket):
    """Return the share of a block's epoch in which the step is constant, or STEEP: see `bend`."""
    epoch = ticket // plan.n_blocks
    if rule.steep != 0 and epoch == 0:
        return STEEP
    return rule.level if epoch < columns[layout.C_FALLS, 0] else 1.0


@inlined
def bend(level, i, n_rows):
    """Return the factor of the step size at row `i` of an epoch; its mean over an epoch is 1.

    See the file's head.
    """
    left = 1.0 - (np.float64(i) + 0.5) / np.float64(n_rows)
    if level == STEEP:
        return 2.5 * left * math.sqrt(left)
    peak = 2.0 / (1.0 + level)
    return peak if left >= 1.0 - level else peak * left / (1.0 - level)


@inlined
def saga_rows(
    rows, rule, order, first, last, schedule, vector, memory, private, alone, level, single
):
    """Take one SAGA step per row ``order[first:last]``, all columns together.

    vector : only its rarity, the diagonal D, is read; the worker writes its own copy
    alone : whether no other worker may process the same row
    level : share of the epoch in which the step does not fall, or STEEP; see `bend`
    single : see `sgd_rows`
    """
    gradients = memory.gradients
    columns = schedule.columns
    local = private.local
    n_columns = 1 if single else local.shape[1]
    change = local[layout.L_STEP]
    step = local[layout.L_ETA]
    intercept = local[layout.L_INTERCEPT]
    share = 1.0 / rule.dual_rows
    l2, l1 = strengths(rule)
    stretch = local[layout.L_STRETCH, 0]
    for i in range(first, last):
        r = row_at(order, i)
        prefetch_ahead_in(gradients, rows, order, i, n_columns)
        start, end = row_bounds(rows, r)
        gain = gain_of(schedule.chances, r)
        bent = bend(level, i, order.shape[0])
        length = stretch * bent * gain
        args = private.w, intercept, gradients, local, columns, length, alone, single
        active, its_change = row_change(rows, rule, r, *args)
        if not active:
            continue
        if rule.fit_intercept:
            for c in range(n_columns):
                drift = gain * change[c] + local[layout.L_DUAL_MEAN, c]
                intercept[c] -= bent * step[c] * rule.intercept_step * drift
                local[layout.L_DUAL_MEAN, c] += change[c] * share
        of = vector.rarity, private
        if memory.divisors.shape[0] > 0:
            of_row = rows, start, private, memory.divisors, step
            step_in_units(*of_row, gain, share, l2, l1, stretch * bent)
        elif n_columns == 1:
            # not from `step`: that would load a value that has just been stored
            long = stretch * bent * columns[layout.C_ETA, 0]
            single_step(rows, start, end, *of, its_change, long, gain, share, l2, l1)
        else:
            saga_step(rows, start, end, *of, step, gain, share, l2, l1, stretch * bent)


@kernel
def remember(rows, rule, w, intercept, schedule, memory, local):
    """Fill the table with the losses' derivatives at a model; skip held-out rows."""
    n_held_out = schedule.held_out.shape[0]
    for r in range(rows.y.shape[0]):
        if n_held_out == 0 or schedule.held_out[r] == 0:
            args = memory.gradients, local, schedule.columns, 0.0, True, False
            row_change(rows, rule, r, w, intercept, *args)
    start_block(local)


@kernel
def average_table(rows, table, share, average, mean):
    """Compute SAGA's average from the table.

    Set ``average[j, c] = sum_r x_rj share table[r, c]`` and ``mean[c] = sum_r share table[r, c]``.

    share : float, one over the number of training rows
    mean : float64 (n_columns,), the average for the intercept, whose feature is one
    """
    n_columns = mean.shape[0]
    for j in range(average.shape[0]):
        average[j] = 0.0
    for c in range(n_columns):
        mean[c] = 0.0
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        if n_columns == 1:
            # the general loop below, with the row's entry in a register: a fifth of the time
            entry = np.float64(table[r])
            mean[0] += entry * share
            for k in range(start, end):
                x = np.float64(rows.data[k]) * share
                average[column_of(rows, start, k)] += x * entry
            continue
        for c in range(n_columns):
            mean[c] += np.float64(table[r * n_columns + c]) * share
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k]) * share
            for c in range(n_columns):
                average[base + np.uint64(c)] += x * np.float64(table[r * n_columns + c])


@helper
def fade(rule, columns, epoch):
    """Reduce the step sizes at an epoch's end, for a loss with kinks.

    Step sizes fall as one over the cube root of the epoch's number, until the epoch C_FALLS. Up to
    the same epoch, steps fall within an epoch.
    """
    if rule.method != SAGA or not losses.is_kinked(rule.loss):
        return
    if epoch + 1 >= columns[layout.C_FALLS, 0]:
        return
    for c in range(columns.shape[1]):
        columns[layout.C_ETA, c] *= ((epoch + 1.0) / (epoch + 2.0)) ** (1.0 / 3.0)


@helper
def tame(columns, sums, epoch, coupled):
    """Halve the step size of a column, at an epoch's end, if its table changes more and more.

    If the run converges, an epoch's changes of the table vanish; if steps are too long, the changes
    stay or grow. So the step is halved when the sum of squared changes has risen in `PATIENCE`
    successive epochs. Each of these sums must be more than `LOUDER` times the least sum, and more
    than `LOUD` times the largest sum. A single such epoch may come from a worker that slept for a
    while and adds outdated changes. The first two epochs, in which the table fills, do not count.

    coupled : whether the columns share a loss; if so, the sum is taken over all columns
    """
    if epoch < FILLED:
        return
    n_columns = columns.shape[1]
    together = 0.0
    for c in range(n_columns):
        together += sums[2 * n_columns + c]
    for c in range(n_columns):
        if columns[layout.C_ACTIVE, c] == 0.0:
            continue
        size = together if coupled else sums[2 * n_columns + c]
        columns[layout.C_LOUD, c] = max(columns[layout.C_LOUD, c], size)
        columns[layout.C_CALM, c] = min(columns[layout.C_CALM, c], size)
        above = max(LOUDER * columns[layout.C_CALM, c], LOUD * columns[layout.C_LOUD, c])
        grew = size > above and size >= columns[layout.C_LAST, c]
        columns[layout.C_GREW, c] = columns[layout.C_GREW, c] + 1.0 if grew else 0.0
        columns[layout.C_LAST, c] = size
        if columns[layout.C_GREW, c] >= PATIENCE:
            columns[layout.C_ETA, c] *= 0.5
            columns[layout.C_GREW, c] = 0.0
