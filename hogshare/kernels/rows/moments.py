"""Norms of rows, moments and curvatures of features, and frequencies of features.

Steps, exchanges, the lock-free penalty and the gradient's criterion depend on these values.
"""

from typing import Any

import numpy as np

from hogshare.kernels.jit.decorators import helper, kernel
from hogshare.kernels.rows.row_views import (
    column_of,
    prefetch_labels,
    prefetch_row,
    row_bounds,
    row_weight,
    squared_norm,
)
from hogshare.kernels.schedule.streams import WARM_UP, epoch_state, fraction, next_random

# Number of rows ahead at which a row's start (FAR) and its values (NEAR) are prefetched, if rows
# are not adjacent. Both are larger than in the row loops (`sgd_steps`), because these passes do
# very little with a row: a sample of 500 rows of IMDB takes 0.29 ms; with the distances of the row
# loops it took 0.46 ms.
FAR, NEAR = 16, 6
LARGEST = np.float64(np.finfo(np.float32).max)


@helper
def add_interactions(rows, sample, counts, out):
    """Add ``count |x_j| sum_i |x_i|`` to ``out[j]``, for each row x of `sample`.

    Divided by the number of rows and times the loss's curvature, ``out[j]`` is the sum of the
    absolute values in row j of the Hessian. By Gershgorin's theorem this is an upper bound of the
    curvature along coordinate j together with all coordinates that change with it.

    counts : number of rows that each row of `sample` represents; if empty, all are 1
    """
    for i in range(sample.shape[0]):
        if i + FAR < sample.shape[0]:
            prefetch_labels(rows, sample[i + FAR])
        if i + NEAR < sample.shape[0]:
            prefetch_row(rows, sample[i + NEAR])
        start, end = row_bounds(rows, sample[i])
        total = 0.0
        for k in range(start, end):
            total += abs(np.float64(rows.data[k]))
        if counts.shape[0] > 0:
            total *= counts[i]
        for k in range(start, end):
            out[column_of(rows, start, k)] += total * abs(np.float64(rows.data[k]))


@kernel
def estimate_curvature(rows, sample, counts, seed, bound, sums, out):
    """Estimate curvatures: the mean interactions over sampled rows, times the loss's `bound`.

    sample : int64 [n_sample], the rows to use; if `counts` is empty, it is overwritten with rows
        drawn uniformly with replacement
    counts : number of rows that each row of `sample` represents; or empty
    sums : float64 [n_features], zeros; overwritten
    out : float32 [n_features], overwritten; a curvature beyond the dtype's range, of unscaled data,
        becomes the dtype's largest number
    """
    n_sample = sample.shape[0]
    if counts.shape[0] == 0:
        state = epoch_state(seed, 0)
        for _ in range(WARM_UP):
            state = next_random(state)
        for i in range(n_sample):
            state = next_random(state)
            sample[i] = np.int64(fraction(state) * rows.y.shape[0])
    add_interactions(rows, sample, counts, sums)
    for j in range(out.shape[0]):
        curvature = bound * sums[j] / n_sample
        out[j] = min(curvature, LARGEST)


@kernel
def count_nonzeros(rows, out):
    """Add to ``out[j]`` the number of values that sparse rows store of feature j.

    This is for many features; few features are counted in `hogshare.kernels.rows.survey`.
    """
    for k in range(rows.indices.shape[0]):
        out[rows.indices[k]] += 1


def nonzeros_of(rows: Any, n_features: int) -> np.ndarray:
    """Return the number of values that sparse rows store of each feature, int64 (n_features,)."""
    counts = np.zeros(n_features, np.int64)
    count_nonzeros(rows, counts)
    return counts


@kernel
def add_chances(rows, chances, out):
    """Add to ``out[j]`` the chances of the rows that store feature j."""
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        for k in range(start, end):
            out[column_of(rows, start, k)] += chances[r]


@kernel
def squared_norms(rows, out):
    """Set ``out`` to the squared norm of every row."""
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        out[r] = squared_norm(rows.data, start, end)


@kernel
def norms_of(rows, every):
    """Return the mean and the largest squared norm of the rows 0, `every`, 2 `every`, ..."""
    total = 0.0
    largest = 0.0
    n_rows = 0
    for r in range(0, rows.y.shape[0], every):
        n_rows += 1
        if every > 1 and r + FAR * every < rows.y.shape[0]:
            prefetch_labels(rows, r + FAR * every)
            prefetch_row(rows, r + NEAR * every)
        start, end = row_bounds(rows, r)
        norm2 = squared_norm(rows.data, start, end)
        total += norm2
        largest = max(largest, norm2)
    return total / n_rows, largest


@kernel
def add_deviations(rows, every, about, counts, sums, squares):
    """Add up each feature's weight, sum and sum of squares over its nonzero values.

    The rows 0, `every`, 2 `every`, ... are used. Sums are taken over distances from `about`, so no
    digits are lost if a feature is far from zero compared with its variation.

    Return the sum of the weights of the rows used, and their number.

    about : float64 [n_features], origin of the distances of each feature
    counts, sums, squares : float64 [n_features], to which each feature's weight, sum and sum of
        squares are added
    """
    total = 0.0
    n_rows = 0
    for r in range(0, rows.y.shape[0], every):
        n_rows += 1
        if every > 1 and r + FAR * every < rows.y.shape[0]:
            prefetch_labels(rows, r + FAR * every)
            prefetch_row(rows, r + NEAR * every)
        weight = row_weight(rows, r)
        total += weight
        start, end = row_bounds(rows, r)
        if rows.width > 0:
            for j in range(np.uint64(rows.width)):
                x = np.float64(rows.data[start + j])
                size = weight if x != 0.0 else 0.0
                distance = x - about[j]
                counts[j] += size
                sums[j] += size * distance
                squares[j] += size * distance * distance
            continue
        for k in range(start, end):
            j = rows.indices[k]
            x = np.float64(rows.data[k])
            size = weight if x != 0.0 else 0.0
            distance = x - about[j]
            counts[j] += size
            sums[j] += size * distance
            squares[j] += size * distance * distance
    return total, n_rows
