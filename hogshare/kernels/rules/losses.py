"""Losses as integer codes; each has a scalar value and a scalar derivative.

A kernel takes ``loss: int``. Passing a compiled function instead would miss Numba's disk cache in
every new process. The formulas and their edge cases are scikit-learn's, so one worker fits the same
model. `y` is in {0, 1} for the log loss and in {-1, 1} for the other classification losses.

The multinomial loss couples the columns of a row: the prediction in a column is the logarithm of
the class's probability, which needs all margins of the row (`log_probabilities`). Given these
predictions, the loss is a scalar for each column: `y` is in {0, 1}, and the loss is counted once,
in the column of the row's class. Its derivative is taken with respect to the column's *margin*.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.jit.exponential import exp_of_negative

LOG_LOSS = 0
HINGE = 1
SQUARED_HINGE = 2
MODIFIED_HUBER = 3
PERCEPTRON = 4
SQUARED_ERROR = 5
HUBER = 6
EPSILON_INSENSITIVE = 7
SQUARED_EPSILON_INSENSITIVE = 8
MULTINOMIAL = 9

CODES = {
    "log_loss": LOG_LOSS,
    "hinge": HINGE,
    "squared_hinge": SQUARED_HINGE,
    "modified_huber": MODIFIED_HUBER,
    "perceptron": PERCEPTRON,
    "squared_error": SQUARED_ERROR,
    "huber": HUBER,
    "epsilon_insensitive": EPSILON_INSENSITIVE,
    "squared_epsilon_insensitive": SQUARED_EPSILON_INSENSITIVE,
    "multinomial": MULTINOMIAL,
}

KINKED = ("hinge", "perceptron", "epsilon_insensitive")  # derivatives jump
COUPLED = ("multinomial",)  # these couple all columns of a row: no dual step for one column
MAX_DERIVATIVE = 1e12

# Upper bound of the second derivative with respect to the prediction. For the losses with a kink
# the number is the change of the derivative over a unit of margin, which limits a block of steps in
# the same way. For the multinomial loss the number bounds the Hessian with respect to all margins
# of a row: its largest eigenvalue, and the sums of its rows' absolute values, 2 p (1 - p).
CURVATURE = {
    LOG_LOSS: 0.25,
    HINGE: 1.0,
    SQUARED_HINGE: 2.0,
    MODIFIED_HUBER: 2.0,
    PERCEPTRON: 1.0,
    SQUARED_ERROR: 1.0,
    HUBER: 1.0,
    EPSILON_INSENSITIVE: 1.0,
    SQUARED_EPSILON_INSENSITIVE: 2.0,
    MULTINOMIAL: 0.5,
}


@inlined
def is_kinked(loss):
    """Return whether the loss is one of `KINKED`."""
    return loss in (HINGE, PERCEPTRON, EPSILON_INSENSITIVE)


@helper
def log_probabilities(margin):
    """Replace the margins of a row (float64) by the logarithms of its classes' probabilities."""
    largest = -np.inf
    for c in range(margin.shape[0]):
        largest = max(largest, margin[c])
    total = 0.0
    for c in range(margin.shape[0]):
        margin[c] -= largest
        total += math.exp(margin[c])
    total = math.log(total)
    for c in range(margin.shape[0]):
        margin[c] -= total


@inlined
def loss_value(loss, epsilon, y, p):
    """Return the loss of prediction `p` (float64) at target `y`."""
    if loss == LOG_LOSS:
        # log(1 + exp(p)) - y p, without overflow for either sign of p
        return max(p, 0.0) + math.log1p(exp_of_negative(-abs(p))) - y * p
    if loss == MULTINOMIAL:
        return -p if y > 0.0 else 0.0
    if loss == HINGE:
        return max(0.0, 1.0 - p * y)
    if loss == PERCEPTRON:
        return max(0.0, -p * y)
    if loss == SQUARED_HINGE:
        z = max(0.0, 1.0 - p * y)
        return z * z
    if loss == MODIFIED_HUBER:
        z = p * y
        if z >= 1.0:
            return 0.0
        if z >= -1.0:
            return (1.0 - z) * (1.0 - z)
        return -4.0 * z
    residual = p - y
    if loss == SQUARED_ERROR:
        return 0.5 * residual * residual
    size = abs(residual)
    if loss == HUBER:
        if size <= epsilon:
            return 0.5 * residual * residual
        return epsilon * (size - 0.5 * epsilon)
    excess = max(0.0, size - epsilon)
    if loss == EPSILON_INSENSITIVE:
        return excess
    return excess * excess


