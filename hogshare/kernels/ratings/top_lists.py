"""Lists of the best: the places of the largest scores of each row, without what is left out.

Who writes: `best_of_rows`, its rows of `out` and of `scores`. Who reads: the same.
"""

import numpy as np

from hogshare.kernels.jit.decorators import kernel

NONE = -1


@kernel
def best_of_rows(scores, begins, left_out, best, out):
    """Put the places of each row's largest scores into `out`, of equal ones the first.

    Largest first, by insertion: a row costs as `n`, and a few times `n_best` squared.

    scores : float32 (n_rows, n), of which those that are left out become -infinity
    begins, left_out : int64 (n_rows + 1,), (n_left_out,), places that are left out, by rows
    best : float32 (n_best,), scratch
    out : int64 (n_rows, n_best), with `NONE` where a row has no more
    """
    n_best = out.shape[1]
    for row in range(out.shape[0]):
        for k in range(begins[row], begins[row + 1]):
            scores[row, left_out[k]] = -np.inf
        count = 0
        for j in range(scores.shape[1]):
            score = scores[row, j]
            # of a full list the last is what a place has to be better than
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
