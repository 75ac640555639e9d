"""The protocol of executors, which run tasks: their methods, and the events that they report.

An executor does not depend on collections, barriers or histories. The code that submits tasks
(`hogshare.tasks.dispatch`) does not depend on threads, processes or clusters. Workers are numbered
from 0. `submit` gives a task to a worker that has no task. A process that replaces a worker's
process has the same worker number. Only one thread, the caller's, calls the methods.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hogshare.links.traffic import MODEL, Traffic
from hogshare.runtimes.user_objects import packed
from hogshare.shm.mailbox import HEADER_BYTES
from hogshare.tasks.nested_values import NUMBER_BYTES, bytes_of
from hogshare.tasks.partitions import Partitions
from hogshare.tasks.store import Sent, Shelf
from hogshare.tasks.work import VALUE, Key, Order, Task, TaskOutcome, line_of


@dataclass(frozen=True)
class Back:
    """A task has come back."""

    outcome: TaskOutcome


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and the tasks with these numbers are lost.

    The numbers do not include tasks that the executor itself runs again.
    """

    worker: int
    why: str  # a phrase that follows the worker's name: "was killed by signal 9 (SIGKILL)"
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A worker has joined, or is present again."""

    worker: int


Event = Back | Lost | Joined


class Executor:
    """Base class of executors.

    passes_time : whether time passes while the caller does not wait: False only in a simulation
    traffic : messages of tasks and results; no messages if workers read the caller's memory
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
        """Numbers of the present workers."""
        raise NotImplementedError

    def adopt(self, X: Any, y: Any) -> Partitions | None:
        """Return X and y as partitions of the executor's own kind, or None if it has none."""
        return None

    def submit(self, worker: int, task: Task) -> None:
        """Give a task to a worker that has no task, and return at once.

        Raises ValueError, before anything is sent, if a part of the task cannot be sent to workers.
        """
        raise NotImplementedError

    def poll(self, seconds: float | None) -> list[Event]:
        """Return the events since the last call; wait at most `seconds` for the first of them.

        If `seconds` is None, wait without a limit. If no task is under way, return at once.
        """
        raise NotImplementedError

    def now(self) -> float:
        """Return the seconds on the executor's clock."""
        return time.perf_counter()

    def fail(self, error: BaseException) -> None:
        """Make other ranks that wait for tasks, if any, raise the error that ends the context."""

    def close(self) -> None:
        """End all workers, even during a task. A second call does nothing; no call raises."""
        raise NotImplementedError


def unreadable(number: int, error: BaseException | None) -> TaskOutcome:
    """Return the outcome of a task whose value the caller cannot unpickle."""
    assert error is not None
    why = f"what the task returned cannot be unpickled by the caller: {line_of(error)}"
    return TaskOutcome.failed(number, why, is_delivered=True)


def bytes_with(task: Task, values: Iterable[Any]) -> int:
    """Return the number of bytes of a task's message: new versions, and a number for each row.

    The number of a row is the version with which it was last used; tasks without history have no
    such numbers. Functions and partitions do not count, because a worker receives each of them
    once.
    """
    rows = sum(len(r) for value in task.values for r in (value.rows or {}).values())
    return HEADER_BYTES + sum(map(bytes_of, values)) + NUMBER_BYTES * rows


class Remote(Executor):
    """Base class of executors that send each worker a copy of the objects that its tasks need.

    Each object is sent to a worker once. Writers: the caller's thread. Freeing: a parcel (an object
    that is packed for sending) is dropped when the `Shelf` drops the object.
    """

    remedy = "workers='threads'"  # for errors: an argument with which nothing is sent

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self._shelf, self._sent = shelf, Sent(shelf)
        self._parcels = parcels = dict[Key, Any]()
        shelf.on_drop.append(lambda key: parcels.pop(key, None))  # not `self`: no reference cycle

    def _parcel(self, key: Key) -> Any:
        return packed("function", self._shelf.things[key], remedy=self.remedy)

    def _pack(self, needs: Iterable[Key]) -> None:
        """Make parcels of needed objects, except versions, which are sent without packing."""
        for key in needs:
            if key not in self._parcels and key[0] != VALUE:
                self._parcels[key] = self._parcel(key)

    def _order(self, worker: int, task: Task, keys: Iterable[Key], context: str = "") -> Order:
        parcels, values = dict[Key, Any](), dict[Key, Any]()
        for key in keys:
            if key[0] == VALUE:
                values[key] = self._shelf.things[key]
            else:
                parcels[key] = self._parcels[key]
        self.traffic.add("model", MODEL, worker, bytes_with(task, values.values()))
        return Order(task, parcels, values, tuple(self._sent.forget(worker)), context)

    def _back(self, worker: int, outcome: TaskOutcome) -> Back:
        """Count the bytes of a result's message, and return the event of the result."""
        n_bytes = 0
        with contextlib.suppress(RecursionError):  # a value that contains itself has no size
            n_bytes = bytes_of(outcome.value)
        self.traffic.add("update", worker, MODEL, HEADER_BYTES + n_bytes)
        return Back(outcome)
