"""Stochastic gradient steps on a vector that only one worker writes.

With one worker the vector is the model itself; with several workers it is a worker's private copy
of the model (see `copy_exchange`). Each row's step is scikit-learn's (scale factor for l2,
cumulative l1, decayed intercept step on sparse rows, clipped derivative, passive-aggressive steps),
so one worker fits scikit-learn's model.

Averaging (Xu 2011; the sparse form of Bottou) stores the *sum* of iterates. With the model ``scale
* w``, the sum of the iterates is ``A * w + lag``, where A is the sum of the scales. A change of w
by delta adds ``-A * delta`` to lag. Departure: this is a float64 sum, because sums of several
workers, and of several exchanges, can be added up; scikit-learn has a running mean in the rows'
dtype. If a run of one worker continues from a mean of `before` iterates, it may write into that
mean itself, as scikit-learn does, in the rows' dtype. Then each iterate has the weight ``1 /
before`` in the lag (`RuleNumbers.iterate`), and the sum is `before` times the lag.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.rows.row_views import (
    add,
    column_of,
    margin,
    margins,
    prefetch_labels,
    prefetch_row,
    row_at,
    row_bounds,
    row_label,
    row_weight,
    scatter,
    squared_norm,
)
from hogshare.kernels.rules import losses, penalties, step_schedules
from hogshare.kernels.rules.block_sums import CRITERION, count_loss

NEGLIGIBLE = 1e-30  # a smaller step changes nothing, and denormal numbers are slow
PREFETCH_LABELS = 8  # rows ahead; fetched first: the row's start is needed to fetch its data
PREFETCH_ROWS = 2  # rows ahead; measured, see docs/tried/2026-11/speed.md
GRADIENT = 0  # values of Rule.method
DUAL = 1
SAGA = 2


class RuleNumbers(NamedTuple):
    """The scalars of a step, constant during a run; `problems.linear` describes them.

    The fields from `method` on belong to the rules that remember rows; see
    `hogshare.kernels.rules.dual_ascent` and `hogshare.kernels.rules.saga_steps`.
    """

    loss: int
    epsilon: float
    penalty: int
    alpha: float
    l1_ratio: float
    schedule: int
    eta0: float
    power_t: float
    optimal_init: float
    average: int
    fit_intercept: int
    intercept_decay: float
    track: int
    batch: int
    first_t: float
    method: int
    dual_scale: float  # strength of l2 times rows
    dual_rows: float
    intercept_step: float  # SDCA's step of the intercept; with SAGA, a factor of the step size
    threshold: float  # threshold of the l1 part; 0 without l1
    curvature: float  # upper bound of the loss's second derivative
    carry: float  # whether the part withheld by an exchange stays in the copy, see `copy_exchange`
    stretch: float  # largest stretch of the steps in a worker's own copy, see `copy_exchange`
    tamed: int  # whether SAGA's step size is halved if it proves too long
    saga_step: float  # the first step size; the columns contain the present step size
    level: float  # share of an epoch in which SAGA's step size does not fall; see `saga_steps`
    steep: int  # whether the step size falls from the start in a run's first epoch
    falls: int  # number of epochs in which the step size falls; if continued, see C_FALLS
    fewest: (
        float  # least share of the rows in SDCA's model in a run's first epoch; see `dual_ascent`
    )
    coordinate: int  # how the one written coordinate is drawn, or ALL; see `coordinate_steps`
    iterate: float  # weight of an iterate in the lag: 1, or less if the lag is a mean
    stride: float = 1.0  # rows visited at all sites for each row of this site, as in the plan
    represents: float = (
        1.0  # rows that each row of SDCA stands for until sites exchange, see `dual_ascent`
    )


class Private(NamedTuple):
    """The arrays of one worker, which no other worker uses: all stores are plain.

    w : rows' dtype [n_features * n_columns], the copy; the model is the scale times w
    base : array like w, the shared vector at the last exchange (empty with one worker)
    received : array like w, l1 penalty received by each coordinate (empty without l1)
    lag : float64 [n_features * n_columns], see the file's head (empty without averaging); in the
        rows' dtype if the lag is the mean from which a run continues
    local : float64 [layout.N_LOCAL_FIELDS, n_columns]
    pending : int64 [n_segments], number of rows whose changes of each segment have not been folded
    average : float64 [n_features * n_columns], copy of SAGA's average (empty without SAGA)
    average_base : array like average, the shared average at the last exchange (empty with one
        worker)
    scratch : float64, first the steps of the present mini-batch [batch * n_columns], then the state
        and the marks for draws of coordinates, see `coordinate_steps`
    """

    w: np.ndarray
    base: np.ndarray
    received: np.ndarray
    lag: np.ndarray
    local: np.ndarray
    pending: np.ndarray
    average: np.ndarray
    average_base: np.ndarray
    scratch: np.ndarray


@inlined
def target(loss, label, column, n_columns):
    """Return a row's target for one column: the label itself, or one class against all others."""
    if n_columns == 1:
        return np.float64(label)
    if np.int64(label) == column:
        return 1.0
    return 0.0 if loss == losses.LOG_LOSS or loss == losses.MULTINOMIAL else -1.0


