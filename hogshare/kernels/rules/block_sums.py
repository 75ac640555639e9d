"""A block's sums: losses and criterion, if requested, and squared changes of the rows' memory.

Writers: each worker writes its own sums (`local`) by plain stores, row by row; `complete` adds them
to the epoch's sums.

The log loss is max(p, 0) - y p + log(1 + exp(-|p|)). A logarithm takes a fifth of a short row's
time. So the factors 1 + exp(-|p|) of all rows are multiplied, and the logarithm is computed once,
of the product. The derivative uses the same exponential.
"""

import math

from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.jit.exponential import exp_of_negative
from hogshare.kernels.rules import losses

NOTHING = 0  # values of Rule.track
CRITERION = 1  # losses and penalties, scikit-learn's stop criterion
LARGE = 1e300  # of a product whose next factor is at most 2


@helper
def start_block(local):
    """Reset the worker's sums for a new block."""
    local[layout.L_LOSS, :] = 0.0
    local[layout.L_CRITERION, :] = 0.0
    local[layout.L_CHANGE, :] = 0.0
    local[layout.L_FACTOR, :] = 1.0


@inlined
def count_loss(rule, local, c, y, p, penalty):
    """Add a row's loss to both sums, and its penalty to the criterion."""
    if rule.track == NOTHING:
        return
    if rule.loss == losses.LOG_LOSS:
        loss = max(p, 0.0) - y * p
        local[layout.L_FACTOR, c] *= 1.0 + exp_of_negative(-abs(p))
        if local[layout.L_FACTOR, c] > LARGE:  # before the product overflows
            settle(local, c)
    else:
        loss = losses.loss_value(rule.loss, rule.epsilon, y, p)
    local[layout.L_LOSS, c] += loss
    local[layout.L_CRITERION, c] += loss + penalty


@inlined
def settle(local, c):
    """Add the logarithm that `count_loss` has deferred to a column's sums."""
    late = math.log(local[layout.L_FACTOR, c])
    local[layout.L_FACTOR, c] = 1.0
    local[layout.L_LOSS, c] += late
    local[layout.L_CRITERION, c] += late
