"""Tasks in threads of the caller's process.

::

    caller  -- a queue per worker -->  thread
            <-- one queue of all ----

Nothing is copied: functions, rows and broadcasts are the caller's own objects. Versions of
broadcasts are read-only. Writers: the caller writes one queue of tasks for each thread; the threads
write one queue of outcomes. Readers: each thread reads its own queue; the caller reads the
outcomes. Freeing: `close` makes each thread return to the pool once its task has ended. If a thread
is stuck in a user's function, `close` leaves it behind after two seconds, with a warning. The
threads refer to the queues and to the objects of the `Shelf` (the store of the caller's objects),
but not to the executor. So the executor can be collected while its threads wait, and an executor
that is dropped without `close` dismisses its threads. The end of the process also dismisses the
threads. The process waits for the pool's threads, but not for a user's function.
"""

from __future__ import annotations

import atexit
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from hogshare.runtimes import interpreter_exit
from hogshare.runtimes.pool import pool
from hogshare.system.callers import users_line
from hogshare.system.interrupts import DeferredSignals
from hogshare.tasks.executor import Back, Event, Executor
from hogshare.tasks.plans import GradientOf, TaskPlan
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Key, Store, Task, TaskOutcome, work

STUCK_SECONDS = 2.0  # how long closing waits for a task to end


class ThreadExecutor(Executor):
    """The executor of threads."""

    name = "threads"

    def __init__(self, shelf: Shelf, n_workers: int) -> None:
        super().__init__()
        self._outcomes: SimpleQueue[TaskOutcome] = SimpleQueue()
        self._tasks: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(n_workers)]
        self._under_way = 0
        self._threads: list[Future[Any]] = []
        self._dismiss = weakref.finalize(self, _dismiss, self._tasks)
        self._dismiss.atexit = False
        atexit.register(self._dismiss)  # registered after the pool's exit handler, so it runs first
        with DeferredSignals():
            for tasks in self._tasks:
                serving = pool().submit(_serve, tasks, self._outcomes, shelf.things)
                self._threads.append(serving)

    @property
    def workers(self) -> Sequence[int]:
        return range(len(self._tasks))

    def submit(self, worker: int, task: Task) -> None:
        self._under_way += 1
        self._tasks[worker].put(task)

    def poll(self, seconds: float | None) -> list[Event]:
        events: list[Event] = []
        while self._under_way:
            try:
                wait = None if events else seconds
                block = not events and seconds != 0.0
                events.append(Back(self._outcomes.get(block, wait if block else None)))
            except Empty:
                break
            self._under_way -= 1
        return events

    def close(self) -> None:
        self._dismiss()
        atexit.unregister(self._dismiss)
        deadline = time.monotonic() + STUCK_SECONDS
        while not all(thread.done() for thread in self._threads):
            if time.monotonic() > deadline:
                warnings.warn(
                    "a task has not ended for two seconds since its context was closed; its "
                    "thread is left behind",
                    RuntimeWarning,
                    stacklevel=users_line(),
                )
                break
            time.sleep(0.001)
        self._threads = []


def _serve(
    tasks: SimpleQueue[Task | None], outcomes: SimpleQueue[TaskOutcome], things: dict[Key, Any]
) -> None:
    store = Store(things)
    while (task := tasks.get()) is not None:
        outcomes.put(_working(things.get(task.plan))(task, store))


def _working(plan: TaskPlan | None) -> Callable[[Task, Store], TaskOutcome]:
    """Return `work`; if the function is not a kernel, its run is registered as a user's code."""
    if plan is None or isinstance(plan.function, GradientOf):
        return work

    def working(task: Task, store: Store) -> TaskOutcome:
        return work(task, store)

    working.__qualname__ = getattr(plan.function, "__qualname__", repr(plan.function))
    return interpreter_exit.noted(working)


def _dismiss(tasks: Iterable[SimpleQueue[Task | None]]) -> None:
    for each in tasks:
        each.put(None)
