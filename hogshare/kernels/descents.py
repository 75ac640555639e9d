"""Steps of rules that remember earlier gradients, one pass over the vector each.

A gradient becomes the step in its place: what is then subtracted from the vector. All arrays are of
the vector's type, [n], and the worker's own.
"""

import math

import numpy as np

from hogshare.kernels.jit import kernel


@kernel
def heavy_ball(gradient, velocity, eta, momentum, ahead):
    """``v = momentum v + eta g``, and the step is v; looking `ahead` it is ``momentum v + eta g``.

    Source: Polyak 1964; Sutskever, Martens, Dahl and Hinton 2013 for Nesterov's, in the form that
    scikit-learn has.
    """
    kind = gradient.dtype.type
    share, size = kind(momentum), kind(eta)
    if ahead:
        for j in range(gradient.shape[0]):
            fresh = size * gradient[j]
            velocity[j] = share * velocity[j] + fresh
            gradient[j] = share * velocity[j] + fresh
    else:
        for j in range(gradient.shape[0]):
            velocity[j] = share * velocity[j] + size * gradient[j]
            gradient[j] = velocity[j]


@kernel
def adam(gradient, mean, square, eta, beta_1, beta_2, epsilon):
    """``m = b1 m + (1 - b1) g``, ``v = b2 v + (1 - b2) g^2``, the step ``eta m / (sqrt v + e)``.

    Source: Kingma and Ba 2015, algorithm 1, with the corrections of the moments in `eta`, as its
    section 2 proposes and scikit-learn does.
    """
    kind = gradient.dtype.type
    size, least = kind(eta), kind(epsilon)
    old_1, new_1, old_2, new_2 = kind(beta_1), kind(1.0 - beta_1), kind(beta_2), kind(1.0 - beta_2)
    for j in range(gradient.shape[0]):
        g = gradient[j]
        m = old_1 * mean[j] + new_1 * g
        v = old_2 * square[j] + new_2 * (g * g)
        mean[j], square[j] = m, v
        gradient[j] = size * m / (math.sqrt(v) + least)


@kernel
def shorten(gradient, longest):
    """Multiply a gradient so that the root of its squares' sum is at most `longest`."""
    total = 0.0
    for j in range(gradient.shape[0]):
        value = np.float64(gradient[j])
        total += value * value
    if total > longest * longest:
        factor = gradient.dtype.type(longest / math.sqrt(total))
        for j in range(gradient.shape[0]):
            gradient[j] *= factor
