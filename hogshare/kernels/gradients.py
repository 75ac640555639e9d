"""Loss and whole gradient of a model over some rows: what a stop criterion looks at.

Two passes: the margins first, so that the intercepts may be moved before anything depends on them,
then losses and gradient. The slopes (weighted derivatives of the losses in the predictions) are
kept per row, and what they give may be summed apart for those above and those below zero: a dual
point with an intercept needs slopes that sum to zero, which it gets by shrinking the larger side,
without another pass over the rows. All sums are float64, whatever the rows are.

Who writes: each caller its own `out` and the slopes of its own rows, so that parts of the rows may
be passed by several threads at once.
"""

from typing import NamedTuple

import numpy as np

from hogshare.kernels import losses
from hogshare.kernels.conjugates import loss_conjugate
from hogshare.kernels.intercepts import shifted
from hogshare.kernels.jit import kernel
from hogshare.kernels.rows import column_of, margins, row_bounds
from hogshare.kernels.scores import size_of
from hogshare.kernels.sgd import target

ABOVE = 0
BELOW = 1


class Sums(NamedTuple):
    """What a pass adds up.

    gradient : float64 [2, n_features * n_columns], ``sum_i slope_i x_i`` by the slope's sign,
        or [1, n_features * n_columns], over both
    slopes : float64 [2, n_columns], ``sum_i slope_i`` by sign
    losses : float64 [n_columns]
    scratch : float64 [2, n_columns]
    """

    gradient: np.ndarray
    slopes: np.ndarray
    losses: np.ndarray
    scratch: np.ndarray


@kernel
def fill_margins(rows, first, last, w, scratch, out):
    """Margins of rows ``first:last``, without intercepts.

    w : rows' dtype [n_features * n_columns]
    scratch : float64 [n_columns]
    out : float64 [n_rows * n_columns]
    """
    n_columns = scratch.shape[0]
    for r in range(first, last):
        start, end = row_bounds(rows, r)
        margins(rows, start, end, w, scratch)
        for c in range(n_columns):
            out[r * n_columns + c] = scratch[c]


@kernel
def add_gradients(
    rows, loss, epsilon, first, last, without, intercept, positive, negative, known, slopes, out
):
    """Add losses and slopes of rows ``first:last`` to `out`.

    without : float64 [n_rows * n_columns], margins without intercepts; may be `slopes` itself
    positive, negative : float64 [n_columns], weights of a column's class and of the others
    known : whether `slopes` is given (a dual rule's own) instead of written
    slopes : float64 [n_rows * n_columns]
    """
    n_columns = intercept.shape[0]
    margin = out.scratch[0]
    row_slopes = out.scratch[1]
    below = out.gradient.shape[0] - 1
    for r in range(first, last):
        start, end = row_bounds(rows, r)
        shifted(loss, without, r, intercept, margin)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            p = margin[c]
            out.losses[c] += size * losses.loss_value(loss, epsilon, y, p)
            if not known:
                slopes[r * n_columns + c] = size * losses.loss_derivative(loss, epsilon, y, p)
            slope = slopes[r * n_columns + c]
            row_slopes[c] = slope
            out.slopes[ABOVE if slope > 0.0 else BELOW, c] += slope
        if n_columns == 1:
            # the same as below with the column's numbers in registers
            slope = row_slopes[0]
            gradient = out.gradient[ABOVE if slope > 0.0 else below]
            for k in range(start, end):
                gradient[column_of(rows, start, k)] += slope * np.float64(rows.data[k])
            continue
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k])
            for c in range(n_columns):
                slope = row_slopes[c]
                side = ABOVE if slope > 0.0 else below
                out.gradient[side, base + np.uint64(c)] += slope * x


@kernel
def sum_of_conjugates(rows, loss, epsilon, first, last, shrink, positive, negative, slopes):
    """Weighted sum of the conjugates of the losses of rows ``first:last`` at their slopes.

    shrink : float64 [2, n_columns], factors of the slopes above and below zero
    """
    n_columns = positive.shape[0]
    total = 0.0
    for r in range(first, last):
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            slope = slopes[r * n_columns + c]
            if size > 0.0:
                a = slope * shrink[ABOVE if slope > 0.0 else BELOW, c] / size
                total += size * loss_conjugate(loss, epsilon, y, a)
    return total
