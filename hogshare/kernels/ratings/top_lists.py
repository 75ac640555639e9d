"""Top lists: for each row the places with the largest scores, without excluded places.

Writer and reader: `best_of_rows` writes and reads its own rows of `out` and of `scores`.
"""

import numpy as np

from hogshare.kernels.jit.decorators import kernel

NONE = -1


@kernel
def best_of_rows(scores, begins, left_out, best, out):
    """Write the places of each row's largest scores into `out`, the largest score first.

    Of equal scores the first place comes first. Places are sorted by insertion: a row takes time in
    proportion to `n`, plus a few times `n_best` squared.

    scores : float32 (n_rows, n); the scores of excluded places are overwritten with -infinity
    begins : int64 (n_rows + 1,), start of each row's excluded places in `left_out`
    left_out : int64 (n_left_out,), the excluded places
    best : float32 (n_best,), scratch
    out : int64 (n_rows, n_best), overwritten; `NONE` at the end if a row has fewer places
    """
    n_best = out.shape[1]
    for row in range(out.shape[0]):
        for k in range(begins[row], begins[row + 1]):
            scores[row, left_out[k]] = -np.inf
        count = 0
        for j in range(scores.shape[1]):
            score = scores[row, j]
            # in a full list a place has to be better than the last entry
            if score == -np.inf or (count == n_best and not score > best[count - 1]):
                continue
            if count < n_best:
                count += 1
            k = count - 1
            while k > 0 and score > best[k - 1]:
                best[k] = best[k - 1]
                out[row, k] = out[row, k - 1]
                k -= 1
            best[k] = score
            out[row, k] = j
        for k in range(count, n_best):
            out[row, k] = NONE
