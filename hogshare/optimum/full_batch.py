"""Full-batch methods that go on from a run's model until its own criterion is met.

Where rows are few and features unequal, workers that take steps by single rows come no closer for
hundreds of epochs, and methods that pass over all rows for a step are the better tool. Every
iterate is looked at as the run's model was (`problems.linear.optimality`), which costs nothing
besides: the gradient that a step needs is that of the look. So a fit ends where the model that is
returned, in its own precision, meets what was asked for, and nowhere else, except that iterations
run out or that rounding lets it come no closer; the answer says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.optimize

from hogshare.engine.convergence_checks import Checks
from hogshare.engine.stops import Stop
from hogshare.problems.linear.curvature import (
    Curvature,
    by_factors,
    by_products,
    by_signs,
)
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

METHODS = ("lbfgs", "newton-cg", "newton-cholesky")
FEW = 300  # features times columns and one, up to which a step by factors costs a few of lbfgs's
MODEST = (
    2_000_000  # values times columns, up to which a pass is short enough to take many for a step
)
SUFFICIENT = 2.0**-11  # share of the foreseen gain that a step has to bring (Armijo)
HALVINGS = 30
ROUNDING = 16  # of the last digits of the objective, which tell nothing
FLATTEST = 1e-2  # of the largest curvature: coordinates that bend less count as if they bent so
EVALUATIONS = 50  # in one line search of lbfgs

Heard = Callable[[int, float, Model], object]


@dataclass(frozen=True)
class Finish:
    """What came of it."""

    model: Model
    iterations: dict[str, int]  # of each method that went on, by name
    found: dict[str, Any]  # at the model: as an entry of `Report.checks`, without the epoch
    converged: bool
    sentence: str  # what was found, in words


class Point:
    """An iterate in the precision of the model, and what a look has found there.

    Attributes
    ----------
    slopes : float64 array of the shape of `x`
        The objective's without the l1 part.
    gradient : float64 array of the shape of `x`
        Of the objective; with l1 the steepest of its subgradients, which is zero at coefficients
        that l1 holds at zero.
    free : array of bool
        Which coordinates are not held.
    """

    def __init__(self, problem: RowProblem, x: np.ndarray, how: dict[str, Any]) -> None:
        features, dtype = problem.n_features, problem.dtype
        if len(x) > 1 and problem.l1 == 0.0:
            # of the softmax any shift of all columns is as good, and this one the least penalised
            x = x - x.mean(axis=0)
        with errstate(over="ignore"):
            coef = np.ascontiguousarray(x[:, :features]).astype(dtype)
            intercept = np.zeros(len(x), dtype)
            if problem.fit_intercept:
                intercept = x[:, features].astype(dtype)
        self.x = x
        self.model = Model(coef, intercept)
        self.optimality = Optimality(problem, self.model, **how)
        self.value = self.optimality.objective
        of_coef, of_intercept = self.optimality.slopes_of()
        self.slopes = of_coef
        if problem.fit_intercept:
            self.slopes = np.hstack([of_coef, of_intercept[:, None]])
        moves = np.ones(coef.shape, bool)
        if problem.l1 > 0.0:
            moves = (coef != 0.0) | (np.abs(of_coef) > problem.l1)
            downhill = np.where(coef != 0.0, coef, -of_coef)
            of_coef = np.where(moves, of_coef + np.copysign(problem.l1, downhill), 0.0)
        self.gradient, self.free = self.slopes.copy(), np.ones(self.slopes.shape, bool)
        self.gradient[:, :features], self.free[:, :features] = of_coef, moves


class FullBatchDescent:
    """Iterates from a model on, counted, each of them looked at."""

    def __init__(
        self,
        problem: RowProblem,
        model: Model,
        stop: Stop,
        iterations: int,
        heard: Heard | None,
        how: dict[str, Any],
    ) -> None:
        self.problem = problem
        self.heard = heard
        self.point = partial(Point, problem, how=how)
        self.checks = Checks(problem, stop, settles=False)
        self.limit = iterations
        self.done = 0
        parts = [model.coef, model.intercept[:, None]] if problem.fit_intercept else [model.coef]
        self.here = self.point(np.hstack(parts).astype(np.float64))
        self._noted: Point | None = None

    @property
    def goes_on(self) -> bool:
        """Whether there is a step left to take, and a reason to."""
        if self.done == self.limit:
            return False
        small = self.checks.criteria.get("gradient", np.inf)
        if (
            not self.here.optimality.gradient() <= small
        ):  # the gap, which takes a pass, is not asked for
            return True
        return not self.seen().met

    def seen(self) -> Checks:
        """The checks, once they have looked at where this is."""
        if self._noted is not self.here:
            self._noted = self.here
            self.checks.note(self.done, self.here.optimality)
        return self.checks

    def accept(self, point: Point) -> None:
        """An iteration ends here."""
        self.here = point
        self.done += 1
        if self.heard is not None:
            self.heard(self.done, point.value, point.model)


def by_lbfgs(descent: FullBatchDescent) -> None:
    """L-BFGS (SciPy's), without criteria of its own, on coordinates that bend alike at the start.

    It ends too where its line search finds nothing better.
    """
    here = descent.here
    bends = Curvature(here.optimality).diagonal()
    size = 1.0 / np.sqrt(np.maximum(bends, FLATTEST * bends.max()))
    begin = (here.x / size).reshape(-1)
    last = [(begin.copy(), here)]

    def point(scaled: np.ndarray) -> Point:
        if not np.array_equal(scaled, last[0][0]):  # SciPy asks for a value, then names the point
            last[0] = scaled.copy(), descent.point(scaled.reshape(size.shape) * size)
        return last[0][1]

    def value(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        there = point(scaled)
        return there.value, (there.gradient * size).reshape(-1)

    def heard(scaled: np.ndarray) -> None:
        descent.accept(point(scaled))
        if not descent.goes_on:
            raise StopIteration

    left = descent.limit - descent.done
    limits = {"maxiter": left, "maxfun": EVALUATIONS * (left + 1), "maxls": EVALUATIONS}
    scipy.optimize.minimize(
        value,
        begin,
        method="L-BFGS-B",
        jac=True,
        callback=heard,
        options={**limits, "gtol": 0.0, "ftol": 0.0},
    )


Step = Callable[[Curvature, Point], "np.ndarray | None"]


def by_newton(descent: FullBatchDescent, step_at: Step, stays: bool = False) -> None:
    """Newton's method with steps that are halved until they gain (Nocedal and Wright 2006, 3.1).

    With `stays`, coefficients that a step would take past zero stay there. It ends too where no
    step gains.
    """
    while descent.goes_on:
        here = descent.here
        curvature = Curvature(here.optimality)
        step = step_at(curvature, here)
        better = None if step is None else _better(descent, step, stays)
        if better is None and stays:
            # so many coefficients were held at zero that the rest of the step led uphill
            scale = np.maximum(curvature.diagonal(), np.finfo(np.float64).tiny)
            better = _better(descent, -here.gradient / scale, stays)
        if better is None:
            return
        descent.accept(better)


def by_cholesky(descent: FullBatchDescent) -> None:
    """Newton's method by the whole Hessian."""
    if descent.problem.l1 > 0.0:
        by_newton(descent, lambda curvature, here: by_signs(curvature, here.x, here.slopes))
    else:
        by_newton(descent, lambda curvature, here: by_factors(curvature, here.gradient))


def by_conjugate_gradients(descent: FullBatchDescent) -> None:
    """Newton's method by products with the Hessian.

    With l1, on the coefficients that it does not hold at zero; those that a step would take past
    zero stay there (Schmidt, Fung and Rosales 2007, projected scaled subgradients).
    """
    by_newton(
        descent,
        lambda curvature, here: by_products(curvature, here.gradient, here.free),
        stays=descent.problem.l1 > 0.0,
    )


def _better(descent: FullBatchDescent, step: np.ndarray, stays: bool) -> Point | None:
    """The first of the halved steps that gains, if there is one."""
    problem, here = descent.problem, descent.here
    noise = ROUNDING * np.finfo(problem.dtype).eps * abs(here.value)
    for k in range(HALVINGS):
        x = here.x + 0.5**k * step
        if stays:
            x = _within_orthant(problem, here, x)
        foreseen = float(((x - here.x) * here.slopes).sum())
        foreseen += problem.l1 * (_size(problem, x) - _size(problem, here.x))
        if not foreseen < 0.0:
            continue
        there = descent.point(x)
        change = there.value - here.value
        if change <= SUFFICIENT * foreseen and change < 0.0:
            return there
        # the objective's digits are at an end before the gradient's
        if abs(change) <= noise and _sum(there.gradient) < _sum(here.gradient):
            return there
    return None


def _size(problem: RowProblem, x: np.ndarray) -> float:
    return _sum(x[:, : problem.n_features])


def _within_orthant(problem: RowProblem, here: Point, x: np.ndarray) -> np.ndarray:
    """Coefficients that have passed zero, or left it uphill, are zero instead."""
    features = problem.n_features
    before = here.x[:, :features]
    side = np.where(before != 0.0, before, -here.gradient[:, :features])
    x[:, :features] = np.where(x[:, :features] * side > 0.0, x[:, :features], 0.0)
    return x


def _sum(gradient: np.ndarray) -> float:
    return float(np.abs(gradient).sum())


STEPS: dict[str, Callable[[FullBatchDescent], None]] = {
    "lbfgs": by_lbfgs,
    "newton-cg": by_conjugate_gradients,
    "newton-cholesky": by_cholesky,
}


def method_for(problem: RowProblem, wish: str | None, few: int = FEW, modest: int = MODEST) -> str:
    """The method that suits a problem, if it is not one of Newton's that is wished for.

    few, modest : as `FEW` and `MODEST`, where sums cost more than the passes that they are over
    """
    if wish in METHODS and wish != "lbfgs":
        return wish
    if problem.n_features * (problem.n_columns + 1) <= few:
        return "newton-cholesky"
    short = problem.nnz_of_all * problem.n_columns <= modest
    return "newton-cg" if short or problem.l1 > 0.0 else "lbfgs"


def finish(
    problem: RowProblem,
    model: Model,
    stop: Stop,
    method: str,
    iterations: int,
    *,
    heard: Heard | None = None,
    **how: Any,
) -> Finish:
    """Go on from a model until the criteria of `stop` are met.

    Where `method` comes no closer before they are, Newton's method by conjugate gradients has what
    is left of the iterations.

    problem : with the log loss of one column or the multinomial loss
    stop : of which the gradient and the gaps count
    method : one of `METHODS`; "lbfgs" is for penalties without l1
    iterations : of all methods together, at the most
    heard : called after each iteration with its number, the objective and the model
    how : passes over the rows are made: see `hogshare.problems.linear.optimality.Optimality`
    """
    descent = FullBatchDescent(problem, model, stop, iterations, heard, how)
    counts: dict[str, int] = {}
    for name in dict.fromkeys((method, "newton-cg")):
        before = descent.done
        if descent.goes_on:
            STEPS[name](descent)
            counts[name] = descent.done - before
    checks = descent.seen()
    found = {key: value for key, value in checks.seen[-1].items() if key != "epoch"}
    return Finish(descent.here.model, counts, found, checks.met, checks.sentence())
