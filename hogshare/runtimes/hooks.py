"""Tells the caller about finished epochs, one by one and in its own thread; looks at the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

from hogshare.engine.checkpoint_schedule import OnEpoch as OnEpoch
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.runtimes.pool import pool, wait_for
from hogshare.system import forks
from hogshare.system.interrupts import DeferredSignals


class EpochHook:
    """Calls ``on_epoch(epoch, snapshot)`` once per epoch, in order; stops the run if it says so.

    With `checks` the run rests at the epochs that they name. When every worker has left, the model
    is looked at here, in the caller's thread, and either the run ends or the limit is raised. What
    of that can be done side by side, `each` does; what nobody has to wait for is done in a thread
    while the workers go on, and waited for before the next look and when the block is left.

    With `deferred`, signals wait for the owner of that; here, at every `poll`, they are let
    through, and may interrupt ``on_epoch`` wherever it is. There are other workers then: in a child
    that code of the user's has forked, and in which it returns, the run does not go on without
    them.
    """

    def __init__(
        self,
        session: Session,
        on_epoch: OnEpoch | None,
        checks: AtPause | None = None,
        each: Each | None = None,
        deferred: DeferredSignals | None = None,
    ) -> None:
        self.session = session
        self.on_epoch = on_epoch
        self.checks = checks
        self.each = each or call_parts
        self.deferred = deferred or DeferredSignals()
        self.process = os.getpid()
        self.is_alone = deferred is None
        self.seen = session.word(layout.EPOCHS)  # of a run that goes on, those before are told
        self._meanwhile: Future[None] | None = None

    def __enter__(self) -> EpochHook:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._meanwhile is None or os.getpid() != self.process:
            return
        try:
            if kind is None:
                self._wait()
        finally:  # a checkpoint in the making is worth it; not its error, now
            wait_for([self._meanwhile], to_the_end=True)

    def poll(self) -> None:
        """Report the epochs that have ended since the last call; look, if the run rests for it."""
        self.deferred.deliver()
        self._stay()
        self._report()
        if self.checks is not None and self.session.is_paused():
            self._look(self.checks)

    def _stay(self) -> None:
        if not self.is_alone:
            forks.stay(self.process)

    def _look(self, checks: AtPause) -> None:
        session = self.session
        if not session.restore_at_pause():  # a worker that died may have left the sums wrong
            return
        self._wait()
        again = checks.act(session, self.each)
        if again is None:
            session.stop(layout.STOPPED_BY_CRITERION)
        else:
            # once: from here on an epoch's end may lower it again
            session.raise_limit(again)
            work = checks.meanwhile()
            self._meanwhile = None if work is None else pool().submit(work)

    def _wait(self) -> None:
        if self._meanwhile is not None:
            wait_for([self._meanwhile])
            self._meanwhile.result()

    def _report(self) -> None:
        while self.on_epoch is not None and self.seen < self.session.word(layout.EPOCHS):
            if self.session.word(layout.STOP) == layout.STOPPED_BY_DIVERGENCE:
                return
            self.seen += 1
            is_over = self.deferred.outside(self.on_epoch, self.seen, self.session.snapshot)
            self._stay()
            if is_over:
                self.session.stop()
                self.on_epoch = None  # epochs that end before all have stopped are not reported
                return


def call_parts(function: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
    """Call a function with every part, in threads if there are several.

    This one takes a part itself: a thread that is woken by one that goes on finds another core,
    where two that are woken often share one until the system looks again.
    """
    first, *others = parts
    tasks: list[Future[Any]] = []
    with DeferredSignals():
        try:
            for part in others:
                tasks.append(pool().submit(function, part))
            return [function(first), *(task.result() for task in tasks)]
        finally:
            wait(tasks)
