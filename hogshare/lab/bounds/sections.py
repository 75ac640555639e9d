"""What the analysis of AsySG says of a run that is over: constants, condition, bound, a sentence.

Computed from the problem and the report in the calling thread, after the run and outside of its
times. ``docs/theory.md`` says how the paper's counts are read off a run.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels import schedules
from hogshare.lab import bounds
from hogshare.lab.bounds.smoothness import as_matrix
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem, RowProblem, by_gradient, has_rows
from hogshare.report import Report, largest_of, mean_of, p95_of
from hogshare.rules.steps import StepSize, optimal_start
from hogshare.system.interrupts import errstate

SAMPLE_VALUES = 1 << 20  # of the rows that L is computed from
SAMPLED_ROWS = 1024  # that it is estimated from, where it is not computed
MOST_STEPS = 1 << 16  # evaluated between two snapshots


@dataclass(frozen=True)
class Known:
    """What the analysis needs to know of a run; ages and updates are the model's, not coordinates.

    A model's update is one write cycle on the lock-free plane: with inconsistent reads the analysis
    counts it as one write per coordinate, or as what it is where it writes just one.

    own : gradients of a worker's own that may be under way when it reads: 1 with a master that it
        does not wait for
    """

    of: bounds.CoordinateConstants
    n_updates: float
    consistent: bool
    one_coordinate: bool = False
    own: int = 0

    def age_of(self, n_workers: int) -> int:
        """Age that so many workers make: the updates that their gradients under way make."""
        gradients = n_workers - 1 + self.own
        return -(-gradients // int(self.of.n_gradients)) if self.consistent else gradients

    def workers_of(self, age: int) -> int:
        """The most workers that make no larger age; at least 1, who makes none."""
        gradients = age * int(self.of.n_gradients) if self.consistent else age
        return max(1, gradients + 1 - self.own)

    @property
    def writes(self) -> int:
        """The analysis' iterations in an update."""
        return 1 if self.consistent or self.one_coordinate else int(self.of.n_coordinates)

    @property
    def n_writes(self) -> float:
        """K of the analysis."""
        return self.n_updates * self.writes

    def step_size(self) -> float:
        """The paper's constant step, (9) or (17)."""
        if self.consistent:
            return bounds.con_step_size(self.of, self.n_updates)
        return bounds.incon_step_size(self.of, self.n_writes)

    def least_updates(self, age: float) -> int:
        """Updates that (10) or (18) asks for at an age."""
        if self.consistent:
            return bounds.con_least_updates(self.of, age)
        return math.ceil(bounds.incon_least_writes(self.of, self.writes * age) / self.writes)

    def largest_age(self) -> int | None:
        """Age that (10) or (18) allows."""
        if self.consistent:
            return bounds.con_largest_age(self.of, self.n_updates)
        age = bounds.incon_largest_age(self.of, self.n_writes)
        return None if age is None else age // self.writes

    def condition(self, step: float, age: float) -> float:
        """Left side of (7) or (15)."""
        if self.consistent:
            return bounds.con_condition(self.of, step, age)
        return bounds.incon_condition(self.of, step, self.writes * age)

    def bound(self) -> float:
        """(11) or (19)."""
        if self.consistent:
            return bounds.con_bound(self.of, self.n_updates)
        return bounds.incon_bound(self.of, self.n_writes)


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """What has run, in the paper's terms.

    Parameters
    ----------
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
    own_under_way : bool, default=False
        Whether a worker may read while its own last gradient is on its way to a master.
    """

    consistent: bool
    n_gradients: int
    step: float | None
    rows_per_gradient: int = 1
    penalty_on_support: bool | None = None
    coordinate: str | None = None
    own_under_way: bool = False

    @property
    def on_support(self) -> bool:
        """Whether a row's gradient holds the penalty on the row's own features only."""
        if self.penalty_on_support is not None:
            return self.penalty_on_support
        return not self.consistent and self.coordinate is None