@inlined
def couple(loss, local, margin, intercept):
    """Replace the margins of a row by its predictions, if the loss couples its columns.

    Return whether the loss couples the columns. If not, the loop over columns computes each
    prediction, and the prediction stays in a register.
    """
    if loss != losses.MULTINOMIAL:
        return False
    for c in range(margin.shape[0]):
        margin[c] = margin[c] * local[layout.L_SCALE, c] + intercept[c]
    losses.log_probabilities(margin)
    return True


@inlined
def prefetch_ahead(rows, order, i):
    """Prefetch the data of rows soon after ``order[i]``."""
    # The prefetch goes beyond the rows until the next exchange: usually the next rows of the same
    # block follow, and without it the loop would have to wait for the first of these rows.
    last = order.shape[0]
    if i + PREFETCH_LABELS < last:
        prefetch_labels(rows, row_at(order, i + PREFETCH_LABELS))
    if i + PREFETCH_ROWS < last:
        prefetch_row(rows, row_at(order, i + PREFETCH_ROWS))


@inlined
def weight_of(columns, c, y, weight):
    """Return a row's weight times the weight of its class."""
    # both class weights are read: a branch on the label would be hard to predict
    positive = columns[layout.C_POSITIVE, c]
    negative = columns[layout.C_NEGATIVE, c]
    return weight * (positive if y > 0.0 else negative)


@inlined
def gradient_step(rule, y, p, eta, norm2):
    """Return the multiple of the row by which a column moves, before row and class weights."""
    if rule.schedule == step_schedules.PA1 or rule.schedule == step_schedules.PA2:
        loss = losses.loss_value(rule.loss, rule.epsilon, y, p)
        if rule.schedule == step_schedules.PA1:
            if norm2 == 0.0:
                return 0.0
            size = min(rule.eta0, loss / norm2)
        else:
            size = loss / (norm2 + 0.5 / rule.eta0)
        if rule.loss == losses.HINGE or rule.loss == losses.PERCEPTRON:
            return size * y
        return -size if y - p < 0.0 else size
    return -eta * losses.loss_derivative(rule.loss, rule.epsilon, y, p)


@helper
def fold_in_line(w, lag, scale, late):
    """Multiply the scale that all columns share into `w`, and add `late` times `w` to the lag.

    An array that would not change is not written.
    """
    kind = w.dtype.type
    if lag.shape[0] > 0 and late != 0.0:
        for j in range(w.shape[0]):
            lag[j] += late * w[j]
    if scale != 1.0:
        for j in range(w.shape[0]):
            w[j] = kind(scale * w[j])


