"""The hook between epochs: it reports finished epochs to the caller, and evaluates the model.

Epochs are reported in order, in the caller's own thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

from hogshare.engine.checkpoint_session import OnEpoch as OnEpoch
from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.runtimes.pool import pool, wait_for
from hogshare.system import forks
from hogshare.system.interrupts import DeferredSignals


class EpochHook:
    """Calls ``on_epoch(epoch, snapshot)`` for each epoch in order; a True result ends the run.

    With `checks`, the run pauses at the epochs that the checks name. When all workers have paused,
    `poll` evaluates the model in the calling thread, and either ends the run or raises the limit of
    epochs. The parts of an evaluation that can run in parallel are passed to `each`. Work for which
    no worker waits, such as writing a checkpoint, runs in a thread while the workers go on. The
    next evaluation, and the end of the with block, wait for this work.

    `deferred` contains the deferred signals of a run with other workers. Every `poll` delivers
    these signals; they may also interrupt ``on_epoch`` anywhere. If the user's code forks and
    returns in the child, the child does not go on with the run, because the child lacks the other
    workers.
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
        self.seen = session.word(layout.EPOCHS)  # a resumed run has reported earlier epochs
        self._meanwhile: Future[None] | None = None

    def __enter__(self) -> EpochHook:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._meanwhile is None or os.getpid() != self.process:
            return
        try:
            if kind is None:
                self._wait()
        finally:  # wait for an unfinished checkpoint, but do not replace the error under way
            wait_for([self._meanwhile], to_the_end=True)

    def poll(self) -> None:
        """Report the epochs that have ended since the last call; evaluate the model in a pause."""
        self.deferred.deliver()
        self._stay_in_parent()
        self._report()
        if self.checks is not None and self.session.is_paused():
            self._evaluate(self.checks)

    def _stay_in_parent(self) -> None:
        if not self.is_alone:
            forks.stay(self.process)

    def _evaluate(self, checks: AtPause) -> None:
        session = self.session
        if not session.restore_at_pause():  # a worker that died may have left the sums wrong
            return
        self._wait()
        again = checks.act(session, self.each)
        if again is None:
            session.stop(layout.STOPPED_BY_CRITERION)
        else:
            # call it once: after it the end of an epoch may lower the limit again
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
            self._stay_in_parent()
            if is_over:
                self.session.stop()
                self.on_epoch = None  # epochs that end while workers stop are not reported
                return


def call_parts(function: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
    """Call a function with every part, in threads if there are several.

    The calling thread computes the first part itself. It stays on its core, so a thread that it
    wakes finds another core. Two woken threads often share a core until the system balances them.
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