@inlined
def clipped(derivative):
    """Clip a derivative that may grow without bound to MAX_DERIVATIVE in size."""
    return min(max(derivative, -MAX_DERIVATIVE), MAX_DERIVATIVE)


@inlined
def loss_derivative(loss, epsilon, y, p):
    """Return the derivative of the loss with respect to the prediction `p`.

    Its absolute value is at most MAX_DERIVATIVE. Only the losses that need this bound are clipped,
    because the next row waits for each instruction of this function.
    """
    if loss == LOG_LOSS:
        # 1 / (1 + exp(-p)) - y, without overflow or cancellation for either sign of p. A sum of the
        # losses (`block_sums.count_loss`) takes the same exponential, which is computed once.
        e = exp_of_negative(-abs(p))
        wrong, right = (1.0 - y, y * e) if p > 0.0 else ((1.0 - y) * e, y)
        return (wrong - right) / (1.0 + e)
    if loss == MULTINOMIAL:
        return math.exp(p) - y
    if loss == HINGE:
        return -y if p * y <= 1.0 else 0.0
    if loss == PERCEPTRON:
        return -y if p * y <= 0.0 else 0.0
    if loss == SQUARED_HINGE:
        z = 1.0 - p * y
        return clipped(-2.0 * y * z) if z > 0.0 else 0.0
    if loss == MODIFIED_HUBER:
        z = p * y
        if z >= 1.0:
            return 0.0
        if z >= -1.0:
            return -2.0 * y * (1.0 - z)
        return -4.0 * y
    residual = p - y
    if loss == SQUARED_ERROR:
        return clipped(residual)
    if loss == HUBER:
        return clipped(min(max(residual, -epsilon), epsilon))
    if loss == EPSILON_INSENSITIVE:
        if residual > epsilon:
            return 1.0
        if residual < -epsilon:
            return -1.0
        return 0.0
    if residual > epsilon:
        return clipped(2.0 * (residual - epsilon))
    if residual < -epsilon:
        return clipped(2.0 * (residual + epsilon))
    return 0.0


@inlined
def loss_curvature(loss, epsilon, y, p):
    """Return the second derivative of a smooth loss with respect to the prediction `p`.

    For a loss with kinks, return 0. If the first derivative has a kink at `p`, return one of the
    two one-sided values.
    """
    if loss == LOG_LOSS:
        e = exp_of_negative(-abs(p))
        return e / ((1.0 + e) * (1.0 + e))
    if loss == MULTINOMIAL:  # the second derivative in the column's own margin
        return math.exp(p) * (1.0 - math.exp(p))
    if loss == SQUARED_HINGE:
        return 2.0 if p * y < 1.0 else 0.0
    if loss == MODIFIED_HUBER:
        return 2.0 if -1.0 <= p * y < 1.0 else 0.0
    if loss == SQUARED_ERROR:
        return 1.0
    if loss == HUBER:
        return 1.0 if abs(p - y) <= epsilon else 0.0
    if loss == SQUARED_EPSILON_INSENSITIVE:
        return 2.0 if abs(p - y) > epsilon else 0.0
    return 0.0


@inlined
def negative_entropy(u):
    """Return ``u log u``, or 0 if `u` is 0 or, by rounding, a little below 0."""
    return u * math.log(u) if u > 0.0 else 0.0


@inlined
def loss_conjugate(loss, epsilon, y, a):
    """Return the convex conjugate of the loss of target `y`, ``max_p (a p - loss(p))``, at `a`.

    a : a derivative that the loss has at some prediction, or such a derivative moved towards zero;
        at these points the conjugate is finite
    """
    if loss == LOG_LOSS:
        probability = a + y
        return negative_entropy(probability) + negative_entropy(1.0 - probability)
    if loss == MULTINOMIAL:  # a column's share of the conjugate
        return negative_entropy(a + y)
    if loss == PERCEPTRON:
        return 0.0
    if loss in (SQUARED_HINGE, MODIFIED_HUBER):
        return a * y + 0.25 * a * a
    if loss in (SQUARED_ERROR, HUBER):
        return a * y + 0.5 * a * a
    if loss == EPSILON_INSENSITIVE:
        return a * y + epsilon * abs(a)
    if loss == SQUARED_EPSILON_INSENSITIVE:
        return a * y + epsilon * abs(a) + 0.25 * a * a
    return a * y  # hinge