@helper
def fold_scale(private, first, last):
    """Multiply the scales of columns ``first:last`` into the vector and set the scales to 1.

    The lag is updated, so the sum of iterates stays exact.
    """
    local = private.local
    w = private.w
    n_columns = local.shape[1]
    kind = w.dtype.type
    averaging = private.lag.shape[0] > 0
    scale, late = local[layout.L_SCALE, first], local[layout.L_AVERAGE_SCALE, first]
    alike = last - first == n_columns
    for c in range(first, last):
        alike = alike and local[layout.L_SCALE, c] == scale
        alike = alike and local[layout.L_AVERAGE_SCALE, c] == late
    if alike:
        # the usual case, unless a column has stopped learning: a pass at the speed of memory
        fold_in_line(w, private.lag, scale, late)
        for c in range(first, last):
            local[layout.L_AVERAGE_SCALE, c] = 0.0
            local[layout.L_SCALE, c] = 1.0
        return
    for base in range(0, w.shape[0], n_columns):
        for c in range(first, last):
            j = base + c
            if averaging:
                private.lag[j] += local[layout.L_AVERAGE_SCALE, c] * w[j]
            w[j] = kind(local[layout.L_SCALE, c] * w[j])
    for c in range(first, last):
        local[layout.L_AVERAGE_SCALE, c] = 0.0
        local[layout.L_SCALE, c] = 1.0


@helper
def support_norms(rows, start, end, private):
    """Compute the model's norms over one row's support, which scikit-learn's criterion uses."""
    local = private.local
    n_columns = local.shape[1]
    for c in range(n_columns):
        if local[layout.L_STEP, c] == 0.0:
            continue
        squares = 0.0
        absolutes = 0.0
        for k in range(start, end):
            j = column_of(rows, start, k) * np.uint64(n_columns) + np.uint64(c)
            value = np.float64(private.w[j])
            squares += value * value
            absolutes += abs(value)
        scale = local[layout.L_SCALE, c]
        local[layout.L_SQUARED_NORM, c] = squares * scale * scale
        local[layout.L_L1_NORM, c] = absolutes * scale


