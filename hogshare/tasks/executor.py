"""What the front end asks of whoever runs tasks: four methods, and what they report.

An executor knows no collection, barrier or history; the front end knows no thread, process or
cluster. Workers are numbered from 0. `submit` hands a task to a worker that has none. A worker
whose process is replaced keeps its number. All methods are called by one thread, the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.links.traffic import MODEL, Traffic
from hogshare.runtimes.user_objects import packed
from hogshare.shm.mailbox import HEADER_BYTES
from hogshare.tasks.partitions import Partitions
from hogshare.tasks.store import Sent, Shelf
from hogshare.tasks.work import VALUE, Key, Order, Task, TaskOutcome

NUMBER_BYTES = 8  # of a row's version, and of a task's few numbers


@dataclass(frozen=True)
class Back:
    """A task has come back."""

    outcome: TaskOutcome


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and with it the tasks of these numbers, unless the executor runs them again
    by itself.
    """

    worker: int
    why: str  # in words that go on from its name: "was killed by signal 9 (SIGKILL)"
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A worker is there that was not, or is there again."""

    worker: int


Event = Back | Lost | Joined


class Executor:
    """Whoever runs tasks.

    passes_time : whether time goes on while nobody waits, as it does but in a simulation
    traffic : what was sent with tasks and results; nothing, where workers read what the caller has
    """

    name: str
    passes_time = True

    def __init__(self) -> None:
        self.traffic = Traffic()

    @property
    def may_join(self) -> bool:
        """Whether a worker may still come while no task is under way."""
        return False

    @property
    def workers(self) -> Sequence[int]:
        """Who is there."""
        raise NotImplementedError

    def adopt(self, X: Any, y: Any) -> Partitions | None:
        """Partitions of a collection of the executor's own kind; None: it is none."""
        return None

    def submit(self, worker: int, task: Task) -> None:
        """Hand a task to a worker, who has none, and return.

        Raises ValueError if something of the task cannot be sent to workers; nothing has been
        handed over then.
        """
        raise NotImplementedError

    def poll(self, seconds: float | None) -> list[Event]:
        """What has come back and who has come or gone; wait for the first of it at most so long.

        None waits for ever. With nothing under way it returns at once.
        """
        raise NotImplementedError

    def now(self) -> float:
        """Seconds on the executor's clock."""
        return time.perf_counter()

    def fail(self, error: BaseException) -> None:
        """Have those who wait for tasks raise what has ended the context, if any do."""

    def close(self) -> None:
        """End all workers, in the middle of a task too; never raises, and may be called twice."""
        raise NotImplementedError


def bytes_with(task: Task, arrays: Iterable[np.ndarray]) -> int:
    """Bytes of a task's message: new versions, and a number for each row with a history.

    Functions and partitions, which a worker is sent once, are not counted.
    """
    rows = sum(len(r) for value in task.values for r in (value.rows or {}).values())
    return HEADER_BYTES + sum(array.nbytes for array in arrays) + NUMBER_BYTES * rows


def bytes_of(value: Any) -> int:
    """Bytes of a result: those of its arrays, and of a number for each other part of it."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return NUMBER_BYTES
    return sum(map(bytes_of, value))


class Remote(Executor):
    """An executor whose workers have copies of what tasks need, each of it sent once.

    Who writes: the caller's thread. Who frees: what the shelf drops is packed no longer.
    """

    remedy = "workers='threads'"  # what needs no sending

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf, self._sent = shelf, Sent(shelf)
        self._parcels = parcels = dict[Key, Any]()
        shelf.on_drop.append(lambda key: parcels.pop(key, None))  # without `self`: no circle

    def _parcel(self, key: Key) -> Any:
        return packed("function", self._shelf.things[key], remedy=self.remedy)

    def _pack(self, needs: Iterable[Key]) -> None:
        """Make parcels of all but values, which go as they are."""
        for key in needs:
            if key not in self._parcels and key[0] != VALUE:
                self._parcels[key] = self._parcel(key)

    def _order(self, worker: int, task: Task, keys: Iterable[Key], context: str = "") -> Order:
        parcels, values = dict[Key, Any](), dict[Key, np.ndarray]()
        for key in keys:
            if key[0] == VALUE:
                values[key] = self._shelf.things[key]
            else:
                parcels[key] = self._parcels[key]
        self.traffic.add("model", MODEL, worker, bytes_with(task, values.values()))
        return Order(task, parcels, values, tuple(self._sent.forget(worker)), context)

    def _back(self, worker: int, outcome: TaskOutcome) -> Back:
        """That a worker's task has come back, which is counted."""
        self.traffic.add("update", worker, MODEL, HEADER_BYTES + bytes_of(outcome.value))
        return Back(outcome)
