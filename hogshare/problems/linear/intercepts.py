"""The optimal intercepts for given margins of the rows without intercepts.

Every row contributes to the intercept, with the value 1. If the features of a row are small, as in
text, the intercept has by far the largest curvature. Then the noise of the steps still moves the
intercept when all other coordinates have settled. An evaluation computes the margins in any case.
So the optimal intercept takes only a few steps of Newton's method, each on one number per row.
"""

from __future__ import annotations

import math

import numpy as np

from hogshare.kernels.rows.intercept_slopes import add_intercept_slopes
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rules import losses
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import DeferredSignals

MAX_STEPS = 12
MAX_HALVINGS = 6
PART_ROWS = 1 << 17  # number of margins for which a thread saves time
FLAT = 1e-10  # share of the largest curvature; directions with less curvature are left out
FAR = 4.0  # longest step that `trusted` does not shorten
# rate of change of the logarithm of the curvature, see `trusted`
FALLS_OFF = {losses.LOG_LOSS: 1.0, losses.MULTINOMIAL: 2.0, losses.MODIFIED_HUBER: 1.0}


def best_without_features(problem: RowProblem) -> np.ndarray:
    """Return initial intercepts: the optimum at zero coefficients for the log loss of one column.

    The optimum is the log odds. The intercepts are zeros for other losses, or if a class has no
    rows or no weight. All ranks that have a part of the rows must call this function.
    """
    start = np.zeros(problem.n_columns)
    if losses.CODES[problem.loss] != losses.LOG_LOSS or problem.n_columns > 1:
        return start
    rows = problem.rows
    of_class = rows.y > 0.0
    if rows.weight.size:
        inside, outside = rows.weight[of_class].sum(), rows.weight[~of_class].sum()
    else:
        inside = np.count_nonzero(of_class)
        outside = len(of_class) - inside
    (inside, outside), *_ = problem.totals(np.array([inside, outside], np.float64))
    odds = problem.positive[0] * inside, problem.negative[0] * outside
    if min(odds) > 0.0:
        start[0] = problem.dtype.type(math.log(odds[0]) - math.log(odds[1]))
    return start


def best_intercepts(
    problem: RowProblem,
    margins: np.ndarray,
    start: np.ndarray,
    enough: float,
    parts: list[tuple[int, int]],
    each: Each = map,
) -> np.ndarray:
    """Find intercepts at which the mean slope of the losses is nearly zero, by Newton's method.

    A long step is first shortened (`trusted`). Each step is halved until the largest slope
    decreases, at most `MAX_HALVINGS` times. Intercepts are rounded to the problem's dtype. All
    ranks that have a part of the rows must call this function.

    problem : problem with a smooth loss
    margins : shape (n_rows * n_columns,), margins of the rows without intercepts
    start : shape (n_columns,), initial intercepts
    enough : mean slope at which the search ends
    parts : for each part of the rows, its first row and the row after its last
    each : ``each(function, parts)`` calls the function with every part

    Returns float64 of shape (n_columns,), equal to `start` if no step makes the slopes smaller.
    """
    n, n_rows = problem.n_columns, max(1, problem.n_all)
    if problem.n_rows * n < PART_ROWS * len(parts):
        parts, each = [(parts[0][0], parts[-1][1])], map

    def derivatives(intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def add(part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
            slope, bend = np.zeros(n), np.zeros((n, n))
            sums = np.empty(n), slope, bend
            add_intercept_slopes(
                *problem.terms, *part, margins, intercept, *problem.column_weights, *sums
            )
            return slope, bend

        sums = list(each(add, parts))
        slope, bend = problem.totals(sum(s for s, _ in sums), sum(b for _, b in sums))
        return slope / n_rows, bend / n_rows

    at = np.asarray(start, np.float64)
    slope, bend = derivatives(at)
    for _ in range(MAX_STEPS):
        largest = np.abs(slope).max()
        if not (enough < largest < np.inf) or not np.isfinite(bend).all():
            break
        # the shortest solution: if a loss couples the columns, a common shift changes nothing
        with DeferredSignals():  # NumPy changes its error state during this call
            step = np.linalg.lstsq(bend, slope, rcond=FLAT)[0]
        if not np.isfinite(step).all():  # the curvature was subnormal
            break
        step = trusted(problem, step)
        for _ in range(MAX_HALVINGS):
            trial = (at - step).astype(problem.dtype).astype(np.float64)
            trial_slope, trial_bend = derivatives(trial)
            if np.abs(trial_slope).max() < largest:
                break
            step = 0.5 * step
        else:
            break
        at, slope, bend = trial, trial_slope, trial_bend
    return at


def trusted(problem: RowProblem, step: np.ndarray) -> np.ndarray:
    """Shorten a long step of Newton's method to the part along which the losses decrease.

    Over a distance d, the curvature of the log loss changes by a factor of at most ``exp(d)``, and
    the curvature of a softmax loss by a factor of at most ``exp(2 d)``. Let s be the length of the
    step's largest coordinate, and for a softmax twice this length. Then the losses decrease at
    least along the share ``log(1 + s) / s`` of the step (Bach 2010, "Self-concordant analysis for
    logistic regression"). For example, if the margins of all rows are 300, curvatures are 1e-130,
    and the full step has the length 1e130. The slopes at its end may even be smaller than before
    the step, because at the end only rows of the other class have slopes. So the test of slopes in
    `best_intercepts` would accept the full step.

    The modified Huber loss has no such bound, because its curvature ends at the margins 1 and -1.
    Its steps are shortened as for the log loss, without a guarantee.
    """
    length = np.abs(step).max()
    speed = FALLS_OFF.get(losses.CODES[problem.loss])
    if speed is None or length <= FAR:
        return step
    length *= speed
    return step * (np.log1p(length) / length)
