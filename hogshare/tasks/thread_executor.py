"""Tasks in threads of the caller's process.

::

    caller  -- a queue per worker -->  thread
            <-- outcomes, a bell ----

Nothing is copied: functions, rows and broadcasts are the caller's own objects. Versions of
broadcasts are read-only. Writers: the caller writes one queue of tasks for each thread; the threads
write one queue of outcomes. Readers: each thread reads its own queue; the caller reads the
outcomes. Freeing: `close` makes each thread return to the pool once its task has ended. If a thread
is stuck in a user's function, `close` leaves it behind after two seconds, with a warning. The
threads refer to the queues and to the objects of the `Shelf` (the store of the caller's objects),
but not to the executor. So the executor can be collected while its threads wait, and an executor
that is dropped without `close` dismisses its threads. The end of the process also dismisses the
threads. The process waits for the pool's threads, but not for a user's function.

While the caller waits for outcomes without limit, it does short tasks itself, if their function is
a linear problem's kernel and their threads have not taken them yet (`_help`). A thread on another,
sleeping core takes 0.1 to 0.3 ms more for the same task.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from hogshare.runtimes import interpreter_exit
from hogshare.runtimes.events import Bell
from hogshare.runtimes.pool import pool
from hogshare.system.callers import users_line
from hogshare.system.interrupts import DeferredSignals
from hogshare.tasks.executor import Back, Event, Executor
from hogshare.tasks.plans import GradientOf, TaskPlan
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Store, Task, TaskOutcome, work

SHORT_VALUES = 1 << 20  # values of the rows of a task that takes a millisecond or less
STUCK_SECONDS = 2.0  # how long closing waits for a task to end


class ThreadExecutor(Executor):
    """The executor of threads."""

    name = "threads"

    def __init__(self, shelf: Shelf, n_workers: int) -> None:
        super().__init__()
        self._outcomes = collections.deque[TaskOutcome]()
        self._bell = Bell()
        self._tasks: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(n_workers)]
        self._stores = [Store(shelf.things) for _ in range(n_workers)]
        self._helped: int | None = None  # worker of the last task, if `_help` may do it
        self._under_way = 0
        self._threads: list[Future[Any]] = []
        self._dismiss = weakref.finalize(self, _dismiss, self._tasks)
        self._dismiss.atexit = False
        atexit.register(self._dismiss)  # registered after the pool's exit handler, so it runs first
        with DeferredSignals():
            for tasks, store in zip(self._tasks, self._stores, strict=True):
                serving = pool().submit(_serve, tasks, self._outcomes, self._bell, store)
                self._threads.append(serving)

    @property
    def workers(self) -> Sequence[int]:
        return range(len(self._tasks))

    def submit(self, worker: int, task: Task) -> None:
        self._under_way += 1
        self._helped = worker if _is_short(task, self._stores[worker]) else None
        self._tasks[worker].put(task)

    def poll(self, seconds: float | None) -> list[Event]:
        if seconds is None:
            self._help()
        deadline = None if seconds is None else time.monotonic() + seconds
        with DeferredSignals(self._bell) as deferred:
            while self._under_way:
                self._bell.clear()
                deferred.deliver()  # signals that came before this block do not set its bell
                if self._outcomes:
                    break
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0.0:
                    break
                self._bell.wait(left)
            events: list[Event] = []
            while self._outcomes:
                events.append(Back(self._outcomes.popleft()))
                self._under_way -= 1
            return events

    def _help(self) -> None:
        """Do the last task in this thread, if it is short and its own thread has not taken it."""
        worker, self._helped = self._helped, None
        if worker is None:
            return
        with DeferredSignals(), contextlib.suppress(Empty):
            task = self._tasks[worker].get_nowait()
            assert task is not None  # the executor is open
            # its thread has no other task, so this thread has the store for itself
            self._outcomes.append(work(task, self._stores[worker]))

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
    tasks: SimpleQueue[Task | None],
    outcomes: collections.deque[TaskOutcome],
    bell: Bell,
    store: Store,
) -> None:
    while (task := tasks.get()) is not None:
        outcomes.append(_working(store.things.get(task.plan))(task, store))
        bell.set()


def _is_short(task: Task, store: Store) -> bool:
    """Return whether a task computes a linear problem's gradient of few values.

    A user's function must not run in the caller's thread: it may wait for the caller, and its
    exceptions could not be distinguished from Ctrl-C.
    """
    plan: TaskPlan | None = store.things.get(task.plan)
    if task.sleep or plan is None or not isinstance(plan.function, GradientOf):
        return False
    values = plan.function.values_per_row
    return values is not None and plan.rate * sum(task.sizes.values()) * values < SHORT_VALUES


def _working(plan: TaskPlan | None) -> Callable[[Task, Store], TaskOutcome]:
    """Return `work`; if the function is not a kernel, its run is registered as a user's code."""
    if plan is None or isinstance(plan.function, GradientOf):
        return work

    def working(task: Task, store: Store) -> TaskOutcome:
        return work(task, store)

    # not `repr`, which may be a user's code and raise
    working.__qualname__ = getattr(plan.function, "__name__", type(plan.function).__name__)
    return interpreter_exit.noted(working)


def _dismiss(tasks: Iterable[SimpleQueue[Task | None]]) -> None:
    for each in tasks:
        each.put(None)
