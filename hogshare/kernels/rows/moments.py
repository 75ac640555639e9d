"""Sizes of rows and features, and frequencies of features.

Steps, exchange, lock-free penalty and the criterion of the gradient depend on them.
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

# How many rows ahead a row's start (FAR) and its values (NEAR) are prefetched, where rows are not
# neighbours. Further ahead than in the row loops (`sgd_steps`), since these passes do very little
# with a row: 0.46 to 0.29 ms for a sample of 500 rows of IMDB.
FAR, NEAR = 16, 6
LARGEST = np.float64(np.finfo(np.float32).max)


@helper
def add_interactions(rows, sample, counts, out):
    """Do ``out[j] += count |x_j| sum_i |x_i|`` over the rows ``sample``; empty `counts` are all 1.

    Divided by the number of rows and times the loss's curvature, this is the row sum of the
    Hessian's absolute values: by Gershgorin an upper bound of the curvature along coordinate j
    together with everything that moves with it.
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

    sample : int64 [n_sample], filled with rows drawn evenly, perhaps some twice; if `counts` is not
        empty, given rows, and `counts` has the number that each stands for
    sums : float64 [n_features], zeros
    out : float32 [n_features]; unscaled data may exceed its range and then gets its largest number
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
    """Add the number of values that sparse rows store of feature j to ``out[j]``.

    For many features; few are counted in passing (`hogshare.kernels.rows.survey`).
    """
    for k in range(rows.indices.shape[0]):
        out[rows.indices[k]] += 1


def nonzeros_of(rows: Any, n_features: int) -> np.ndarray:
    """Count the values stored of each feature of sparse rows, int64 of shape (n_features,)."""
    counts = np.zeros(n_features, np.int64)
    count_nonzeros(rows, counts)
    return counts


@kernel
def add_chances(rows, chances, out):
    """Add the chances of the rows that store feature j to ``out[j]``."""
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
    """Return mean and largest squared norm of every so many rows."""
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
    """Add weight, sum and sum of squares of each feature over its nonzero values.

    One of every so many rows is used. Sums are of distances from `about`, so no digits are lost if
    a feature is far from zero compared with its variation.

    about, counts, sums, squares : float64 [n_features]

    Returns the weight of the rows, and their number.
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
