"""Threads that stay alive between runs: waking two takes 0.06 ms, starting two takes 0.4 ms.

Writers: `submit` takes a thread from the list of spare threads, or starts a thread, and gives it
the task. When its task is done, a thread adds itself to the list again, just before it reports the
result. Each change of the list is one step of the interpreter. So there are never fewer threads
than tasks: no task waits for another task's thread. If a caller waits for each task before it
submits the next one, the pool starts no second thread. There is no lock. So a signal's handler may
submit a task in the middle of an interrupted `submit`, and a fork finds no lock taken. (From Python
3.12 on, `concurrent.futures.ThreadPoolExecutor` miscounts if a task comes while another ends: every
hundred runs it starts a thread too many, and never ends this thread.) The caller knows a task's
thread before the thread wakes up, and can bind it to other cores (`submit_to`).

Freeing: idle threads end with the process. At its end the process stops runs, closes the pool and
waits for threads in a kernel, because the kernel's code would be gone. (It waits two seconds for
threads in the user's code; see `hogshare.runtimes.interpreter_exit`.)

`call_in_queue`: under a lock, a thread takes the next part from an iterator. It writes the part's
result to the part's own place in a list. The caller reads the list when all threads have finished.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, NoReturn

from hogshare.runtimes import interpreter_exit
from hogshare.runtimes.events import Bell
from hogshare.system import forks
from hogshare.system.callers import users_line
from hogshare.system.interrupts import DeferredSignals

POLL_SECONDS = 0.5  # between two checks whether the user insists
STUCK_SECONDS = 2.0  # for which the end of the process waits for the user's code

Task = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class _Promise(Future[Any]):
    """A task's result, with the id of the process that has its thread."""

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()


class _Server:
    def __init__(self, serve: Callable[[_Server], None], name: str) -> None:
        self.tasks: SimpleQueue[Task] = SimpleQueue()
        self.sent = False  # whether it is bound to some cores, for a task that has not ended yet
        self.thread = threading.Thread(target=serve, args=(self,), name=name, daemon=True)
        self.thread.start()

    def go_to(self, cores: Collection[int]) -> None:
        """Make the thread wake up on one of these cores.

        cores : numbers of cores; if empty, the thread may wake up on any of the calling thread's
            cores

        This also undoes an earlier binding: an interrupted call may have bound the thread without
        giving it a task.
        """
        thread = self.thread.native_id
        if thread is None or not (cores or self.sent):
            return
        self.sent = True
        with contextlib.suppress(OSError):
            cores = cores or os.sched_getaffinity(0)
            os.sched_setaffinity(thread, cores)


class ThreadPool:
    """A pool with as many threads as the largest number of its simultaneous tasks so far."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._spare: list[_Server] = []  # last in, first out: the last one's core is still awake
        self._servers: list[_Server] = []
        self._started = itertools.count()
        self._unfinished: set[Future[Any]] = set()
        self._closed = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call ``function(*args)`` in a thread.

        Raises RuntimeError in two cases: (1) the process is ending; (2) there is no spare thread,
        and the system starts no new one.
        """
        return self.submit_to((), function, *args)

    def submit_to(
        self, cores: Collection[int], function: Callable[..., Any], *args: Any
    ) -> Future[Any]:
        """Call ``function(*args)`` in a thread that is bound to these cores before it wakes up.

        The function must unbind the thread. If `cores` is empty, this is the same as `submit`.
        """
        future = _Promise()
        with DeferredSignals():  # a signal in this block would lose a thread
            self._unfinished.add(future)  # first: the end of the process waits for running tasks
            try:
                if self._closed:
                    raise RuntimeError("no run can start any more: the process is ending.")
                server = self._take_server()
                server.go_to(cores)
                server.tasks.put((future, function, args))
            except BaseException:
                if future.cancel():  # no thread has begun it, and none will
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
            if os.getpid() != self.process:  # in a forked child, which has only this thread
                _end_child(server.thread, error)
            # before the result is set: its caller may submit at once, and would start a new thread
            self._unfinished.discard(future)
            server.sent = False
            self._spare.append(server)
            if error is not None:
                future.set_exception(error)
            elif runs:
                future.set_result(result)
            del future, function, args, result, error  # an idle thread refers to no run's arrays

    def close(self) -> None:
        """Take no more tasks, and wait until all accepted tasks are finished.

        After two seconds, tasks that are stuck in the user's code are left behind, with a warning.
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


def _end_child(thread: threading.Thread, error: BaseException | None) -> NoReturn:
    """End a process that a task has forked, as `multiprocessing` ends its forked children.

    If the only thread of such a process returned, the C library would call `exit` without the
    interpreter's end. The destructors of every loaded library (MPI, LLVM) would then wait for
    threads that only the parent has, or crash.
    """
    if error is not None:
        threading.excepthook(
            threading.ExceptHookArgs((type(error), error, error.__traceback__, thread))
        )
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, full, or closed
            stream.flush()
    os._exit(int(error is not None))


_pool = ThreadPool()


def pool() -> ThreadPool:
    """Return the thread pool of this process."""
    global _pool
    if _pool.process != os.getpid():  # a fork has none of its parent's threads
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
    """Wait until tasks are done; a signal may interrupt the wait, but not the tasks.

    tasks : the futures of the tasks
    to_the_end : whether signals are deferred during the wait, unless the user insists. Set it for
        tasks that have been asked to end. Outside the main thread no signal is deferred.
    is_enough : polled during the wait, which ends when it returns True; tasks may then still run

    In a forked child of the process that has the tasks, this returns at once.
    """
    bell, process = Bell(), os.getpid()
    with DeferredSignals(bell) as deferred:
        has_enough = deferred.patience()
        tasks = [task for task in tasks if getattr(task, "process", process) == process]
        for task in tasks:
            task.add_done_callback(lambda _: bell.set())
        while not all(task.done() for task in tasks):
            bell.wait(POLL_SECONDS)
            if not to_the_end:
                deferred.deliver()
                forks.stay(process)
            elif has_enough():
                return
            if is_enough():
                return


def call_in_queue(
    function: Callable[[Any, Callable[[], bool]], Any], parts: Sequence[Any], n_threads: int
) -> list[Any]:
    """Call ``function(part, is_over)`` with every part, `n_threads` of them at a time.

    ``is_over()`` becomes True when the results are no longer needed: after Ctrl-C, or when another
    part has failed. A slow function should poll ``is_over``, and return when it is True.

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
    """Return a function ``each(function, parts)`` that computes a list by `n_threads` threads."""

    def each(function: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        parts = list(parts)
        return call_in_queue(lambda part, _: function(part), parts, min(n_threads, len(parts)))

    return each
