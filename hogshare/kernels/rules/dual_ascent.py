"""Dual coordinate ascent on a vector that only one worker writes.

Each row has one dual variable a_i per column. The vector is a sum over the rows, ``v = sum_i a_i
x_i / (lambda n)``, where lambda is the strength of l2. The model is v itself, or v with every
coordinate moved towards zero by the l1 part's threshold. A step on a row moves a_i to the maximum
of the dual objective, at which the row's prediction is at the proximal point of its loss. There is
no step size. The row stores its contribution, and the noise of the gradients vanishes as the a_i
converge.

A run's first epoch begins with dual variables of zero, so the sum lacks the rows that have not been
visited. So a row is evaluated at the model of the rows visited so far: `growth` times v. The factor
is ``n / (rows so far)``, but at most ``1 / fewest``, where `fewest` is a share of the rows. The
intercept is not such a sum and is not multiplied. An exchange computes its weights without this
growth.

Source: Shalev-Shwartz and Zhang (2013, JMLR 14), procedure SDCA, and "SDCA with SGD initialization"
for the first epoch; (2014, Math. Program. 155) for the threshold (Prox-SDCA). Departures: (1) In
the source `fewest` is one row (`docs/auto.md` has a better number). (2) If rows are short (their
quadratic term is at most `SHORT`), the log loss takes the closed step with the curvature bound 1/4.
This step costs one exponential, and in measurements it made more progress per epoch. (3) The
intercept has no penalty, so it is no sum of dual variables. It takes SAGA's step with the a_i as
SAGA's table: ``b += rho (change + mean of a)``.

If M machines exchange their vectors by messages (`site_exchange`), they take many steps between two
exchanges. So each machine assumes that all M machines take the same steps: a row's change counts M
times in its own quadratic term, and M times in the machine's vector until the next exchange. This
is the local problem of CoCoA+ (Ma et al. 2015, gamma = 1, sigma' = M): for any number of rows, the
sum of the machines' changes is never worse than their starting point.

Writers: the worker that has claimed the block of row r writes the row's entry in `dual`. Blocks of
two epochs that contain the same row may overlap for a moment. So several workers add to the entry
atomically, and the sum above stays exact. With several workers, each worker has its own copy of v;
`copy_exchange` describes the part of a change that an exchange withholds.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import add_float, prefetch_to_write
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.rows.row_views import (
    column_of,
    margins,
    row_at,
    row_bounds,
    row_label,
    row_weight,
    scatter,
    squared_norm,
)
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.block_sums import count_loss
from hogshare.kernels.rules.proximal_points import proximal_point, shrunk
from hogshare.kernels.rules.sgd_steps import (
    NEGLIGIBLE,
    PREFETCH_LABELS,
    prefetch_ahead,
    target,
    weight_of,
)

SHORT = 2.0


@inlined
def dual_change(loss, epsilon, y, p, before, reach, size):
    """Return the change of a row's dual variable.

    p : the prediction, to which the row itself contributes ``reach * before``
    before : the dual variable before the step
    reach : change of the prediction for a unit of the dual variable
    size : weight of the row and of its class
    """
    if loss == losses.LOG_LOSS and reach * size <= SHORT:
        part = 1.0 / (1.0 + 0.25 * reach * size)
        return -(before + size * losses.loss_derivative(loss, epsilon, y, p)) * part
    z = p - reach * before
    return (proximal_point(loss, epsilon, y, z, reach * size, p) - p) / reach


@inlined
def fewest_of(rule, plan, ticket):
    """Return the least share of the rows for `growth`, for the block with this ticket."""
    return rule.fewest if ticket < plan.n_blocks else 1.0


@inlined
def growth(fewest, i, n_rows):
    """Return the factor that turns the sum into the model for row `i`; see the file's head."""
    return 1.0 / min(1.0, max(fewest, (np.float64(i) + 1.0) / np.float64(n_rows)))


@helper
def soft_margins(rows, start, end, v, threshold, out):
    """Set ``out[c] = sum_j x_j shrunk(v[j, c])`` for a row: its margins in a thresholded model."""
    n_columns = np.uint64(out.shape[0])
    for c in range(n_columns):
        total = 0.0
        for k in range(start, end):
            value = np.float64(v[column_of(rows, start, k) * n_columns + c])
            total += shrunk(value, threshold) * np.float64(rows.data[k])
        out[c] = total


