"""Sum of the gradients of a few rows, at a model that nobody writes: what a task asks for."""

import numpy as np

from hogshare.kernels import losses
from hogshare.kernels.jit import kernel
from hogshare.kernels.rows import column_of, row_bounds
from hogshare.kernels.scores import predictions, size_of
from hogshare.kernels.sgd import target


@kernel
def add_gradients(
    rows, loss, epsilon, chosen, w, intercept, positive, negative, scratch, out, of_intercepts
):
    """``out +=`` the sum of the chosen rows' slopes times the rows; returns the sum of losses.

    chosen : int64 [n_chosen], numbers of rows
    w : as the rows' data [n_features * n_columns]
    intercept : float64 [n_columns]
    scratch : float64 [n_columns]
    out : float64 [n_features * n_columns]
    of_intercepts : float64 [n_columns], to which the slopes are added
    """
    n_columns = intercept.shape[0]
    total = 0.0
    for i in range(chosen.shape[0]):
        r = chosen[i]
        start, end = row_bounds(rows, r)
        predictions(rows, loss, start, end, w, intercept, scratch)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            total += size * losses.loss_value(loss, epsilon, y, scratch[c])
            scratch[c] = size * losses.loss_derivative(loss, epsilon, y, scratch[c])
            of_intercepts[c] += scratch[c]
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k])
            for c in range(n_columns):
                out[base + np.uint64(c)] += scratch[c] * x
    return total
