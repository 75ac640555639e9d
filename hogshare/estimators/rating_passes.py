"""Passes over all ratings before the steps: their threads, and the matrix of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.ratings import cells
from hogshare.kernels.rows.shared_passes import Each
from hogshare.problems.kernel_arrays import frozen
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.pool import each_by

WORTH_THREADS = 300_000  # ratings: a pass takes a millisecond, starting threads 0.1 ms


def each_of(n_jobs: int | None, n_ratings: int) -> Each:
    """Return a `map` for the parts of a pass over all ratings.

    It is Python's `map` for few ratings, and a parallel one with a fit's number of workers
    otherwise.
    """
    workers = usable_workers(n_jobs)
    if workers == 1 or n_ratings < WORTH_THREADS:
        return map
    return each_by(workers)


def pairs_of(users: np.ndarray, items: np.ndarray, sizes: Sequence[int]) -> sp.csr_array:
    """Return the distinct pairs as a matrix of ones in uint8, with each user's items sorted.

    The result equals the matrix that SciPy makes of these coordinates. A counting sort in two
    passes computes it. `users` and `items` are read in place.

    sizes : number of users, and number of items
    """
    n = len(users)
    lines = [frozen(line.astype(np.int64, copy=False)) for line in (users, items)]
    if n > np.iinfo(np.int32).max or not n:
        ones = np.ones(n, np.uint8)
        seen = sp.coo_array((ones, tuple(lines)), shape=tuple(sizes)).tocsr()
        seen.data[:] = 1  # 256 repetitions of a pair sum to zero in uint8
        return seen
    places = []
    for line, size in zip(lines, sizes, strict=True):
        counts = np.bincount(line, minlength=size)
        places.append(np.cumsum(counts) - counts)
    scratch, columns = np.empty((2, n), np.int32)
    cells.sort_pairs(*lines, places[1], places[0], scratch, columns)
    begins = np.empty(sizes[0] + 1, np.int32)
    count = cells.drop_repeats(places[0], columns, begins)
    columns = columns[:count].copy() if count < n else columns
    seen = sp.csr_array((np.ones(count, np.uint8), columns, begins), shape=tuple(sizes))
    seen.has_sorted_indices = seen.has_canonical_format = True
    return seen
