"""The distance of a model from the optimum: gradient mapping and duality gap, by passes over rows.

Gradient mapping and gap are evaluated at the model itself, outside of the workers' kernels. This
module starts no thread. A caller that wants to run the parts of a pass in parallel passes `each`.
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

HARDLY_SHRUNK = 0.999  # above this factor the gap is too large by at most 0.1 % of the objective
PART_VALUES = 1 << 18  # number of stored values for which a thread saves time


def components(
    problem: RowProblem,
    units: Units,
    coef: np.ndarray,
    of_losses: np.ndarray,
    of_intercepts: np.ndarray,
) -> np.ndarray:
    """Return each feature's largest component, over all columns, of the scaled gradient mapping.

    coef : shape (n_columns, n_features), coefficients
    of_losses : shape (n_columns, n_features), gradient of the mean loss with respect to `coef`
    of_intercepts : shape (n_columns,), gradient of the mean loss with respect to the intercepts
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
    """The results of a pass over a part of the rows at a model, in the process of these rows.

    slopes : float64 array of shape (n_rows, n_columns), the weighted derivative of every row's loss
    losses : losses of the columns; meaningless if the slopes were passed as an argument

    The constructor makes the pass. With `settle` it is collective: all ranks must call it.
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
        # if only slopes are wanted, `add_gradient` overwrites the margins with them
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
        """Slopes of the rows, a view."""
        return self._slopes.reshape(self.problem.n_rows, self.problem.n_columns)

    def sums(self) -> list[Any]:
        """Return sums over rows: gradient and slopes by sign, losses, products, and all slopes.

        A product is a row's slope times its margin.
        """
        names = ("gradient", "slopes", "losses", "products")
        # NumPy sums all slopes: the last bit of the kernel's sum depends on their memory address
        return [*(sum(getattr(s, name) for s in self._sums) for name in names), self.slopes.sum(0)]

    def conjugates(self, shrink: np.ndarray) -> tuple[np.ndarray]:
        """Return the sum of the losses' conjugates at the slopes, multiplied by factors by sign."""
        problem = self.problem

        def conjugates(part: tuple[int, int]) -> float:
            args = *part, shrink, *problem.column_weights, self._slopes
            return float(sum_of_conjugates(*problem.terms, *args))

        return (np.array([sum(self._each(conjugates, self._parts))]),)


class Optimality:
    """One evaluation of a model; if processes divide the rows, all must make it.

    model : model whose last iterate is evaluated; it is only read
    slopes : shape (n_rows, n_columns), slopes for the dual point in place of the losses'
        derivatives at the model, such as a rule's memory of the rows, or None. At a kink a loss has
        many derivatives, and the gap of an optimal model is zero only with the right ones.
    with_gap : whether `gap` will be called
    settle : for smooth losses, mean slope of the losses to which the intercepts are moved before
        the evaluation, or None to evaluate the model as it is
    how : arguments of the pass in a process: `n_parts`, the largest number of parts, and `each`,
        where ``each(function, parts)`` calls the function with each part

    Attributes
    ----------
    passed : OptimalityPass or handle
        The passes over all parts of the rows, as `LinearProblem.cached` returns them.
    objective : float
        The objective at the model.
    intercept : ndarray of shape (n_columns,)
        The evaluated intercepts, which differ from the model's with `settle`.
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
        if slopes is not None or settle is not None:  # only for rows in this process's memory
            how |= {"slopes": slopes, "settle": settle}
        self.passed = problem.cached(OptimalityPass, self.coef, self.intercept, n_signs, **how)
        if settle is not None:
            self.intercept = self.passed.intercept
        found = problem.total(OptimalityPass.sums, of=self.passed)
        by_sign, self._slope_sums, of_losses, products, self._all_slopes = found
        self._by_sign = by_sign.reshape(n_signs, problem.n_features, problem.n_columns)
        # the Fenchel-Young equality holds only if the slopes are the derivatives of the losses
        self._conjugates = None if slopes is not None else products - of_losses
        self.objective = float(of_losses.sum()) / max(1, problem.n_all)
        self.objective += problem.penalty_at(self.coef)

    def gradient(self) -> float:
        """Return the largest component of the gradient mapping, including the intercepts.

        The component is in the columns' units. `hogshare.problems.linear.units` defines these
        units, and the gradient mapping for a penalty with an l1 part.
        """
        problem, n_rows = self.problem, max(1, self.problem.n_all)
        of_losses = self._by_sign.sum(axis=0).T / n_rows
        of_intercepts = self._all_slopes / n_rows
        units = problem.sampled_units
        found = components(problem, units, self.coef, of_losses, of_intercepts)
        known = units.known
        largest = float(found[known].max(initial=0.0))
        if not known.all() and not float(found[~known].max()) <= largest:
            # the largest component may be of a feature that the sample does not describe
            found = components(problem, problem.units, self.coef, of_losses, of_intercepts)
            largest = float(found.max())
        if problem.fit_intercept:
            largest = max(largest, float(np.abs(of_intercepts).max()))
        return largest

    def slopes_of(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradients without the l1 part with respect to coefficients and intercepts."""
        n_rows = max(1, self.problem.n_all)
        of_losses = self._by_sign.sum(axis=0).T / n_rows
        return of_losses + self.problem.l2 * self.coef, self._slope_sums.sum(axis=0) / n_rows

    def relative_gap(self) -> float:
        """Return the duality gap divided by the size of the objective."""
        return self.gap() / max(abs(self.objective), np.finfo(float).tiny)

    def gap(self) -> float:
        """Return the duality gap: the objective minus Fenchel's dual at a feasible point.

        The point is made of the slopes, which are shrunk until the point is feasible. With an
        intercept the slopes must sum to zero. So either the positive or the negative slopes are
        shrunk, whichever have the larger sum. With l1 and without l2 no component of the gradient
        may exceed l1. So the slopes of a column are shrunk until no component does, as in
        scikit-learn's coordinate descent.

        For a loss that couples the columns, the slopes must remain differences of probabilities.
        They do if all slopes are multiplied by one factor, but not if positive and negative slopes
        have different factors. So in this case the sum of the slopes is not shrunk to zero. The gap
        instead contains the sum of an intercept's slopes times ``1 + 2 |intercept|``. The result is
        a bound if the best intercepts are at most ``1 + 2 |intercept|`` from zero. This term is
        zero if the intercepts have been settled.
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
        # strict=False: with one sum for both signs, all factors are still 1
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
        """Return the sum of conjugates at the shrunk slopes, or an upper bound if hardly shrunk.

        A conjugate f is convex, and f(0) = 0 because the least value of a loss is zero. So for a
        factor s between 0 and 1, ``f(s a)`` is at most ``s f(a)``. This bound needs no pass over
        the rows. It is too large by at most (1 - s) times the loss of the row.
        """
        problem = self.problem
        if self._conjugates is not None and shrink.min() >= HARDLY_SHRUNK:
            return float((shrink * self._conjugates).sum())
        return float(problem.total(OptimalityPass.conjugates, shrink, of=self.passed)[0][0])


def parts_of(problem: RowProblem, n_parts: int) -> list[tuple[int, int]]:
    """Return parts of the rows of equal size, at most `n_parts`, each large enough for a thread."""
    count = max(1, min(n_parts, problem.nnz // PART_VALUES, problem.n_rows))
    borders = np.linspace(0, problem.n_rows, count + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(borders)]
