"""What the analysis of AsySG says of a run that is over: constants, condition, bound, a sentence.

Computed from the problem and the report in the calling thread, after the run and outside of its
times. ``docs/theory.md`` says how the paper's counts are read off a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import theory
from hogshare.engine.optimality import Optimality
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Model
from hogshare.report import Report
from hogshare.theory.smoothness import as_matrix

SAMPLE_VALUES = 1 << 20  # of the rows that L is computed from


@dataclass(frozen=True)
class Constants:
    """What both analyses need to know of a run; ages and updates are the model's, not coordinates.

    A model's update is one write cycle on the lock-free plane: with inconsistent reads the analysis
    counts it as one write per coordinate, or as what it is where it writes just one.
    """

    gap: float
    L: float
    L_max: float
    sigma: float
    n_updates: float
    n_gradients: int
    n_coordinates: int
    consistent: bool
    one_coordinate: bool = False

    @property
    def writes(self) -> int:
        """The analysis' iterations in an update."""
        return 1 if self.consistent or self.one_coordinate else self.n_coordinates

    def step_size(self) -> float:
        """The paper's constant step, (9) or (17)."""
        if self.consistent:
            return theory.con_step_size(*self._run)
        return theory.incon_step_size(*self._run, self.n_coordinates)

    def least_updates(self, age: float) -> int:
        """Updates that (10) or (18) asks for at an age."""
        known = self.gap, self.L, self.sigma, self.n_gradients
        if self.consistent:
            return theory.con_least_updates(*known, age)
        n, writes = self.n_coordinates, self.writes
        return math.ceil(theory.incon_least_writes(*known, n, writes * age) / writes)

    def largest_age(self) -> int | None:
        """Age that (10) or (18) allows."""
        if self.consistent:
            return theory.con_largest_age(*self._run)
        age = theory.incon_largest_age(*self._run, self.n_coordinates)
        return None if age is None else age // self.writes

    def condition(self, step: float, age: float) -> float:
        """Left side of (7) or (15)."""
        if self.consistent:
            return theory.con_condition(step, self.L, self.n_gradients, age)
        n, writes = self.n_coordinates, self.writes
        return theory.incon_condition(step, self.L, self.L_max, self.n_gradients, n, writes * age)

    def bound(self) -> float:
        """(11) or (19)."""
        if self.consistent:
            return theory.con_bound(*self._run)
        return theory.incon_bound(*self._run, self.n_coordinates)

    @property
    def _run(self) -> tuple[float, float, float, float, int]:
        return self.gap, self.L, self.sigma, self.n_updates * self.writes, self.n_gradients


