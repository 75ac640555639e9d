"""Hands tasks to workers, takes in what comes back, and has done again what is lost.

Who writes: the caller's thread alone; executors run their workers as they like and are polled. In
which order, for a task that comes back: its worker is available and its partitions are free; a
result that is older than the cut-off is dropped here; an accepted one counts, is noted in the
tables of versions, and stands in line to be collected. A number that is not under way any more is
a task done twice, and is nothing. A partition is in one task at a time, until that has come back:
so no two tasks start from one history of a row. Who frees: `close` ends the executor, and the
versions that tasks have held go with the shelf.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import BarrierError, name_of
from hogshare.stragglers import FIRST_BLOCKS, Stragglers, asked
from hogshare.tasks.admission import Gate
from hogshare.tasks.broadcasts import Variable, let_go_of_all, retain_all
from hogshare.tasks.draws import draws_of_task
from hogshare.tasks.executor import Back, Event, Executor, Joined, Lost
from hogshare.tasks.partitions import Partitions, owner_of
from hogshare.tasks.plans import ADDS, TaskPlan, shape_of
from hogshare.tasks.results import Result, TaskError, TaskFailure
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Key, Task, TaskOutcome, Value
from hogshare.tasks.worker_progress import WorkerProgress

TICK_SECONDS = 0.001  # between two polls of a barrier while nobody computes
MOST_POLLS = 1000  # of a barrier of ours while nobody computes: some draw samples
IDLE_SECONDS = 10.0  # that a barrier without a time-out may let nobody pass while nobody computes
JOIN_SECONDS = 60.0  # that tasks wait for a worker where none is left
CACHED_PLANS = 8  # that workers have, beside those of tasks under way


@dataclass(frozen=True)
class Data:
    """A data set of the context's: its partitions, and where their rows begin."""

    number: int
    parts: Partitions
    problem: Any = None  # whose rows these are the numbers of

    @property
    def key(self) -> Key:
        """On the shelf."""
        return "data", self.number

    @property
    def n_parts(self) -> int:
        """Partitions."""
        return len(self.parts.bounds) - 1

    @property
    def n_rows(self) -> int:
        """Rows of all partitions."""
        return int(self.parts.bounds[-1])

    def sizes(self, parts: list[int]) -> dict[int, int]:
        """Rows of some partitions."""
        bounds = self.parts.bounds
        return {p: int(bounds[p + 1] - bounds[p]) for p in parts}


@dataclass
class Flight:
    """A task that is under way, or lost and about to be handed out again."""

    task: Task
    worker: int
    accepted: int  # results of the context when it was submitted
    rows: np.ndarray | None  # that it draws, where their history is kept
    deaths: int = 0  # of workers that had it
    lost: str = ""  # how often, and what became of the last of them


