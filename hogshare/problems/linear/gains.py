"""The gain of steps from a model that are scaled by the columns: 0 at the optimum.

The gain of a step is the decrease of the objective. A step goes along the gradient. The component
of each column is divided by the scale of this column, which is the deviation of the column's values
from their mean. The length of the step is increased as long as the gain increases. Neither the unit
of a column nor a shift of the column changes the gain. The gain is not an estimate: the objective
itself is evaluated. So no optimal model is refused. If one step finds only a part of the gain,
other steps follow. But a gain of 0 does not prove an optimum: if columns are nearly collinear,
these steps may miss a small gain.

A few rows that are much larger than the others (for example, one value of a million) may determine
the scale of a column. If the class of these rows is certain, their losses have no curvature after
the smallest step. The scale of the column is then far too large. A longer step does not help,
because the components of the other columns also grow with the length. So if the curvature of a loss
can end, columns have a second scale, from ordinary rows whose losses still have curvature. If the
second scale predicts a gain, a second step is tried.
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

SLOPE = 2.0  # gain of the first length at a constant slope, in tolerances
MOST_DOUBLINGS = 100  # most doublings of a length
STEPS = 8  # most steps of one evaluation
SAMPLE = 1024  # number of rows from which the columns' scales are estimated
ASTRAY = 4.0  # largest ratio of all rows' mean squared norm to the sample's; beyond, use all rows
ORDINARY = 16.0  # a row up to this many times the median squared norm is ordinary
FLAT = 1e-12  # variance divided by mean square of a column; a smaller variance is rounding
ROUNDING = {4: 1e-5, 8: 1e-9}  # relative rounding error of an objective, by bytes per number


def share_of_tolerance(problem: RowProblem) -> float:
    """Return the factor by which a tolerance is multiplied if the targets are small.

    A tolerance is meant for losses of about 1, as in a classification, but the losses of a
    regression depend on the unit of the targets. The factor is 1 for a classification, and if
    targets deviate from their mean by about 1 or more. The problem is only read. The call is
    collective: every rank that has a part of the rows must make it, and all ranks get the same
    number.
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
    """Return a model whose coefficients and intercepts are zeros."""
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
    """Return the sum of losses of every column at some lengths along a direction.

    without : margins of the rows at the model, without intercepts
    change : change of the margins per length of the direction
    lengths : shape (n_columns,), a length for each column
    most : with a single column, a sum above this number may be too small, because the pass ends

    All ranks that have a part of the rows must call this function.
    """
    out = np.empty(problem.n_columns)
    line = without, change, intercept, lengths
    scratch = np.empty(problem.n_columns)
    losses_along(rows, *problem.terms[1:], *line, *problem.column_weights, most, scratch, out)
    return problem.totals(out)[0]


class Scales(NamedTuple):
    """The sizes of the columns.

    means, squares : shape (n_features,), means of the columns, and means of their squares
    curvature : second derivative of the mean loss with respect to its prediction, or a substitute
        for losses with kinks
    """

    means: np.ndarray
    squares: np.ndarray
    curvature: float


class Direction:
    """A scaled step from a model: the change of the model, and the objective's slope along it.

    rows : the problem's rows, or some of them
    fall : shape (n_columns,), initial decrease of a column's objective per length of the direction

    The constructor and the methods, except `model_at`, are collective calls.
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
        """Compute margins and gradients; return the columns' scales, and the scales for `bend`.

        The results are stored in `without`, `gradient` and `slope_sums`.

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
        """Compute the direction and its fall from the columns' scales; store them in `self`."""
        curvature, means = scales.curvature, scales.means
        variance = np.maximum(scales.squares - means * means, FLAT * scales.squares)
        self.fall[:] = 0.0
        for c in range(self.problem.n_columns):
            of_losses = self.gradient[:, c] / self.size
            if self.problem.fit_intercept:  # the columns are treated as centred
                of_intercept = self.slope_sums[c] / self.size
                of_losses -= means * of_intercept
                move = self._scaled(c, of_losses, curvature * variance)
                self.step[c] = -of_intercept / curvature - float(means @ move)
                self.fall[c] += of_intercept * of_intercept / curvature
            else:
                move = self._scaled(c, of_losses, curvature * variance, curvature, means)
            self.fall[c] -= float(of_losses @ move) + self._penalty_slope(c)

    def _go(self) -> None:
        """Compute the change of the margins per length of the direction; write it to `change`."""
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
        """Compute and return the step of column `c`, and store it as a column of `direction`.

        If the penalty has an l1 part, the step is proximal.

        curvature : curvature along each feature alone
        bound : factor of the curvature along the vector `means`, which all features share, because
            columns far from zero are nearly collinear without an intercept
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
        # in the rows' dtype, because margins and model must change by the same direction
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
        """Return the model at some lengths along the direction, one for each column."""
        coef = self.w + self.direction * lengths
        return Model(coef.T.astype(self.problem.dtype), self.intercept + self.step * lengths)

    def objective(self, lengths: np.ndarray, most: float = math.inf) -> np.ndarray:
        """Return each column's objective at its length; values above `most` are lower bounds."""
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

    At most `STEPS` steps are taken. The steps end once the total gain exceeds `enough`, or if the
    remaining steps, each with the gain of the last step, would not bring the gain to `enough`. At
    an optimum only one step is taken. All ranks that have a part of the rows must call this.
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
    """Take a scaled step; return its gain, the objective before it, and the model after it.

    The gain is the largest gain of any column. It is a concave function of the length, with a known
    slope at length 0. So the search begins at the length at which a straight line with this slope
    would gain `SLOPE` times the part 1 / `STEPS` of `enough`. If there is no gain at this length,
    the gain at any other length is at most the value of the straight line at this length. For most
    objectives it is then less than half of that part.
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
