"""Threads kept between runs: waking two takes 0.06 ms, starting them 0.4 ms.

Who writes: whoever submits takes a thread from the list of spare ones, or starts one, and hands it
the task; a thread adds itself back when a task is done, just before it says so. Both in one step of
the interpreter, so that threads are never fewer than tasks: none waits for another that runs, and
who has waited for a task before it submits the next one starts no thread. There is no lock: a
signal's handler may submit a task while its thread is about to, and a fork finds nothing taken
(`concurrent.futures.ThreadPoolExecutor` loses count from Python 3.12 on where a task comes while
another ends: it starts a thread too many every hundred runs, and keeps all of them). Which thread
will do a task is known before it wakes up, so that it can be kept off a core (`submit_to`). Who
frees: nobody; idle threads end with the process, which tells runs to stop, closes the pool and
waits for those that are in a kernel, whose code would be gone. (For those in code of the
user's it waits two seconds; see `hogshare.runtimes.interpreter_exit`.)

`call_in_queue`: a thread takes parts from an iterator under a lock and writes a part's result to
its own place of a list; whoever called reads the list when all threads are through.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from hogshare.runtimes import interpreter_exit
from hogshare.runtimes.events import Bell
from hogshare.system import forks
from hogshare.system.callers import users_line
from hogshare.system.interrupts import DeferredSignals

POLL_SECONDS = 0.5  # between two looks whether somebody insists
STUCK_SECONDS = 2.0  # that the end of the process waits for code of the user's

Task = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class _Promise(Future[Any]):
    """A task's result, in the process that has the thread."""

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()


class _Server:
    def __init__(self, serve: Callable[[_Server], None], name: str) -> None:
        self.tasks: SimpleQueue[Task] = SimpleQueue()
        self.sent = False  # to some cores, for a task that it has not ended yet
        self.thread = threading.Thread(target=serve, args=(self,), name=name, daemon=True)
        self.thread.start()

    def go_to(self, cores: Collection[int]) -> None:
        """Have it wake up on one of these cores; without, where the calling thread may be.

        An interrupted call may have sent it somewhere and handed it nothing.
        """
        thread = self.thread.native_id
        if thread is None or not (cores or self.sent):
            return
        self.sent = True
        with contextlib.suppress(OSError):
            cores = cores or os.sched_getaffinity(0)
            os.sched_setaffinity(thread, cores)


class ThreadPool:
    """As many threads as there ever were tasks at one time."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._spare: list[_Server] = []  # the last one first: its core is awake still
        self._servers: list[_Server] = []
        self._started = itertools.count()
        self._unfinished: set[Future[Any]] = set()
        self._closed = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call ``function(*args)`` in a thread.

        Raises RuntimeError if the process is ending, or there is no spare thread and the system
        starts none.
        """
        return self.submit_to((), function, *args)

    def submit_to(
        self, cores: Collection[int], function: Callable[..., Any], *args: Any
    ) -> Future[Any]:
        """Call ``function(*args)`` in a thread that is bound to these cores before it wakes up.

        The function sees to it that the thread is bound no longer. Without `cores` as `submit`.
        """
        future = _Promise()
        with DeferredSignals():  # or a thread would be nobody's
            self._unfinished.add(future)  # first: the end of the process waits for what runs
            try:
                if self._closed:
                    raise RuntimeError("no run can start any more: the process is ending.")
                server = self._take_server()
                server.go_to(cores)
                server.tasks.put((future, function, args))
            except BaseException:
                if future.cancel():  # none has begun it, and none will
                    self._unfinished.discard(future)
                raise
        return future

    def _take_server(self) -> _Server:
        with contextlib.suppress(IndexError):
            return self._spare.pop()
        self._servers.append(server := _Server(self._serve, f"hogshare_{next(self._started)}"))
        return server

    def _serve(self, server: _Server) -> None:
        while True:
            future, function, args = server.tasks.get()
            result, error = None, None
            runs = future.set_running_or_notify_cancel()
            try:
                result = function(*args) if runs else None
            except BaseException as raised:
                error = raised
            if os.getpid() != self.process:  # in a child, of which this is the only thread
                if error is not None:
                    raise error
                return
            # before its caller is told, who may submit at once: another thread would be started
            self._unfinished.discard(future)
            server.sent = False
            self._spare.append(server)
            if error is not None:
                future.set_exception(error)
            elif runs:
                future.set_result(result)
            del future, function, args, result, error  # an idle thread keeps no run's arrays

    def close(self) -> None:
        """Take no more tasks, and wait until those that were taken are finished.

        But not for what is stuck in code of the user's: after two seconds that is a warning.
        """
        self._closed = True
        deadline, stuck = time.monotonic() + STUCK_SECONDS, list[str]()

        def is_enough() -> bool:
            if time.monotonic() > deadline:
                stuck[:] = interpreter_exit.leave_behind(
                    {server.thread.ident for server in self._servers}, self._unfinished
                )
            return bool(stuck)

        wait_for(list(self._unfinished), is_enough=is_enough)
        if stuck:
            warnings.warn(
                f"the process ends without waiting for {', '.join(sorted(set(stuck)))}, which has "
                f"not returned for {STUCK_SECONDS:g} seconds since",
                RuntimeWarning,
                stacklevel=users_line(),
            )


