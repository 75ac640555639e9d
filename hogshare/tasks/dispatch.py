"""Submit tasks to workers, handle their outcomes, and submit lost tasks again.

Writers and readers: only the caller's thread, which polls the executor. When a task comes back, its
worker is available and its partitions are free. A result whose staleness exceeds the cut-off is
dropped. An accepted result is counted, is entered into the tables of versions, and is queued to be
collected. If an outcome belongs to a task that is no longer under way, the task was done twice, and
the outcome is ignored. A partition is in one task at a time, until that task has come back. So two
tasks never start from the same history of a row. Freeing: `close` ends the executor. The versions
that tasks have retained are freed with the `Shelf` (the store of the caller's objects).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import BarrierError, name_of
from hogshare.stragglers import FIRST_BLOCKS, Stragglers, asked
from hogshare.system.interrupts import DeferredSignals
from hogshare.system.ranges import is_number
from hogshare.tasks.admission import Gate
from hogshare.tasks.broadcasts import Variable, release_all, retain_all
from hogshare.tasks.draws import draws_of_task
from hogshare.tasks.executor import Back, Event, Executor, Joined, Lost
from hogshare.tasks.nested_values import ADDS, described
from hogshare.tasks.partitions import Partitions, owner_of
from hogshare.tasks.plans import TaskPlan
from hogshare.tasks.results import Result, TaskError, TaskFailure
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Key, Task, TaskOutcome, Value
from hogshare.tasks.worker_progress import WorkerProgress

TICK_SECONDS = 0.001  # between two polls of a barrier while no worker computes
MOST_POLLS = 1000  # most polls of a built-in barrier while no worker computes: some draw samples
IDLE_SECONDS = 10.0  # after which a barrier without a timeout fails if no worker computes or passes
JOIN_SECONDS = 60.0  # how long tasks wait for a worker if no worker is left
CACHED_PLANS = 8  # plans that workers cache, besides the plans of tasks under way


@dataclass(frozen=True)
class Data:
    """A data set of the context, in partitions."""

    number: int
    parts: Partitions
    problem: Any = None  # the problem, if the rows are row numbers of a problem

    @property
    def key(self) -> Key:
        """Key on the shelf."""
        return "data", self.number

    @property
    def n_parts(self) -> int:
        """Number of partitions."""
        return len(self.parts.bounds) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return int(self.parts.bounds[-1])

    @property
    def with_rows(self) -> list[int]:
        """Numbers of the partitions that have rows; all partitions before rows are counted."""
        if not self.n_rows:
            return list(range(self.n_parts))
        return [int(p) for p in np.flatnonzero(np.diff(self.parts.bounds))]

    def sizes(self, parts: list[int]) -> dict[int, int]:
        """Return the number of rows of each partition in `parts`."""
        bounds = self.parts.bounds
        return {p: int(bounds[p + 1] - bounds[p]) for p in parts}


@dataclass
class Round:
    """The tasks of one call of `Dispatch.give`, whose values the caller may add up.

    first : form and description of the first value that has come back
    """

    number: int
    plan: TaskPlan
    first: tuple[Any, str] | None = None


@dataclass
class Flight:
    """A task that is under way, or that is lost and will be submitted again."""

    task: Task
    round: Round
    worker: int
    accepted: int  # results that the context had accepted when the task was submitted
    rows: np.ndarray | None  # the task's drawn rows, if they have a history
    deaths: int = 0  # deaths of workers in this task
    lost: str = ""  # number of these deaths, and the cause of the last death


class Dispatch:
    """All tasks of a context that are under way.

    retries : number of workers that may die in a task; the next death makes the task an error
    cutoff : largest staleness of a result that counts, or None for no limit
    """

    def __init__(
        self,
        executor: Executor,
        shelf: Shelf,
        n_workers: int,
        context: int,
        seed: int,
        retries: int,
        cutoff: int | None,
        law: Stragglers | None,
    ) -> None:
        self.executor, self.shelf, self.progress = executor, shelf, WorkerProgress(n_workers)
        self.variables: dict[int, Variable] = {}
        self.ready: deque[Result | TaskFailure] = deque()
        self.accepted = self.dropped = self.rounds = self.repeated = 0
        self.flights: dict[int, Flight] = {}
        self.context, self.seed, self.is_closed = context, seed, False
        self._retries, self._cutoff = retries, cutoff
        self._law = None if law is None else asked(law)
        self._first: list[float] = []  # seconds of the first tasks, for the law
        self._next = 0
        self._process = os.getpid()
        self._task_of: dict[int, int] = {}  # by worker: its task's number, if it has a task
        self._taken: set[tuple[int, int]] = set()  # partitions that are in a task
        self._to_repeat: deque[int] = deque()
        self._plans: dict[Any, tuple[Key, TaskPlan]] = {}
        self._n_plans = 0
        self._alone_since: float | None = None  # the time since which no worker is left
        for worker in executor.workers:
            self.progress.join(worker, executor.now())

    def give(
        self,
        plan: TaskPlan,
        data: Data,
        gate: Gate,
        broadcasts: list[tuple[Variable, int]],
        timeout: float | None,
    ) -> list[int]:
        """Wait for the barrier, and give one task to each worker that the barrier lets pass.

        Returns the numbers of these workers. Raises BarrierError if the barrier raises an
        exception, or lets no worker pass while no worker computes. Raises TimeoutError if the
        barrier lets no worker pass within `timeout` seconds.
        """
        chosen = self._passing(data, gate, timeout)
        key, this_round = self._key_of(plan), Round(self.rounds, plan)
        self.rounds += 1
        for worker, parts in chosen.items():
            flight = self._flight(key, this_round, data, worker, parts, broadcasts)
            # before `submit`, which may fail, and before any result may release the versions
            with DeferredSignals():
                retain_all(self.variables, flight.task.values)
                try:
                    self.executor.submit(worker, flight.task)
                except BaseException:
                    release_all(self.variables, flight.task.values)
                    raise
                self.flights[flight.task.number] = flight
                self._taken |= {(data.number, p) for p in parts}
                self._note_submitted(flight, worker)
        return list(chosen)

    def _passing(self, data: Data, gate: Gate, timeout: float | None) -> dict[int, list[int]]:
        """Return the workers that the barrier lets pass, each with its free partitions."""
        polls, began, deadline = 0, self.executor.now(), _deadline(self.executor, timeout)
        while True:
            self.pump(0.0)
            owned = self._owned(data)
            available = [me for me in self.progress.available if me in owned]
            passing = gate.passing(self.progress.among(owned), available)
            chosen = {me: parts for me in passing if (parts := self._free(data, owned[me]))}
            if chosen:
                return chosen
            left = _remaining(self.executor, deadline)
            if left == 0.0:
                raise TimeoutError(
                    f"the barrier {name_of(gate.barrier)} let no worker pass within {timeout:g} s: "
                    f"{self.describe()}."
                )
            if self.flights:
                self.wait(left)
                polls, began = 0, self.executor.now()
                continue
            polls += 1
            idle = self.executor.now() - began
            if self._is_in_vain(gate, polls, idle, timeout):
                raise self._never(gate, idle)
            self._pause(min(TICK_SECONDS, TICK_SECONDS if left is None else left))

    def _is_in_vain(self, gate: Gate, polls: int, idle: float, timeout: float | None) -> bool:
        """Return whether to stop waiting for a barrier; called while no worker computes."""
        if gate.is_users or self.executor.may_join:  # time alone may change its answer
            return timeout is None and idle > IDLE_SECONDS
        return polls > MOST_POLLS

    def _never(self, gate: Gate, idle: float) -> BarrierError:
        """Return the error for a barrier that cannot be met; a failed task's error is its cause."""
        error = BarrierError(
            f"The barrier {name_of(gate.barrier)} can never be met: for {idle:.3g} s no worker has "
            f"computed, and it has let none pass ({self.describe()}). If it waits for a time, or "
            "for workers to come, pass timeout=."
        )
        error.__cause__ = next(
            (one.error for one in self.ready if isinstance(one, TaskFailure)), None
        )
        return error

    def _owned(self, data: Data) -> dict[int, list[int]]:
        """Return the partitions with rows of each present worker that has any."""
        present, n_workers = list(self.executor.workers), len(self.progress)
        owned: dict[int, list[int]] = {}
        for p in data.with_rows if present else ():
            owned.setdefault(owner_of(p, n_workers, present), []).append(p)
        return owned

    def _free(self, data: Data, parts: list[int]) -> list[int]:
        return [p for p in parts if (data.number, p) not in self._taken]

    def _flight(
        self,
        key: Key,
        this_round: Round,
        data: Data,
        worker: int,
        parts: list[int],
        broadcasts: list[tuple[Variable, int]],
    ) -> Flight:
        number, plan = this_round.number, this_round.plan
        sizes, bounds = data.sizes(parts), data.parts.bounds
        rows, by_part = None, dict[int, np.ndarray]()
        if plan.history:
            drawn = draws_of_task(self.seed, number, sizes, plan.rate)
            by_part = {p: bounds[p] + places for p, places in drawn.items()}
            rows = np.concatenate([*by_part.values()])
        values = []
        for variable, version in broadcasts:
            used = None
            if plan.history:
                table = variable.table(data.number, data.n_rows)
                used = {p: table[places] for p, places in by_part.items()}
            values.append(Value(variable.number, version, used))
        task = Task(
            self._next,
            key,
            data.key,
            self.seed,
            number,
            sizes,
            {p: int(bounds[p]) for p in parts},
            tuple(values),
            self._sleep(worker),
        )
        self._next += 1
        return Flight(task, this_round, worker, self.accepted, rows)

    def _sleep(self, worker: int) -> float:
        if self._law is None:
            return 0.0
        enough = len(self._first) >= FIRST_BLOCKS
        measured = float(np.mean(self._first)) if enough else 0.0
        done = int(self.progress.table.blocks[worker])
        return self._law(worker, done, len(self.progress), measured)

    def _note_submitted(self, flight: Flight, worker: int) -> None:
        flight.worker = worker
        self._task_of[worker] = flight.task.number
        self.progress.begin(worker, flight.accepted)

    def _key_of(self, plan: TaskPlan) -> Key:
        """Return the plan's key on the shelf; equal plans have the same key, and few are cached."""
        ident = plan.identity()
        # the dict is in the order of use, so the first plans are dropped first
        if ident in self._plans:
            self._plans[ident] = self._plans.pop(ident)  # moves it to the end
            return self._plans[ident][0]
        # never drop a plan that a task under way still needs, perhaps on a new worker
        under_way = {flight.task.plan for flight in self.flights.values()}
        for old in list(self._plans)[:-CACHED_PLANS]:
            if self._plans[old][0] not in under_way:
                key, _ = self._plans.pop(old)
                self.shelf.drop(key)
        key = ("plan", self._n_plans)
        self._n_plans += 1
        self.shelf.put(key, plan)  # first: an interrupt may come in between
        self._plans[ident] = key, plan
        return key

    def pump(self, seconds: float | None) -> None:
        """Handle the executor's events; wait at most `seconds` for the first of them.

        A signal ends the wait, and its handler may raise, but no event is lost or handled in part.
        """
        with DeferredSignals():
            for event in self.executor.poll(seconds):
                self._handle(event)
            while self._to_repeat and self._submit_again():
                pass

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until the condition is true, or no task is under way; return whether it is true.

        Raises TimeoutError after `timeout` seconds.
        """
        deadline = _deadline(self.executor, timeout)
        self.pump(0.0)
        while not condition():
            if not self.flights:
                return False
            left = _remaining(self.executor, deadline)
            if left == 0.0:
                raise TimeoutError(f"nothing has come back within {timeout:g} s; {self.describe()}")
            self.wait(left)
        return True

    def wait(self, seconds: float | None) -> None:
        """Wait for the next event; if no worker is left, wait for a worker to join."""
        if self.executor.workers:
            self._alone_since = None
            self.pump(seconds)
            return
        now = self.executor.now()
        since = self._alone_since = now if self._alone_since is None else self._alone_since
        if self.executor.may_join and now - since < JOIN_SECONDS:
            self._pause(min(TICK_SECONDS, TICK_SECONDS if seconds is None else seconds))
            return
        with DeferredSignals():
            self._to_repeat.clear()
            for flight in list(self.flights.values()):
                self._fail(flight, "All workers are gone, and no new one has come.")

    def _pause(self, seconds: float) -> None:
        """Let time pass while no task is under way; without a task, executors do not wait."""
        if self.executor.passes_time:
            time.sleep(seconds)
        self.pump(0.0 if self.executor.passes_time else seconds)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Joined):
            self.progress.join(event.worker, self.executor.now())
        elif isinstance(event, Lost):
            self.progress.leave(event.worker)
            self._task_of.pop(event.worker, None)
            for number in event.numbers:
                self._lose(number, event.why)
        elif event.outcome.number in self.flights:  # otherwise the task was done twice
            self._come_back(event)

    def _lose(self, number: int, why: str) -> None:
        flight = self.flights.get(number)
        if flight is None:
            return
        flight.deaths += 1
        often = "once" if flight.deaths == 1 else f"{flight.deaths} times"
        flight.lost = f" {often}: worker {flight.worker} {why}"
        if flight.deaths <= self._retries:
            self._to_repeat.append(number)
        else:
            self._fail(flight, "It is not run again.")

    def _fail(self, flight: Flight, why: str) -> None:
        """End a task with an error, whose message has the deaths of its workers and a reason."""
        task, parts = flight.task, tuple(flight.task.sizes)
        self._land(flight)
        message = f"Task {task.number}, of partitions {parts}, was lost{flight.lost}. {why}"
        self.ready.append(TaskFailure(TaskError(message, flight.worker, parts)))

    def _submit_again(self) -> bool:
        """Give the first lost task to an available worker, preferably not to its last worker."""
        number, available = self._to_repeat[0], self.progress.available
        flight = self.flights[number]
        others = [worker for worker in available if worker != flight.worker]
        if not available:
            return False
        worker = (others or available)[0]
        self.executor.submit(worker, flight.task)  # may raise; the task then remains to be repeated
        self._to_repeat.popleft()
        self.repeated += 1
        self._note_submitted(flight, worker)
        return True

    def _land(self, flight: Flight) -> None:
        """End a task: free its partitions, and release its versions."""
        del self.flights[flight.task.number]
        self._taken -= {(flight.task.data[1], p) for p in flight.task.sizes}
        release_all(self.variables, flight.task.values)

    def _come_back(self, event: Back) -> None:
        outcome, flight = event.outcome, self.flights[event.outcome.number]
        task, worker = flight.task, flight.worker
        # only if this is the worker's present task: a lost worker may have come back with another
        if self._task_of.get(worker) == task.number:
            del self._task_of[worker]
            self.progress.end(worker, self.executor.now())
        self.progress.count(worker, outcome.n_samples, outcome.seconds, outcome.waited)
        if len(self._first) < FIRST_BLOCKS:
            self._first.append(outcome.seconds)
        parts, staleness = tuple(task.sizes), self.accepted - flight.accepted
        if not outcome.is_delivered:
            self.shelf.send_again(worker)
        error = self._error_of(outcome, flight)
        if error is not None:
            self.ready.append(TaskFailure(error))
        elif self._cutoff is not None and staleness > self._cutoff and not flight.round.plan.counts:
            self.dropped += 1
        else:
            self.accepted += 1
            self.progress.accept()
            if flight.rows is not None:
                for value in task.values:
                    variable = self.variables[value.variable]
                    variable.used(task.data[1], flight.rows, value.version)
            self.ready.append(
                Result(
                    outcome.value,
                    worker,
                    staleness,
                    outcome.n_samples,
                    parts,
                    outcome.seconds,
                    task.number,
                )
            )
        self._land(flight)

    def _error_of(self, outcome: TaskOutcome, flight: Flight) -> TaskError | None:
        """Return an error if the task raised, or if its round's values differ in shape."""
        task, worker, plan = flight.task, flight.worker, flight.round.plan
        parts = tuple(task.sizes)
        where = f"Task {task.number}, of partitions {parts}, on worker {worker}"
        if outcome.error is not None:
            line, trace = outcome.error
            return TaskError(f"{where}, raised {line}\n\n{trace}", worker, parts)
        if plan.op not in ADDS:
            return None
        try:
            form = plan.form_of(outcome.value)
        except RecursionError:
            return TaskError(f"{where}, gave a value that contains itself.", worker, parts)
        if flight.round.first is None:
            flight.round.first = form, described(outcome.value)
        expected, before = flight.round.first
        if form == expected:
            return None
        return TaskError(
            f"{where}, gave a value of {described(outcome.value)}, and the values before it are of "
            f"{before}: they cannot be added up. Return the same parts and shapes from all tasks.",
            worker,
            parts,
        )

    @property
    def _is_forked(self) -> bool:
        """Whether this process is a fork of the one that has the workers."""
        return os.getpid() != self._process

    def describe(self) -> str:
        """Summarize workers and tasks in a phrase."""
        table = self.progress.table
        n_present = int(table.in_run.sum())
        return (
            f"{n_present} of {len(table)} workers are present, {table.available_workers} of them "
            f"available; {len(self.flights)} tasks are under way"
        )

    def check_open(self) -> None:
        """Raise RuntimeError if the context is closed."""
        if self.is_closed:
            raise RuntimeError("this context is closed: make another AsyncContext.")
        if self._is_forked:
            raise RuntimeError(
                "this context belongs to the process that made it, of which this one is a fork: "
                "make another AsyncContext."
            )

    def close(self) -> None:
        """End the executor, unless it is a parent process's; drop all tasks and results."""
        self.is_closed = True
        try:
            if not self._is_forked:
                self.executor.close()
        finally:
            self.flights.clear()
            self.ready.clear()
            self._to_repeat.clear()


def _deadline(executor: Executor, timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if not is_number(timeout) or not float(timeout) >= 0.0:
        raise ValueError(f"timeout must be None or a number of seconds from 0; got {timeout!r}.")
    return executor.now() + timeout


def _remaining(executor: Executor, deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - executor.now())