@helper
def dual_rows(rows, rule, order, first, last, dual, private, columns, alone, fewest):
    """Take one dual step per row ``order[first:last]`` and column.

    The dual variables and the worker's private arrays are written.

    dual : rows' dtype [n_rows * (1 + n_columns)]; for each row its squared norm (0 until it is
        known), then its dual variables
    alone : whether no other worker may process the same row
    fewest : see `growth`
    """
    local = private.local
    n_columns = local.shape[1]
    margin = local[layout.L_MARGIN]
    step = local[layout.L_STEP]
    kind = dual.dtype.type
    width = 1 + n_columns
    share = 1.0 / rule.dual_rows
    over_scale = local[layout.L_STRETCH, 0] * rule.represents / rule.dual_scale
    for i in range(first, last):
        r = row_at(order, i)
        prefetch_ahead(rows, order, i)
        if i + PREFETCH_LABELS < order.shape[0]:
            prefetch_to_write(dual, row_at(order, i + PREFETCH_LABELS) * np.uint64(width))
        start, end = row_bounds(rows, r)
        grown = growth(fewest, i, order.shape[0])
        if rule.threshold > 0.0:
            soft_margins(rows, start, end, private.w, rule.threshold / grown, margin)
        else:
            margins(rows, start, end, private.w, margin)
        place = r * np.uint64(width)
        if dual[place] == 0.0:
            dual[place] = kind(squared_norm(rows.data, start, end))
        reach = grown * np.float64(dual[place]) * rule.represents / rule.dual_scale
        reach += rule.intercept_step
        label = row_label(rows, r)
        weight = row_weight(rows, r)
        moved = False
        for c in range(n_columns):
            step[c] = 0.0
            if columns[layout.C_ACTIVE, c] == 0.0:
                continue
            p = grown * margin[c] + local[layout.L_INTERCEPT, c]
            y = target(rule.loss, label, c, n_columns)
            count_loss(rule, local, c, y, p, 0.0)
            if reach == 0.0:
                continue  # an empty row and no intercept
            size = weight_of(columns, c, y, weight)
            own = place + np.uint64(1 + c)
            before = np.float64(dual[own])
            wanted = dual_change(rule.loss, rule.epsilon, y, p, before, reach, size)
            if size > 0.0:
                damping = 1.0 + rule.curvature * reach * size
                local[layout.L_ETA, c] = size / (rule.dual_scale * damping)
            # rounded as stored: v changes like the dual variable, to the last bit
            change = np.float64(kind(before + wanted)) - before
            if not alone:
                change = np.float64(kind(change))
            if abs(change) * reach <= NEGLIGIBLE:
                change = 0.0
            else:
                moved = True
                if alone:
                    dual[own] = kind(before + change)
                else:
                    add_float(dual, own, kind(change))
                step[c] = change * over_scale
                local[layout.L_CHANGE, c] += change * change
            if rule.fit_intercept:
                drift = change + local[layout.L_DUAL_MEAN, c]
                local[layout.L_INTERCEPT, c] += rule.intercept_step * drift
                local[layout.L_DUAL_MEAN, c] += change * share
        if moved:
            scatter(rows, start, end, private.w, step)


@helper
def half_squares(w, divisors, threshold, n_columns, column):
    """Return half the squared norm of one column of the model, and its l1 norm.

    divisors : divisors of the features; empty if features are not divided
    """
    squares = 0.0
    absolutes = 0.0
    for j in range(column, w.shape[0], n_columns):
        value = shrunk(np.float64(w[j]), threshold)
        if divisors.shape[0] > 0:
            value /= divisors[j // n_columns]
        squares += value * value
        absolutes += abs(value)
    return 0.5 * squares, absolutes


@kernel
def sum_of_duals(rows, dual, scale, w):
    """Set the vector `w` to the sum of the rows, each times its dual variables over `scale`."""
    n_columns = dual.shape[0] // rows.y.shape[0] - 1
    w[:] = 0.0
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k])
            for c in range(np.uint64(n_columns)):
                a = np.float64(dual[r * (1 + n_columns) + 1 + np.int64(c)])
                w[base + c] += w.dtype.type(a * x / scale)


@kernel
def mean_of_duals(dual, n_rows, mean):
    """Set `mean` to the means of the dual variables, which the intercept's steps need."""
    n_columns = mean.shape[0]
    mean[:] = 0.0
    for r in range(dual.shape[0] // (1 + n_columns)):
        for c in range(n_columns):
            mean[c] += np.float64(dual[r * (1 + n_columns) + 1 + c]) / n_rows
