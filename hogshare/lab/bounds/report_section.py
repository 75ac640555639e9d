"""The theory section of a report: constants, condition and bound of AsySG's analysis.

The section is computed from the problem and the report, in the calling thread, after the run and
outside of the run's times. ``docs/theory.md`` describes how the paper's counts are taken from a
run.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.kernels.rules import step_schedules
from hogshare.lab import bounds
from hogshare.lab.bounds.smoothness import as_matrix
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem, RowProblem, by_gradient, has_rows
from hogshare.report import Report, largest_of, mean_of, p95_of
from hogshare.rules.steps import StepSize, optimal_start
from hogshare.system.interrupts import errstate

SAMPLE_VALUES = 1 << 20  # values of the rows that L is computed from
SAMPLED_ROWS = 1024  # rows that L is estimated from for problems given by a gradient
MOST_STEPS = 1 << 16  # step sizes evaluated between two snapshots


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """The algorithm of a run in the paper's terms.

    consistent : whether reads are real past states of the model (AsySG-con), or not (AsySG-incon)
    n_gradients : number M of gradients summed in an update
    step : constant step size for the sum of the gradients; None if it changed during the run
    rows_per_gradient : number of rows whose mean is one gradient
    penalty_on_support : whether a row's gradient includes the l2 penalty on the row's own features
        only, see `hogshare.theory.gradient_noise`. None: it does so only if reads are inconsistent
        and updates write all coordinates
    coordinate : which coordinates an update writes, as in `SGD`; None: all
    own_under_way : whether a worker may read while its own last gradient is on its way to a master
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
        """Whether a row's gradient includes the penalty on the row's own features only."""
        if self.penalty_on_support is not None:
            return self.penalty_on_support
        return not self.consistent and self.coordinate is None


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run for the analysis; ages and updates count updates of the model.

    On the lock-free plane an update of the model is one write cycle. With inconsistent reads, the
    analysis counts an update as one write per written coordinate: n writes, or just one. If a
    worker may read while its own last gradient is on its way, that gradient adds to the ages.

    of : the constants of the problem and its gradients
    algorithm : the algorithm of the run
    n_updates : number of the model's updates in the run
    ages : histogram of the ages of the run's updates
    """

    of: bounds.CoordinateConstants
    algorithm: Algorithm
    n_updates: float
    ages: np.ndarray

    def formula(self, name: str) -> Any:
        """Return the function of a formula, for consistent or for inconsistent reads."""
        return getattr(bounds, f"{'con' if self.algorithm.consistent else 'incon'}_{name}")

    @property
    def p95(self) -> int:
        """Age that 19 of 20 updates do not exceed."""
        return p95_of(self.ages)

    @property
    def oldest(self) -> int:
        """Largest age of the run."""
        return largest_of(self.ages)

    @property
    def in_an_update(self) -> int:
        """Number of gradients in one update of the model."""
        return int(self.of.n_gradients) if self.algorithm.consistent else 1

    def age_of(self, n_workers: int) -> int:
        """Return the age, in updates, that `n_workers` workers cause by gradients under way."""
        return -(-(n_workers - 1 + self.algorithm.own_under_way) // self.in_an_update)

    @property
    def writes(self) -> int:
        """Number of iterations of the analysis in one update of the model."""
        is_one = self.algorithm.consistent or self.algorithm.coordinate is not None
        return 1 if is_one else int(self.of.n_coordinates)

    @property
    def n_writes(self) -> float:
        """Number K of iterations of the analysis in the run."""
        return self.n_updates * self.writes

    def step_size(self) -> float:
        """Return the paper's constant step size, (9) or (17)."""
        return float(self.formula("step_size")(self.of, self.n_writes))

    def least_updates(self, age: float) -> int:
        """Return the number of updates that condition (10) or (18) requires at an age."""
        least = self.formula("least_updates" if self.algorithm.consistent else "least_writes")
        return math.ceil(least(self.of, self.writes * age) / self.writes)

    def largest_age(self) -> int | None:
        """Return the largest age that condition (10) or (18) allows, in updates; None if none."""
        age = self.formula("largest_age")(self.of, self.n_writes)
        return None if age is None else age // self.writes

    def condition(self, step: float, age: float) -> float:
        """Return the left side of condition (7) or (15) of the paper."""
        return float(self.formula("condition")(self.of, step, self.writes * age))

    def bound(self) -> float:
        """Return the paper's bound (11) or (19)."""
        return float(self.formula("bound")(self.of, self.n_writes))

    def up_to(self) -> int:
        """Return the largest number of workers that cause an age which the condition allows."""
        allowed = self.largest_age()
        if allowed is None:
            return 1
        return max(1, allowed * self.in_an_update + 1 - self.algorithm.own_under_way)

    def is_expected(self) -> bool:
        """Whether the condition allows two workers, and at least 19 of 20 ages of the run."""
        allowed = self.largest_age()
        return allowed is not None and self.up_to() >= 2 and allowed >= self.p95


