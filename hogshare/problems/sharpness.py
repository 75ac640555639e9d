"""How sharply the losses of a problem's rows bend: weights, and the unit of targets, counted in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hogshare.kernels import losses

if TYPE_CHECKING:
    from hogshare.problems.linear import LinearProblem


def sharpness_of(problem: LinearProblem) -> float:
    """What counts as a loss's curvature; with kinks, one over the width of what it tells apart.

    That width is the margin, 1, between classes. Targets have no such unit, and the steps no
    other: it is how far they are from each other (`spread`), so that the steps grow as the targets
    do. Times the mean weight: for a proximal point no row is too heavy, as none is too large.
    """
    sizes = row_sizes(problem)
    heavy = sizes > 0.0
    sharp = losses.CURVATURE[losses.CODES[problem.loss]]
    sharp *= float(sizes[heavy].mean()) if heavy.any() else 1.0
    if problem.loss == "epsilon_insensitive":
        sample = slice(None, None, problem.sample_every)
        sharp /= spread(problem.rows.y[sample][heavy[sample]].astype(np.float64))
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


def row_sizes(problem: LinearProblem) -> np.ndarray:
    """Largest weight of each row in any column: its own times its class's."""
    if problem.n_columns == 1:
        sizes = np.where(problem.rows.y > 0.0, problem.positive[0], problem.negative[0])
    else:
        own = problem.positive[problem.rows.y.astype(np.int64)]
        sizes = np.maximum(own, problem.negative.max())
    return np.asarray(sizes * problem.rows.weight if problem.rows.weight.size else sizes)