def theory_section(
    problem: Problem,
    report: Report,
    algorithm: Algorithm,
    *,
    schedule: StepSize | None = None,
    n_training: int | None = None,
    start: Any = None,
) -> dict[str, Any]:
    """Say what the analysis of AsySG expects of a run, as plain data for `Report.theory`.

    Parameters
    ----------
    problem : LinearProblem or GradientProblem
    report : Report
        Of the run. With a master it has ages, in updates of the model. Otherwise its staleness
        histogram is taken for them: on the lock-free plane a push is a block of rows, of which
        others complete as many during one of this worker's as they complete write cycles during
        one cycle of its.
    algorithm : Algorithm
    schedule : StepSize or None, default=None
        How the steps went, up to a factor; None: they were constant.
    n_training : int or None, default=None
        Rows of an epoch; None: all of the problem.
    start : Model, Params or None, default=None
        Where the run started; None: where runs on the problem do.

    Returns
    -------
    dict
        Numbers by name, and under "sentence" whether linear speedup is to be expected. Where the
        analysis does not apply there is the sentence alone, which says why.
    """
    if algorithm.coordinate not in (None, "uniform"):
        return _nothing(
            "the paper's bound for draws from the support, (20), is not certain in its form, and "
            "is not offered"
        )
    n_gradients, size = algorithm.n_gradients, algorithm.rows_per_gradient
    try:
        if has_rows(problem):
            found = _of_rows(problem, report, start, size, algorithm.on_support)
        else:
            found = _of_gradient(problem, report, start, size)
    except ValueError as error:  # not smooth, or rows whose squared norms overflow
        return _nothing(str(error).rstrip("."))
    rows = sum(int(worker.get("rows", 0)) for worker in report.workers)
    gap = found.at_start - found.lowest
    constants = {"gap": gap, "L": found.L, "L_max": found.L_max, "sigma": found.sigma}
    if not all(0.0 < value < math.inf for value in constants.values()):
        told = ", ".join(f"{name}={value:.3g}" for name, value in constants.items())
        return _nothing(f"it needs finite constants above zero, and here {told}")
    known = Known(
        bounds.CoordinateConstants(
            **constants, n_gradients=n_gradients, n_coordinates=found.n_coordinates
        ),
        n_updates=max(1.0, rows / (n_gradients * size)),
        consistent=algorithm.consistent,
        one_coordinate=algorithm.coordinate is not None,
        own=int(algorithm.own_under_way),
    )
    section: dict[str, Any] = {
        "reads": "consistent" if algorithm.consistent else "inconsistent",
        "gap": gap,
        "lower_bound": found.lowest,
        "lower_bound_from": found.source,
        "L": found.L,
        "rows_for_L": found.n_rows,
        "L_max": found.L_max,
        "sigma": found.sigma,
        "n_coordinates": found.n_coordinates,
        "n_gradients": n_gradients,
        "n_updates": known.n_updates,
        **_ages(known, report),
        **_steps(known, report, algorithm.step),
        "bound": known.bound(),
        **_measured(problem, report, schedule, n_training or problem.n_rows),
    }
    if has_rows(problem) and problem.is_sparse:
        section |= _sparsity(problem)
    section["up_to_workers"] = up_to(known)
    section["speedup_expected"] = is_expected(known, report)
    section["sentence"] = sentence(known, report, algorithm.step)
    return section


class Objective(NamedTuple):
    """What is known of an objective, for the analysis.

    at_start, lowest : objective where the run began, and what the optimum is taken not to be below
    source : how that is known
    L, L_max, sigma : as of the analysis
    n_rows : rows that L is from
    n_coordinates : numbers of the model
    """

    at_start: float
    lowest: float
    source: str
    L: float
    L_max: float
    sigma: float
    n_rows: int
    n_coordinates: int


