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
the same row for a moment (see `dual`), so that several workers add to it atomically, and exactly
what they add goes into the average: at rest the average is the mean of the table. With several
workers each has a copy of vector and average; the exchange weights the former and adds the latter.
A worker that is killed leaves the average off by what it had not exchanged.
"""

import numpy as np

from hogshare.kernels import layout, losses, penalties
from hogshare.kernels.atomics import add_float, prefetch
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
def saga_step(rows, start, end, rarity, private, change, step, share, l2, l1):
    """Move one row's features by ``-step (change x + D average)``, then shrink for l1 and l2.

    The penalties act by their proximal operator, times D: a gradient step on l2 would overshoot
    where a feature is so rare that ``step D l2`` is above 2.
    """
    w = private.w
    average = private.average
    kind = w.dtype.type
    n_columns = np.uint64(change.shape[0])
    if n_columns == 1 and l1 == 0.0:
        # the same as below with the column's number in a register
        moved = change[0]
        for k in range(start, end):
            j = column_of(rows, start, k)
            toward = moved * np.float64(rows.data[k])
            before = np.float64(w[j])
            old = average[j]
            rare = np.float64(rarity[j])
            after = before - step * (toward + rare * old)
            w[j] = kind(after / (1.0 + step * rare * l2))
            average[j] = old + toward * share
        return
    for k in range(start, end):
        f = column_of(rows, start, k)
        x = np.float64(rows.data[k])
        rare = step * np.float64(rarity[f])
        for c in range(n_columns):
            j = f * n_columns + c
            before = np.float64(w[j])
            after = before - step * change[c] * x - rare * average[j]
            if l1 > 0.0:
                after = shrunk(after, rare * l1)
            w[j] = kind(after / (1.0 + rare * l2))
            average[j] += change[c] * x * share


@helper
def saga_rows(rows, rule, order, first, last, gradients, rarity, private, columns, alone):
    """Take one SAGA step per row ``order[first:last]``, all columns together.

    gradients : rows' dtype [n_rows * n_columns], the table
    rarity : float32 [n_features], the diagonal D
    alone : whether nobody else may be at the same row
    """
    local = private.local
    n_columns = local.shape[1]
    margin = local[layout.L_MARGIN]
    change = local[layout.L_STEP]
    kind = gradients.dtype.type
    share = 1.0 / rule.dual_rows
    alpha = 0.0 if rule.penalty == penalties.NONE else rule.alpha
    l2 = (1.0 - rule.l1_ratio) * alpha
    l1 = rule.l1_ratio * alpha
    for i in range(first, last):
        r = order[i]
        look_ahead(rows, order, i)
        if i + PREFETCH_LABELS < order.shape[0]:
            prefetch(gradients, order[i + PREFETCH_LABELS] * n_columns)
        start, end = row_bounds(rows, r)
        margins(rows, start, end, private.w, margin)
        label = rows.y[r]
        weight = row_weight(rows, r)
        coupled = couple(rule.loss, local, margin, local[layout.L_INTERCEPT])
        active = False
        for c in range(n_columns):
            change[c] = 0.0
            if columns[layout.C_ACTIVE, c] == 0.0:
                continue
            active = True
            p = margin[c] if coupled else margin[c] + local[layout.L_INTERCEPT, c]
            y = target(rule.loss, label, c, n_columns)
            count_loss(rule, local, c, y, p)
            size = weight_of(columns, c, y, weight)
            before = np.float64(gradients[r * n_columns + c])
            after = kind(size * losses.loss_derivative(rule.loss, rule.epsilon, y, p))
            # what is stored is what goes into the average, to the last bit
            change[c] = np.float64(after) - before
            if alone:
                gradients[r * n_columns + c] = after
            else:
                change[c] = np.float64(kind(change[c]))
                add_float(gradients, r * n_columns + c, kind(change[c]))
            local[layout.L_ETA, c] = rule.saga_step
            if rule.fit_intercept:
                drift = change[c] + local[layout.L_DUAL_MEAN, c]
                local[layout.L_INTERCEPT, c] -= rule.saga_step * drift
                local[layout.L_DUAL_MEAN, c] += change[c] * share
        if active:
            saga_step(rows, start, end, rarity, private, change, rule.saga_step, share, l2, l1)


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
