"""How often and how strongly features occur: what exchange and lock-free penalty weigh by."""

import numpy as np

from hogshare.kernels.jit import kernel
from hogshare.kernels.rows import column_of, row_bounds


@kernel
def add_interactions(rows, sample, counts, out):
    """``out[j] += count |x_j| sum_i |x_i|`` over the rows ``sample``; without `counts` each is one.

    Divided by the number of rows and times the loss's curvature, this is the row sum of the
    Hessian's absolute values: by Gershgorin an upper bound of the curvature along coordinate j
    together with everything that moves with it.
    """
    for i in range(sample.shape[0]):
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
    """``out[j] +=`` number of sparse rows that store feature j, as whole numbers.

    A sum of whole numbers is there sooner for the next row than one of fractions: three quarters of
    the time, where most rows have the same features.
    """
    for k in range(rows.indices.shape[0]):
        out[rows.indices[k]] += 1


@kernel
def add_chances(rows, chances, out):
    """``out[j] +=`` the chances of the rows that store feature j."""
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        for k in range(start, end):
            out[column_of(rows, start, k)] += chances[r]