def _of_rows(
    problem: RowProblem,
    report: Report,
    start: Model | None,
    rows_per_gradient: int,
    on_support: bool,
) -> Objective:
    """Of a linear problem: in closed form.

    Raises
    ------
    ValueError
        If the objective is not smooth, or squared norms overflow.
    """
    reason = bounds.unsmooth(problem)
    if reason is not None:
        raise ValueError(f"the analysis is of smooth objectives, and {reason}")
    lowest, source = lower_bound(problem, report.model)
    at_start, sigma = _start_and_noise(problem, report.model, start, rows_per_gradient, on_support)
    sample = max(1, SAMPLE_VALUES * problem.n_rows // max(1, problem.nnz))
    smoothness = bounds.lipschitz(problem, n_rows=sample), bounds.coordinate_lipschitz(problem)
    n_coordinates = (problem.n_features + problem.fit_intercept) * problem.n_columns
    n_rows = min(sample, problem.n_rows)
    return Objective(at_start, lowest, source, *smoothness, sigma, n_rows, n_coordinates)


def _of_gradient(problem: Problem, report: Report, start: Any, rows_per_gradient: int) -> Objective:
    """Of a gradient of the user's: estimated where the run began and ended."""
    assert by_gradient(problem)
    first, last = problem.start_model(start).coef[0], report.model.params
    n_rows = min(problem.n_rows, SAMPLED_ROWS)
    L = max(bounds.sampled_lipschitz(problem, at, n_rows) for at in (first, last))
    sigma = max(bounds.sampled_noise(problem, at, rows_per_gradient) for at in (first, last))
    lowest = float(problem.objective(last))
    source = "the last model, which the optimum may be below"
    at_start = float(problem.objective(first))
    return Objective(at_start, lowest, source, L, L, sigma, n_rows, problem.n_params)


def _nothing(reason: str) -> dict[str, Any]:
    return {"sentence": f"Whether linear speedup is to be expected cannot be said: {reason}."}


def _start_and_noise(
    problem: RowProblem, last: Model, start: Model | None, n_rows: int, on_support: bool
) -> tuple[float, float]:
    """Objective where the run started, and the larger of the noises there and at its end."""
    if start is None:
        shape = problem.n_columns, problem.n_features
        start = Model(np.zeros(shape), np.zeros(problem.n_columns))
    noises = []
    for model in (last, start):
        with errstate(all="ignore") as held:  # what is not finite is told of
            at = held.outside(bounds.gradient, problem, model)
            noise = functools.partial(bounds.gradient_noise, on_support=on_support, at=at)
            noises.append(held.outside(noise, problem, model, n_rows))
    return at.objective, max(noises)


def lower_bound(problem: RowProblem, model: Model) -> tuple[float, str]:
    """What the optimum is not below, and how that is known.

    With l2 the dual objective at the slopes of a model, if that is above zero; no loss is negative.
    """
    if problem.l2 > 0.0:
        look = Optimality(problem, model)
        dual = look.objective - look.gap()
        if dual > 0.0:
            return dual, "duality at the last model"
    return 0.0, "no loss is negative"


def up_to(known: Known) -> int:
    """Workers up to which the condition holds: as many as make no larger age than it allows."""
    allowed = known.largest_age()
    return 1 if allowed is None else known.workers_of(allowed)


def is_expected(known: Known, report: Report) -> bool:
    """Whether two workers or more are allowed, and 19 of 20 ages of the run are."""
    allowed = known.largest_age()
    return allowed is not None and up_to(known) >= 2 and allowed >= p95_of(ages_of(report))


def ages_of(report: Report) -> np.ndarray:
    """Histogram of the ages of a run's updates."""
    return report.staleness if report.ages is None else report.ages


def sentence(known: Known, report: Report, step: float | None) -> str:
    """Whether linear speedup is to be expected, up to how many workers, and why."""
    law = "(10)" if known.consistent else "(18)"
    count, workers = f"{known.n_updates:,.0f}", up_to(known)
    allowed, of_two = known.largest_age(), known.age_of(2)
    p95, oldest = p95_of(ages_of(report)), largest_of(ages_of(report))
    if allowed is None or workers < 2:
        least = known.least_updates(of_two)
        text = (
            f"Linear speedup is not to be expected, because for two workers (age {of_two}) "
            f"condition {law} asks for {least:,} updates and the run had {count}: take "
            f"{_times(least / known.n_updates)} as many epochs, or smaller batches"
        )
    elif not is_expected(known, report):
        text = (
            f"Linear speedup is not to be expected of this run, because {count} updates allow an "
            f"age of {allowed:,} by condition {law} (about {workers:,} workers), and one in twenty "
            f"of its updates was {p95} old or more (the oldest {oldest})"
        )
    else:
        within = f"no update of this run was older than {oldest}"
        if oldest > allowed:
            within = f"19 of 20 updates of this run were at most {p95} old, the oldest {oldest}"
        text = (
            f"Linear speedup is to be expected up to about {workers:,} workers: {count} updates "
            f"allow an age of {allowed:,} by condition {law}, and {within}"
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


def _ages(known: Known, report: Report) -> dict[str, Any]:
    ages = ages_of(report)
    oldest = largest_of(ages)
    return {
        "age_mean": mean_of(ages),
        "age_p95": p95_of(ages),
        "age_max": oldest,
        "least_updates": known.least_updates(oldest),
        "condition_holds": known.n_updates >= known.least_updates(oldest),
        "largest_age": known.largest_age(),
    }


def _steps(known: Known, report: Report, step: float | None) -> dict[str, Any]:
    steps: dict[str, Any] = {"step": step, "paper_step": known.step_size()}
    if step is not None:
        left = known.condition(step, largest_of(ages_of(report)))
        steps |= {"step_condition": left, "step_condition_holds": left <= 1.0}
    return steps


def _measured(
    problem: Problem, report: Report, schedule: StepSize | None, n_rows: int
) -> dict[str, Any]:
    """Mean squared gradient norm over the trace, by step sizes: each snapshot stands for what came
    after it. Nothing where what the steps were is not known.
    """
    trace = report.trace
    if trace is None or trace.squared_gradient is None or len(trace.epochs) < 2:
        return {}
    schedule = schedule or StepSize("constant")
    rows = np.rint(trace.epochs * n_rows)
    first_t = report.model.t - report.n_epochs * n_rows  # of the first epoch, resumed or not
    steps = mean_steps(problem, report, schedule, first_t + rows)
    if steps is None:
        return {}
    weights = np.diff(trace.epochs) * steps
    norm = bounds.ergodic_gradient_norm(weights, trace.squared_gradient[:-1])
    return {"ergodic_squared_gradient": norm}


def mean_steps(
    problem: Problem, report: Report, schedule: StepSize, times: np.ndarray
) -> np.ndarray | None:
    """Mean step size of the rows from each time to the next, up to a factor.

    None of "adaptive" steps that may have fallen, since no report tells of that. (Losses that
    passive-aggressive steps are for have kinks, and no theory here.)
    """
    if schedule.kind == "adaptive" and report.settings["stop"]["tol"] is not None:
        return None
    if schedule.kind in ("constant", "adaptive"):
        return np.ones(len(times) - 1)
    of_problem = 0.0, 0.0
    if has_rows(problem):
        alpha = problem.alpha
        of_problem = alpha, optimal_start(problem.loss, problem.epsilon, alpha)
    numbers = schedules.CODES[schedule.kind], schedule.eta0, schedule.power_t, *of_problem
    means = []
    for first, end in itertools.pairwise(times):
        # so many rows at once are as good as their middle, far from the first
        together = max(1, int(end - first) // MOST_STEPS)
        middles = np.arange(first, max(end, first + 1.0), together) + 0.5 * (together - 1)
        means.append(float(schedules.step_size(*numbers, middles).mean()))
    return np.array(means)


def _sparsity(problem: RowProblem) -> dict[str, Any]:
    """Hogwild!'s numbers of the features; the intercept, which all rows share, is left out."""
    found = bounds.sparsity(as_matrix(problem))
    return {
        "omega": found.omega,
        "delta": found.delta,
        "rho": found.rho,
        "rho_at_most": found.rho_at_most,
    }
