"""Checks for repeated columns and for two kinds of labels, faster than by sorting."""

import numpy as np

from hogshare.kernels.jit.decorators import kernel

STRIDE = 512  # number of labels compared without a branch, which would often be mispredicted


@kernel
def has_repeats(indices, indptr, last):
    """Return whether any CSR row has a column more than once; columns may be in any order.

    last : int64 (n_features,), scratch, -1 everywhere before the call; the call writes for each
        column the last row that contains the column
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
    """Return two different labels of a nonempty vector, and whether there are no other labels.

    If all labels are equal, this label is returned twice. A NaN equals no label, so a NaN counts as
    another label.
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
