"""Loss and whole gradient of a model over some rows, for stop criteria.

The margins of all rows may be computed first, so the intercepts can change before other results
depend on them. After that a few rows at a time are processed, which are still in a cache when they
are read again. For these rows the pass computes (1) the margins, if not computed yet; (2) the
slopes (weighted derivatives of the losses with respect to the predictions) and their sums, from one
margin per row and column; (3) the gradient.

Sums over slopes may be separate for slopes above and below zero. A dual point with an intercept
needs slopes that sum to zero. The caller shrinks the larger of the two sums, so it needs no other
pass over the rows. All sums are float64, whatever the rows' dtype.

Writers: each caller writes its own `out`, and its own rows' entries in `slopes`, by plain stores.
So several threads may pass over parts of the rows at once.
"""

import math
from typing import NamedTuple

import numpy as np

from hogshare.kernels.jit.decorators import helper, kernel
from hogshare.kernels.jit.exponential import exp_of_negative
from hogshare.kernels.rows.intercept_slopes import are_even, shifted
from hogshare.kernels.rows.row_scores import predictions, size_of
from hogshare.kernels.rows.row_views import column_of, margins, row_bounds
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.sgd_steps import target

ABOVE = 0
BELOW = 1
CHUNK = 512  # number of rows whose factors, at most 2 each, are multiplied before a logarithm


class GradientSums(NamedTuple):
    """The sums of the passes, separate for slopes above and below zero.

    gradient : float64 [2, n_features * n_columns], ``sum_i slope_i x_i``; [1, n_features *
        n_columns] if the signs need not be separate
    slopes : float64 [2, n_columns], ``sum_i slope_i``
    products : float64 [2, n_columns], ``sum_i slope_i p_i``, where p_i is the loss's argument for
        row i
    losses : float64 [2, n_columns], sums of weighted losses
    scratch : float64 [max(CHUNK, n_columns)]
    """

    gradient: np.ndarray
    slopes: np.ndarray
    products: np.ndarray
    losses: np.ndarray
    scratch: np.ndarray


def sums_of(size: int, n_columns: int, n_signs: int) -> GradientSums:
    """Make sums of zero for a model of `size` coefficients.

    n_signs : 2 if the gradient's sums are separate by sign, otherwise 1
    """
    by_sign = np.zeros((3, 2, n_columns))
    return GradientSums(np.zeros((n_signs, size)), *by_sign, np.empty(max(CHUNK, n_columns)))


@kernel
def fill_margins(rows, first, last, w, scratch, out):
    """Compute the margins of rows ``first:last``, without intercepts.

    w : rows' dtype [n_features * n_columns]
    scratch : float64 [n_columns]
    out : float64 [n_rows * n_columns], its entries of these rows are overwritten
    """
    n_columns = scratch.shape[0]
    for r in range(first, last):
        start, end = row_bounds(rows, r)
        margins(rows, start, end, w, scratch)
        for c in range(n_columns):
            out[r * n_columns + c] = scratch[c]


@helper
def fill_even_slopes(y, first, last, without, intercept, slopes, out):
    """Compute the slopes of `fill_slopes` for the log loss of one column, if all weights are 1.

    The loops avoid branches, calls and overlapping memory, so the compiler vectorises them: a row
    takes 4 ns, without vectors 45 ns. The log loss is max(p, 0) - y p + log(1 + exp(-|p|)). One
    logarithm is taken of the product of a chunk's factors 1 + exp(-|p|). So the absolute error of a
    row's loss is 1e-16; with a logarithm for each row the relative error would be 1e-16.
    """
    b = intercept[0]
    margin = out.scratch  # a copy of the chunk's margins: `without` may be `slopes` itself
    for begin in range(first, last, CHUNK):
        n = min(CHUNK, last - begin)
        for i in range(n):
            margin[i] = without[begin + i] + b
        above = below = products_above = products_below = losses_above = losses_below = 0.0
        factor_above = factor_below = 1.0
        for i in range(n):
            p = margin[i]
            label = np.float64(y[begin + i])
            slope = losses.loss_derivative(losses.LOG_LOSS, 0.0, label, p)
            factor = 1.0 + exp_of_negative(-abs(p))
            loss = max(p, 0.0) - label * p
            slopes[begin + i] = slope
            up = slope > 0.0
            above += slope if up else 0.0
            below += 0.0 if up else slope
            products_above += slope * p if up else 0.0
            products_below += 0.0 if up else slope * p
            losses_above += loss if up else 0.0
            losses_below += 0.0 if up else loss
            factor_above *= factor if up else 1.0
            factor_below *= 1.0 if up else factor
        out.slopes[ABOVE, 0] += above
        out.slopes[BELOW, 0] += below
        out.products[ABOVE, 0] += products_above
        out.products[BELOW, 0] += products_below
        out.losses[ABOVE, 0] += losses_above + math.log(factor_above)
        out.losses[BELOW, 0] += losses_below + math.log(factor_below)


