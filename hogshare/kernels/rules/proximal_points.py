"""Proximal points of the losses: the best trade-off of a prediction's loss and its displacement.

``proximal_point`` returns ``argmin_u size * loss(y, u) + (u - z)^2 / 2``. For the log loss Newton's
method solves the equation inside a shrinking bracket; all other losses have a closed form.
``kinked_slope`` returns the derivative of a loss with a kink at its proximal point; in the kink
this is the subgradient that leads to the point.
"""

from hogshare.kernels.jit.decorators import helper, inlined
from hogshare.kernels.jit.exponential import exp_of_negative
from hogshare.kernels.rules import losses

NEWTON_STEPS = 60  # never needed: the bracket halves at worst
CLOSE = 0.5  # last Newton step, in units of the margin; each later visit of a row comes closer


@helper
def logistic_point(y, z, size, guess, close):
    """Return the log loss's proximal point at target `y`, 0 or 1.

    Newton's method starts at `guess` and stops after a step of at most `close`.
    """
    low = z - size * (1.0 - y)
    high = z + size * y
    u = min(max(guess, low), high)
    for _ in range(NEWTON_STEPS):
        e = exp_of_negative(-abs(u))
        probability = 1.0 / (1.0 + e) if u >= 0.0 else e / (1.0 + e)
        slope = u - z + size * (probability - y)
        if slope > 0.0:
            high = u
        else:
            low = u
        step = slope / (1.0 + size * probability * (1.0 - probability))
        u -= step
        if abs(step) <= close:
            break
        if not low < u < high:
            u = 0.5 * (low + high)
    return u


@inlined
def shrunk(size, bound):
    """Move `size` towards zero by `bound`, but not beyond zero (soft threshold)."""
    # one of the two terms is zero; a branch on the sign would be hard to predict
    return max(size - bound, 0.0) + min(size + bound, 0.0)


@inlined
def proximal_point(loss, epsilon, y, z, size, guess):
    """Return the proximal point of ``size * loss`` at `z`, near `guess`; see the file's head."""
    if loss == losses.LOG_LOSS:
        return logistic_point(y, z, size, guess, CLOSE)
    if loss <= losses.PERCEPTRON:
        m = y * z  # y is -1 or 1: the margin takes the prediction's place
        if loss == losses.HINGE:
            m = m if m >= 1.0 else min(m + size, 1.0)
        elif loss == losses.PERCEPTRON:
            m = m if m >= 0.0 else min(m + size, 0.0)
        elif m < 1.0:
            after = (m + 2.0 * size) / (1.0 + 2.0 * size)
            if loss == losses.MODIFIED_HUBER and after < -1.0:
                after = m + 4.0 * size
            m = after
        return y * m
    residual = z - y
    if loss == losses.SQUARED_ERROR:
        return y + residual / (1.0 + size)
    if loss == losses.HUBER:
        if abs(residual) <= epsilon * (1.0 + size):
            return y + residual / (1.0 + size)
        return z - size * epsilon if residual > 0.0 else z + size * epsilon
    excess = shrunk(residual, epsilon)
    if loss == losses.EPSILON_INSENSITIVE:
        return z - (excess - shrunk(excess, size))
    return z - excess * (2.0 * size / (1.0 + 2.0 * size))


@inlined
def kinked_slope(loss, epsilon, y, z, reach, size):
    """Return the derivative of ``size * loss``, a loss with kinks, at its proximal point.

    The point is ``u = argmin_u reach * size * loss(y, u) + (u - z)^2 / 2``, and the derivative is
    ``(z - u) / reach``. It is computed without cancellation for a small `reach` above 0.
    """
    if loss == losses.EPSILON_INSENSITIVE:
        return min(max(shrunk(z - y, epsilon) / reach, -size), size)
    edge = 1.0 if loss == losses.HINGE else 0.0
    return -y * min(max((edge - y * z) / reach, 0.0), size)
