"""A sum as fast as memory is."""

from hogshare.kernels.jit import kernel


@kernel
def total(values):
    """Sum of a vector, read in order. In its own precision: float64 sums would be the limit."""
    result = values.dtype.type(0.0)
    for k in range(values.shape[0]):
        result += values[k]
    return result