class Dispatch:
    """Everything that a context has under way.

    retries : deaths of workers in one task, after which it is an error
    cutoff : largest staleness of a result that counts
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
        self._hands: dict[int, int] = {}  # task of each worker that has one
        self._taken: set[tuple[int, int]] = set()  # partitions in a task
        self._again: deque[int] = deque()
        self._plans: dict[Any, tuple[Key, TaskPlan]] = {}
        self._shapes: dict[Key, tuple[int, ...] | None] = {}
        self._n_plans = 0
        self._alone_since: float | None = None  # nobody is there
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
        """Wait for the barrier, and hand one task to each worker that it lets pass.

        Raises BarrierError if the barrier raises, or lets nobody pass while nobody computes;
        TimeoutError if the barrier does not hold in time.
        """
        chosen = self._passing(data, gate, timeout)
        key, number = self._key_of(plan), self.rounds
        self.rounds += 1
        for worker, parts in chosen.items():
            flight = self._flight(key, plan, data, number, worker, parts, broadcasts)
            retain_all(self.variables, flight.task.values)
            try:
                self.executor.submit(worker, flight.task)
            except BaseException:
                let_go_of_all(self.variables, flight.task.values)
                raise
            self.flights[flight.task.number] = flight
            self._taken |= {(data.number, p) for p in parts}
            self._handed(flight, worker)
        return list(chosen)

    def _passing(self, data: Data, gate: Gate, timeout: float | None) -> dict[int, list[int]]:
        """Workers that the barrier lets pass, and their partitions that are in no task."""
        polls, began, deadline = 0, self.executor.now(), _deadline(self.executor, timeout)
        while True:
            self.pump(0.0)
            passing = gate.passing(self.progress.table, self.progress.available)
            chosen = {me: parts for me in passing if (parts := self._free_parts(data, me))}
            if chosen:
                return chosen
            rest = _remaining(self.executor, deadline)
            if rest == 0.0:
                raise TimeoutError(
                    f"the barrier {name_of(gate.barrier)} did not hold within {timeout:g} s: "
                    f"{self.describe()}."
                )
            if self.flights:
                self.wait(rest)
                polls, began = 0, self.executor.now()
                continue
            polls += 1
            idle = self.executor.now() - began
            if self._is_in_vain(gate, polls, idle, timeout):
                raise self._never(gate, idle)
            self._pause(min(TICK_SECONDS, TICK_SECONDS if rest is None else rest))

    def _is_in_vain(self, gate: Gate, polls: int, idle: float, timeout: float | None) -> bool:
        """Whether a barrier that lets nobody pass is given up while nobody computes."""
        if gate.is_users or self.executor.may_join:  # what it goes by may change by waiting
            return timeout is None and idle > IDLE_SECONDS
        return polls > MOST_POLLS

    def _never(self, gate: Gate, idle: float) -> BarrierError:
        """The error of a barrier that cannot be met; a failed task, if any, is its cause."""
        error = BarrierError(
            f"The barrier {name_of(gate.barrier)} can never be met: nobody computes, nothing more "
            f"comes back, and it lets nobody pass ({self.describe()}), for {idle:.3g} s. One that "
            "waits for a moment, or for workers to come, is given a timeout=."
        )
        error.__cause__ = next(
            (one.error for one in self.ready if isinstance(one, TaskFailure)), None
        )
        return error

    def _free_parts(self, data: Data, worker: int) -> list[int]:
        there, n_workers = list(self.executor.workers), len(self.progress)
        return [
            p
            for p in range(data.n_parts)
            if owner_of(p, n_workers, there) == worker and (data.number, p) not in self._taken
        ]

    def _flight(
        self,
        key: Key,
        plan: TaskPlan,
        data: Data,
        number: int,
        worker: int,
        parts: list[int],
        broadcasts: list[tuple[Variable, int]],
    ) -> Flight:
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
        return Flight(task, worker, self.accepted, rows)

    def _sleep(self, worker: int) -> float:
        if self._law is None:
            return 0.0
        enough = len(self._first) >= FIRST_BLOCKS
        measured = float(np.mean(self._first)) if enough else 0.0
        done = int(self.progress.table.blocks[worker])
        return self._law(worker, done, len(self.progress), measured)

    def _handed(self, flight: Flight, worker: int) -> None:
        flight.worker = worker
        self._hands[worker] = flight.task.number
        self.progress.begin(worker, flight.accepted)

    def _key_of(self, plan: TaskPlan) -> Key:
        """The plan's place on the shelf; a loop's is there already. Few are kept."""
        ident = plan.identity()
        if ident in self._plans:
            self._plans[ident] = self._plans.pop(ident)  # the last one used
            return self._plans[ident][0]
        under_way = {flight.task.plan for flight in self.flights.values()}
        for old in list(self._plans)[:-CACHED_PLANS]:
            if self._plans[old][0] not in under_way:
                key, _ = self._plans.pop(old)
                self._shapes.pop(key, None)
                self.shelf.drop(key)
        key = ("plan", self._n_plans)
        self._n_plans += 1
        self._plans[ident] = key, plan
        self.shelf.put(key, plan)
        return key

    def pump(self, seconds: float | None) -> None:
        """Take in what has come, after waiting for the first of it at most so long."""
        for event in self.executor.poll(seconds):
            self._take_in(event)
        while self._again and self._hand_out_again():
            pass

    def wait_until(self, is_there: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until something holds, or nothing is under way any more; whether it holds.

        Raises TimeoutError.
        """
        deadline = _deadline(self.executor, timeout)
        self.pump(0.0)
        while not is_there():
            if not self.flights:
                return False
            rest = _remaining(self.executor, deadline)
            if rest == 0.0:
                raise TimeoutError(f"nothing has come back within {timeout:g} s; {self.describe()}")
            self.wait(rest)
        return True

    def wait(self, seconds: float | None) -> None:
        """Wait for the next event; while nobody is there, for somebody to come."""
        if self.executor.workers:
            self._alone_since = None
            self.pump(seconds)
            return
        now = self.executor.now()
        since = self._alone_since = now if self._alone_since is None else self._alone_since
        if self.executor.may_join and now - since < JOIN_SECONDS:
            self._pause(min(TICK_SECONDS, TICK_SECONDS if seconds is None else seconds))
            return
        for flight in list(self.flights.values()):
            self._fail(flight, "All workers are gone, and none has come in their place.")
        self._again.clear()

    def _pause(self, seconds: float) -> None:
        """Let time pass while nothing is under way, for which executors do not wait."""
        if self.executor.passes_time:
            time.sleep(seconds)
        self.pump(0.0 if self.executor.passes_time else seconds)

    def _take_in(self, event: Event) -> None:
        if isinstance(event, Joined):
            self.progress.join(event.worker, self.executor.now())
        elif isinstance(event, Lost):
            self.progress.leave(event.worker)
            self._hands.pop(event.worker, None)
            for number in event.numbers:
                self._lose(number, event.why)
        elif event.outcome.number in self.flights:
            self._come_back(event)

    def _lose(self, number: int, why: str) -> None:
        flight = self.flights.get(number)
        if flight is None:
            return
        flight.deaths += 1
        often = "once" if flight.deaths == 1 else f"{flight.deaths} times"
        flight.lost = f" {often}: worker {flight.worker} {why}"
        if flight.deaths <= self._retries:
            self._again.append(number)
        else:
            self._fail(flight, "It is not run again.")

    def _fail(self, flight: Flight, why: str) -> None:
        """Have a task come to nothing, for what its workers' deaths and a sentence say."""
        task, parts = flight.task, tuple(flight.task.sizes)
        self._land(flight)
        message = f"Task {task.number}, of partitions {parts}, was lost{flight.lost}. {why}"
        self.ready.append(TaskFailure(TaskError(message, flight.worker, parts)))

    def _hand_out_again(self) -> bool:
        """Give the first of the lost tasks to somebody who is available, rather to another."""
        number, available = self._again[0], self.progress.available
        flight = self.flights[number]
        others = [worker for worker in available if worker != flight.worker]
        if not available:
            return False
        worker = (others or available)[0]
        self._again.popleft()
        self.executor.submit(worker, flight.task)
        self.repeated += 1
        self._handed(flight, worker)
        return True

    def _land(self, flight: Flight) -> None:
        """A task is over: its partitions are free, and it needs its versions no longer."""
        del self.flights[flight.task.number]
        self._taken -= {(flight.task.data[1], p) for p in flight.task.sizes}
        let_go_of_all(self.variables, flight.task.values)

    def _come_back(self, event: Back) -> None:
        outcome, flight = event.outcome, self.flights[event.outcome.number]
        task, worker = flight.task, flight.worker
        if self._hands.get(worker) == task.number:
            del self._hands[worker]
            self.progress.end(worker, self.executor.now())
        self.progress.count(worker, outcome.n_samples, outcome.seconds, outcome.waited)
        if len(self._first) < FIRST_BLOCKS:
            self._first.append(outcome.seconds)
        parts, staleness = tuple(task.sizes), self.accepted - flight.accepted
        error = self._error_of(outcome, task, worker)
        if error is not None:
            self.ready.append(TaskFailure(error))
        elif self._cutoff is not None and staleness > self._cutoff:
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

    def _error_of(self, outcome: TaskOutcome, task: Task, worker: int) -> TaskError | None:
        """What is wrong with an outcome: it raised, or is of another shape than those before."""
        parts = tuple(task.sizes)
        where = f"Task {task.number}, of partitions {parts}, on worker {worker}"
        if outcome.error is not None:
            line, told = outcome.error
            return TaskError(f"{where}, raised {line}\n\n{told}", worker, parts)
        plan = self.shelf.things[task.plan]
        if plan.op not in ADDS:
            return None
        shape = shape_of(outcome.value)
        expected = self._shapes.setdefault(task.plan, shape)
        if shape == expected:
            return None
        return TaskError(
            f"{where}, gave a value of shape {shape}, and those before it are of shape {expected}: "
            "they cannot be added up.",
            worker,
            parts,
        )

    def describe(self) -> str:
        """Who does what, in a few words."""
        table = self.progress.table
        there = int(table.in_run.sum())
        return (
            f"{there} of {len(table)} workers are there, {table.available_workers} of them "
            f"available; {len(self.flights)} tasks are under way"
        )

    def check_open(self) -> None:
        """Refuse a context that is closed; raises RuntimeError."""
        if self.is_closed:
            raise RuntimeError("this context is closed: make another AsyncContext.")

    def close(self) -> None:
        """End everything."""
        self.is_closed = True
        self.executor.close()
        self.flights.clear()
        self.ready.clear()
        self._again.clear()


def _deadline(executor: Executor, timeout: float | None) -> float | None:
    return None if timeout is None else executor.now() + timeout


def _remaining(executor: Executor, deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - executor.now())
