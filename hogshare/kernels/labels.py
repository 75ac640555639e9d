"""Whether labels are of two kinds, which is seen sooner than which kinds there are."""

import numpy as np

from hogshare.kernels.jit import kernel

STRIDE = 512  # labels that are compared without a branch, which would often be foretold wrong


@kernel
def two_kinds(labels):
    """The first two kinds of a vector that is not empty, and whether there are no others.

    One kind comes twice. Where a label is NaN, which no label is like, there are others.
    """
    n = labels.shape[0]
    first = labels[0]
    k = 0
    while k < n and labels[k] == first:
        k += 1
    second = first if k == n else labels[k]
    while k < n:
        end = min(n, k + STRIDE)
        others = 0
        for i in range(np.uint64(k), np.uint64(end)):
            others += (labels[i] != first) & (labels[i] != second)
        if others > 0:
            return first, second, False
        k = end
    return first, second, True
