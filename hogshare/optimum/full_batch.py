"""Full-batch methods that continue from a run's model until the run's criterion is met.

With few rows and unequal features, workers with steps by single rows may make no progress for
hundreds of epochs. A method that passes over all rows for each step is then better. Every iterate
is evaluated in the same way as the run's model (`problems.linear.optimality`). The evaluation takes
no additional time, because the next step needs its gradient. A fit ends in one of three cases,
which the result reports: (1) the returned model, in its own precision, meets the criterion; (2) all
iterations are used; (3) rounding prevents further progress.
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
# largest features * (columns + 1) at which a Cholesky step takes the time of a few lbfgs steps
FEW = 300
# largest values * columns at which passes are so short that a step may take many of them
MODEST = 2_000_000
SUFFICIENT = 2.0**-11  # share of the predicted gain that a step must achieve (Armijo)
HALVINGS = 30
ROUNDING = 16  # units in the last place of the objective; smaller changes may be rounding
FLATTEST = 1e-2  # least curvature of a coordinate that is used, as a share of the largest one
EVALUATIONS = 50  # the most evaluations in one line search of lbfgs

Heard = Callable[[int, float, Model], object]


@dataclass(frozen=True)
class Finish:
    """The result of `finish`."""

    model: Model
    iterations: dict[str, int]  # number of iterations of each used method, by name
    found: dict[str, Any]  # checks at the model: an entry of `Report.checks` without the epoch
    converged: bool
    sentence: str  # the last check in plain English


class Point:
    """An iterate in the precision of the model, and its evaluation by all ranks.

    Attributes
    ----------
    slopes : float64 array of the shape of `x`
        Gradient of the objective without its l1 part.
    gradient : float64 array of the shape of `x`
        Gradient of the objective. With l1 this is the steepest subgradient, which is zero at
        coefficients that l1 fixes at zero.
    free : array of bool
        Whether each coordinate is free, which means that l1 does not fix the coordinate at zero.
    """

    def __init__(self, problem: RowProblem, x: np.ndarray, how: dict[str, Any]) -> None:
        features, dtype = problem.n_features, problem.dtype
        if len(x) > 1 and problem.l1 == 0.0:
            # shifting all columns does not change the softmax; this shift has the least penalty
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
    """The iterates of a method from a start model; each is counted and evaluated."""

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
        self.current = self.point(np.hstack(parts).astype(np.float64))
        self._noted: Point | None = None

    @property
    def goes_on(self) -> bool:
        """Whether iterations are left and the criterion is not met; all ranks must read it."""
        if self.done == self.limit:
            return False
        small = self.checks.criteria.get("gradient", np.inf)
        # the gradient first, because the gap takes another pass
        if not self.current.optimality.gradient() <= small:
            return True
        return not self.seen().met

    def seen(self) -> Checks:
        """Return the checks at the current iterate, which are evaluated once."""
        if self._noted is not self.current:
            self._noted = self.current
            self.checks.note(self.done, self.current.optimality)
        return self.checks

    def accept(self, point: Point) -> None:
        """End an iteration: make a point the current iterate, count it, and report it."""
        self.current = point
        self.done += 1
        if self.heard is not None:
            self.heard(self.done, point.value, point.model)


def by_lbfgs(descent: FullBatchDescent) -> None:
    """Run SciPy's L-BFGS in coordinates that have equal curvature at the start.

    The criteria of SciPy are switched off. The method ends when `goes_on` is False, or when the
    line search finds no better point.
    """
    current = descent.current
    bends = Curvature(current.optimality).diagonal()
    size = 1.0 / np.sqrt(np.maximum(bends, FLATTEST * bends.max()))
    begin = (current.x / size).reshape(-1)
    last = [(begin.copy(), current)]

    def point(scaled: np.ndarray) -> Point:
        # SciPy calls `value`, then `heard` at the same point, which must not be evaluated twice
        if not np.array_equal(scaled, last[0][0]):
            last[0] = scaled.copy(), descent.point(scaled.reshape(size.shape) * size)
        return last[0][1]

    def value(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        trial = point(scaled)
        return trial.value, (trial.gradient * size).reshape(-1)

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


def by_newton(descent: FullBatchDescent, step_at: Step, stops_at_zero: bool = False) -> None:
    """Run Newton's method; halve each step until it gains (Nocedal and Wright 2006, 3.1).

    With `stops_at_zero`, a coefficient that a step would take past zero becomes zero. The method
    ends when `goes_on` is False, or when no step gains.
    """
    while descent.goes_on:
        current = descent.current
        curvature = Curvature(current.optimality)
        step = step_at(curvature, current)
        better = None if step is None else _better(descent, step, stops_at_zero)
        if better is None and stops_at_zero:
            # so many coefficients became zero that the remaining step led uphill
            scale = np.maximum(curvature.diagonal(), np.finfo(np.float64).tiny)
            better = _better(descent, -current.gradient / scale, stops_at_zero)
        if better is None:
            return
        descent.accept(better)


def by_cholesky(descent: FullBatchDescent) -> None:
    """Run Newton's method with the whole Hessian."""
    if descent.problem.l1 > 0.0:
        by_newton(
            descent, lambda curvature, current: by_signs(curvature, current.x, current.slopes)
        )
    else:
        by_newton(descent, lambda curvature, current: by_factors(curvature, current.gradient))


