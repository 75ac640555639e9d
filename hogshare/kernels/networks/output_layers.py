"""The end of a network: predictions, losses, and derivatives with respect to the last layer's sums.

Each loss is paired with the activation for which the derivative of the loss with respect to the
sums z is prediction minus target: (1) squares with the identity, (2) the log loss with the logistic
function, (3) the log loss of many classes with softmax, and (4) Poisson's deviance with the
exponential. Losses are summed in float64.

With MEAN_SQUARES the reported loss is the mean over a row's outputs, as in scikit-learn's MLP.
Steps use the derivatives of the sum over the outputs, as scikit-learn's steps do.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import helper
from hogshare.kernels.jit.exponential import exp_of_negative

SQUARES, BINARY, SOFTMAX, POISSON, MEAN_SQUARES = range(5)


@helper
def predict_row(z, kind):
    """Replace a row's sums z, in place, by predictions.

    For softmax, return the logarithm of the divisor, ``log sum_j exp(z_j)``; otherwise return 0.
    Softmax is ``p_k = exp(z_k - max z) / sum_j exp(z_j - max z)``. So ``-log p_k`` is the returned
    value minus z_k, the sum before the call.
    """
    k = z.shape[0]
    if kind == SOFTMAX:
        largest = z[0]
        for j in range(1, k):
            # a NaN at any place becomes the largest
            largest = largest if largest > z[j] else z[j]
        total = 0.0
        for j in range(k):
            z[j] = exp_of_negative(np.float64(z[j] - largest))
            total += z[j]
        share = z.dtype.type(1.0 / total)
        for j in range(k):
            z[j] *= share
        return largest + math.log(total)
    for j in range(k):
        if kind == BINARY:
            e = exp_of_negative(-abs(np.float64(z[j])))
            z[j] = (1.0 if z[j] >= 0.0 else e) / (1.0 + e)
        elif kind == POISSON:
            z[j] = math.exp(z[j])
    return 0.0


@helper
def end_row(z, target, kind, weight, delta):
    """Return a row's loss, replace its sums by predictions, and write the derivatives.

    z : float [n_outputs], the row's sums; overwritten with the predictions
    target : float [n_outputs]; for softmax [1], the number of the row's class
    weight : weight of the row in the loss and in the derivatives
    delta : float [n_outputs], overwritten with the derivatives with respect to the sums
    """
    loss = 0.0
    factor = z.dtype.type(weight)
    if kind == SOFTMAX:
        mine = np.int64(target[0])
        own = z[mine]
        loss = predict_row(z, kind) - own
        for j in range(z.shape[0]):
            delta[j] = factor * z[j]
        delta[mine] -= factor
        return weight * loss
    for j in range(z.shape[0]):
        sum_, wanted = np.float64(z[j]), np.float64(target[j])
        if kind in (SQUARES, MEAN_SQUARES):
            loss += 0.5 * (sum_ - wanted) * (sum_ - wanted)
        elif kind == BINARY:
            e = exp_of_negative(-abs(sum_))
            loss += max(sum_, 0.0) - wanted * sum_ + math.log1p(e)
        else:
            loss -= wanted * (sum_ + 1.0)
            if wanted > 0.0:
                loss += wanted * math.log(wanted)
    if kind == MEAN_SQUARES:
        loss /= z.shape[0]
    predict_row(z, kind)
    for j in range(z.shape[0]):
        if kind == POISSON:
            loss += z[j]
        delta[j] = factor * (z[j] - target[j])
    return weight * loss
