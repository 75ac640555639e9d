"""Ratings before their steps: who makes the passes over all, and which pairs there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.ratings import cells
from hogshare.kernels.rows.shared_passes import Each
from hogshare.problems.kernel_arrays import frozen
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.pool import each_by

WORTH_THREADS = 300_000  # ratings, of which a pass takes a millisecond, and threads a tenth


def each_of(n_jobs: int | None, n_ratings: int) -> Each:
    """Who makes the parts of a pass over all ratings: as many threads as a fit has workers."""
    workers = usable_workers(n_jobs)
    if workers == 1 or n_ratings < WORTH_THREADS:
        return map
    return each_by(workers)


def pairs_of(users: np.ndarray, items: np.ndarray, sizes: Sequence[int]) -> sp.csr_array:
    """Which pairs there are, each once: ones of uint8, items of each user in their order.

    As SciPy makes it of coordinates, by a sort in two passes that knows how many lines there are.
    """
    n = len(users)
    lines = [frozen(line.astype(np.int64, copy=False)) for line in (users, items)]
    if n > np.iinfo(np.int32).max or not n:
        ones = np.ones(n, np.uint8)
        seen = sp.coo_array((ones, tuple(lines)), shape=tuple(sizes)).tocsr()
        seen.data[:] = 1  # where 256 of a pair have summed up to none
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
