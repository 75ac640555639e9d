"""Whether a row has a column twice, and whether labels are of two kinds: sooner than by sorting."""

import numpy as np

from hogshare.kernels.jit.decorators import kernel

STRIDE = 512  # labels that are compared without a branch, which would often be foretold wrong


@kernel
def has_repeats(indices, indptr, last):
    """Whether any CSR row has a column more than once, in whatever order its columns are.

    last : int64 (n_features,), scratch, -1 everywhere: the last row that has had a column
    """
    for r in range(indptr.shape[0] - 1):
        for k in range(indptr[r], indptr[r + 1]):
            j = indices[k]
            if last[j] == r:
                return True
            last[j] = r
    return False


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
