"""How sharply the losses of a problem's rows bend: weights, and the unit of targets, counted in."""

from __future__ import annotations

import numpy as np

from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import losses


def sharpness_of(loss: str, sizes: np.ndarray, y: np.ndarray, every: int) -> float:
    """What counts as a loss's curvature; with kinks, one over the width of what it tells apart.

    That width is the margin, 1, between classes. Targets have no such unit, and the steps no
    other: it is how far they are from each other (`spread`), so that the steps grow as the targets
    do. Times the mean weight: for a proximal point no row is too heavy, as none is too large.

    sizes : shape (n_rows,), as `row_sizes` has them
    y : shape (n_rows,), targets, of which every so many are looked at (`every`)
    """
    heavy = sizes > 0.0
    sharp = losses.CURVATURE[losses.CODES[loss]]
    sharp *= float(sizes[heavy].mean()) if heavy.any() else 1.0
    if loss == "epsilon_insensitive":
        sample = slice(None, None, every)
        sharp /= spread(y[sample][heavy[sample]].astype(np.float64))
    return sharp


def spread(targets: np.ndarray) -> float:
    """Median distance of the targets from their median; above zero.

    If most are alike, the mean distance; if all are, how large they are; if they are zero, 1.
    """
    if not targets.size:
        return 1.0
    distances = np.abs(targets - np.median(targets))
    rounding = 1e-8 * float(np.median(np.abs(targets)))
    for width in (np.median(distances), distances.mean(), np.abs(targets).mean()):
        if width > rounding:
            return float(width)
    return 1.0


def row_sizes(rows: RowArrays, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Largest weight of each row in any column: its own times its class's.

    positive, negative : as of a linear problem
    """
    if len(positive) == 1:
        sizes = np.where(rows.y > 0.0, positive[0], negative[0])
    else:
        sizes = np.maximum(positive[rows.y.astype(np.int64)], negative.max())
    return np.asarray(sizes * rows.weight if rows.weight.size else sizes)
