"""The common parts of methods on tasks: workers, rows, the end, and the report.

With these parts, a method takes a few lines of code (`task_methods.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Never, cast

import numpy as np

from hogshare.barriers import barrier_of, name_of
from hogshare.kernels import layout
from hogshare.problems.protocol import Problem, has_rows
from hogshare.report import Report, Trace
from hogshare.solvers import outcome
from hogshare.solvers.choice_names import problem_of
from hogshare.system import docstrings
from hogshare.system.interrupts import errstate
from hogshare.system.ranges import positive, whole
from hogshare.tasks.context import AsyncContext
from hogshare.tasks.executors import job_of
from hogshare.tasks.results import Result
from hogshare.tasks.steps import StepRule, step_rule

# sections added to the docstrings of all methods that do not have them
SAID = """
Parameters
----------
problem : LinearProblem or GradientProblem
    The problem to minimize.
*others
    Not accepted: pass all other arguments by name.
workers, n_workers
    The workers that run tasks, see `hogshare.AsyncContext`.
rate : float, default=0.1
    Share of its rows that a task draws.
epochs : float, default=10
    Number of passes over the rows, by the number of drawn rows.
barrier : Barrier, str or callable, optional
    When a worker may get its next task, see `Collection.barrier`; by default at once.
**settings
    ``barrier``, ``partitions`` and ``trace`` (snapshots per epoch), and further arguments of
    `AsyncContext`: ``seed``, ``stragglers``, ``cutoff``, ``retries``, ``memory``.

