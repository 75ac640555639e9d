"""Row orders: shuffled, or drawn with unequal chances.

The generator and the shuffle are scikit-learn's. Every epoch shuffles the permutation of the
previous epoch, always from the same seed. So if the rows fit in the caches, a fit visits the same
rows in the same order as scikit-learn does with that seed. Rows of larger data, and rows of SAGA,
are read in windows of adjacent rows (`shuffle_windows`).
"""

import math

import numpy as np

from hogshare.kernels.jit.decorators import helper, inlined

RAND_MAX = 2147483647
WARM_UP = 16  # number of draws to skip: the first draws of streams with similar seeds are similar


@inlined
def next_random(state):
    """Do one step of a 32-bit xorshift generator (13, 17, 5); `state` is uint32, never zero."""
    state = np.uint32(state ^ np.uint32(state << np.uint32(13)))
    state = np.uint32(state ^ np.uint32(state >> np.uint32(17)))
    return np.uint32(state ^ np.uint32(state << np.uint32(5)))


@helper
def shuffle_part(numbers, first, last, state):
    """Shuffle ``numbers[first:last]`` in place (Fisher and Yates); return the generator's state."""
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
    """Shuffle a permutation in place (Fisher and Yates)."""
    state = np.uint32(seed)
    if state == 0:
        state = np.uint32(1)
    shuffle_part(permutation, 0, permutation.shape[0], state)


@inlined
def epoch_state(seed, epoch):
    """Return the first state of an epoch's random stream; never zero."""
    # in 64 bits, so nothing overflows if the JIT is off
    state = np.uint32((np.int64(seed) + np.int64(epoch) * 2654435769) % 4294967296)
    return np.uint32(1) if state == 0 else state


@inlined
def block_state(seed, epoch, block):
    """Return the first state of the stream of an epoch's block; never zero.

    The numbers of two adjacent blocks differ in few bits, and a block may draw only one random
    number. So the state is a hash of seed, epoch and block, not a sum. The multipliers are below
    2^31, so nothing overflows 64 bits.
    """
    state = np.int64(epoch_state(seed, epoch)) ^ (np.int64(block) * 668265263 % 4294967296)
    for _ in range(2):
        state = (state ^ (state >> 16)) * 73244475 % 4294967296
    state = state ^ (state >> 16)
    return np.uint32(1) if state == 0 else np.uint32(state)


@inlined
def fraction(state):
    """Return a number strictly between 0 and 1 from the generator's state."""
    return np.float64(state) / 4294967296.0


@helper
def draw_rows(chances, order, replace, seed, epoch):
    """Fill `order` with rows in random order; row r occurs ``chances[r]`` times on average.

    Rows are segments of a line; the segment of row r has the length ``chances[r]``. Each point on
    the line chooses the row of its segment. Without `replace` the points are equally spaced from a
    random start, so the number of a row's visits differs from its chance by less than one
    (systematic sampling). With `replace` the points are independent, and exponential gaps generate
    them in ascending order. So both kinds need one pass over the line.

    chances : float64 [n_rows], expected number of visits of each row; the sum is the length of
        `order`; 0 for a held-out row
    order : int64, overwritten
    """
    n = order.shape[0]
    state = epoch_state(seed, epoch)
    for _ in range(WARM_UP):
        state = next_random(state)
    gap = 1.0
    if replace:
        # a first pass over the same random numbers gives the sum of the gaps, which scales them
        total = 0.0
        again = state
        for _ in range(n + 1):
            again = next_random(again)
            total -= math.log(fraction(again))
        gap = n / total
    point = fraction(state) - 1.0
    if replace:
        point = 0.0
    reached = 0.0
    r = -1
    row = -1
    for k in range(n):
        if replace:
            state = next_random(state)
            point -= gap * math.log(fraction(state))
        else:
            point += 1.0
        while reached <= point and r + 1 < chances.shape[0]:
            r += 1
            reached += chances[r]
            if chances[r] > 0.0:
                row = r
        order[k] = row
    shuffle_part(order, 0, n, state)


@helper
def shuffle_windows(permutation, held_out, order, window, abreast, interleaved, seed, epoch):
    """Write an order that reads adjacent rows together: windows of `window` rows, drawn at random.

    With ``abreast == 1`` one window is read at a time, and its rows are in random order. This is
    for rows that do not fit in memory: if every single row were drawn at random, each row would
    cost a read of a disk page. With ``abreast > 1`` that many windows are read together, one row of
    each in turn. This is for rows that do not fit in the caches: the processor sees a few streams
    and reads ahead in each, and successive rows still come from independently drawn windows.

    If windows are `interleaved`, each window begins one row later than the window before it, and
    wraps around. Without `interleaved`, rows at the same place of all windows follow each other in
    every epoch. Then SDCA's memory of these rows does not average out with its memory of the other
    rows (docs/exchange.md, "The order of rows").

    The windows' offset changes from epoch to epoch; the last window contains the remaining rows.
    Held-out rows are skipped. `order` and `permutation` (scratch) are overwritten.
    """
    n_rows = permutation.shape[0]
    n_windows = (n_rows + window - 1) // window
    state = epoch_state(seed, epoch)
    for _ in range(WARM_UP):
        state = next_random(state)
    offset = np.int64(fraction(state) * n_rows)
    for i in range(n_windows):
        permutation[i] = i
    state = shuffle_part(permutation, 0, n_windows, state)
    k = 0
    for i in range(0, n_windows, abreast):
        start = k
        for place in range(window):
            for column in range(i, min(i + abreast, n_windows)):
                r = permutation[column] * window + (place + interleaved * column) % window
                if r >= n_rows:
                    continue
                r += offset
                if r >= n_rows:
                    r -= n_rows
                if held_out.shape[0] == 0 or held_out[r] == 0:
                    order[k] = r
                    k += 1
        if abreast == 1:
            state = shuffle_part(order, start, k, state)


@helper
def copy_training_rows(permutation, held_out, order):
    """Copy the training rows of `permutation` to `order`; `held_out` may be empty."""
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
