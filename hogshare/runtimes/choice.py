"""The automatic choice of the number of workers and of the runtime, with notes for the report.

A worker *pays* if the run ends sooner with this worker than without it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import joblib

from hogshare.engine.stops import Stop
from hogshare.planes import Plane
from hogshare.planes.shared import row_nanoseconds
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem, RowProblem, by_gradient, has_rows
from hogshare.runtimes.caller import Caller
from hogshare.runtimes.idle_threads import end_spinning
from hogshare.runtimes.protocol import Runtime
from hogshare.runtimes.threads import Threads
from hogshare.shm import shared_rows
from hogshare.system import machine
from hogshare.system.messages import own

if TYPE_CHECKING:
    from hogshare.simulation.simulator import Simulator

RUNTIMES = ("auto", "caller", "threads", "processes")
# The cost of a worker is the waking of a thread, and the reads and writes for it before and after a
# run. A worker pays if it computes for at least this many times its cost, as a thread or as a
# process. With the machine's default constants these are 1.3 and 4.2 ms.
THREAD_COSTS, PROCESS_COSTS = 9, 30
WORKER_NS = 40_000
# Total computing time of a short run: other programs' threads that run at its start are likely to
# run until its end. Two threads, on two cores, took 6.6 ms for a fit of 4.3 ms when another program
# ran on one of the cores, and 12 ms when other programs ran on both.
MOMENT_NS = 10_000_000
# The shortest part of a common step, in nanoseconds, for which one more worker pays. The worker
# waits twice for the others, and once for the worker that takes the step. For networks of MNIST
# (80,000 parameters), two threads are as fast as one if a step takes 0.8 ms.
SHARED_STEP_NS = 450_000
# The same limit if one kernel call takes many steps: within the call, workers wait for each other
# without Python.
TEAM_STEP_NS = 40_000
MOST_JOBS = 1 << 22  # Linux has no larger number of threads and processes
WORTHWHILE_EXCHANGES = 4  # per worker and epoch; with fewer, copies diverge
EXPECTED_EPOCHS = 10  # assumed if only the limit of epochs is known


def check_jobs(n_jobs: int | None) -> None:
    """Refuse an invalid number of workers.

    Raises ValueError if `n_jobs` is 0, or larger than a system's largest number of threads.
    """
    if n_jobs == 0:
        raise ValueError(
            f"{own('n_workers')} == 0 has no meaning; use None or 1 for one worker, -1 for all."
        )
    if n_jobs is not None and n_jobs > MOST_JOBS:
        raise ValueError(f"{own('n_workers')} must be at most {MOST_JOBS:,}; got {n_jobs!r}.")


def usable_workers(n_jobs: int | None) -> int:
    """Return the number of workers that `n_jobs` stands for in this process.

    If `n_jobs` is None, the number is 1, or the value of a surrounding joblib context. If `n_jobs`
    is -1, it is the number of usable cores. In a worker of a parallel joblib call, the number is at
    most the limit that joblib has put into the environment. Without this limit, every joblib worker
    would start one worker for each core.

    Raises ValueError if `n_jobs` is 0.
    """
    check_jobs(n_jobs)
    if multiprocessing.current_process().daemon:
        return 1  # joblib returns 1, too, but also warns about a pool that is not wanted
    count = int(joblib.effective_n_jobs(n_jobs))
    nested = multiprocessing.parent_process() is not None or "LOKY_WORKER" in os.environ
    nested = nested or "Loky" in type(multiprocessing.current_process()).__name__
    if nested and (limit := os.environ.get("OMP_NUM_THREADS", "")).isdigit():
        count = min(count, max(1, int(limit)))
    return max(1, count)


def computing_ns(problem: RowProblem, epochs: int) -> float:
    """Return the nanoseconds for which one worker alone computes."""
    return problem.n_rows * row_nanoseconds(problem) * min(epochs, EXPECTED_EPOCHS)


def worthwhile_workers(work: Work) -> int:
    """Return the number of workers that pay for this work; 1 if a crew cannot pay."""
    costs = PROCESS_COSTS if work.by_processes else THREAD_COSTS
    by_time = int(work.nanoseconds / (costs * (machine.load().thread_wake_ns + WORKER_NS)))
    by_exchange = int(work.n_rows / max(1, WORTHWHILE_EXCHANGES * max(1, work.interval)))
    by_step = by_time if work.step_ns is None else max(1, int(work.step_ns / work.least_step_ns))
    return max(work.least_workers, min(by_time, by_exchange, by_step))


def _are_shared(problem: RowProblem) -> bool:
    return problem.rows.data.size > 0 and shared_rows.find(problem.rows.data) is not None


class Work(NamedTuple):
    """The amount of work of a run, and the runtimes that may do it.

    nanoseconds : computing time of the run with one worker
    interval : number of rows between two exchanges; 0 if there are no exchanges
    n_rows : number of rows in an epoch
    by_processes : reason why the run needs processes, not threads; "" if threads are possible
    by_threads : reason why threads are possible
    least_workers : number of workers that the plane needs, even if they do not pay
    step_ns : nanoseconds of a step that workers compute together, or None if each worker takes its
        own steps
    least_step_ns : shortest part of a common step, in nanoseconds, for which a worker pays
    """

    nanoseconds: float
    interval: int
    n_rows: int
    by_processes: str
    by_threads: str = "the rows need no copy then"
    least_workers: int = 1
    step_ns: float | None = None
    least_step_ns: float = SHARED_STEP_NS

    def shared(self, n_epochs: int, n_rows: int, in_calls: bool) -> Work:
        """Return the same work in steps of `n_rows` rows that workers compute together.

        in_calls : whether one kernel call takes many steps
        """
        visits = self.n_rows * min(n_epochs, EXPECTED_EPOCHS)
        step_ns = self.nanoseconds / visits * min(n_rows, self.n_rows)
        least = TEAM_STEP_NS if in_calls else SHARED_STEP_NS
        return self._replace(step_ns=step_ns, least_step_ns=least)


def work_of(problem: Problem, stop: Stop, plane: Plane, start: Model | None) -> Work:
    """Return the work of a run on a problem; call and time a user's gradient once.

    Raises GradientError if the gradient does not work.
    """
    epochs, interval, least = stop.epochs, plane.interval(problem), plane.least_workers
    if has_rows(problem):
        shared = "the rows are shared already" if _are_shared(problem) else ""
        nanoseconds = computing_ns(problem, epochs)
        return Work(nanoseconds, interval, problem.n_rows, shared, least_workers=least)
    assert by_gradient(problem) and start is not None
    first = start.coef[0]
    of_epoch = 1e9 * problem.seconds_of_a_row(first) * problem.n_rows
    by_processes, by_threads = "the gradient may take the interpreter", ""
    if problem.releases_interpreter:
        by_processes, by_threads = "", "the gradient releases the interpreter"
    nanoseconds = of_epoch * min(epochs, EXPECTED_EPOCHS)
    return Work(nanoseconds, 0, problem.n_rows, by_processes, by_threads, least)


def choose(
    work: Work,
    runtime: str | Runtime | Simulator,
    n_workers: int | None,
) -> tuple[int, Runtime, list[str]]:
    """Choose the number of workers and the runtime, with notes for the report.

    n_workers : the largest number of workers with ``runtime="auto"``; the exact number with a named
        runtime
    """
    check_jobs(n_workers)
    if (crew := sys.modules.get("hogshare.runtimes.crew")) is not None:
        crew.reap()  # even if this run needs no processes
    if isinstance(runtime, Runtime):
        return usable_workers(n_workers), runtime, []
    if not isinstance(runtime, str):
        return _simulated(runtime, n_workers)
    paying = worthwhile_workers(work) if runtime == "auto" else 0
    if paying == 1:
        # counting usable cores reads the system's limits: a fifth of a millisecond
        return _alone("one worker was asked for" if n_workers == 1 else "more would not pay")
    ceiling = usable_workers(n_workers)
    if runtime == "auto":
        count = min(ceiling, paying)
        if count == 1:
            asked = n_workers in (None, 1)
            alone = "one worker was asked for" if asked else "one core is usable"
            return _alone(alone if ceiling == 1 else "more would not pay")
        if work.nanoseconds < MOMENT_NS:
            free = machine.cores() - machine.busy_others()
            count = min(count, max(free, work.least_workers))
            if count < 2:
                return _alone("other cores are busy now")
        ended = end_spinning(count)
        if work.by_processes:
            return count, _processes(), [f"runtime: processes, because {work.by_processes}", *ended]
        return count, Threads(), [f"runtime: threads, because {work.by_threads}", *ended]
    if runtime == "caller":
        if ceiling > 1:
            raise ValueError(
                f"runtime='caller' runs one worker; got {own('n_workers')}={n_workers}. "
                "Use runtime='threads' or 'processes'."
            )
        return 1, Caller(), []
    ended = end_spinning(ceiling) if ceiling > 1 else []
    return ceiling, Threads() if runtime == "threads" else _processes(), ended


def _alone(reason: str) -> tuple[int, Runtime, list[str]]:
    return 1, Caller(), [f"runtime: caller, because {reason}"]


def _simulated(simulator: Simulator, n_workers: int | None) -> tuple[int, Runtime, list[str]]:
    """Return a simulated run's number of workers; it may exceed the number of cores."""
    # imported late: a fit must not wait for an import that it does not use
    from hogshare.runtimes.virtual import Virtual

    count = 1 if n_workers is None else int(n_workers)
    if count < 1:
        raise ValueError(
            f"a Simulator runs a whole number of workers, at least 1; got n_workers={n_workers!r}."
        )
    return count, Virtual(simulator), []


def _processes() -> Runtime:
    """Return the runtime of processes."""
    # imported late: it takes longest to import
    from hogshare.runtimes.processes import Processes

    return Processes()
