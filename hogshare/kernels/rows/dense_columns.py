"""Features of dense rows: moments of each feature, and a copy of the rows in other units.

Writers: the caller writes its own arrays, by plain stores.
"""

import numpy as np

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rows.row_views import row_weight


@kernel
def add_moments(rows, every, moments):
    """Add weighted sums of distances from the first row, and of squared distances, by feature.

    Return the sum of the weights of the rows used.

    every : step between two used rows; row 0 is used
    moments : float64 [4, width], updated: sum of distances, sum of their squares, least distance
        (at most 0) and largest distance (at least 0)
    """
    width = np.uint64(rows.width)
    weights = 0.0
    for r in range(0, rows.y.shape[0], every):
        weight = row_weight(rows, r)
        weights += weight
        start = np.uint64(r) * width
        for j in range(width):
            distance = np.float64(rows.data[start + j]) - np.float64(rows.data[j])
            moments[0, j] += weight * distance
            moments[1, j] += weight * distance * distance
            moments[2, j] = min(moments[2, j], distance)
            moments[3, j] = max(moments[3, j], distance)
    return weights


@kernel
def change_units(data, middle, units, out):
    """Set ``out = (data - middle) / units``, feature by feature, for all dense rows."""
    width = np.uint64(middle.shape[0])
    kind = out.dtype.type
    for start in range(np.uint64(0), np.uint64(data.shape[0]), width):
        for j in range(width):
            distance = np.float64(data[start + j]) - middle[j]
            out[start + j] = kind(distance / units[j])
