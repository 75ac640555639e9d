"""Sums as fast as memory is."""

import numpy as np

from hogshare.kernels.jit import kernel


@kernel
def total(values):
    """Sum of a vector, read in order. In its own precision: float64 sums would be the limit."""
    result = values.dtype.type(0.0)
    for k in range(values.shape[0]):
        result += values[k]
    return result


@kernel
def squares(values):
    """Sum of the squares of a vector, in float64: NaN or infinite if one is, rarely otherwise."""
    result = 0.0
    for k in range(values.shape[0]):
        value = np.float64(values[k])
        result += value * value
    return result
