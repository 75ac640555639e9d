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
def shuffle_part(numbers, first, last, state):
    """Fisher and Yates on ``numbers[first:last]``, in place; returns the generator's state."""
    for i in range(first, last - 1):
        state = next_random(state)
        draw = np.int64(state % np.uint32(RAND_MAX + 1))
        j = i + draw % (last - i)
        swapped = numbers[i]
        numbers[i] = numbers[j]
        numbers[j] = swapped
    return state


@helper
def shuffle(permutation, seed):
    """Fisher and Yates, in place."""
    state = np.uint32(seed)
    if state == 0:
        state = np.uint32(1)
    shuffle_part(permutation, 0, permutation.shape[0], state)


@helper
def shuffle_windows(permutation, held_out, order, window, seed, epoch):
    """An order that reads `window` rows in a row of the data: windows at random, rows within too.

    For rows that do not fit in memory: visiting them wholly at random would read a page of the disk
    per row. `permutation` is scratch; rows that are held out are left out.
    """
    n_rows = permutation.shape[0]
    n_windows = (n_rows + window - 1) // window
    # in 64 bits, so that nothing overflows without the JIT either
    state = np.uint32((np.int64(seed) + np.int64(epoch) * 2654435769) % 4294967296)
    if state == 0:
        state = np.uint32(1)
    for i in range(n_windows):
        permutation[i] = i
    state = shuffle_part(permutation, 0, n_windows, state)
    k = 0
    for i in range(n_windows):
        first = permutation[i] * window
        start = k
        for r in range(first, min(n_rows, first + window)):
            if held_out.shape[0] == 0 or held_out[r] == 0:
                order[k] = r
                k += 1
        state = shuffle_part(order, start, k, state)


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
