"""The optimal intercepts for given margins of the rows without intercepts.

The intercept is the only coordinate that every row has, at full size. If the features of a row are
small, as in text, the intercept has by far the largest curvature. The noise of the steps then still
moves it when all other coordinates have settled. An evaluation knows the margins anyway, so the
optimum takes only a few steps of Newton's method on one number per row.
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
PART_ROWS = 1 << 17  # number of margins that are worth a thread
FLAT = 1e-10  # share of the largest curvature; along directions with less nothing changes
FAR = 4.0  # longest step that is not shortened if curvatures decay with the margins
# how fast the curvature decays: see `trusted`
FALLS_OFF = {losses.LOG_LOSS: 1.0, losses.MULTINOMIAL: 2.0, losses.MODIFIED_HUBER: 1.0}


def best_without_features(problem: RowProblem) -> np.ndarray:
    """Return start intercepts: the optimum at zero coefficients for the log loss of one column.

    The optimum is the log odds. The intercepts are zeros for other losses, and if the rows of a
    class are missing or have no weight.
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
    decreases. Intercepts are rounded to the problem's dtype.

    problem : problem with a smooth loss
    margins : shape (n_rows * n_columns,), margins of the rows without intercepts
    start : shape (n_columns,)
    enough : mean slope that is small enough
    parts : first and last row of each part of the rows
    each : ``each(function, parts)`` calls the function with every part

    Returns float64 of shape (n_columns,): `start` itself if no step makes the slopes smaller.
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
        # the shortest step: if a loss couples the columns, shifting all of them changes nothing
        with DeferredSignals():  # NumPy changes its error state meanwhile
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
    """Shorten a long step of Newton's method to the part along which the losses still fall.

    The curvature of the log loss changes by a factor of at most ``exp(d)`` over a distance d, and
    the curvature of a softmax loss by at most ``exp(2 d)``. Let s be the length of a step (in the
    largest coordinate; twice as much for a softmax). Then the losses fall at least along the first
    ``log(1 + s) / s`` of the step (Bach 2010, "Self-concordant analysis for logistic regression").
    If the margins of all rows are 300, curvatures are 1e-130. The full step is then 1e130 long, and
    the slopes at its end may even be smaller, because only rows of the other class have slopes at
    this end.

    The modified Huber loss has no such bound, because its curvature ends at the margins 1 and -1.
    Its steps are shortened like the log loss's steps, without a guarantee.
    """
    length = np.abs(step).max()
    speed = FALLS_OFF.get(losses.CODES[problem.loss])
    if speed is None or length <= FAR:
        return step
    length *= speed
    return step * (np.log1p(length) / length)