@inlined
def sgd_rows(rows, rule, order, first, last, t, private, columns, single):
    """Take one SGD step per row ``order[first:last]``; the first row's step counter is `t`.

    The worker's private arrays are written, including the sums of losses and, if requested, of
    losses and penalties (sums, not means); see `block_sums`.

    single : whether the model has one column; a constant of the kernel. If True, there are no loops
        over columns, and the values that a step waits for stay in registers. If they were in an
        array, the compiler would assume that the array may overlap the vector. This saves a fifth
        of the time of a row of 136 values.
    """
    local = private.local
    n_columns = 1 if single else local.shape[1]
    margin_of = local[layout.L_MARGIN]
    step = local[layout.L_STEP]
    l1 = rule.penalty == penalties.L1 or rule.penalty == penalties.ELASTICNET
    l2_share = 1.0 - rule.l1_ratio
    passive = rule.schedule == step_schedules.PA1 or rule.schedule == step_schedules.PA2
    tiny = 1e-6 if rows.data.itemsize == 4 else 1e-9
    # scale and intercept of one column: written to the arrays only if code below reads them
    scale = local[layout.L_SCALE, 0]
    intercept = local[layout.L_INTERCEPT, 0]
    read_inside = l1 or rule.average > 0 or rule.track == CRITERION
    for i in range(first, last):
        r = row_at(order, i)
        prefetch_ahead(rows, order, i)
        start, end = row_bounds(rows, r)
        if single:
            only = margin(rows, start, end, private.w)
            coupled = False
        else:
            only = 0.0
            margins(rows, start, end, private.w, margin_of)
            coupled = couple(rule.loss, local, margin_of, local[layout.L_INTERCEPT])
        label = row_label(rows, r)
        weight = row_weight(rows, r)
        norm2 = squared_norm(rows.data, start, end) if passive else 0.0
        eta_t = step_schedules.step_size(
            rule.schedule, rule.eta0, rule.power_t, rule.alpha, rule.optimal_init, t
        )
        skip = rule.schedule == step_schedules.PA1 and norm2 == 0.0
        move = 0.0
        moved = False
        for c in range(n_columns):
            step[c] = 0.0
            if columns[layout.C_ACTIVE, c] == 0.0:
                continue
            eta = columns[layout.C_ETA, c] if rule.schedule == step_schedules.ADAPTIVE else eta_t
            local[layout.L_ETA, c] = eta
            if not single:
                scale = local[layout.L_SCALE, c]
                intercept = local[layout.L_INTERCEPT, c]
            p = only if single else margin_of[c]
            if not coupled:
                p = p * scale + intercept
            y = target(rule.loss, label, c, n_columns)
            penalty = 0.0
            if rule.track == CRITERION and not passive:
                penalty = rule.alpha * (
                    l2_share * 0.5 * local[layout.L_SQUARED_NORM, c]
                    + rule.l1_ratio * local[layout.L_L1_NORM, c]
                )
            count_loss(rule, local, c, y, p, penalty)
            if skip:
                continue
            if rule.penalty >= penalties.L2:
                # no negative scale: too large a step sets the weights to zero
                shrink = max(0.0, 1.0 - l2_share * eta * rule.alpha)
                scale *= shrink
                if rule.track == CRITERION:
                    local[layout.L_SQUARED_NORM, c] *= shrink * shrink
                    local[layout.L_L1_NORM, c] *= shrink
                if scale < tiny:
                    local[layout.L_SCALE, c] = scale
                    fold_scale(private, c, c + 1)
                    scale = 1.0
            # The division does not depend on the margin, but the step does. The store below
            # prevents the compiler from moving the division behind the margin.
            gain = weight_of(columns, c, y, weight) / scale
            local[layout.L_GAIN, c] = gain
            move = gradient_step(rule, y, p, eta, norm2) * gain
            step[c] = move
            moved = moved or abs(move) > NEGLIGIBLE
            if rule.fit_intercept:
                intercept += move * scale * rule.intercept_decay
            if not single or read_inside:
                local[layout.L_SCALE, c] = scale
                local[layout.L_INTERCEPT, c] = intercept
        if skip:
            t += rule.stride
            continue
        averaging = 0 < rule.average <= t
        if averaging and n_columns == 1:
            late = local[layout.L_AVERAGE_SCALE, 0] * step[0]
            if rows.width > 0:
                for j in range(np.uint64(rows.width)):
                    private.lag[j] -= late * np.float64(rows.data[start + j])
            else:
                for k in range(start, end):
                    private.lag[rows.indices[k]] -= late * np.float64(rows.data[k])
        elif averaging:
            n = np.uint64(n_columns)
            for k in range(start, end):
                base = column_of(rows, start, k) * n
                x = np.float64(rows.data[k])
                for c in range(n_columns):
                    private.lag[base + np.uint64(c)] -= (
                        local[layout.L_AVERAGE_SCALE, c] * x * step[c]
                    )
        if single and moved:
            add(rows, start, end, private.w, move)
        elif moved:
            scatter(rows, start, end, private.w, step)
        if rule.track == CRITERION and rule.penalty != penalties.NONE:
            support_norms(rows, start, end, private)
        if averaging:
            for c in range(n_columns):
                if columns[layout.C_ACTIVE, c] != 0.0:
                    local[layout.L_AVERAGE_SCALE, c] += local[layout.L_SCALE, c] * rule.iterate
                    local[layout.L_AVERAGE_INTERCEPT, c] += local[layout.L_INTERCEPT, c]
                    local[layout.L_AVERAGE_COUNT, c] += 1.0
        if l1:
            for c in range(n_columns):
                if columns[layout.C_ACTIVE, c] != 0.0:
                    local[layout.L_PENALTY, c] += (
                        rule.l1_ratio * local[layout.L_ETA, c] * rule.alpha
                    )
            scales = local[layout.L_SCALE]
            due = local[layout.L_PENALTY]
            penalties.clip_l1(rows, start, end, private.w, private.received, scales, due)
        t += rule.stride
    if single:
        local[layout.L_SCALE, 0] = scale
        local[layout.L_INTERCEPT, 0] = intercept
