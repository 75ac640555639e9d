"""Block times on a virtual clock: one random number for each block of each worker.

A draw depends only on the seed, the worker and the number of the worker's block. So the draw is the
same for any interleaving of the workers, for any barrier, and for a simulation with or without a
model.
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import exact_helper, exact_kernel
from hogshare.kernels.schedule.streams import block_state, fraction, next_random

CONSTANT = 0
EXPONENTIAL = 1
LOG_NORMAL = 2
GAMMA = 3
UNIFORM = 4
MEASURED = 5


@exact_helper
def another(state):
    """Return the generator's state after two steps; one step leaves a small state small."""
    return next_random(next_random(state))


@exact_helper
def normal(state):
    """Draw a standard normal number (Box and Muller 1958); return it and the next state."""
    angle = another(state)
    radius = math.sqrt(-2.0 * math.log(fraction(state)))
    return radius * math.cos(2.0 * math.pi * fraction(angle)), another(angle)


@exact_helper
def gamma(shape, state):
    """Draw a gamma number of the given shape and scale 1.

    Source: Marsaglia and Tsang 2000. For a shape below 1 the function draws with shape + 1 and
    rescales the number, as in their section 6.
    """
    boost = 1.0
    if shape < 1.0:
        boost = math.exp(math.log(fraction(state)) / shape)
        state = another(state)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, state = normal(state)
        v = 1.0 + c * x
        u = fraction(state)
        state = another(state)
        if v > 0.0:
            v = v * v * v
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return boost * d * v


@exact_helper
def block_seconds(code, a, b, trace, seed, worker, block):
    """Return the virtual seconds that a worker takes for a block.

    code : CONSTANT (a seconds), EXPONENTIAL (mean a), LOG_NORMAL (mean a, standard deviation b of
        the logarithm), GAMMA (mean a, shape b), UNIFORM (from a to b), MEASURED (a random entry of
        the trace)
    trace : float64 [n], measured block times; empty unless the code is MEASURED
    seed : seed of the draws, below 2^32
    block : number of blocks that the worker has completed before
    """
    if code == CONSTANT:
        return a
    state = block_state(seed, worker, block)
    if code == EXPONENTIAL:
        return -a * math.log(fraction(state))
    if code == LOG_NORMAL:
        z, _ = normal(state)
        return a * math.exp(b * z - 0.5 * b * b)
    if code == GAMMA:
        return a * (gamma(b, state) / b)
    if code == UNIFORM:
        return a + (b - a) * fraction(state)
    return trace[np.int64(fraction(state) * trace.shape[0])]


@exact_kernel
def draw(code, a, b, trace, seed, worker, block):
    """Call `block_seconds` from Python."""
    return block_seconds(code, a, b, trace, seed, worker, block)
