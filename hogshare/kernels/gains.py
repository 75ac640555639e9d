"""What one scaled step would gain: passes over the rows for `hogshare.engine.confirming`.

The first looks at a model and at how large columns are, the second (`gradients.fill_margins`) at a
direction; after that the objective anywhere along the direction takes no pass, only one number per
row and column. All sums are float64, whatever the rows are.

Who writes: one caller, while nobody works.
"""

import numpy as np

from hogshare.kernels import losses
from hogshare.kernels.jit import kernel
from hogshare.kernels.rows import column_of, margins, row_bounds, row_weight
from hogshare.kernels.scores import size_of
from hogshare.kernels.sgd import target


@kernel
def look_at_columns(
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
    scratch,
):
    """Margins, gradient of the losses, and the first two moments of every column.

    w : rows' dtype [n_features * n_columns]
    without : float64 [n_rows * n_columns], margins without intercepts
    gradient : float64 [n_features * n_columns], ``sum_i slope_i x_i``
    slope_sums : float64 [n_columns], sums of the slopes, which are the derivatives of the losses
        in the predictions, weights counted in
    every : of so many rows one counts in `moments`
    moments : float64 [2, n_features], weighted sums of the values and of their squares
    scratch : float64 [n_columns]

    Returns the sum of the weights of the rows that count in `moments`.
    """
    n_columns = intercept.shape[0]
    weights = 0.0
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        margins(rows, start, end, w, scratch)
        base = r * n_columns
        for c in range(n_columns):
            without[base + c] = scratch[c]
            scratch[c] += intercept[c]
        if loss == losses.MULTINOMIAL:
            losses.log_probabilities(scratch)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            scratch[c] = size * losses.loss_derivative(loss, epsilon, y, scratch[c])
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
    return weights


@kernel
def losses_along(
    rows, loss, epsilon, without, along, intercept, lengths, positive, negative, most, scratch, out
):
    """Set ``out[c]`` to a column's weighted sum of losses, so far along a direction.

    without : float64 [n_rows * n_columns], margins without intercepts
    along : float64 [n_rows * n_columns], their change for a length of 1
    intercept : float64 [n_columns]
    lengths : float64 [n_columns]
    most : a single column's sum from which on it does not matter how large it is: no loss is
        negative, and far along a direction each takes its time
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
