"""The gain of one scaled step: passes over the rows for `hogshare.problems.linear.gains`.

The first pass evaluates a model and the columns' moments. The second pass
(`whole_gradients.fill_margins`) evaluates a direction. After that, the objective at any point along
the direction needs only a margin and its change per row and column, and no pass over the rows'
values. All sums are float64, whatever the rows' dtype.

Writers: one caller, while no worker runs; all stores are plain.
"""

import numpy as np

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rows.row_scores import size_of
from hogshare.kernels.rows.row_views import column_of, margins, row_bounds, row_weight
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.sgd_steps import target


@kernel
def square_norms(rows, every, out):
    """Set ``out[i]`` to the squared norm of row ``i * every``."""
    for i in range(out.shape[0]):
        start, end = row_bounds(rows, i * every)
        out[i] = 0.0
        for k in range(start, end):
            x = np.float64(rows.data[k])
            out[i] += x * x


@kernel
def scan_columns(
    rows,
    loss,
    epsilon,
    w,
    intercept,
    positive,
    negative,
    without,
    gradient,
    slope_sums,
    every,
    moments,
    bound,
    bends,
    norms,
    ordinary,
    scratch,
):
    """Compute margins, gradient of the losses, and the first two moments of every column.

    w : rows' dtype [n_features * n_columns]
    without : float64 [n_rows * n_columns], margins without intercepts
    gradient : float64 [n_features * n_columns], ``sum_i slope_i x_i``
    slope_sums : float64 [n_columns], sums of the slopes: the weighted derivatives of the losses
        with respect to the predictions
    every : the rows 0, `every`, 2 `every`, ... count in `moments`
    moments : float64 [2, n_features], weighted sums of the values and of their squares
    bound : bound of the losses' curvature, or its substitute
    bends : float64 [2, n_features], or [2, 0] if not needed; the sums of `moments`, with each row
        also weighted by its loss's slope: 0 for a slope of zero, 1 for a slope of `bound` or more
    norms : float64, squared norms of the rows that count (`square_norms`); empty if not needed
    ordinary : largest squared norm of a row that counts in `bends`
    scratch : float64 [n_columns]

    Return the sum of the weights of the rows that count in `moments`, and the sum of the weights in
    `bends`. `without`, `gradient`, `slope_sums`, `moments` and `bends` are written.
    """
    n_columns = intercept.shape[0]
    weights, bent = 0.0, 0.0
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        margins(rows, start, end, w, scratch)
        base = r * n_columns
        for c in range(n_columns):
            without[base + c] = scratch[c]
            scratch[c] += intercept[c]
        if loss == losses.MULTINOMIAL:
            losses.log_probabilities(scratch)
        bend = 0.0
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            slope = losses.loss_derivative(loss, epsilon, y, scratch[c])
            bend = max(bend, min(1.0, abs(slope) / bound))
            scratch[c] = size * slope
            slope_sums[c] += scratch[c]
        if n_columns == 1 and rows.width > 0:
            slope = scratch[0]
            for f in range(np.uint64(rows.width)):
                gradient[f] += slope * np.float64(rows.data[start + f])
        else:
            for k in range(start, end):
                first = column_of(rows, start, k) * np.uint64(n_columns)
                x = np.float64(rows.data[k])
                for c in range(np.uint64(n_columns)):
                    gradient[first + c] += scratch[c] * x
        if r % every == 0:
            weight = row_weight(rows, r)
            weights += weight
            for k in range(start, end):
                f = column_of(rows, start, k)
                x = np.float64(rows.data[k])
                moments[0, f] += weight * x
                moments[1, f] += weight * x * x
            if bends.shape[1] > 0 and bend > 0.0 and norms[r // every] <= ordinary:
                bend *= weight
                bent += bend
                for k in range(start, end):
                    f = column_of(rows, start, k)
                    x = np.float64(rows.data[k])
                    bends[0, f] += bend * x
                    bends[1, f] += bend * x * x
    return weights, bent


@kernel
def losses_along(
    rows, loss, epsilon, without, along, intercept, lengths, positive, negative, most, scratch, out
):
    """Set ``out[c]`` to the weighted sum of losses of column c at a point along a direction.

    without : float64 [n_rows * n_columns], margins without intercepts
    along : float64 [n_rows * n_columns], change of these margins for a length of 1
    intercept : float64 [n_columns]
    lengths : float64 [n_columns], distance of the point along the direction in each column
    most : with a single column, the pass ends early if the sum is above `most`: no loss is
        negative, and losses far along a direction take long
    scratch, out : float64 [n_columns]
    """
    n_columns = intercept.shape[0]
    out[:] = 0.0
    for r in range(rows.y.shape[0]):
        base = r * n_columns
        for c in range(n_columns):
            scratch[c] = without[base + c] + lengths[c] * along[base + c] + intercept[c]
        if loss == losses.MULTINOMIAL:
            losses.log_probabilities(scratch)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            out[c] += size * losses.loss_value(loss, epsilon, y, scratch[c])
        if n_columns == 1 and out[0] > most:
            return
