"""Workers as threads of this process, on the caller's own arrays: kernels release the GIL.

The calling thread is worker 0: it need not be woken at the beginning or the end, and already has a
core. Ctrl-C is delivered between worker 0's quanta (`hogshare.system.interrupts`). If there are
epochs to report, the calling thread is not a worker and only waits. Otherwise an epoch might end in
another thread while the calling thread is in a quantum, and a long callback would delay the other
workers. For an evaluation of the model all workers pause, and compute parts of the evaluation. If
instead two threads were woken only for this, they would share one core half of the time.

Writers: the caller puts parts of an evaluation into `_parts`; paused workers and the caller take
them out. Both do so under the condition `_changed`, which notifies paused workers and the caller.
The arrays are ordinary and need no freeing.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, wait
from typing import Any

from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.loop import Pause, Wish, loop_of
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.runtimes import interpreter_exit
from hogshare.runtimes.core_placement import CorePlacement
from hogshare.runtimes.driver import drive, yields_of
from hogshare.runtimes.events import Bell, News
from hogshare.runtimes.hooks import EpochHook, OnEpoch
from hogshare.runtimes.pool import pool
from hogshare.runtimes.protocol import Outcome, Runtime
from hogshare.system import interrupts
from hogshare.system.interrupts import DeferredSignals

POLL_SECONDS = 0.05
PAUSE_SECONDS = 0.005  # between two polls of a paused worker: a run may stop without a wake


class ThreadCrew:
    """Threads that run workers of one session, and an event that announces their news.

    With `leads`, the calling thread is worker 0, which is not in `workers`. The calling thread is
    never bound to a core: threads that one of the caller's libraries starts during the run would
    inherit this binding. ``loop(worker)`` returns the loop that a thread drives for a worker; the
    default is the worker's own loop.

    The event is set only after the end of an epoch that is to be reported, and after the end of the
    last thread. It is set so rarely because a waiting thread that wakes takes the interpreter from
    the threads that still work.

    A worker counts as running from `start` on, and claims its place when its thread begins. No
    worker claims a place (1) after a failed start, when the system starts no more threads; (2) in a
    forked child, which has none of these threads.

    Made in the calling thread, before any thread is bound to a core; it wraps the session's calls
    of user code. The session calls `wake` (as ``on_limit``) after it has raised LIMIT.
    """

    def __init__(
        self,
        session: Session,
        workers: range,
        news: News | Bell | None = None,
        leads: bool = False,
        loop: Callable[[int], Generator[Wish, Any, None]] | None = None,
    ) -> None:
        self.session = session
        self._loop = loop or functools.partial(loop_of, session)
        self.news = news or Bell()
        self.errors: list[BaseException] = []
        self._process = os.getpid()
        self._placement = CorePlacement(len(workers) + leads)
        self._leads = leads
        session.call_users_by(interpreter_exit.noted)
        self._yields = yields_of(session)  # now: a thread that is bound later counts only one core
        self._workers = workers
        self._tasks: list[Future[None]] = []
        self._all_sent = threading.Event()
        self._off = False
        self._to_come = 0
        self._inside: set[int] = set()  # threads at work
        self._n_paused = 0
        self._parts: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        if workers.start < session.settings.n_workers:  # False for a crew of the master alone
            session.on_limit = self.wake

    def _place(self, me: int) -> int:
        """Return a worker's number in this crew: the run's first workers may be in another crew."""
        return me - self._workers.start + self._leads

    def start(self) -> None:
        """Start the workers; no worker processes a row before all workers have been submitted.

        A worker that computed earlier would take the core that this thread needs to start the other
        workers. But no worker waits until the other workers have begun: to begin, each worker needs
        the interpreter for 0.1 or 0.2 ms, one after another.
        """
        if self._leads:
            self._placement.stay(0)  # before the others choose theirs
        self._to_come = len(self._workers)
        try:
            for k in self._workers:
                self._tasks.append(self._send(k))
        except BaseException:
            self._off = True
            raise
        finally:
            self._all_sent.set()

    def _send(self, me: int) -> Future[None]:
        """Start a worker off the caller's core; a master takes no core and is bound to none."""
        takes = self._leads and me < self.session.settings.n_workers
        cores = self._placement.other_cores(self._place(me)) if takes else set()
        return pool().submit_to(cores, self._work, me)

    def lead(self, hook: EpochHook) -> None:
        """Run worker 0 to its end, and serve the caller's hook between its quanta."""

        def pause(wish: Pause) -> int:
            start = time.perf_counter_ns()
            if not self.session.is_paused():
                self.wait(PAUSE_SECONDS)  # for the last worker to pause
            hook.poll()
            self.wake()
            return time.perf_counter_ns() - start

        self.session.call_users_by(hook.deferred.let_through)
        drive(loop_of(self.session, 0), None, self._yields, pause, hook.poll)

    def _pause(self, me: int, wish: Pause) -> int:
        """Compute a part of the caller's evaluation, or wait; return the nanoseconds spent.

        A paused worker's thread calls this again and again until the evaluation ends. The thread is
        bound to its core before it waits, because two threads that were woken on the same core
        shared this core for more than a millisecond.
        """
        start = time.perf_counter_ns()
        with self._changed:
            self._n_paused += 1
            try:
                if wish.attempts == 0:
                    self._placement.bind(self._place(me))
                self._changed.wait_for(lambda: self._parts or wish.is_over(), PAUSE_SECONDS)
            finally:
                self._n_paused -= 1
        self._do_part()
        return time.perf_counter_ns() - start

    def each(self, function: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        """Call a function with every part, in the paused workers' threads and in this thread."""
        parts = list(parts)
        if len(parts) == 1:
            return [function(parts[0])]
        results: list[Future[Any]] = [Future() for _ in parts]

        def do(result: Future[Any], part: Any) -> None:
            try:
                result.set_result(function(part))
            except BaseException as error:
                result.set_exception(error)
                if not isinstance(error, Exception):
                    raise  # Ctrl-C, in a part done by the caller

        with self._changed:
            self._parts.extend(map(functools.partial, itertools.repeat(do), results, parts))
            self._changed.notify_all()
        try:
            while self._do_part():
                pass
            return [result.result() for result in results]
        finally:
            with self._changed:
                self._parts.clear()

    def _do_part(self) -> bool:
        """Compute a part of an evaluation that no thread has taken; False if there is none."""
        with self._changed:
            part = self._parts.popleft() if self._parts else None
        if part is None:
            return False
        part()
        return True

    def wake(self) -> None:
        """Wake paused workers to check whether the pause is over."""
        with self._changed:
            self._changed.notify_all()

    def _work(self, me: int) -> None:
        with self._changed:
            if self._off:
                self._placement.leave(self._place(me))
                return
            self._to_come -= 1
            self._inside.add(threading.get_ident())
        try:
            self._all_sent.wait()
            if me < self.session.settings.n_workers:
                self._placement.take(self._place(me))
            loop, pause = self._loop(me), functools.partial(self._pause, me)
            settle = functools.partial(self._placement.settle, self._place(me))
            drive(loop, self.news.set, self._yields, pause, settle)
        except BaseException as error:
            self.errors.append(error)
            self.session.stop()
            if me < self.session.settings.n_workers:
                self.session.give_up(me)  # otherwise a master would wait for its mail
        finally:
            with self._changed:
                self._inside.discard(threading.get_ident())
                self._changed.notify_all()
            if not self.running:
                self.news.set()

    @property
    def running(self) -> bool:
        """Whether any thread still works, or has not begun yet."""
        if os.getpid() != self._process:
            return False
        with self._changed:  # a thread that begins must not be missing from both counts
            return bool(self._inside) or (self._to_come > 0 and not self._off)

    def patience(self, deferred: DeferredSignals) -> Callable[[], bool]:
        """Return a function that tests whether to stop waiting for the threads of a stopped run.

        The function returns True in two cases: (1) the user insists; (2) some seconds have passed
        since this call, and all threads that still work are in the user's code. When a thread
        returns from this code, it sees that the run has been stopped.
        """
        has_enough, end = deferred.patience(), time.monotonic() + interrupts.PATIENCE_SECONDS

        def is_in_vain() -> bool:
            if has_enough():
                return True
            with self._changed:
                return time.monotonic() > end and interpreter_exit.are_outside(self._inside)

        return is_in_vain

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` for news."""
        self.news.wait(seconds)
        self.news.clear()

    def join(self, has_enough: Callable[[], bool] = lambda: False) -> None:
        """Wait for the threads, which may be stuck, or until `has_enough` returns True."""
        if os.getpid() != self._process:
            return  # the threads are the parent's, and still bound to cores
        try:
            while self.running:
                if has_enough():
                    return
                self.wait(POLL_SECONDS)
            wait(self._tasks)  # they must be spare again: otherwise the next run would start others
        finally:
            self._placement.free()  # the threads belong to the pool
            self.session.on_limit = None  # breaks a cycle, which would retain the run's memory

    def finish(self) -> None:
        """Wait for the threads, and raise the exception of a thread that raised one."""
        self.join()
        if self.errors:
            raise self.errors[0]


class Threads(Runtime):
    """The runtime of threads."""

    name = "threads"
    has_teams = True

    def run(
        self, session: Session, on_epoch: OnEpoch | None, checks: AtPause | None = None
    ) -> Outcome:
        """Run all workers to the end of the run."""
        leads = on_epoch is None
        workers = range(int(leads), session.settings.n_workers + session.has_master)
        crew = ThreadCrew(session, workers, news := Bell(), leads)
        with (
            DeferredSignals(news) as deferred,
            EpochHook(session, on_epoch, checks, crew.each, deferred) as hook,
        ):
            try:
                crew.start()
                if leads:
                    crew.lead(hook)
                while crew.running:
                    hook.poll()
                    crew.wake()
                    crew.wait(POLL_SECONDS)
            except BaseException:
                session.stop(layout.STOPPED_BY_CALLER)
                if leads:
                    session.give_up(0)
                crew.join(crew.patience(deferred))
                raise
            crew.finish()
            hook.poll()
        return Outcome([])
