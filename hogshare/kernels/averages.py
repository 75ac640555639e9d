"""SAGA's average, summed from its table over all rows: before a run, and when a worker has died."""

import numpy as np

from hogshare.kernels.jit import kernel
from hogshare.kernels.rows import column_of, row_bounds


@kernel
def average_table(rows, table, share, average, mean):
    """Set ``average[j, c] = sum_r (x_rj share) table[r, c]`` and ``mean[c] = sum_r table share``.

    share : float, one over the number of rows that are trained on
    mean : float64 (n_columns,), the average of the intercept's feature, which is one
    """
    n_columns = mean.shape[0]
    for j in range(average.shape[0]):
        average[j] = 0.0
    for c in range(n_columns):
        mean[c] = 0.0
    for r in range(rows.y.shape[0]):
        start, end = row_bounds(rows, r)
        if n_columns == 1:
            # the same as below with the row's entry in a register: a fifth of the time
            entry = np.float64(table[r])
            mean[0] += entry * share
            for k in range(start, end):
                x = np.float64(rows.data[k]) * share
                average[column_of(rows, start, k)] += x * entry
            continue
        for c in range(n_columns):
            mean[c] += np.float64(table[r * n_columns + c]) * share
        for k in range(start, end):
            base = column_of(rows, start, k) * np.uint64(n_columns)
            x = np.float64(rows.data[k]) * share
            for c in range(n_columns):
                average[base + np.uint64(c)] += x * np.float64(table[r * n_columns + c])
