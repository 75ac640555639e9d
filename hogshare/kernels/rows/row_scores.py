"""Scores of a model on some rows: mean loss, accuracy, R squared."""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.rows.row_views import margins, row_bounds, row_weight
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.dual_ascent import soft_margins
from hogshare.kernels.rules.sgd_steps import target


@inlined
def predictions(rows, loss, start, end, w, intercept, out):
    """Set ``out[c]`` to the loss's argument for one row, for a model without a scale."""
    margins(rows, start, end, w, out)
    for c in range(out.shape[0]):
        out[c] += intercept[c]
    if loss == losses.MULTINOMIAL:
        losses.log_probabilities(out)


@inlined
def size_of(rows, r, y, c, positive, negative):
    """Return a row's weight in a column: its sample weight times the class weight of target `y`."""
    return row_weight(rows, r) * (positive[c] if y > 0.0 else negative[c])


@kernel
def add_losses(rows, loss, epsilon, w, intercept, positive, negative, margin, out):
    """Add the sum of all rows' weighted losses in column c to ``out[c]``; `margin` is scratch."""
    n_columns = intercept.shape[0]
    n_rows = rows.y.shape[0]
    for r in range(n_rows):
        start, end = row_bounds(rows, r)
        predictions(rows, loss, start, end, w, intercept, margin)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            out[c] += size * losses.loss_value(loss, epsilon, y, margin[c])


@helper
def held_out_scores(rows, rule, regression, held_out, w, local, out):
    """Score each column on the rows that are never trained on, as scikit-learn's estimators do.

    For classification a column's score is the weighted accuracy of the prediction's sign. If the
    loss couples the columns, every column's score is the weighted accuracy of the class with the
    largest prediction. For regression the score is the weighted R squared. With fewer than two rows
    R squared is NaN, and NaN does not stop a run.

    out : float64 [n_columns], overwritten with the scores
    """
    n_columns = local.shape[1]
    margin = local[layout.L_MARGIN]
    for c in range(n_columns):
        out[c] = 0.0
    n_held_out = 0
    weights = 0.0
    mean = 0.0
    for r in range(held_out.shape[0]):
        if held_out[r] != 0:
            n_held_out += 1
            weights += row_weight(rows, r)
            mean += row_weight(rows, r) * np.float64(rows.y[r])
    mean /= weights
    spread = 0.0
    for r in range(held_out.shape[0]):
        if held_out[r] == 0:
            continue
        start, end = row_bounds(rows, r)
        if rule.threshold > 0.0:
            soft_margins(rows, start, end, w, rule.threshold, margin)
        else:
            margins(rows, start, end, w, margin)
        weight = row_weight(rows, r)
        spread += weight * (np.float64(rows.y[r]) - mean) ** 2
        best = 0
        for c in range(n_columns):
            margin[c] = margin[c] * local[layout.L_SCALE, c] + local[layout.L_INTERCEPT, c]
            if margin[c] > margin[best]:
                best = c
        for c in range(n_columns):
            p = margin[c]
            y = target(rule.loss, rows.y[r], c, n_columns)
            if regression:
                out[c] += weight * (y - p) * (y - p)
            elif rule.loss == losses.MULTINOMIAL:
                out[c] += weight if np.int64(rows.y[r]) == best else 0.0
            elif (p > 0.0) == (y > 0.0):
                out[c] += weight
    for c in range(n_columns):
        if not regression:
            out[c] /= weights
        elif n_held_out < 2:
            out[c] = np.nan
        elif spread > 0.0:
            out[c] = 1.0 - out[c] / spread
        else:
            out[c] = 1.0 if out[c] == 0.0 else 0.0