def theory_section(
    problem: LinearProblem,
    report: Report,
    *,
    consistent: bool,
    n_gradients: int,
    step: float | None,
    rows_per_gradient: int = 1,
    penalty_on_support: bool | None = None,
    coordinate: str | None = None,
    start: Model | None = None,
) -> dict[str, Any]:
    """Say what the analysis of AsySG expects of a run, as plain data for `Report.theory`.

    Parameters
    ----------
    problem : LinearProblem
    report : Report
        Of the run. Its staleness histogram is taken for the ages: of updates of the model, where
        a push is one; on the lock-free plane a push is a block of rows, of which others complete
        as many during one of this worker's as they complete write cycles during one cycle of its.
    consistent : bool
        Whether reads are real past states of the model (AsySG-con), or not (AsySG-incon).
    n_gradients : int
        M, gradients summed in an update.
    step : float or None
        Constant step for the sum of the gradients; None where it changed during the run.
    rows_per_gradient : int, default=1
        Rows of which one gradient is the mean.
    penalty_on_support : bool or None, default=None
        Whether a row's gradient holds the l2 penalty on the row's own features only, see
        `hogshare.theory.gradient_noise`. None: with inconsistent reads and writes of all of them.
    coordinate : str or None, default=None
        As of `SGD`: what of the n coordinates an update writes.
    start : Model or None, default=None
        Where the run started; None: at zero.

    Returns
    -------
    dict
        Numbers by name, and under "sentence" whether linear speedup is to be expected. Where the
        analysis does not apply there is the sentence alone, which says why.
    """
    reason = theory.unsmooth(problem)
    if reason is not None:
        return _nothing(f"the analysis is of smooth objectives, and {reason}")
    if coordinate not in (None, "uniform"):
        return _nothing(
            "the paper's bound for draws from the support, (20), is not certain in its form, and "
            "is not offered"
        )
    on_support = penalty_on_support
    if on_support is None:
        on_support = not consistent and coordinate is None
    lowest, source = lower_bound(problem, report.model)
    at_start, sigma = _start_and_noise(problem, report.model, start, rows_per_gradient, on_support)
    rows = sum(int(worker.get("rows", 0)) for worker in report.workers)
    sample = max(1, SAMPLE_VALUES * problem.n_rows // max(1, problem.nnz))
    try:
        smoothness = theory.lipschitz(problem, n_rows=sample), theory.coordinate_lipschitz(problem)
    except ValueError as error:  # rows whose squared norms overflow
        return _nothing(str(error).rstrip("."))
    known = Constants(
        at_start - lowest,
        *smoothness,
        sigma,
        n_updates=max(1.0, rows / (n_gradients * rows_per_gradient)),
        n_gradients=n_gradients,
        n_coordinates=(problem.n_features + problem.fit_intercept) * problem.n_columns,
        consistent=consistent,
        one_coordinate=coordinate is not None,
    )
    if not (0.0 < known.gap < math.inf and known.L > 0.0 and 0.0 < known.sigma < math.inf):
        return _nothing(
            f"it needs finite constants above zero, and here gap={known.gap:.3g}, "
            f"L={known.L:.3g}, sigma={known.sigma:.3g}"
        )
    section: dict[str, Any] = {
        "reads": "consistent" if consistent else "inconsistent",
        "gap": known.gap,
        "lower_bound": lowest,
        "lower_bound_from": source,
        "L": known.L,
        "rows_for_L": min(sample, problem.n_rows),
        "L_max": known.L_max,
        "sigma": known.sigma,
        "n_coordinates": known.n_coordinates,
        "n_gradients": n_gradients,
        "n_updates": known.n_updates,
        **_ages(known, report),
        **_steps(known, report, step),
        "bound": known.bound(),
        **_measured(report),
    }
    if problem.is_sparse:
        section |= _sparsity(problem)
    section["up_to_workers"] = up_to(known)
    section["speedup_expected"] = is_expected(known, report)
    section["sentence"] = sentence(known, report, step)
    return section


def _nothing(reason: str) -> dict[str, Any]:
    return {"sentence": f"Whether linear speedup is to be expected cannot be said: {reason}."}


def _start_and_noise(
    problem: LinearProblem, last: Model, start: Model | None, n_rows: int, on_support: bool
) -> tuple[float, float]:
    """Objective where the run started, and the larger of the noises there and at its end."""
    if start is None:
        shape = problem.n_columns, problem.n_features
        start = Model(np.zeros(shape), np.zeros(problem.n_columns))
    noises = []
    for model in (last, start):
        with np.errstate(all="ignore"):  # what is not finite is told of
            at = theory.gradient(problem, model)
            noises.append(
                theory.gradient_noise(problem, model, n_rows, on_support=on_support, at=at)
            )
    return at.objective, max(noises)


def lower_bound(problem: LinearProblem, model: Model) -> tuple[float, str]:
    """What the optimum is not below, and how that is known.

    With l2 the dual objective at the slopes of a model, if that is above zero; no loss is negative.
    """
    if problem.l2 > 0.0:
        look = Optimality(problem, model)
        dual = look.objective - look.gap()
        if dual > 0.0:
            return dual, "duality at the last model"
    return 0.0, "no loss is negative"


def up_to(known: Constants) -> int:
    """Workers up to which the condition holds: one more than the age, which the others make."""
    allowed = known.largest_age()
    return 1 if allowed is None else allowed + 1


def is_expected(known: Constants, report: Report) -> bool:
    """Whether two workers or more are allowed, and 19 of 20 ages of the run are."""
    return up_to(known) >= max(2, report.staleness_p95 + 1)


def sentence(known: Constants, report: Report, step: float | None) -> str:
    """Whether linear speedup is to be expected, up to how many workers, and why."""
    law = "(10)" if known.consistent else "(18)"
    count, workers = f"{known.n_updates:,.0f}", up_to(known)
    p95, oldest = report.staleness_p95, report.staleness_max
    if workers < 2:
        least = known.least_updates(1)
        text = (
            f"Linear speedup is not to be expected, because for two workers (age 1) condition "
            f"{law} asks for {least:,} updates and the run had {count}: take "
            f"{_times(least / known.n_updates)} as many epochs, or smaller batches"
        )
    elif not is_expected(known, report):
        text = (
            f"Linear speedup is not to be expected of this run, because {count} updates allow an "
            f"age of {workers - 1} by condition {law} (about {workers} workers), and one in twenty "
            f"of its updates was {p95} old or more (the oldest {oldest})"
        )
    else:
        within = f"no update of this run was older than {oldest}"
        if oldest > workers - 1:
            within = f"19 of 20 updates of this run were at most {p95} old, the oldest {oldest}"
        text = (
            f"Linear speedup is to be expected up to about {workers:,} workers: {count} updates "
            f"allow an age of {workers - 1:,} by condition {law}, and {within}"
        )
    if step is not None and known.condition(step, p95) > 1.0:
        law = "(7)" if known.consistent else "(15)"
        text += (
            f"; this is for the paper's step size {known.step_size():.3g}, and the one used, "
            f"{step:.3g}, is too long for its condition {law}"
        )
    return text + "."


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 100.0 else f"{ratio:,.0f} times"


def _ages(known: Constants, report: Report) -> dict[str, Any]:
    oldest = report.staleness_max
    return {
        "age_p95": report.staleness_p95,
        "age_max": oldest,
        "least_updates": known.least_updates(oldest),
        "condition_holds": known.n_updates >= known.least_updates(oldest),
        "largest_age": known.largest_age(),
    }


def _steps(known: Constants, report: Report, step: float | None) -> dict[str, Any]:
    steps: dict[str, Any] = {"step": step, "paper_step": known.step_size()}
    if step is not None:
        left = known.condition(step, report.staleness_max)
        steps |= {"step_condition": left, "step_condition_holds": left <= 1.0}
    return steps


def _measured(report: Report) -> dict[str, Any]:
    """Mean squared gradient norm over the trace: each snapshot stands for what came after it."""
    trace = report.trace
    if trace is None or trace.squared_gradient is None or not trace.epochs[-1] > 0.0:
        return {}
    spans = np.diff(trace.epochs, append=trace.epochs[-1])
    norm = theory.ergodic_gradient_norm(spans, trace.squared_gradient)
    return {"ergodic_squared_gradient": norm}


def _sparsity(problem: LinearProblem) -> dict[str, Any]:
    """Hogwild!'s numbers of the features; the intercept, which all rows share, is left out."""
    found = theory.sparsity(as_matrix(problem))
    return {
        "omega": found.omega,
        "delta": found.delta,
        "rho": found.rho,
        "rho_at_most": found.rho_at_most,
    }