@helper
def fill_slopes(
    rows, loss, epsilon, first, last, without, intercept, positive, negative, known, slopes, out
):
    """Compute the slopes of rows ``first:last``, and add slopes, products and losses to `out`.

    For the arguments see `add_gradient`.
    """
    n_columns = intercept.shape[0]
    if are_even(rows, loss, positive, negative) and not known:
        fill_even_slopes(rows.y, first, last, without, intercept, slopes, out)
        return
    for r in range(first, last):
        margin = out.scratch[:n_columns]
        shifted(loss, without, r, intercept, margin)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            p = margin[c]
            if not known:
                slopes[r * n_columns + c] = size * losses.loss_derivative(loss, epsilon, y, p)
            slope = slopes[r * n_columns + c]
            sign = ABOVE if slope > 0.0 else BELOW
            out.slopes[sign, c] += slope
            out.products[sign, c] += slope * p
            out.losses[sign, c] += size * losses.loss_value(loss, epsilon, y, p)


@helper
def add_slopes(rows, first, last, slopes, n_columns, out):
    """Add the gradient of rows ``first:last`` to `out`; `slopes` must contain the rows' slopes.

    slopes : float64 [n_rows * n_columns]
    out : float64 [2 or 1, n_features * n_columns], see `GradientSums.gradient`
    """
    below = out.shape[0] - 1
    for r in range(first, last):
        start, end = row_bounds(rows, r)
        if n_columns == 1:
            # like the general loop below, with the column's slope in a register
            slope = slopes[r]
            gradient = out[ABOVE if slope > 0.0 else below]
            for k in range(start, end):
                gradient[column_of(rows, start, k)] += slope * np.float64(rows.data[k])
            continue
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k])
            for c in range(n_columns):
                slope = slopes[r * n_columns + c]
                sign = ABOVE if slope > 0.0 else below
                out[sign, base + np.uint64(c)] += slope * x


@kernel
def add_gradient(
    rows,
    loss,
    epsilon,
    first,
    last,
    stride,
    w,
    without,
    intercept,
    positive,
    negative,
    known,
    slopes,
    out,
):
    """Add slopes, losses and gradient of rows ``first:last`` to `out`, `stride` rows at a time.

    w : see `fill_margins`; empty if `without` contains the margins already
    without : float64 [n_rows * n_columns], margins without intercepts; may be `slopes` itself
    positive : float64 [n_columns], class weight of a column's class
    negative : float64 [n_columns], class weight of the other rows
    known : whether `slopes` is given (the dual rule's slopes); if not, it is written
    slopes : float64 [n_rows * n_columns]
    out : `GradientSums`
    """
    n_columns = intercept.shape[0]
    scratch = out.scratch[:n_columns]
    for begin in range(first, last, stride):
        end = min(last, begin + stride)
        if w.shape[0] > 0:
            fill_margins(rows, begin, end, w, scratch, without)
        fill_slopes(
            rows,
            loss,
            epsilon,
            begin,
            end,
            without,
            intercept,
            positive,
            negative,
            known,
            slopes,
            out,
        )
        add_slopes(rows, begin, end, slopes, n_columns, out.gradient)


@kernel
def sum_of_conjugates(rows, loss, epsilon, first, last, shrink, positive, negative, slopes):
    """Return the weighted sum of the losses' conjugates at the slopes of rows ``first:last``.

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
                total += size * losses.loss_conjugate(loss, epsilon, y, a)
    return total


@kernel
def add_gradients(
    rows, loss, epsilon, chosen, w, intercept, positive, negative, scratch, out, of_intercepts
):
    """Add the gradient over the chosen rows to `out`; return the sum of their losses.

    chosen : int64 [n_chosen], numbers of the chosen rows
    w : rows' dtype [n_features * n_columns]
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
        if n_columns == 1:
            # like the general loop below; with the slope in a register the compiler vectorises it
            slope = scratch[0]
            for k in range(start, end):
                out[column_of(rows, start, k)] += slope * np.float64(rows.data[k])
            continue
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k])
            for c in range(n_columns):
                out[base + np.uint64(c)] += scratch[c] * x
    return total
