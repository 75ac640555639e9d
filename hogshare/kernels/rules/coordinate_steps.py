"""Steps that write one coordinate: AsySG-incon as printed; `hogwild_steps` writes all coordinates.

An iteration reads a mini-batch's rows, draws one coordinate, and adds the step of the rows' summed
gradient to this coordinate alone. Writers and readers are the same as in `hogwild_steps`; each
worker has its own scratch. Each block has its own stream of draws (seed, epoch, block), so a draw
does not depend on the worker that computes the block.

Source: Lian et al. (2015), the paper's equation (13), and the sparse variant of its section 4.
`SUPPORT` is the sparse variant as printed: one of the rows' coordinates is drawn. So rows with few
coordinates weigh more, and the expected step is not along the gradient. `UNBIASED` multiplies the
step by the number of coordinates from which the coordinate is drawn, so the expected step is the
step of the summed gradient. `UNIFORM` draws from all n coordinates, and the expected step is 1 / n
of the step of the summed gradient, as the paper's analysis counts it.

If j is drawn from all coordinates, the l2 part of the gradient is ``alpha w_j`` for each row. If j
is drawn from the rows' coordinates, each row that has the feature takes Hogwild!'s l2 part, scaled
by the feature's rarity. Both are equal on average. A feature is in the support if a row stores it;
the intercept is always in the support.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import add_float
from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.rows.row_views import column_of, row_bounds
from hogshare.kernels.rules import penalties
from hogshare.kernels.rules.hogwild_steps import steps_of_batch
from hogshare.kernels.rules.proximal_points import shrunk
from hogshare.kernels.schedule.streams import block_state, fraction, next_random

ALL = 0  # values of Rule.coordinate
UNIFORM = 1
SUPPORT = 2
UNBIASED = 3
CODES = {None: ALL, "uniform": UNIFORM, "support": SUPPORT, "unbiased": UNBIASED}

# places in a worker's scratch, after the mini-batch's steps
STREAM = 0  # the generator's state: a uint32, which float64 represents exactly
STAMP = 1  # the last mark
MARKS = 2  # start of the marks, one per feature (only SUPPORT and UNBIASED, sparse rows)


@helper
def begin_draws(rule, seed, epoch, block, n_columns, scratch):
    """Write the first state of a block's stream of draws into the worker's scratch."""
    scratch[rule.batch * n_columns + STREAM] = np.float64(block_state(seed, epoch, block))


@helper
def mark_support(rows, order, first, last, memory, number):
    """Mark the features of the rows ``order[first:last]`` in the order of their first appearance.

    Return the number of marked features, and the last feature marked.

    memory : the part of the scratch after the mini-batch's steps; overwritten
    number : largest number of features to mark
    """
    stamp = memory[STAMP] + 1.0
    memory[STAMP] = stamp
    marks = memory[MARKS:]
    count = 0
    feature = np.uint64(0)
    for b in range(first, last):
        start, end = row_bounds(rows, order[b])
        for k in range(start, end):
            if count == number:
                return count, feature
            f = column_of(rows, start, k)
            if marks[f] != stamp:
                marks[f] = stamp
                feature = f
                count += 1
    return count, feature


@helper
def position_of(rows, r, feature):
    """Return the position of a feature in row `r` (or the row's end), and the row's end."""
    start, end = row_bounds(rows, r)
    if rows.width > 0:
        return start + feature, end
    low = start
    high = end
    while low < high:  # columns are sorted
        middle = (low + high) >> np.uint64(1)
        if np.uint64(rows.indices[middle]) < feature:
            low = middle + np.uint64(1)
        else:
            high = middle
    if low < end and np.uint64(rows.indices[low]) == feature:
        return low, end
    return end, end


@helper
def change_of(rows, rule, order, first, last, steps, feature, c, before, rare, eta, times):
    """Return the change of the drawn coefficient: the rows' summed step and the penalties' part.

    steps : float64, each row's step for each column
    times : factor of the step: the number of coordinates for `UNBIASED`, otherwise 1
    """
    n_columns = steps.shape[0] // (last - first)
    total = 0.0
    share = 0.0  # number of rows whose penalty the coefficient takes
    for b in range(first, last):
        k, end = position_of(rows, order[b], feature)
        if k < end:
            total += np.float64(rows.data[k]) * steps[(b - first) * n_columns + c]
            share += rare
    change = times * total
    if rule.penalty == penalties.NONE:
        return change
    if rule.coordinate == UNIFORM:
        share = np.float64(last - first)
    strength = times * eta * rule.alpha * share
    if rule.penalty >= penalties.L2:
        change -= min(1.0, (1.0 - rule.l1_ratio) * strength) * before
    if rule.penalty == penalties.L1 or rule.penalty == penalties.ELASTICNET:
        change = shrunk(before + change, rule.l1_ratio * strength) - before
    return change


@helper
def write_coordinate(
    rows, rule, order, first, last, t, w, intercept, rarity, private, columns, atomic
):
    """Draw a coordinate and add to it the step of the mini-batch ``order[first:last]``.

    The worker's scratch must contain the rows' steps.

    t : step counter of the first row
    """
    local = private.local
    n_columns = local.shape[1]
    steps = private.scratch[: (last - first) * n_columns]
    memory = private.scratch[rule.batch * n_columns :]
    n_features = w.shape[0] // n_columns
    sparse_draw = rule.coordinate != UNIFORM and rows.width == 0
    if sparse_draw:
        n_features, _ = mark_support(rows, order, first, last, memory, n_features)
    n_places = (n_features + (1 if rule.fit_intercept else 0)) * n_columns
    state = next_random(np.uint32(memory[STREAM]))
    memory[STREAM] = np.float64(state)
    place = np.int64(fraction(state) * n_places)
    times = np.float64(n_places) if rule.coordinate == UNBIASED else 1.0
    c = place % n_columns
    number = place // n_columns
    averaging = 0 < rule.average <= t
    if n_places > 0 and columns[layout.C_ACTIVE, c] != 0.0:
        if number == n_features:
            change = 0.0
            for b in range(last - first):
                change += steps[b * n_columns + c]
            change *= times * rule.intercept_decay
            if atomic:
                add_float(intercept, c, change)
            else:
                intercept[c] += change
        else:
            feature = np.uint64(number)
            if sparse_draw:
                _, feature = mark_support(rows, order, first, last, memory, number + 1)
            j = feature * np.uint64(n_columns) + np.uint64(c)
            before = np.float64(w[j])
            rare = np.float64(rarity[feature]) if rule.penalty != penalties.NONE else 0.0
            eta = local[layout.L_ETA, c]
            change = change_of(
                rows, rule, order, first, last, steps, feature, c, before, rare, eta, times
            )
            kind = w.dtype.type
            if atomic:
                add_float(w, j, kind(change))
            else:
                w[j] += kind(change)
            if averaging:
                # see `hogwild_steps.write_row`: all iterates of these rows come after the write
                private.lag[j] -= (t - max(rule.first_t, rule.average)) * change
    for b in range(last - first):
        for c in range(n_columns):
            if 0 < rule.average <= t + b and columns[layout.C_ACTIVE, c] != 0.0:
                local[layout.L_AVERAGE_INTERCEPT, c] += intercept[c]
                local[layout.L_AVERAGE_COUNT, c] += 1.0


@helper
def coordinate_rows(
    rows, rule, order, first, last, t, w, intercept, rarity, private, columns, atomic
):
    """Write one coordinate for every `rule.batch` of the rows ``order[first:last]``.

    For the arguments see `hogwild_steps.hogwild_rows`. `begin_draws` must have been called for the
    block.
    """
    i = first
    while i < last:
        stop = min(last, i + rule.batch)
        steps_of_batch(rows, rule, order, i, stop, t, w, intercept, private, columns)
        vector = w, intercept, rarity
        args = private, columns, atomic
        write_coordinate(rows, rule, order, i, stop, t, *vector, *args)
        t += np.float64(stop - i)
        i = stop
