"""Derivatives of the losses with respect to the intercepts, given the rows' margins.

Given the margins of the rows without intercepts, the objective is a function of the intercepts
alone. A pass over one margin per row and column computes its derivatives. Writers: the run's caller
calls these functions while no worker writes. Each calling thread writes its own sums by plain
stores, so several threads may pass over parts of the rows at once.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import helper, inlined, kernel
from hogshare.kernels.rows.row_scores import size_of
from hogshare.kernels.rules import losses
from hogshare.kernels.rules.sgd_steps import target


@inlined
def shifted(loss, margins, r, intercept, out):
    """Set ``out[c]`` to the loss's argument for row `r`, given its margins without intercepts."""
    n_columns = out.shape[0]
    for c in range(n_columns):
        out[c] = margins[r * n_columns + c] + intercept[c]
    if loss == losses.MULTINOMIAL:
        losses.log_probabilities(out)


@inlined
def are_even(rows, loss, positive, negative):
    """Return whether the vectorised loops apply: log loss, one column, and all weights are 1.

    These loops take one logarithm of a product over rows, and such a product cannot contain
    weights.
    """
    if loss != losses.LOG_LOSS or positive.shape[0] != 1 or rows.weight.shape[0] != 0:
        return False
    return positive[0] == 1.0 and negative[0] == 1.0


@helper
def add_even_intercept_slopes(y, first, last, margins, intercept, slope, bend):
    """Add the derivatives of `add_intercept_slopes` for the case in which `are_even` is true.

    The sums are in registers, so the loop is vectorised.
    """
    b = intercept[0]
    slopes = bends = 0.0
    for r in range(first, last):
        p = margins[r] + b
        slopes += losses.loss_derivative(losses.LOG_LOSS, 0.0, np.float64(y[r]), p)
        bends += losses.loss_curvature(losses.LOG_LOSS, 0.0, 0.0, p)
    slope[0] += slopes
    bend[0, 0] += bends


@kernel
def add_intercept_slopes(
    rows, loss, epsilon, first, last, margins, intercept, positive, negative, scratch, slope, bend
):
    """Add the derivatives of the losses of rows ``first:last`` with respect to the intercepts.

    margins : float64 [n_rows * n_columns], margins without intercepts
    scratch : float64 [n_columns]
    slope : float64 [n_columns], to which the first derivatives are added
    bend : float64 [n_columns, n_columns], to which the second derivatives are added
    """
    n_columns = intercept.shape[0]
    if are_even(rows, loss, positive, negative):
        add_even_intercept_slopes(rows.y, first, last, margins, intercept, slope, bend)
        return
    for r in range(first, last):
        shifted(loss, margins, r, intercept, scratch)
        for c in range(n_columns):
            y = target(loss, rows.y[r], c, n_columns)
            size = size_of(rows, r, y, c, positive, negative)
            p = scratch[c]
            slope[c] += size * losses.loss_derivative(loss, epsilon, y, p)
            bend[c, c] += size * losses.loss_curvature(loss, epsilon, y, p)
            if loss == losses.MULTINOMIAL:
                for d in range(n_columns):
                    if d != c:
                        bend[c, d] -= size * math.exp(p + scratch[d])