def theory_section(
    problem: Problem,
    report: Report,
    algorithm: Algorithm,
    *,
    schedule: StepSize | None = None,
    n_training: int | None = None,
    start: Any = None,
) -> dict[str, Any]:
    """Apply the analysis of AsySG to a run; return plain data for `Report.theory`.

    The result has numbers by name. Its "sentence" says whether linear speedup is to be expected. If
    the analysis does not apply, the result has only the sentence, which gives the reason.

    problem : the problem that was minimised
    report : report of the run. With a master the report has ages, in updates of the model. Without
        a master the histogram of staleness replaces the ages. Staleness counts pushes, and a push
        is a block of rows. The replacement is valid because during a block the other workers
        complete as many blocks as they complete write cycles during one write cycle
    algorithm : the algorithm of the run in the paper's terms
    schedule : the step sizes up to a factor; None: they were constant
    n_training : number of rows of an epoch; None: all rows of the problem
    start : model at the start of the run; None: the default start of the problem
    """
    if algorithm.coordinate not in (None, "uniform"):
        return _nothing(
            "the form of the paper's bound for draws from the support, (20), is uncertain, so this "
            "package does not offer it"
        )
    try:
        known_of = _of_rows if has_rows(problem) else _of_gradient
        found = known_of(problem, report, algorithm, start)  # type: ignore[arg-type]
    except ValueError as error:  # not smooth, or rows whose squared norms overflow
        return _nothing(str(error).rstrip("."))
    constants = {name: found[name] for name in ("gap", "L", "L_max", "sigma")}
    if not all(0.0 < value < math.inf for value in constants.values()):
        values = ", ".join(f"{name}={value:.3g}" for name, value in constants.items())
        return _nothing(f"it needs finite constants above zero; got {values}")
    rows = sum(int(worker.get("rows", 0)) for worker in report.workers)
    n_gradients = algorithm.n_gradients
    known = RunFacts(
        bounds.CoordinateConstants(
            **constants, n_gradients=n_gradients, n_coordinates=found["n_coordinates"]
        ),
        algorithm,
        n_updates=max(1.0, rows / (n_gradients * algorithm.rows_per_gradient)),
        ages=report.staleness if report.ages is None else report.ages,
    )
    section: dict[str, Any] = {
        "reads": "consistent" if algorithm.consistent else "inconsistent",
        **found,
        "n_gradients": n_gradients,
        "n_updates": known.n_updates,
        **_ages(known),
        **_steps(known),
        "bound": known.bound(),
        **_measured(problem, report, schedule, n_training or problem.n_rows),
    }
    if has_rows(problem) and problem.is_sparse:
        # without the intercept, which all rows share
        section |= dataclasses.asdict(bounds.sparsity(as_matrix(problem)))
    section["up_to_workers"] = known.up_to()
    section["speedup_expected"] = known.is_expected()
    section["sentence"] = sentence(known)
    return section


