"""SAGA on the one vector that all workers read and write without locks.

Writers: every worker, any coordinate of vector and average, at any moment. Readers: all workers, in
no fixed order, so a read may mix versions. The block's order fixes a worker's row before the worker
reads anything, so its read does not depend on the row. This makes its step unbiased. The worker
swaps the row's entry in the table atomically and uses the entry that the swap returns.

Each change of the average is a difference from the entry that the swap returned, and is added
atomically. So while no worker steps, the average is the mean of the table up to rounding, for any
interleaving. With plain adds to the vector an update may be lost if two workers write the same
coordinate. This costs one step and no more, because no invariant depends on the vector. With atomic
adds no update is lost.

Source: Leblond, Pedregosa and Lacoste-Julien (2017), ASAGA; Pedregosa, Leblond and Lacoste-Julien
(2017), ProxASAGA. Departures: the entry is swapped instead of read and written; the l2 part acts by
its proximal operator, as the l1 part does.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import add_float
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.rows.row_views import column_of, row_bounds
from hogshare.kernels.rules.saga_steps import (
    bend,
    gain_of,
    prefetch_ahead_in,
    row_change,
    saga_move,
    strengths,
)


@helper
def asaga_rows(rows, rule, order, first, last, schedule, vector, memory, local, atomic, level):
    """Take one step per row ``order[first:last]`` on the shared vector and average.

    local : see `sgd_steps.Private`
    atomic : whether adds to the vector are atomic; adds to the average are always atomic
    level : see `saga_rows`
    """
    n_columns = local.shape[1]
    change = local[layout.L_STEP]
    step = local[layout.L_ETA]
    gradients = memory.gradients
    w = vector.w
    average = memory.average
    kind = w.dtype.type
    share = 1.0 / rule.dual_rows
    l2, l1 = strengths(rule)
    for i in range(first, last):
        r = order[i]
        prefetch_ahead_in(gradients, rows, order, i, n_columns)
        start, end = row_bounds(rows, r)
        intercept = vector.intercept
        gain = gain_of(schedule.chances, r)
        bent = bend(level, i, order.shape[0])
        args = gradients, local, schedule.columns, gain * bent, False, False
        active, _ = row_change(rows, rule, r, w, intercept, *args)
        if not active:
            continue
        for k in range(start, end):
            f = column_of(rows, start, k)
            x = np.float64(rows.data[k])
            rarity = np.float64(vector.rarity[f])
            for c in range(n_columns):
                j = f * np.uint64(n_columns) + np.uint64(c)
                before = np.float64(w[j])
                pull = gain * change[c] * x
                after = saga_move(before, pull, average[j], bent * step[c], rarity, l2, l1)
                if after != before:
                    if atomic:
                        add_float(w, j, kind(after - before))
                    else:
                        w[j] += kind(after - before)
                if change[c] != 0.0:
                    # atomic in any case: a lost add would separate the average from the table
                    add_float(average, j, change[c] * x * share)
        if rule.fit_intercept:
            for c in range(n_columns):
                pace = bent * step[c] * rule.intercept_step
                drift = -pace * (gain * change[c] + memory.dual_mean[c])
                if atomic:
                    add_float(vector.intercept, c, drift)
                else:
                    vector.intercept[c] += drift
                add_float(memory.dual_mean, c, change[c] * share)