def by_conjugate_gradients(descent: FullBatchDescent) -> None:
    """Run Newton's method with products of the Hessian and vectors.

    With l1, steps move only the coefficients that l1 does not fix at zero, and a coefficient that
    a step would take past zero becomes zero (Schmidt, Fung and Rosales 2007, projected scaled
    subgradients).
    """
    by_newton(
        descent,
        lambda curvature, point: by_products(curvature, point.gradient, point.free),
        stops_at_zero=descent.problem.l1 > 0.0,
    )


def _better(descent: FullBatchDescent, step: np.ndarray, stops_at_zero: bool) -> Point | None:
    """Return the point of the first halved step that gains, or None if none of them gains."""
    problem, current = descent.problem, descent.current
    noise = ROUNDING * np.finfo(problem.dtype).eps * abs(current.value)
    for k in range(HALVINGS):
        x = current.x + 0.5**k * step
        if stops_at_zero:
            x = _within_orthant(problem, current, x)
        foreseen = float(((x - current.x) * current.slopes).sum())
        foreseen += problem.l1 * (_size(problem, x) - _size(problem, current.x))
        if not foreseen < 0.0:
            continue
        trial = descent.point(x)
        change = trial.value - current.value
        if change <= SUFFICIENT * foreseen and change < 0.0:
            return trial
        # rounding hides changes of the objective before it hides changes of the gradient
        if abs(change) <= noise and _sum(trial.gradient) < _sum(current.gradient):
            return trial
    return None


def _size(problem: RowProblem, x: np.ndarray) -> float:
    return _sum(x[:, : problem.n_features])


def _within_orthant(problem: RowProblem, current: Point, x: np.ndarray) -> np.ndarray:
    """Set coefficients in `x` to zero if they have passed zero or left zero uphill; return `x`."""
    features = problem.n_features
    before = current.x[:, :features]
    orthant = np.where(before != 0.0, before, -current.gradient[:, :features])
    x[:, :features] = np.where(x[:, :features] * orthant > 0.0, x[:, :features], 0.0)
    return x


def _sum(gradient: np.ndarray) -> float:
    return float(np.abs(gradient).sum())


STEPS: dict[str, Callable[[FullBatchDescent], None]] = {
    "lbfgs": by_lbfgs,
    "newton-cg": by_conjugate_gradients,
    "newton-cholesky": by_cholesky,
}


def method_for(problem: RowProblem, wish: str | None, few: int = FEW, modest: int = MODEST) -> str:
    """Return the method that suits a problem, or `wish` if it is one of Newton's methods.

    few, modest : bounds in place of `FEW` and `MODEST`, if adding up over parts takes longer than
        passes
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
    """Continue from a model until the criteria of `stop` are met.

    If `method` stalls before the criteria are met, Newton's method by conjugate gradients takes the
    remaining iterations. All ranks that have a part of the rows must call this function.

    problem : problem with the log loss of one column, or with the multinomial loss
    model : start model, which is only read
    stop : criteria, of which only the gradient and the gap are used
    method : one of `METHODS`; "lbfgs" is for penalties without l1
    iterations : largest number of iterations of all methods together
    heard : function that is called after each iteration with the iteration's number, the objective
        and the model
    how : settings of passes over the rows, see `hogshare.problems.linear.optimality.Optimality`
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
    return Finish(descent.current.model, counts, found, checks.met, checks.sentence())
