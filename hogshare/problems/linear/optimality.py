"""How far a model is from the optimum: gradient mapping and duality gap, by passes over the rows.

Evaluated at the model itself, outside the workers' kernels. Nothing here starts a thread: whoever
wants the parts of the pass side by side hands in how (`each`).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rows.whole_gradients import (
    ABOVE,
    BELOW,
    GradientSums,
    add_gradient,
    fill_margins,
    sum_of_conjugates,
    sums_of,
)
from hogshare.kernels.rules import losses
from hogshare.problems.linear.intercepts import best_intercepts
from hogshare.problems.linear.row_arrays import rows_at_once
from hogshare.problems.linear.units import Units
from hogshare.problems.model import Model, shrunk
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

HARDLY_SHRUNK = 0.999  # of what slopes are: the gap may be a thousandth of the objective too large
PART_VALUES = 1 << 18  # of the rows, fewer of which are not worth a thread


def components(
    problem: RowProblem,
    units: Units,
    coef: np.ndarray,
    of_losses: np.ndarray,
    of_intercepts: np.ndarray,
) -> np.ndarray:
    """Of the gradient mapping in the features' units, the largest in any column of each feature.

    coef, of_losses : shape (n_columns, n_features), coefficients, and the gradient of the mean loss
    of_intercepts : shape (n_columns,), that gradient's components in the intercepts
    """
    slope = of_losses + problem.l2 * coef
    if units.origin.any():
        slope -= np.outer(of_intercepts, units.origin)
    with errstate(divide="ignore", invalid="ignore"):
        if problem.l1 > 0.0:
            place = np.square(units.size) * coef
            slope = place - shrunk(place - slope, problem.l1)
        found: np.ndarray = np.abs(slope).max(axis=0, initial=0.0) / units.size
    nothing = units.size == 0.0
    found[nothing] = np.where(units.known[nothing] | np.isnan(found[nothing]), 0.0, np.inf)
    return found


class OptimalityPass:
    """What a pass over a part of the rows has found at a model; it stays where the rows are.

    slopes : float64 array of shape (n_rows, n_columns), the weighted derivative of every row's loss
    losses : of the columns; without meaning where the slopes were given
    """

    def __init__(
        self,
        problem: RowProblem,
        coef: np.ndarray,
        intercept: np.ndarray,
        n_signs: int,
        *,
        slopes: np.ndarray | None = None,
        settle: float | None = None,
        each: Each = map,
        n_parts: int = 1,
    ) -> None:
        self.problem = problem
        columns = problem.n_columns
        known = slopes is not None
        self._slopes = np.empty(problem.n_rows * columns)
        # of no use once the slopes are known, which take its place
        margins = np.empty_like(self._slopes) if known else self._slopes
        if slopes is not None:
            self._slopes[:] = np.asarray(slopes).reshape(-1)
        w = np.ascontiguousarray(coef.T, dtype=problem.dtype).reshape(-1)
        self.intercept = intercept
        self._each = each
        self._parts = parts = parts_of(problem, n_parts)

        def fill(part: tuple[int, int]) -> None:
            fill_margins(problem.rows, *part, w, np.empty(columns), margins)

        if settle is not None:
            list(each(fill, parts))
            self.intercept = best_intercepts(problem, margins, intercept, settle, parts, each)
        stride = rows_at_once(problem.rows)

        def add(part: tuple[int, int]) -> GradientSums:
            out = sums_of(len(w), columns, n_signs)
            model = w if settle is None else w[:0], margins, self.intercept
            sums = known, self._slopes, out
            add_gradient(*problem.terms, *part, stride, *model, *problem.column_weights, *sums)
            return out

        self._sums = list(each(add, parts))

    @property
    def slopes(self) -> np.ndarray:
        """Of the rows."""
        return self._slopes.reshape(self.problem.n_rows, self.problem.n_columns)

    def sums(self) -> list[Any]:
        """Gradient and slopes of either side, losses, products of slopes and margins, slopes."""
        names = ("gradient", "slopes", "losses", "products")
        # the slopes of both sides are not the kernel's, whose last bit depends on where in memory
        # they lie
        return [*(sum(getattr(s, name) for s in self._sums) for name in names), self.slopes.sum(0)]

    def conjugates(self, shrink: np.ndarray) -> tuple[np.ndarray]:
        """The sum of the losses' conjugates at the slopes, shrunk on either side."""
        problem = self.problem

        def conjugates(part: tuple[int, int]) -> float:
            args = *part, shrink, *problem.column_weights, self._slopes
            return float(sum_of_conjugates(*problem.terms, *args))

        return (np.array([sum(self._each(conjugates, self._parts))]),)