Returns
-------
Report
"""


class TaskRunDiverged(FloatingPointError):
    """The model has left the range of floats."""


def by_ranks(method: Callable[..., Report]) -> Callable[..., Report]:
    """Wrap a method: if `workers` are ranks, all ranks of the job call it and get its report."""
    docstrings.complete(method, [SAID])

    @functools.wraps(method)
    def call(problem: Any, *others: Never, workers: Any = "processes", **settings: Any) -> Report:
        job = job_of(workers)
        if job is None:
            return method(problem, *others, workers=workers, **settings)
        if not job.leads:
            job.serve()
            return cast(Report, job.spread())
        with job.call:
            report = method(problem, *others, workers=job, **settings)
        return cast(Report, job.spread(report))

    return call


class TaskRun:
    """A method's workers and rows, for the duration of a ``with`` block.

    The constructor starts the context's workers; the end of the block ends them.

    Attributes are (1) `ac`, the context; (2) `points`, the collection of the problem's rows, which
    draws samples and has the barrier; (3) `updates`, the number of the model's steps so far.

    problem : the problem, and a tuple of further positional arguments, which must be empty
    epochs : the method ends when it has drawn this many times the number of rows
    rate : as in `Collection.sample`
    barrier : as in `Collection.barrier`
    trace : number of snapshots of the model per epoch; the objective is evaluated at the snapshots
        after the run
    context : further arguments of `AsyncContext`
    """

    def __init__(
        self,
        problem: tuple[Any, tuple[Never, ...]],
        *,
        epochs: float,
        rate: float,
        barrier: Any,
        trace: int | None = None,
        partitions: int | None = None,
        **context: Any,
    ) -> None:
        positive(epochs=epochs)
        if trace is not None:
            whole(1, trace=trace)
        self.problem: Problem = problem_of(*problem)
        self._epochs, self._every, self._rate = epochs, trace, rate
        self._settings = {
            "problem": self.problem.facts(),
            "barrier": name_of(barrier_of(barrier)),
            "stragglers": None if not context.get("stragglers") else str(context["stragglers"]),
            "seed": context.get("seed", 0),
            "rate": rate,
        }
        self.ac = AsyncContext(**context)
        try:
            points = self.ac.parallelize(self.problem, partitions=partitions)
            self.points = points.sample(rate).barrier(barrier)
        except BaseException:
            self.ac.close()  # its workers run already, and no `with` block will end them
            raise
        self.updates = self.rows = 0
        self._staleness = np.zeros(layout.HISTOGRAM, np.int64)
        self._snapshots: list[tuple[float, int, float, np.ndarray]] = []

    def start(self) -> np.ndarray:
        """Return the initial vector."""
        w = np.array(self.problem.start(), dtype=np.float64)
        self._snapshot(w)
        return w

    def goes_on(self) -> bool:
        """Whether fewer rows have been drawn than requested."""
        return self.rows < self._epochs * self.problem.n_rows

    def record(self, w: np.ndarray, *results: Result) -> None:
        """Count an update of the model `w` by these results; copy `w` if a snapshot is due.

        Raises
        ------
        TaskRunDiverged
            If the model is no longer finite.
        """
        self.updates += 1
        for result in results:
            self.rows += result.n_samples
            self._staleness[min(result.staleness, layout.HISTOGRAM - 1)] += 1
        if not np.isfinite(w).all():
            raise TaskRunDiverged(
                f"the model is not finite after {self.updates} updates: use a smaller step."
            )
        if self._every is not None:
            due = self._snapshots[-1][0] + 1.0 / self._every
            if self.rows >= due * self.problem.n_rows:
                self._snapshot(w)

    def _snapshot(self, w: np.ndarray) -> None:
        passes = self.rows / self.problem.n_rows
        self._snapshots.append((passes, self.updates, self.ac.seconds, w.copy()))  # evaluated later

    def report(self, method: str, w: np.ndarray, **settings: Any) -> Report:
        """Return the report of the run."""
        seconds = self.ac.seconds
        if self._every is not None and self._snapshots[-1][1] < self.updates:
            self._snapshot(w)
        executor = self.ac.executor
        run = {"run": seconds} if executor.passes_time else {"run": seconds, "virtual": seconds}
        count = self.ac.n_workers
        return Report(
            model=self.problem.model_at(w),
            settings={
                **self._settings,
                **settings,
                "rule": {"name": method},
                "plane": {"name": "AsyncContext"},
                "runtime": executor.name,
                "n_workers": count,
                "updates": self.updates,
                "versions_alive": self.ac.versions_alive,
            },
            versions=outcome.versions(),
            machine=outcome.machine(),
            n_epochs=int(self.rows // self.problem.n_rows),
            stop_reason="all epochs were done",
            trace=self._trace() if self._every is not None else None,
            workers=self._workers(),
            staleness=self._staleness,
            seconds=run,
            traffic=executor.traffic.as_dict(),
            notes=self._notes(),
        )

    def _trace(self) -> Trace:
        passes, updates, seconds, vectors = zip(*self._snapshots, strict=True)
        with errstate(over="ignore"):
            found = [self.problem.objective_at(self.problem.model_at(w)) for w in vectors]
        columns = [np.array(column, dtype=np.float64) for column in (passes, updates, seconds)]
        return Trace(columns[0], columns[1], columns[2], np.array(found))

    def _workers(self) -> list[dict[str, Any]]:
        stat = self.ac.stat
        return [
            {
                "worker": worker,
                "state": str(stat.state[worker]),
                "blocks": int(stat.blocks[worker]),
                "rows": int(stat.rows[worker]),
                "waiting_seconds": float(stat.waiting_seconds[worker]),
                "mean_block_seconds": float(stat.mean_block_seconds[worker]),
            }
            for worker in range(len(stat))
        ]

    def _notes(self) -> list[str]:
        found = []
        if self.ac.dropped:
            found.append(f"{self.ac.dropped} results were older than cutoff, and were dropped")
        if self.ac.repeated:
            found.append(f"{self.ac.repeated} tasks were run again, because workers were lost")
        return found

    def step(self, given: Any, of_number: Callable[[float], StepRule], share: float) -> StepRule:
        """Return the rule of step sizes; by default `share` divided by a task's largest curvature.

        given : the user's step: a number, a rule, or None
        of_number : makes the rule for a number

        For a linear problem the curvature is known. The curvature of the mean loss of B rows is
        between two bounds: (1) the curvature of the mean loss of all rows, which is at most the
        mean of the rows' curvatures; (2) the largest curvature of a row (expected smoothness, Gower
        et al., "SGD: general analysis and improved rates", ICML 2019, for sampling without
        replacement).
        """
        safe = None
        if has_rows(self.problem):
            mean, largest = (norm + self.problem.fit_intercept for norm in self.problem.norms)
            n_rows = self.problem.n_rows
            batch = max(1.0, self._rate * n_rows / self.ac.n_workers)
            of_largest = (n_rows - batch) / (batch * max(1, n_rows - 1))
            curved = self.problem.sharpness * (mean + of_largest * (largest - mean))
            safe = share / (curved + self.problem.l2)
        return step_rule(given, of_number, safe)

    def __enter__(self) -> TaskRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ac.__exit__(kind, error, trace)