_pool = ThreadPool()


def pool() -> ThreadPool:
    """Return the threads of this process."""
    global _pool
    if _pool.process != os.getpid():  # a fork, which has none of its parent's threads
        _pool = ThreadPool()
    return _pool


def _at_exit() -> None:
    interpreter_exit.end_runs()
    pool().close()


atexit.register(_at_exit)


def wait_for(
    tasks: Collection[Future[Any]],
    to_the_end: bool = False,
    is_enough: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until tasks are done; signals come through meanwhile, and leave the tasks whole.

    With `to_the_end` they wait as well, unless somebody insists: tasks that have been told to end
    are about to. `is_enough` is asked now and then. A child of the process whose tasks they are
    does not wait.
    """
    bell, process = Bell(), os.getpid()
    with DeferredSignals(bell) as held:
        has_enough = held.patience()
        tasks = [task for task in tasks if getattr(task, "process", process) == process]
        for task in tasks:
            task.add_done_callback(lambda _: bell.set())
        while not all(task.done() for task in tasks):
            bell.wait(POLL_SECONDS)
            if not to_the_end:
                held.deliver()
                forks.stay(process)
            elif has_enough():
                return
            if is_enough():
                return


def call_in_queue(
    function: Callable[[Any, Callable[[], bool]], Any], parts: Sequence[Any], n_threads: int
) -> list[Any]:
    """Call ``function(part, is_over)`` with every part, so many at a time, each as soon as it can.

    ``is_over()`` turns True when the results are not wanted any more: after Ctrl-C, or when another
    part has failed. A function that takes long looks at it now and then, and returns.

    Returns the results, in the order of the parts.
    """
    over = threading.Event()
    if n_threads == 1:
        return [function(part, over.is_set) for part in parts]
    results: list[Any] = [None] * len(parts)
    left, lock = iter(range(len(parts))), threading.Lock()

    def work() -> None:
        while not over.is_set():
            with lock:
                k = next(left, None)
            if k is None:
                return
            try:
                results[k] = function(parts[k], over.is_set)
            except BaseException:
                over.set()
                raise

    tasks: list[Future[Any]] = []
    with DeferredSignals():
        try:
            for _ in range(n_threads):
                tasks.append(pool().submit(work))
            wait_for(tasks)
            for task in tasks:
                task.result()
        finally:
            over.set()
            wait_for(tasks, to_the_end=True)
    return results


def each_by(n_threads: int) -> Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]:
    """What calls a function for each of some parts, and lists its results, by so many threads."""

    def each(function: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        parts = list(parts)
        return call_in_queue(lambda part, _: function(part), parts, min(n_threads, len(parts)))

    return each
