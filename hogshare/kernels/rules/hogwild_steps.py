"""Gradient steps on the one vector that all workers read and write without locks.

Writers: every worker, any coordinate, at any moment. Readers: all workers, in no fixed order, so a
read may mix versions (the "inconsistent read"). With plain adds an update may be lost if two
workers write the same coordinate; with atomic adds no update is lost.

Source: Niu, Recht, Re and Wright (2011), "Hogwild!"; Lian et al. (2015), AsySG-incon with the
mini-batch form of section 4: read and compute `batch` times, then write once (a sum of the
gradients, not a mean). Departures: (1) all coordinates of a row are written, as in Hogwild!;
`coordinate_steps` writes one coordinate; (2) the penalties act on a row's support, scaled by each
feature's rarity (Hogwild!'s ``lambda x_u^2 / d_u``), because all workers would contend for a common
scale factor. With plain adds and one column, all coordinates of a dense row are written, including
those where the row's value is zero.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import add_float
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.rows.row_views import (
    column_of,
    margins,
    row_bounds,
    row_weight,
    squared_norm,
)
from hogshare.kernels.rules import penalties, step_schedules
from hogshare.kernels.rules.block_sums import count_loss
from hogshare.kernels.rules.proximal_points import shrunk
from hogshare.kernels.rules.sgd_steps import (
    couple,
    gradient_step,
    prefetch_ahead,
    target,
    weight_of,
)


@helper
def write_row(rows, rule, w, rarity, private, start, end, steps, etas, t, atomic, columns):
    """Add one row's gradient step and the penalties on its support to the vector.

    steps : float64 [n_columns], multiple of the row that is added to each column
    etas : float64 [n_columns], step sizes
    t : step counter of the row
    """
    n_columns = steps.shape[0]
    kind = w.dtype.type
    l1 = rule.penalty == penalties.L1 or rule.penalty == penalties.ELASTICNET
    l2_share = 1.0 - rule.l1_ratio if rule.penalty >= penalties.L2 else 0.0
    averaging = 0 < rule.average <= t
    for k in range(start, end):
        f = column_of(rows, start, k)
        x = np.float64(rows.data[k])
        rare = np.float64(rarity[f]) if rule.penalty != penalties.NONE else 0.0
        for c in range(n_columns):
            if columns[layout.C_ACTIVE, c] == 0.0:
                continue
            j = f * np.uint64(n_columns) + np.uint64(c)
            before = np.float64(w[j])
            change = x * steps[c]
            if rule.penalty != penalties.NONE:
                change -= min(1.0, l2_share * etas[c] * rule.alpha * rare) * before
                if l1:
                    due = rule.l1_ratio * etas[c] * rule.alpha * rare
                    change = shrunk(before + change, due) - before
            if change != 0.0:
                if atomic:
                    add_float(w, j, kind(change))
                else:
                    w[j] += kind(change)
                if averaging:
                    # the sum of N iterates is N w minus the sum over changes of (number of iterates
                    # before) * change
                    private.lag[j] -= (t - max(rule.first_t, rule.average)) * change


@inlined
def write_plainly(rows, start, end, w, rarity, step, decay):
    """Add one row's step to one column by plain adds, without l1 and without an average.

    This is the case of `write_row` that most runs need.

    decay : share of a coordinate that the l2 part removes if every row has its feature; 0 without
        an l2 part
    """
    kind = w.dtype.type
    if rows.width > 0:
        shrink = 1.0 - min(1.0, decay)
        for j in range(np.uint64(rows.width)):
            w[j] = kind(shrink * np.float64(w[j]) + step * np.float64(rows.data[start + j]))
    elif decay == 0.0:
        for k in range(start, end):
            w[rows.indices[k]] += kind(step * np.float64(rows.data[k]))
    else:
        for k in range(start, end):
            j = rows.indices[k]
            shrink = 1.0 - min(1.0, decay * np.float64(rarity[j]))
            w[j] = kind(shrink * np.float64(w[j]) + step * np.float64(rows.data[k]))


@inlined
def steps_of_batch(rows, rule, order, first, stop, t, w, intercept, private, columns):
    """Fill the scratch with the steps of rows ``order[first:stop]``; write no coordinate."""
    local = private.local
    scratch = private.scratch
    n_columns = local.shape[1]
    margin = local[layout.L_MARGIN]
    passive = rule.schedule == step_schedules.PA1 or rule.schedule == step_schedules.PA2
    for b in range(first, stop):
        r = order[b]
        prefetch_ahead(rows, order, b)
        start, end = row_bounds(rows, r)
        margins(rows, start, end, w, margin)
        weight = row_weight(rows, r)
        norm2 = squared_norm(rows.data, start, end) if passive else 0.0
        time = t + (b - first) * rule.stride
        eta_t = step_schedules.step_size(
            rule.schedule, rule.eta0, rule.power_t, rule.alpha, rule.optimal_init, time
        )
        coupled = couple(rule.loss, local, margin, intercept)
        for c in range(n_columns):
            eta = columns[layout.C_ETA, c] if rule.schedule == step_schedules.ADAPTIVE else eta_t
            local[layout.L_ETA, c] = eta
            p = margin[c] if coupled else margin[c] + intercept[c]
            y = target(rule.loss, rows.y[r], c, n_columns)
            count_loss(rule, local, c, y, p, 0.0)
            update = gradient_step(rule, y, p, eta, norm2) * weight_of(columns, c, y, weight)
            if columns[layout.C_ACTIVE, c] == 0.0:
                update = 0.0
            scratch[(b - first) * n_columns + c] = update


@helper
def hogwild_rows(rows, rule, order, first, last, t, w, intercept, rarity, private, columns, atomic):
    """Take one step per row ``order[first:last]``; write after every `rule.batch` rows.

    t : step counter of the first row
    w, intercept : the vector and the intercepts that are read and written
    rarity : see `shared_arrays.Vector`
    atomic : whether adds to the vector and to the intercepts are atomic
    """
    local = private.local
    n_columns = local.shape[1]
    l1 = rule.penalty == penalties.L1 or rule.penalty == penalties.ELASTICNET
    l2 = (1.0 - rule.l1_ratio) * rule.alpha if rule.penalty >= penalties.L2 else 0.0
    plainly = n_columns == 1 and not l1 and not atomic and rule.average == 0
    i = first
    while i < last:
        stop = min(last, i + rule.batch)
        steps_of_batch(rows, rule, order, i, stop, t, w, intercept, private, columns)
        for b in range(i, stop):
            start, end = row_bounds(rows, order[b])
            steps = private.scratch[(b - i) * n_columns : (b - i + 1) * n_columns]
            etas = local[layout.L_ETA]
            if not plainly:
                args = rarity, private, start, end, steps, etas, t, atomic, columns
                write_row(rows, rule, w, *args)
            elif columns[layout.C_ACTIVE, 0] != 0.0 and (steps[0] != 0.0 or l2 != 0.0):
                write_plainly(rows, start, end, w, rarity, steps[0], l2 * etas[0])
            for c in range(n_columns):
                change = steps[c] * rule.intercept_decay
                if rule.fit_intercept and change != 0.0:
                    if atomic:
                        add_float(intercept, c, change)
                    else:
                        intercept[c] += change
                if 0 < rule.average <= t and columns[layout.C_ACTIVE, c] != 0.0:
                    local[layout.L_AVERAGE_INTERCEPT, c] += intercept[c]
                    local[layout.L_AVERAGE_COUNT, c] += 1.0
            t += rule.stride
        i = stop
