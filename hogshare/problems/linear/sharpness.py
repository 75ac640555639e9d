"""Sharpness: the curvature of the losses of a problem's rows, with weights."""

from __future__ import annotations

import numpy as np

from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import losses


def sharpness_of(loss: str, sizes: np.ndarray, y: np.ndarray, every: int) -> float:
    """Return the curvature of a loss, or for a loss with a kink one over a width.

    The width is the distance of predictions that the loss must distinguish. For classes the width
    is the margin, 1. For a regression the width is the distance of the targets from each other
    (`spread`), so steps are proportional to the targets. The curvature is multiplied by the mean
    weight, not by the largest, because a proximal step is valid for rows of any weight and size.

    sizes : shape (n_rows,), from `row_sizes`
    y : shape (n_rows,), targets, of which each `every`-th is read
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
    """Return each row's largest weight in any column: its weight times the weight of its class.

    positive, negative : weights of classes, float64 of shape (n_columns,)
    """
    if len(positive) == 1:
        sizes = np.where(rows.y > 0.0, positive[0], negative[0])
    else:
        sizes = np.maximum(positive[rows.y.astype(np.int64)], negative.max())
    return np.asarray(sizes * rows.weight if rows.weight.size else sizes)
