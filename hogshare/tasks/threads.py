"""Tasks in threads of the caller's process.

::

    caller  -- a queue per worker -->  thread
            <-- one queue of all ----

Nothing is copied: functions, rows and broadcasts are the caller's own, versions being read-only.
Who writes: the caller the queues of tasks, threads the one of outcomes. Who frees: `close` has each
thread return to the pool once its task has; one that is stuck in code of the user's is left behind
after two seconds, with a warning.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from hogshare.callers import users_line
from hogshare.interrupts import Holding
from hogshare.runtimes.pool import pool
from hogshare.tasks.executor import Back, Event
from hogshare.tasks.shelf import Shelf
from hogshare.tasks.work import Outcome, Store, Task, work

STUCK_SECONDS = 2.0  # that closing waits for a task to end


class Threads:
    """The executor of threads.

    Parameters
    ----------
    shelf : Shelf
    n_workers : int
    """

    name = "threads"
    passes_time = True
    traffic = None

    def __init__(self, shelf: Shelf, n_workers: int) -> None:
        self._shelf = shelf
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._tasks: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(n_workers)]
        self._under_way = 0
        self._threads: list[Future[Any]] = []
        with Holding():
            for tasks in self._tasks:
                self._threads.append(pool().submit(self._serve, tasks))

    @property
    def workers(self) -> Sequence[int]:
        """As `Executor.workers`."""
        return range(len(self._tasks))

    def submit(self, worker: int, task: Task) -> None:
        """As `Executor.submit`."""
        self._under_way += 1
        self._tasks[worker].put(task)

    def poll(self, seconds: float | None) -> list[Event]:
        """As `Executor.poll`."""
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

    def now(self) -> float:
        """As `Executor.now`."""
        return time.perf_counter()

    def close(self) -> None:
        """As `Executor.close`."""
        for tasks in self._tasks:
            tasks.put(None)
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

    def _serve(self, tasks: SimpleQueue[Task | None]) -> None:
        store = Store(self._shelf.things)
        while (task := tasks.get()) is not None:
            self._outcomes.put(work(task, store))
