"""How large rows are, how often and how strongly features occur: what steps, exchange and lock-free
penalty go by.
"""

from typing import Any

import numpy as np

from hogshare.kernels.jit import kernel
from hogshare.kernels.rows import (
    column_of,
    prefetch_labels,
    prefetch_row,
    row_bounds,
    squared_norm,
)

# Rows ahead for which one that is far from the last is asked for: where it begins, and its values.
# Further ahead than the row loops ask (`sgd`), since next to nothing is done with a row here: 0.46
# to 0.29 ms for a sample of 500 rows of IMDB.
FAR, NEAR = 16, 6


@kernel
def add_interactions(rows, sample, counts, out):
    """``out[j] += count |x_j| sum_i |x_i|`` over the rows ``sample``; without `counts` each is one.

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
def count_nonzeros(rows, out):
    """``out[j] +=`` number of values that sparse rows store of feature j.

    For many features; few are counted in passing (`hogshare.kernels.survey`).
    """
    for k in range(rows.indices.shape[0]):
        out[rows.indices[k]] += 1


def nonzeros_of(rows: Any, n_features: int) -> np.ndarray:
    """Values that are stored of each feature of sparse rows, int64 of shape (n_features,)."""
    counts = np.zeros(n_features, np.int64)
    count_nonzeros(rows, counts)
    return counts


@kernel
def add_chances(rows, chances, out):
    """``out[j] +=`` the chances of the rows that store feature j."""
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        for k in range(start, end):
            out[column_of(rows, start, k)] += chances[r]


@kernel
def squared_norms(rows, out):
    """Squared norm of every row."""
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        out[r] = squared_norm(rows.data, start, end)


@kernel
def norms_of(rows, every):
    """Mean and largest squared norm of every so many rows."""
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
