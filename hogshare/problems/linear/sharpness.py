"""Sharpness: curvature of the losses of a problem's rows, with weights and the targets' unit."""

from __future__ import annotations

import numpy as np

from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import losses


def sharpness_of(loss: str, sizes: np.ndarray, y: np.ndarray, every: int) -> float:
    """Return the curvature of a loss; for kinks, one over the width that the loss resolves.

    For classes the width is the margin, 1. Targets of a regression have no such unit. Their width
    is their distance from each other (`spread`), so the steps grow with the targets. The curvature
    is multiplied by the mean weight, because in a proximal step no row weighs too much, and no row
    is too large.

    sizes : shape (n_rows,), from `row_sizes`
    y : shape (n_rows,), targets; one in `every` is read
    """
    heavy = sizes > 0.0
    sharp = losses.CURVATURE[losses.CODES[loss]]
    sharp *= float(sizes[heavy].mean()) if heavy.any() else 1.0
    if loss == "epsilon_insensitive":
        sample = slice(None, None, every)
        sharp /= spread(y[sample][heavy[sample]].astype(np.float64))
    return sharp


def spread(targets: np.ndarray) -> float:
    """Return the median distance of the targets from their median, or a substitute above zero.

    If most targets are equal, return their mean distance; if all are equal, their mean size; if all
    are zero, 1.
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
    """Return each row's largest weight in any column: its own weight times its class's.

    positive, negative : as in a linear problem
    """
    if len(positive) == 1:
        sizes = np.where(rows.y > 0.0, positive[0], negative[0])
    else:
        sizes = np.maximum(positive[rows.y.astype(np.int64)], negative.max())
    return np.asarray(sizes * rows.weight if rows.weight.size else sizes)
