"""The gain of steps from a model that are scaled by the columns: 0 at the optimum.

A step goes along the gradient, with each column divided by its own scale (the deviation of the
column's values from their mean), and as far as it gains. Neither the unit of a column nor a shift
changes the gain. A gain that is found is real, because the objective itself is evaluated: no model
is refused without reason. If one step finds a part of the gain, others follow. The converse is not
true: if columns are nearly collinear, no such step may find a small gain that is left.

A few rows that are much larger than the others (one value of a million again) may determine a
column's scale. If the class of these rows is certain, their losses have no curvature after the
smallest step. The scale is then far too large, and no length helps, because the other columns'
steps grow with the length. So for losses whose curvature ends, columns have a second scale, from
ordinary rows whose losses still have curvature. If this scale predicts a gain, a second step is
tried.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.rows.step_gains import losses_along, scan_columns, square_norms
from hogshare.kernels.rows.whole_gradients import fill_margins
from hogshare.kernels.rules import losses
from hogshare.problems.linear.column_units import sharpness
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

SLOPE = 2.0  # tolerances that the first length would gain if the slope stayed constant
MOST_DOUBLINGS = 100  # most doublings of a length
STEPS = 8  # most steps of one evaluation
SAMPLE = 1024  # rows from which the columns' scales are estimated
ASTRAY = 4.0  # largest ratio of all rows' mean squared norm to the sample's; beyond, use all rows
ORDINARY = 16.0  # a row up to this many times the median squared norm is ordinary
FLAT = 1e-12  # variance of a column over its mean square; a smaller variance is rounding
ROUNDING = {4: 1e-5, 8: 1e-9}  # relative rounding of an objective, by the bytes of a number


def share_of_tolerance(problem: RowProblem) -> float:
    """Return the factor that makes a tolerance meaningful for small targets too.

    A tolerance is meant for losses of about 1, as in classification, but the losses of a regression
    depend on the targets' unit. The factor is 1 if targets deviate from their mean by about 1 or
    more.
    """
    if not problem.is_regression or not problem.n_all:
        return 1.0
    y = problem.rows.y.astype(np.float64)
    weight = problem.rows.weight if problem.rows.weight.size else None
    weighs = float(len(y) if weight is None else weight.sum())
    mean = float(np.average(y, weights=weight)) if weighs else 0.0
    mean = problem.pooled_mean(mean, weighs)
    at = np.array([mean if problem.fit_intercept else 0.0])
    none = np.zeros(problem.n_rows)
    value = along(problem, problem.rows, none, none, at, np.zeros(1))[0] / problem.n_all
    return min(1.0, 2.0 * float(value)) if np.isfinite(value) else 1.0


def zeros(problem: RowProblem) -> Model:
    """Return the model of zeros."""
    shape = problem.n_columns, problem.n_features
    return Model(np.zeros(shape), np.zeros(shape[0]))


def along(
    problem: RowProblem,
    rows: Any,
    without: np.ndarray,
    change: np.ndarray,
    intercept: np.ndarray,
    lengths: np.ndarray,
    most: float = math.inf,
) -> np.ndarray:
    """Return every column's loss sums at `lengths` along a direction; a lone one's up to `most`."""
    out = np.empty(problem.n_columns)
    line = without, change, intercept, lengths
    scratch = np.empty(problem.n_columns)
    losses_along(rows, *problem.terms[1:], *line, *problem.column_weights, most, scratch, out)
    return problem.totals(out)[0]


class Scales(NamedTuple):
    """The sizes of the columns.

    means, squares : shape (n_features,), means of the columns, and means of their squares
    curvature : second derivative of the mean loss by its prediction, or a substitute with kinks
    """

    means: np.ndarray
    squares: np.ndarray
    curvature: float


class Direction:
    """One scaled step from a model: its change, and the objective's slope along it.

    rows : the problem's rows, or fewer
    fall : shape (n_columns,), initial decrease of a column's objective per length of the direction
    """

    def __init__(self, problem: RowProblem, rows: Any, model: Model) -> None:
        self.problem, self.rows = problem, rows
        n, columns = len(rows.y), problem.n_columns
        self.w = np.ascontiguousarray(np.asarray(model.coef).T, dtype=problem.dtype)
        self.intercept = np.asarray(model.intercept, np.float64)
        self.without, self.change = np.empty(n * columns), np.empty(n * columns)
        rows_and_weights = np.array([n, rows.weight.size], np.float64)
        n_all, weighed = problem.totals(rows_and_weights)[0]
        self.size = max(1, int(n_all))
        self.direction = np.zeros((problem.n_features, columns), problem.dtype)
        self.fall, self.step = np.zeros(columns), np.zeros(columns)
        every = 1 if weighed else max(1, int(n_all) // SAMPLE)
        all_rows, self.bent = self._scan(every)
        if every > 1:
            seen = float(all_rows.squares.sum())
            if not problem.norms[0] <= ASTRAY * seen:
                all_rows, self.bent = self._scan(1)
            elif problem.is_sparse:  # a feature that the sample lacks may be in one of `every` rows
                least = seen * every / max(1, problem.nnz_of_all)
                all_rows = all_rows._replace(squares=np.maximum(all_rows.squares, least))
        self._aim(all_rows)
        self._go()

    def bend(self, enough: float) -> bool:
        """Rescale by ordinary rows with curvature; return whether this predicts a gain `enough`."""
        if self.bent is None:
            return False
        self._aim(self.bent)
        gains = bool(0.5 * self.fall.max() > enough)
        if gains:
            self._go()
        return gains

    def _scan(self, every: int) -> tuple[Scales, Scales | None]:
        """Fill the margins and gradients; return the columns' scales, and the scales for `bend`.

        every : interval of the rows from which the scales are estimated
        """
        problem, n = self.problem, len(self.rows.y)
        columns, features = problem.n_columns, problem.n_features
        self.gradient, moments = np.zeros((features, columns)), np.zeros((2, features))
        self.slope_sums = np.zeros(columns)
        # the curvature of the squared error never ends
        bends = np.zeros((2, 0 if problem.loss == "squared_error" else features))
        norms = np.empty(-(-n // every) if bends.size else 0)
        square_norms(self.rows, every, norms)
        median = float(np.median(norms)) if norms.size else 0.0
        ordinary = ORDINARY * problem.pooled_mean(median, len(norms)) if bends.size else 0.0
        sharp = max(sharpness(problem), np.finfo(float).tiny)
        weights, bent = scan_columns(
            self.rows,
            *problem.terms[1:],
            self.w.reshape(-1),
            self.intercept,
            *problem.column_weights,
            self.without,
            self.gradient.reshape(-1),
            self.slope_sums,
            every,
            moments,
            sharp,
            bends,
            norms,
            ordinary,
            np.empty(columns),
        )
        self.gradient, self.slope_sums, moments, bends, (weights, bent, n_scanned) = problem.totals(
            self.gradient,
            self.slope_sums,
            moments,
            bends,
            np.array([weights, bent, -(-n // every)], np.float64),
        )
        sharp *= 1.0 if problem.loss in losses.KINKED else weights / max(1, n_scanned)
        weights = max(float(weights), np.finfo(float).tiny)
        means, squares = moments / weights
        all_rows = Scales(means, squares, max(sharp, np.finfo(float).tiny))
        if not bent > 0.0:
            return all_rows, None
        means, squares = bends / bent
        return all_rows, Scales(means, squares, all_rows.curvature * bent / weights)

    def _aim(self, scales: Scales) -> None:
        """Set the direction and its fall."""
        curvature, means = scales.curvature, scales.means
        variance = np.maximum(scales.squares - means * means, FLAT * scales.squares)
        self.fall[:] = 0.0
        for c in range(self.problem.n_columns):
            of_losses = self.gradient[:, c] / self.size
            if self.problem.fit_intercept:  # as for centred columns
                of_intercept = self.slope_sums[c] / self.size
                of_losses -= means * of_intercept
                move = self._scaled(c, of_losses, curvature * variance)
                self.step[c] = -of_intercept / curvature - float(means @ move)
                self.fall[c] += of_intercept * of_intercept / curvature
            else:
                move = self._scaled(c, of_losses, curvature * variance, curvature, means)
            self.fall[c] -= float(of_losses @ move) + self._penalty_slope(c)

    def _go(self) -> None:
        """Set the margins' change per length of the direction."""
        n, columns = len(self.rows.y), self.problem.n_columns
        direction = self.direction.reshape(-1)
        fill_margins(self.rows, 0, n, direction, np.empty(columns), self.change)
        self.change.reshape(n, columns)[:] += self.step

    def _scaled(
        self,
        c: int,
        of_losses: np.ndarray,
        curvature: np.ndarray,
        bound: float = 0.0,
        means: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Set and return a column's step, proximal if the penalty has an l1 part.

        curvature : curvature of each feature by itself
        bound : factor of the curvature that all features share along their means: without an
            intercept, columns far from zero are nearly collinear
        """
        problem = self.problem
        l1, l2 = problem.strengths
        at = self.w[:, c].astype(np.float64)
        scale = curvature + l2
        over = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        steps = (of_losses + l2 * at) * over
        if bound > 0.0:  # Sherman and Morrison
            common = means * over
            steps -= common * (bound * (means @ steps) / (1.0 + bound * (means @ common)))
        to = at - steps
        to = np.copysign(np.maximum(np.abs(to) - l1 * over, 0.0), to)
        # in the rows' precision: margins and model must change by the same direction
        self.direction[:, c] = np.where(np.isfinite(to), to - at, 0.0)
        return self.direction[:, c].astype(np.float64)

    def _penalty_slope(self, c: int) -> float:
        l1, l2 = self.problem.strengths
        at, move = self.w[:, c].astype(np.float64), self.direction[:, c].astype(np.float64)
        slope = float(np.sum(l2 * at * move))
        if self.problem.l1 > 0.0:
            slope += float(np.sum(l1 * np.where(at == 0.0, np.abs(move), np.sign(at) * move)))
        return slope

    def model_at(self, lengths: np.ndarray) -> Model:
        """Return the model at lengths along the direction."""
        coef = self.w + self.direction * lengths
        return Model(coef.T.astype(self.problem.dtype), self.intercept + self.step * lengths)

    def objective(self, lengths: np.ndarray, most: float = math.inf) -> np.ndarray:
        """Return the objective of every column at lengths; values above `most` are lower bounds."""
        l1, l2 = self.problem.strengths
        parts = self.without, self.change, self.intercept, lengths
        value = along(self.problem, self.rows, *parts, most * self.size)
        value /= self.size
        for c, length in enumerate(lengths.tolist()):
            w = self.w[:, c] + length * self.direction[:, c].astype(np.float64)
            value[c] += 0.5 * float(np.sum(l2 * w * w)) if self.problem.l2 > 0.0 else 0.0
            value[c] += float(np.sum(l1 * np.abs(w))) if self.problem.l1 > 0.0 else 0.0
        return value


def gain_of(problem: RowProblem, model: Model, enough: float) -> tuple[float, float]:
    """Return the total gain of scaled steps from a model, and the objective at the model.

    At most `STEPS` steps are taken, and only as long as more steps like the last could bring the
    gain to `enough`. At an optimum only one step is taken.
    """
    total, objective = 0.0, None
    for left in range(STEPS, 0, -1):
        gain, before, model = _step(problem, model, enough)
        objective = before if objective is None else objective
        total += gain
        if total > enough or not left * gain > enough:
            break
    assert objective is not None
    return total, objective


def _step(problem: RowProblem, model: Model, enough: float) -> tuple[float, float, Model]:
    """Take one scaled step; return its gain, the objective before it, and the model after it.

    The gain, the largest of any column, is concave in the length and starts with a known slope. So
    the search begins at the length at which a straight line would gain `SLOPE` times a part of
    `enough`. If this length gains nothing, no length gains more than the straight line does at this
    length, and for most objectives every length gains less than half of that part.
    """
    coupled = problem.loss in losses.COUPLED
    with errstate(all="ignore"):
        step = Direction(problem, problem.rows, model)
        start = step.objective(np.zeros(problem.n_columns))
        objective = float(start.sum())
        least = max(enough, ROUNDING[problem.dtype.itemsize] * abs(objective)) / STEPS
        gain, after = _best_along(step, start, least, coupled)
        if not gain > enough and step.bend(least):
            rescaled, other = _best_along(step, start, least, coupled)
            if rescaled > gain:
                gain, after = rescaled, other
    return gain, objective, after


def _best_along(
    step: Direction, start: np.ndarray, least: float, coupled: bool
) -> tuple[float, Model]:
    """Return the largest decrease of a column's objective along a direction, and its model."""
    objective = float(start.sum())
    fall = np.full_like(step.fall, step.fall.sum()) if coupled else step.fall
    lengths = np.where(fall > 0.0, SLOPE * least / fall, 0.0)
    lengths[~np.isfinite(lengths)] = 0.0
    best, best_lengths = np.zeros((2, len(start)))
    for _ in range(MOST_DOUBLINGS if lengths.any() else 0):
        gain = start - step.objective(lengths, objective)
        gain = np.full_like(gain, gain.sum()) if coupled else gain
        better = gain > best
        if not better.any():
            break
        best, best_lengths = np.where(better, gain, best), np.where(better, lengths, best_lengths)
        lengths = np.where(better, 2.0 * lengths, 0.0)
    return float(best.max()), step.model_at(best_lengths)
