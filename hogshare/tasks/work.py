"""Run a task on a worker of any executor: draw rows, call the function, fold the values.

Writers: the caller makes a `Task`, which never changes. A worker writes its own `Store` and the
`TaskOutcome`. Readers: the worker reads the task; the caller reads the outcome. Freeing: the caller
lists in each `Order` the objects that the store of the worker should drop.
"""

from __future__ import annotations

import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hogshare.tasks.blocks import Block
from hogshare.tasks.draws import draws_of_task
from hogshare.tasks.handles import Handle
from hogshare.tasks.nested_values import own, read_only
from hogshare.tasks.plans import TaskPlan

Key = tuple[Any, ...]  # key of an object that tasks need: the object's kind, and numbers
VALUE = "value"  # the kind of a broadcast's version


@dataclass(frozen=True)
class Value:
    """A broadcast of a task: its variable, its version, and the versions of the drawn rows."""

    variable: int
    version: int
    rows: dict[int, np.ndarray] | None = None  # by partition, in the order of the partition's draw

    def key(self, version: int) -> Key:
        """Return the key of a version of the variable."""
        return VALUE, self.variable, version

    @property
    def needs(self) -> set[Key]:
        """Keys of all versions that the task needs."""
        old = () if self.rows is None else np.unique(np.concatenate([*self.rows.values()]))
        return {self.key(int(v)) for v in (self.version, *old) if v >= 0}


@dataclass(frozen=True)
class Task:
    """A task. Each run of the task gives the same value, on any worker.

    number : number of the task among the context's tasks
    plan, data : keys of a `TaskPlan` and of `Partitions`
    seed, round : numbers that determine the task's draws, together with its partitions
    sizes : number of rows of each partition of the task, by the partition's number
    starts : number of the first row of each partition, by the partition's number
    values : the task's broadcasts
    sleep : seconds that a straggler sleeps before it computes
    """

    number: int
    plan: Key
    data: Key
    seed: int
    round: int
    sizes: dict[int, int]
    starts: dict[int, int]
    values: tuple[Value, ...] = ()
    sleep: float = 0.0

    @property
    def needs(self) -> set[Key]:
        """Keys of all objects that the task needs."""
        return {self.plan, self.data}.union(*(value.needs for value in self.values))


@dataclass(frozen=True)
class Order:
    """A task, with the objects that the worker lacks, and the keys that the worker should drop.

    parcels : packed objects by key, which `Store.take` opens
    values : versions of broadcasts by key
    forget : keys of the objects that the worker should drop
    context : name of the context; needed only if a worker has tasks of several contexts
    """

    task: Task
    parcels: dict[Key, Any]
    values: dict[Key, Any]
    forget: tuple[Key, ...]
    context: str = ""


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task.

    number : number of the task
    n_samples : number of drawn rows
    seconds : duration of the task, including its sleep
    waited : seconds since the end of the worker's last task; 0 for the worker's first task
    error : a line and a traceback, if the task raised
    is_delivered : False if the worker may lack objects that were sent with the task
    """

    number: int
    value: Any
    n_samples: int
    seconds: float
    waited: float
    error: tuple[str, str] | None = None
    is_delivered: bool = True

    @classmethod
    def failed(
        cls, number: int, line: str, seconds: float = 0.0, is_delivered: bool = False
    ) -> TaskOutcome:
        """Return the outcome of a task that failed on its way; `line` is the reason."""
        return cls(number, None, 0, seconds, 0.0, (line, f"{line}\n"), is_delivered)

    def unsent(self, error: BaseException) -> TaskOutcome:
        """Return a failed outcome, to send in place of this outcome, whose value cannot be sent."""
        line = f"what the task returned cannot be sent: {line_of(error)}"
        return TaskOutcome.failed(self.number, line, self.seconds, is_delivered=True)


@dataclass
class Store:
    """The objects of a worker, by key."""

    things: dict[Key, Any] = field(default_factory=dict)
    ended: float | None = None  # when the last task ended

    def take(self, order: Order, opened: Callable[[Any], Any] = pickle.loads) -> None:
        """Drop the objects that an order lists, and add its new objects; versions are read-only."""
        for key in order.forget:
            self.things.pop(key, None)
        for key, parcel in order.parcels.items():
            self.things[key] = opened(parcel)
        for key, value in order.values.items():
            self.things[key] = read_only(value)

    def lacks(self, task: Task) -> set[Key]:
        """Return the keys of the objects that a task needs and the store lacks."""
        return {key for key in task.needs if key not in self.things}


def work(task: Task, store: Store, blocks: dict[int, Block] | None = None) -> TaskOutcome:
    """Run a task and return its outcome; write the time of its end to ``store.ended``.

    store : store that has all objects that the task needs
    blocks : blocks of the task's partitions, or None if they come from the store
    """
    began = time.perf_counter()
    waited = 0.0 if store.ended is None else began - store.ended
    value, n_samples, error = None, 0, None
    try:
        if task.sleep:
            time.sleep(task.sleep)
        value, n_samples = _compute(task, store, blocks)
    except BaseException as raised:
        if may_be_a_signal_s(raised):
            raise
        error = line_of(raised), "".join(traceback.format_exception(raised))
    store.ended = time.perf_counter()
    return TaskOutcome(task.number, value, n_samples, store.ended - began, waited, error)


def line_of(raised: BaseException) -> str:
    """Describe an exception in one line, even if the exception's own text raises."""
    try:
        return f"{type(raised).__name__}: {raised}"
    except Exception:
        return type(raised).__name__


def may_be_a_signal_s(raised: BaseException) -> bool:
    """Return whether an exception may come from a signal (Ctrl-C, SIGTERM), not from the task.

    In the caller's main thread, an exception of a signal handler cannot be distinguished from an
    exception of the task. Signal handlers run in no other thread, and worker processes ignore
    Ctrl-C.
    """
    return (
        not isinstance(raised, Exception)
        and threading.current_thread() is threading.main_thread()
        and callable(signal.getsignal(signal.SIGINT))
    )


def _compute(task: Task, store: Store, blocks: dict[int, Block] | None) -> tuple[Any, int]:
    plan: TaskPlan = store.things[task.plan]
    part_of = store.things[task.data].part if blocks is None else blocks.__getitem__
    if plan.counts:
        return {p: part_of(p).n_rows for p in task.sizes}, 0
    drawn = draws_of_task(task.seed, task.round, task.sizes, plan.rate, plan.replace)
    used = {p: rows for p, rows in drawn.items() if len(rows)}

    def values(p: int, rows: np.ndarray) -> Iterable[Any]:
        index = task.starts[p] + rows
        given = [_given(value, p, index, store) for value in task.values]
        return plan.values(part_of(p).take(rows), index, given)

    folded = plan.fold(values(p, rows) for p, rows in used.items())
    return folded, sum(len(rows) for rows in used.values())


def _given(value: Value, p: int, index: np.ndarray, store: Store) -> Any:
    """Return a broadcast as the function's argument: its value, or a handle with rows' history."""

    def find(version: int) -> Any:
        # tuples and dicts of this call: in threads, tasks share the caller's objects
        return own(store.things[value.key(version)])

    if value.rows is None:
        return find(value.version)
    return Handle(find(value.version), index, value.rows[p], find)
