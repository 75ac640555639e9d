"""Whether a row has a column twice."""

from hogshare.kernels.jit import kernel


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