class Optimality:
    """One look at a model.

    model : its last iterate is looked at
    slopes : shape (n_rows, n_columns), slopes to take for the dual point instead of the losses'
        derivatives at the model: what a rule remembers of the rows. A loss with a kink has many
        derivatives there, and the gap of an optimal model with any other than the right ones is not
        zero.
    with_gap : whether `gap` will be asked for
    settle : move the intercepts first, to where the mean slope of the losses is at most so much:
        for smooth losses. None looks at the model as it is.
    how : of the pass, how a process makes it: `each` and `n_parts`, where
        ``each(function, parts)`` calls the function with every part, of which there are at most so
        many

    Attributes
    ----------
    passed : Pass
        Of every part of the rows, where that is: what `LinearProblem.cached` gives.
    """

    def __init__(
        self,
        problem: RowProblem,
        model: Model,
        *,
        slopes: np.ndarray | None = None,
        with_gap: bool = True,
        settle: float | None = None,
        **how: Any,
    ) -> None:
        self.problem = problem
        self.coef = np.asarray(model.coef, np.float64)
        self.intercept = np.asarray(model.intercept, np.float64)
        n_signs = 2 if with_gap and problem.fit_intercept else 1
        if slopes is not None or settle is not None:  # who asks for these has all rows, or a rank's
            how |= {"slopes": slopes, "settle": settle}
        self.passed = problem.cached(OptimalityPass, self.coef, self.intercept, n_signs, **how)
        if settle is not None:
            self.intercept = self.passed.intercept
        found = problem.total(OptimalityPass.sums, of=self.passed)
        by_sign, self._slope_sums, of_losses, products, self._all_slopes = found
        self._by_sign = by_sign.reshape(n_signs, problem.n_features, problem.n_columns)
        # by Fenchel and Young: of slopes that are the derivatives, and of no others
        self._conjugates = None if slopes is not None else products - of_losses
        self.objective = float(of_losses.sum()) / max(1, problem.n_all)
        self.objective += problem.penalty_at(self.coef)

    def gradient(self) -> float:
        """Largest component of the gradient mapping, intercepts included.

        In the columns' units: see `hogshare.problems.linear.units`, also for what it is with l1.
        """
        problem, n_rows = self.problem, max(1, self.problem.n_all)
        of_losses = self._by_sign.sum(axis=0).T / n_rows
        of_intercepts = self._all_slopes / n_rows
        units = problem.sampled_units
        found = components(problem, units, self.coef, of_losses, of_intercepts)
        known = units.known
        largest = float(found[known].max(initial=0.0))
        if not known.all() and not float(found[~known].max()) <= largest:
            # one decides of which too little was seen
            found = components(problem, problem.units, self.coef, of_losses, of_intercepts)
            largest = float(found.max())
        if problem.fit_intercept:
            largest = max(largest, float(np.abs(of_intercepts).max()))
        return largest

    def slopes_of(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradient without what l1 adds, on the coefficients and on the intercepts."""
        n_rows = max(1, self.problem.n_all)
        of_losses = self._by_sign.sum(axis=0).T / n_rows
        return of_losses + self.problem.l2 * self.coef, self._slope_sums.sum(axis=0) / n_rows

    def relative_gap(self) -> float:
        """The gap in proportion to the objective."""
        return self.gap() / max(abs(self.objective), np.finfo(float).tiny)

    def gap(self) -> float:
        """Objective less the dual objective (Fenchel) at a feasible point made of the slopes.

        An intercept asks for slopes that sum to zero: the larger of the two sides, those above and
        those below zero, is shrunk. l1 without l2 asks for a gradient within its strength: the
        slopes of a column are shrunk until it is, as in scikit-learn's coordinate descent.

        A loss that couples the columns asks for slopes that are differences of probabilities, which
        one factor for all of them keeps and one for each side does not. What an intercept's slopes
        sum up to then counts as if the best intercepts were at most ``1 + 2 |intercept|`` away from
        zero: a bound where they are, and nothing where the intercepts have been settled.
        """
        problem = self.problem
        n_rows = max(1, problem.n_all)
        l1, l2 = problem.l1, problem.l2
        shrink = np.ones((2, problem.n_columns))
        slack = 0.0
        if problem.fit_intercept and problem.loss in losses.COUPLED:
            sums = np.abs(self._slope_sums.sum(axis=0)) / n_rows
            slack = float(sums @ (1.0 + 2.0 * np.abs(self.intercept)))
        elif problem.fit_intercept:
            above, below = self._slope_sums[ABOVE], -self._slope_sums[BELOW]
            smaller = np.minimum(above, below)
            with errstate(invalid="ignore", divide="ignore"):
                shrink[ABOVE] = np.where(above > 0.0, smaller / above, 1.0)
                shrink[BELOW] = np.where(below > 0.0, smaller / below, 1.0)
        # with one side for both there is nothing to shrink yet
        signs = zip(shrink, self._by_sign, strict=False)
        gradient = sum(s * one for s, one in signs) / n_rows
        dual = 0.0
        if l2 == 0.0:
            reach = np.abs(gradient).max(axis=0, initial=0.0)
            within = l1 / np.maximum(reach, max(l1, np.finfo(float).tiny))
            shrink *= within.min() if problem.loss in losses.COUPLED else within
        else:
            excess = np.maximum(np.abs(gradient) - l1, 0.0)
            dual -= float(np.square(excess).sum()) / (2.0 * l2)

        return self.objective - (dual - self._sum_of_conjugates(shrink) / n_rows) + slack

    def _sum_of_conjugates(self, shrink: np.ndarray) -> float:
        """Of the losses at the slopes, shrunk on either side; hardly more where hardly shrunk.

        A conjugate f is convex and f(0) = 0, since no loss is below zero; so f(s a) is at most
        s f(a), which is known without a pass, and above by (1 - s) times the row's loss at most.
        """
        problem = self.problem
        if self._conjugates is not None and shrink.min() >= HARDLY_SHRUNK:
            return float((shrink * self._conjugates).sum())
        return float(problem.total(OptimalityPass.conjugates, shrink, of=self.passed)[0][0])


def parts_of(problem: RowProblem, n_parts: int) -> list[tuple[int, int]]:
    """Cut the rows into parts of even size, as many as are worth it."""
    count = max(1, min(n_parts, problem.nnz // PART_VALUES, problem.n_rows))
    borders = np.linspace(0, problem.n_rows, count + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(borders)]
