"""Convex conjugates of the losses in the prediction: what a dual objective sums over the rows.

``loss_conjugate(a) = max_p (a p - loss(p))``. Every `a` that is a derivative of the loss somewhere,
and every such number moved towards zero, is where this is finite; nothing else is asked for.
"""

import math

from hogshare.kernels import losses
from hogshare.kernels.jit import inlined


@inlined
def negative_entropy(u):
    """``u log u``, 0 at 0, and 0 where rounding has left a number a little below."""
    return u * math.log(u) if u > 0.0 else 0.0


@inlined
def loss_conjugate(loss, epsilon, y, a):
    """Conjugate of the loss at target `y` (as `losses` has it) and derivative `a`."""
    if loss == losses.LOG_LOSS:
        probability = a + y
        return negative_entropy(probability) + negative_entropy(1.0 - probability)
    if loss == losses.MULTINOMIAL:  # a column's share of it
        return negative_entropy(a + y)
    if loss == losses.PERCEPTRON:
        return 0.0
    if loss == losses.SQUARED_HINGE or loss == losses.MODIFIED_HUBER:
        return a * y + 0.25 * a * a
    if loss == losses.SQUARED_ERROR or loss == losses.HUBER:
        return a * y + 0.5 * a * a
    if loss == losses.EPSILON_INSENSITIVE:
        return a * y + epsilon * abs(a)
    if loss == losses.SQUARED_EPSILON_INSENSITIVE:
        return a * y + epsilon * abs(a) + 0.25 * a * a
    return a * y  # hinge
