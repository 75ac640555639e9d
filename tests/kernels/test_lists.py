"""Lists of the best: as a stable sort has them."""

import numpy as np
import pytest

from hogshare.kernels.ratings import top_lists


@pytest.mark.parametrize("n_best", [1, 3, 7, 40])
def test_lists_are_those_of_a_stable_sort(n_best):
    rng = np.random.default_rng(0)
    scores = rng.integers(5, size=(30, 40)).astype(np.float32)  # of which many are equal
    scores[3] = 1.0
    scores[4, 5:] = -np.inf
    left_out = [rng.choice(40, rng.integers(41), replace=False) for _ in scores]
    begins = np.concatenate([[0], np.cumsum([len(one) for one in left_out])])
    wanted = []
    for row, out in zip(scores.copy(), left_out, strict=True):
        row[out] = -np.inf
        order = [j for j in np.argsort(-row, kind="stable") if row[j] > -np.inf][:n_best]
        wanted.append(order + [top_lists.NONE] * (n_best - len(order)))
    found = np.empty((30, n_best), np.int64)
    scratch = np.empty(n_best, np.float32)
    top_lists.best_of_rows(scores, begins, np.concatenate(left_out), scratch, found)
    assert found.tolist() == wanted
