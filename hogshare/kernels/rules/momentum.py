"""Steps of rules that store earlier gradients; a step is one pass over the vector.

A step overwrites its gradient, and is then subtracted from the vector; this is one pass if the
worker may write the vector. Operations are rounded as written, so NumPy's operations give the same
bits. All arrays have the vector's dtype and length n. The arrays are the worker's own, so stores
are plain; only the one vector without locks has other writers.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import exact_helper, exact_kernel, kernel

NONE, PLAIN, HEAVY, AHEAD, ADAM = range(5)
CHUNK = 2048  # values that stay in the nearest cache from their step to its subtraction


@exact_helper
def make_step(gradient, first, second, kind, eta, share_1, share_2, epsilon):
    """Overwrite the gradient g with the step.

    PLAIN : ``eta g``
    HEAVY : ``v = momentum v + eta g`` in `first`, and the step is v
    AHEAD : ``v = momentum v + eta g`` in `first`, and the step is ``momentum v + eta g``
    ADAM : ``m = b1 m + (1 - b1) g`` and ``v = b2 v + (1 - b2) g^2`` in `first` and `second`, and
        the step is ``eta m / (sqrt v + e)``

    `first` and `second` are written.

    Sources: Polyak 1964; Sutskever, Martens, Dahl and Hinton 2013 for Nesterov's momentum, in
    scikit-learn's form; Kingma and Ba 2015, with the corrections of the moments in `eta`, as its
    section 2 proposes.

    share_1, share_2 : the momentum in `share_1`; for ADAM, b1 and b2
    epsilon : e, of ADAM
    """
    number = gradient.dtype.type
    size, old_1, old_2, least = number(eta), number(share_1), number(share_2), number(epsilon)
    new_1, new_2 = number(1.0 - share_1), number(1.0 - share_2)
    if kind == PLAIN:
        for j in range(gradient.shape[0]):
            gradient[j] = size * gradient[j]
    elif kind == HEAVY:
        for j in range(gradient.shape[0]):
            first[j] = old_1 * first[j] + size * gradient[j]
            gradient[j] = first[j]
    elif kind == AHEAD:
        for j in range(gradient.shape[0]):
            fresh = size * gradient[j]
            first[j] = old_1 * first[j] + fresh
            gradient[j] = old_1 * first[j] + fresh
    else:
        for j in range(gradient.shape[0]):
            g = gradient[j]
            m = old_1 * first[j] + new_1 * g
            v = old_2 * second[j] + new_2 * (g * g)
            first[j], second[j] = m, v
            gradient[j] = size * m / (number(math.sqrt(v)) + least)


@exact_helper
def descend(w, gradient, first, second, kind, eta, share_1, share_2, epsilon):
    """Overwrite a gradient with the step, and subtract the step from the vector."""
    for begin in range(0, gradient.shape[0], CHUNK):
        end = begin + CHUNK
        step, own = gradient[begin:end], w[begin:end]
        numbers = kind, eta, share_1, share_2, epsilon
        make_step(step, first[begin:end], second[begin:end], *numbers)
        for j in range(step.shape[0]):
            own[j] -= step[j]


@exact_kernel
def descend_sum(w, parts, which, first, second, kind, eta, share_1, share_2, epsilon):
    """Take the step of a gradient given in parts: sum, step and subtraction in one pass.

    w : the vector; the step is subtracted from it in place
    parts : float [n_workers, n or more], parts of the gradient; row ``which[0]`` is overwritten
        with the step
    which : int64, rows of `parts`, added up in the order of `which`
    """
    n = w.shape[0]
    for begin in range(0, n, CHUNK):
        end = min(begin + CHUNK, n)
        total = parts[which[0], begin:end]
        for k in range(1, which.shape[0]):
            part = parts[which[k], begin:end]
            for j in range(total.shape[0]):
                total[j] += part[j]
        numbers = kind, eta, share_1, share_2, epsilon
        make_step(total, first[begin:end], second[begin:end], *numbers)
        for j in range(total.shape[0]):
            w[begin + j] -= total[j]


@exact_kernel
def step(gradient, first, second, kind, eta, share_1, share_2, epsilon):
    """Overwrite a gradient with the step; see `make_step`."""
    make_step(gradient, first, second, kind, eta, share_1, share_2, epsilon)


@kernel
def shorten(gradient, longest):
    """Scale a gradient down, in place, so its Euclidean norm is at most `longest`."""
    total = 0.0
    for j in range(gradient.shape[0]):
        value = np.float64(gradient[j])
        total += value * value
    if total > longest * longest:
        factor = gradient.dtype.type(longest / math.sqrt(total))
        for j in range(gradient.shape[0]):
            gradient[j] *= factor