def _of_rows(
    problem: RowProblem, report: Report, algorithm: Algorithm, start: Model | None
) -> dict[str, Any]:
    """Compute the constants of a linear problem in closed form.

    Raises
    ------
    ValueError
        If the objective is not smooth, or squared norms overflow.
    """
    reason = bounds.unsmooth(problem)
    if reason is not None:
        raise ValueError(f"the analysis needs a smooth objective, and {reason}")
    lowest, source = lower_bound(problem, report.model)
    at_start, sigma = _start_and_noise(problem, report.model, algorithm, start)
    sample = max(1, SAMPLE_VALUES * problem.n_rows // max(1, problem.nnz))
    return {
        "gap": at_start - lowest,
        "lower_bound": lowest,
        "lower_bound_from": source,
        "L": bounds.lipschitz(problem, n_rows=sample),
        "rows_for_L": min(sample, problem.n_rows),
        "L_max": bounds.coordinate_lipschitz(problem),
        "sigma": sigma,
        "n_coordinates": (problem.n_features + problem.fit_intercept) * problem.n_columns,
    }


def _of_gradient(
    problem: Problem, report: Report, algorithm: Algorithm, start: Any
) -> dict[str, Any]:
    """Estimate the constants of a user-defined gradient at the start and the end of the run."""
    assert by_gradient(problem)
    first, last = problem.start_model(start).coef[0], report.model.params
    n_rows, size = min(problem.n_rows, SAMPLED_ROWS), algorithm.rows_per_gradient
    L = max(bounds.sampled_lipschitz(problem, at, n_rows) for at in (first, last))
    lowest = float(problem.objective(last))
    return {
        "gap": float(problem.objective(first)) - lowest,
        "lower_bound": lowest,
        "lower_bound_from": "the last model, which the optimum may be below",
        "L": L,
        "rows_for_L": n_rows,
        "L_max": L,
        "sigma": max(bounds.sampled_noise(problem, at, size) for at in (first, last)),
        "n_coordinates": problem.n_params,
    }


def _nothing(reason: str) -> dict[str, Any]:
    return {"sentence": f"Whether linear speedup is to be expected cannot be said: {reason}."}


def _start_and_noise(
    problem: RowProblem, last: Model, algorithm: Algorithm, start: Model | None
) -> tuple[float, float]:
    """Return the objective at the start of a run, and the larger noise of its start and end."""
    if start is None:
        shape = problem.n_columns, problem.n_features
        start = Model(np.zeros(shape), np.zeros(problem.n_columns))
    noises, size = [], algorithm.rows_per_gradient
    for model in (last, start):
        with errstate(all="ignore") as silenced:  # values that are not finite are refused later
            at = silenced.outside(bounds.gradient, problem, model)
            noise = functools.partial(bounds.gradient_noise, on_support=algorithm.on_support, at=at)
            noises.append(silenced.outside(noise, problem, model, size))
    return at.objective, max(noises)


def lower_bound(problem: RowProblem, model: Model) -> tuple[float, str]:
    """Return a lower bound of the optimum, and a phrase that names its source.

    With an l2 penalty the bound is the dual objective at the loss slopes of `model`, if this is
    above zero. In all other cases the bound is zero, because no loss is negative.
    """
    if problem.l2 > 0.0:
        evaluated = Optimality(problem, model)
        dual = evaluated.objective - evaluated.gap()
        if dual > 0.0:
            return dual, "duality at the last model"
    return 0.0, "no loss is negative"


def sentence(known: RunFacts) -> str:
    """Return a sentence on linear speedup: whether and up to how many workers, and the reason."""
    algorithm, count, workers = known.algorithm, f"{known.n_updates:,.0f}", known.up_to()
    law = "(10)" if algorithm.consistent else "(18)"
    allowed, of_two = known.largest_age(), known.age_of(2)
    if allowed is None or workers < 2:
        least = known.least_updates(of_two)
        text = (
            f"Linear speedup is not to be expected, because for two workers (age {of_two}) "
            f"condition {law} needs {least:,} updates and the run had {count}: use "
            f"{_times(least / known.n_updates)} as many epochs, or smaller batches"
        )
    elif not known.is_expected():
        text = (
            f"Linear speedup is not to be expected of this run, because {count} updates allow an "
            f"age of {allowed:,} by condition {law} (about {workers:,} workers), and one in twenty "
            f"of its updates was {known.p95} old or more (the oldest {known.oldest})"
        )
    else:
        within = f"no update of this run was older than {known.oldest}"
        if known.oldest > allowed:
            within = (
                f"19 of 20 updates of this run were at most {known.p95} old, the oldest "
                f"{known.oldest}"
            )
        text = (
            f"Linear speedup is to be expected up to about {workers:,} workers: {count} updates "
            f"allow an age of {allowed:,} by condition {law}, and {within}"
        )
    if algorithm.step is not None and known.condition(algorithm.step, known.p95) > 1.0:
        law = "(7)" if algorithm.consistent else "(15)"
        text += (
            f"; this is for the paper's step size {known.step_size():.3g}, and the one used, "
            f"{algorithm.step:.3g}, is too long for its condition {law}"
        )
    return text + "."


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 100.0 else f"{ratio:,.0f} times"


def _ages(known: RunFacts) -> dict[str, Any]:
    least = known.least_updates(known.oldest)
    return {
        "age_mean": mean_of(known.ages),
        "age_p95": known.p95,
        "age_max": known.oldest,
        "least_updates": least,
        "condition_holds": known.n_updates >= least,
        "largest_age": known.largest_age(),
    }


def _steps(known: RunFacts) -> dict[str, Any]:
    step = known.algorithm.step
    steps: dict[str, Any] = {"step": step, "paper_step": known.step_size()}
    if step is not None:
        left = known.condition(step, known.oldest)
        steps |= {"step_condition": left, "step_condition_holds": left <= 1.0}
    return steps


def _measured(
    problem: Problem, report: Report, schedule: StepSize | None, n_rows: int
) -> dict[str, Any]:
    """Return the mean squared gradient norm over the trace, weighted by step sizes.

    Each snapshot represents the updates until the next one. The result is empty if the step sizes
    are unknown.
    """
    trace = report.trace
    if trace is None or trace.squared_gradient is None or len(trace.epochs) < 2:
        return {}
    schedule = schedule or StepSize("constant")
    rows = np.rint(trace.epochs * n_rows)
    first_t = report.model.t - report.n_epochs * n_rows  # first epoch's, also of a resumed run
    steps = mean_steps(problem, report, schedule, first_t + rows)
    if steps is None:
        return {}
    weights = np.diff(trace.epochs) * steps
    norm = bounds.ergodic_gradient_norm(weights, trace.squared_gradient[:-1])
    return {"ergodic_squared_gradient": norm}


def mean_steps(
    problem: Problem, report: Report, schedule: StepSize, times: np.ndarray
) -> np.ndarray | None:
    """Return the mean step size of the rows from each time to the next, up to a factor.

    The result is None for an "adaptive" schedule whose steps may have decreased, because reports do
    not record the decreases. (Passive-aggressive steps have losses with kinks, which the theory
    does not cover.)
    """
    if schedule.kind == "adaptive" and report.settings["stop"]["tol"] is not None:
        return None
    if schedule.kind in ("constant", "adaptive"):
        return np.ones(len(times) - 1)
    of_problem = 0.0, 0.0
    if has_rows(problem):
        alpha = problem.alpha
        of_problem = alpha, optimal_start(problem.loss, problem.epsilon, alpha)
    numbers = step_schedules.CODES[schedule.kind], schedule.eta0, schedule.power_t, *of_problem
    means = []
    for first, end in itertools.pairwise(times):
        # far from the first row, the middle of a span represents all its rows
        together = max(1, int(end - first) // MOST_STEPS)
        middles = np.arange(first, max(end, first + 1.0), together) + 0.5 * (together - 1)
        means.append(float(step_schedules.step_size(*numbers, middles).mean()))
    return np.array(means)
