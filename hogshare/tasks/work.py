"""What a worker does with a task, on whatever executor: draw, call, fold, say what came of it.

Who writes: the caller makes a `Task`, which nobody changes; a worker its own `Store` and the
`TaskOutcome`. Who frees: the caller says which things of a store are needed no more.
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
from hogshare.tasks.plans import TaskPlan

Key = tuple[Any, ...]  # of a thing that tasks need: its kind, and numbers
VALUE = "value"  # the kind of a broadcast's version


@dataclass(frozen=True)
class Value:
    """A broadcast of a task: which variable, which version, and the versions of the drawn rows."""

    variable: int
    version: int
    rows: dict[int, np.ndarray] | None = None  # by partition, in the order of its draw

    def key(self, version: int) -> Key:
        """Of a version of it."""
        return VALUE, self.variable, version

    @property
    def needs(self) -> set[Key]:
        """Keys of all versions that the task needs."""
        old = () if self.rows is None else np.unique(np.concatenate([*self.rows.values()]))
        return {self.key(int(v)) for v in (self.version, *old) if v >= 0}


@dataclass(frozen=True)
class Task:
    """What a worker is asked for; wherever it runs, and how often, it gives the same value.

    number : of the context's tasks
    plan, data : of a `TaskPlan` and of `Partitions`
    seed, round : what its draws depend on, with the partitions
    sizes : its partitions, and how many rows each has
    starts : number of the first row of each
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
        """Keys of all things that have to be there."""
        return {self.plan, self.data}.union(*(value.needs for value in self.values))


@dataclass(frozen=True)
class Order:
    """A task, what it needs that the worker has not, and what the worker need not keep.

    parcels : packed things, as `Store.take` opens them
    values : versions of broadcasts
    context : whose, where a worker has tasks of several
    """

    task: Task
    parcels: dict[Key, Any]
    values: dict[Key, np.ndarray]
    forget: tuple[Key, ...]
    context: str = ""


@dataclass(frozen=True)
class TaskOutcome:
    """What came of a task.

    number : of the task
    n_samples : rows that were drawn
    seconds : that it took, sleep included
    waited : seconds since the worker had ended its last task; 0 for its first
    error : a line and a traceback, if it raised
    """

    number: int
    value: Any
    n_samples: int
    seconds: float
    waited: float
    error: tuple[str, str] | None = None

    @classmethod
    def failed(cls, number: int, line: str, seconds: float = 0.0) -> TaskOutcome:
        """Of a task that has come to nothing, for what a line says."""
        return cls(number, None, 0, seconds, 0.0, (line, f"{line}\n"))

    def unsent(self, error: BaseException) -> TaskOutcome:
        """What is sent in place of one whose value cannot be."""
        line = f"what the task returned cannot be sent: {line_of(error)}"
        return TaskOutcome.failed(self.number, line, self.seconds)


@dataclass
class Store:
    """What a worker has at hand, by key."""

    things: dict[Key, Any] = field(default_factory=dict)
    ended: float | None = None  # when its last task did

    def take(self, order: Order, opened: Callable[[Any], Any] = pickle.loads) -> None:
        """Let go of what an order says, and have at hand what came with it: values, read-only."""
        for key in order.forget:
            self.things.pop(key, None)
        for key, parcel in order.parcels.items():
            self.things[key] = opened(parcel)
        for key, array in order.values.items():
            kept = np.asarray(array).view()
            kept.flags.writeable = False
            self.things[key] = kept

    def lacks(self, task: Task) -> set[Key]:
        """What a task needs and is not here."""
        return {key for key in task.needs if key not in self.things}


def work(task: Task, store: Store, blocks: dict[int, Block] | None = None) -> TaskOutcome:
    """Do a task.

    store : with everything that the task needs
    blocks : its partitions, where they do not come from the store
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
    """An exception in a line, even if it cannot say what it is."""
    try:
        return f"{type(raised).__name__}: {raised}"
    except Exception:
        return type(raised).__name__


def may_be_a_signal_s(raised: BaseException) -> bool:
    """Whether it may end the caller's program, and not only a task: Ctrl-C, or an exit at SIGTERM.

    What runs a task in the caller's main thread cannot distinguish these from what the task raises.
    Handlers of signals run in no other thread, and worker processes ignore Ctrl-C.
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
    """What a function gets for a broadcast: its array, or a handle with the history of rows."""
    array = store.things[value.key(value.version)]
    if value.rows is None:
        return array
    return Handle(array, index, value.rows[p], lambda v: store.things[value.key(v)])
