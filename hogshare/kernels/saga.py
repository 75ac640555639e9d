"""SAGA on a vector that only one worker writes: gradients remembered per row, no lasting noise.

The table keeps, per row and column, the loss's derivative when the row was last visited. A step
moves along the difference to it plus the table's average, so that the variance dies out while the
step size stays. On sparse rows only the row's own features are touched: average and penalty count
there by how rare the feature is (the diagonal D), which is right on average; the l1 part's proximal
step likewise.

Source: Defazio, Bach and Lacoste-Julien (2014), SAGA; Leblond, Pedregosa and Lacoste-Julien (2017),
ASAGA, for the sparse form with D and the old average in the step; Pedregosa et al. (2017),
ProxASAGA, for the proximal operator on the support. The intercept is a coordinate whose feature is
one.

Who writes: row r's entry in `gradients`, whoever has claimed the block of r. Two workers may hold
the same row for a moment (see `dual`), so that several workers swap it atomically, and exactly the
difference to what they find goes into the average: at rest the average is the mean of the table.
With several workers each has a copy of vector and average; the exchange weights the former and adds
the latter. Without an exchange see `asaga`. A worker that is killed leaves the average off by what
it had not exchanged.
"""

import numpy as np

from hogshare.kernels import layout, losses, penalties
from hogshare.kernels.atomics import prefetch, swap_float
from hogshare.kernels.jit import helper, inlined, kernel
from hogshare.kernels.proximal import shrunk
from hogshare.kernels.rows import (
    column_of,
    margins,
    row_bounds,
    row_weight,
    squared_norm,
)
from hogshare.kernels.sgd import (
    PREFETCH_LABELS,
    count_loss,
    couple,
    look_ahead,
    target,
    weight_of,
)


@inlined
def row_change(rows, rule, r, w, intercept, gradients, local, columns, alone):
    """Renew a row's entry in the table; ``local[L_STEP]`` is by how much it changes.

    w, intercept : the model that the row is looked at with
    alone : whether nobody else may be at the same row

    Returns whether any column learns. One that does not has step, change and ``L_ETA`` zero.
    """
    n_columns = local.shape[1]
    margin = local[layout.L_MARGIN]
    change = local[layout.L_STEP]
    kind = gradients.dtype.type
    start, end = row_bounds(rows, r)
    margins(rows, start, end, w, margin)
    label = rows.y[r]
    weight = row_weight(rows, r)
    coupled = couple(rule.loss, local, margin, intercept)
    active = False
    for c in range(n_columns):
        change[c] = 0.0
        local[layout.L_ETA, c] = 0.0
        if columns[layout.C_ACTIVE, c] == 0.0:
            continue
        active = True
        p = margin[c] if coupled else margin[c] + intercept[c]
        y = target(rule.loss, label, c, n_columns)
        count_loss(rule, local, c, y, p)
        size = weight_of(columns, c, y, weight)
        # what is stored is what goes into the average, to the last bit
        after = kind(size * losses.loss_derivative(rule.loss, rule.epsilon, y, p))
        place = r * n_columns + c
        if alone:
            before = gradients[place]
            gradients[place] = after
        else:
            before = swap_float(gradients, place, after)
        change[c] = np.float64(after) - np.float64(before)
        local[layout.L_ETA, c] = rule.saga_step
    return active


@inlined
def saga_step(rows, start, end, rarity, private, step, share, l2, l1):
    """Move one row's features by ``-step (change x + D average)``, then shrink for l1 and l2.

    The penalties act by their proximal operator, times D: a gradient step on l2 would overshoot
    where a feature is so rare that ``step D l2`` is above 2.
    """
    w = private.w
    average = private.average
    change = private.local[layout.L_STEP]
    kind = w.dtype.type
    n_columns = np.uint64(change.shape[0])
    if n_columns == 1 and l1 == 0.0:
        # the same as below with the column's numbers in registers
        pull = step[0] * change[0]
        push = change[0] * share
        for k in range(start, end):
            j = column_of(rows, start, k)
            x = np.float64(rows.data[k])
            old = average[j]
            rare = step[0] * np.float64(rarity[j])
            after = np.float64(w[j]) - pull * x - rare * old
            w[j] = kind(after / (1.0 + rare * l2))
            average[j] = old + push * x
        return
    for k in range(start, end):
        f = column_of(rows, start, k)
        x = np.float64(rows.data[k])
        rarity_f = np.float64(rarity[f])
        for c in range(n_columns):
            j = f * n_columns + c
            before = np.float64(w[j])
            w[j] = kind(saga_move(before, x, change[c], average[j], step[c], rarity_f, l2, l1))
            average[j] += change[c] * x * share


@inlined
def saga_move(before, x, change, average, step, rarity, l2, l1):
    """Where one coordinate goes; see `saga_step`."""
    rare = step * rarity
    after = before - step * change * x - rare * average
    if l1 > 0.0:
        after = shrunk(after, rare * l1)
    return after / (1.0 + rare * l2)


@inlined
def strengths(rule):
    """Strengths of l2 and l1."""
    alpha = 0.0 if rule.penalty == penalties.NONE else rule.alpha
    return (1.0 - rule.l1_ratio) * alpha, rule.l1_ratio * alpha


@inlined
def look_ahead_in(gradients, rows, order, i, last, n_columns):
    """`look_ahead` for rows whose entry in the table is needed too."""
    look_ahead(rows, order, i, last)
    if i + PREFETCH_LABELS < last:
        prefetch(gradients, order[i + PREFETCH_LABELS] * n_columns)


@helper
def saga_rows(rows, rule, order, first, last, gradients, rarity, private, columns, alone):
    """Take one SAGA step per row ``order[first:last]``, all columns together.

    gradients : rows' dtype [n_rows * n_columns], the table
    rarity : float32 [n_features], the diagonal D
    alone : whether nobody else may be at the same row
    """
    local = private.local
    n_columns = local.shape[1]
    change = local[layout.L_STEP]
    step = local[layout.L_ETA]
    intercept = local[layout.L_INTERCEPT]
    share = 1.0 / rule.dual_rows
    l2, l1 = strengths(rule)
    for i in range(first, last):
        r = order[i]
        look_ahead_in(gradients, rows, order, i, last, n_columns)
        start, end = row_bounds(rows, r)
        if not row_change(rows, rule, r, private.w, intercept, gradients, local, columns, alone):
            continue
        if rule.fit_intercept:
            for c in range(n_columns):
                intercept[c] -= step[c] * (change[c] + local[layout.L_DUAL_MEAN, c])
                local[layout.L_DUAL_MEAN, c] += change[c] * share
        saga_step(rows, start, end, rarity, private, step, share, l2, l1)


@kernel
def norms_of(rows, every):
    """Mean and largest squared norm of every so many rows."""
    total = 0.0
    largest = 0.0
    n_rows = 0
    for r in range(0, rows.y.shape[0], every):
        n_rows += 1
        start, end = row_bounds(rows, r)
        norm2 = squared_norm(rows, start, end)
        total += norm2
        largest = max(largest, norm2)
    return total / n_rows, largest
