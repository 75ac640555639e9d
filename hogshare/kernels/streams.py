"""Row orders. The generator and the shuffle are scikit-learn's, so that the same seed visits the
same rows in the same order: epoch by epoch one permutation is shuffled further, always from the
same seed.
"""

import numpy as np

from hogshare.kernels.jit import helper, inlined

RAND_MAX = 2147483647


@inlined
def next_random(state):
    """One step of a 32-bit xorshift generator (13, 17, 5); `state` is uint32 and never zero."""
    state = np.uint32(state ^ np.uint32(state << np.uint32(13)))
    state = np.uint32(state ^ np.uint32(state >> np.uint32(17)))
    return np.uint32(state ^ np.uint32(state << np.uint32(5)))


@helper
def shuffle(permutation, seed):
    """Fisher and Yates, in place."""
    n = permutation.shape[0]
    state = np.uint32(seed)
    if state == 0:
        state = np.uint32(1)
    for i in range(n - 1):
        state = next_random(state)
        draw = np.int64(state % np.uint32(RAND_MAX + 1))
        j = i + draw % (n - i)
        swapped = permutation[i]
        permutation[i] = permutation[j]
        permutation[j] = swapped


@helper
def keep_training_rows(permutation, held_out, order):
    """Copy the rows of `permutation` that are not held out; `held_out` may be empty."""
    if held_out.shape[0] == 0:
        for i in range(permutation.shape[0]):
            order[i] = permutation[i]
        return
    k = 0
    for i in range(permutation.shape[0]):
        r = permutation[i]
        if held_out[r] == 0:
            order[k] = r
            k += 1
