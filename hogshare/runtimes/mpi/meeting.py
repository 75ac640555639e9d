"""A level whose sites meet at the end of an epoch, by a channel, and come to one decision.

    words (epochs, stop words, sums) of all  ->  one model  ->  callers  ->  one decision

Who has stopped in the middle of an epoch comes to the same meetings as those who rest, until all
have ended. A site that is through a meeting first goes on at once: what it sends from then on may
come before the others are through, and is not to be dropped.

Who writes and reads: the thread of each rank that talks to the others. Order: that of the channel,
so that who has all words of a meeting has all that was posted before them. Who frees: `close`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.runtimes.mpi.assembly import Pool
from hogshare.runtimes.mpi.channel import Channel
from hogshare.runtimes.mpi.level import (
    Between,
    GoOn,
    Level,
    keep_snapshot,
    note_decision,
    note_end,
    pool_iterates,
)
from hogshare.runtimes.mpi.verdict import Verdict
from hogshare.runtimes.mpi.words import ORDINARY, Decision

EPOCHS, IS_LAST, STOP, IS_FINITE, CLOCK, FIRST_SUM = range(6)  # of a site's words in a meeting

Model = tuple[np.ndarray, np.ndarray]  # coefficients and intercepts


class MeetingLevel(Level):
    """What levels have alike whose sites meet; what differs is for those to say.

    is_looked_at : whether anybody looks at the model between two epochs
    are_over : bool of shape (n_sites,), sites that have ended, as of the last meeting

    pool : one rank for each site
    n_rows : rows that all sites train on
    """

    is_looked_at = True

    def __init__(self, pool: Pool, session: Session, n_rows: int) -> None:
        self.session, self.pool = session, pool
        self.channel = Channel(pool.copy_of_comm(), pool.look)
        self.beats = self.assembly = self.channel
        self.traffic = self.channel.traffic
        self.verdict = Verdict(session, session.plan, n_rows)
        # by itself a site meets no criterion; whether all do is decided in the meetings
        session.plan = session.plan._replace(tol=-np.inf, early_stopping=0)
        self.is_over, self.are_over = False, np.zeros(pool.size, bool)

    # -- what differs

    @property
    def is_asked(self) -> bool:
        """Whether sites hear what callers have said: nobody goes on before all have a model."""
        return True

    def has_finite(self) -> bool:
        """Whether all numbers are that this site knows before a model is brought."""
        return True

    def arrive(self) -> None:
        """Wait for what has to be done before this site's words are sent."""

    def bring(self, clock: int) -> Model | None:
        """Come to one model, if anybody looks at it.

        clock : that of the farthest worker
        """
        raise NotImplementedError

    def keep_trace(self, n_epochs: int, model: Model) -> None:
        """Put the model that all have into the place of the epoch's snapshot."""
        keep_snapshot(self.session, n_epochs, *model)

    def called(self) -> None:
        """Note that callers have been called, who may have moved intercepts, everywhere alike."""

    def go_on(self) -> None:
        """Begin the next epoch, after a meeting."""

    def stay(self) -> None:
        """Wait for the next meeting, after one, when the workers here have ended."""

    def clear(self) -> None:
        """Bring to an end what is under way, when all have ended."""

    # -- as of `Level`

    @property
    def deliver(self) -> Callable[[], None]:
        """An interrupt, while it waits."""
        return self.channel.deliver

    @deliver.setter
    def deliver(self, deliver: Callable[[], None]) -> None:
        self.channel.deliver = deliver

    def prepare(self) -> None:
        """Load or compile the kernel of decisions."""
        self.verdict.prepare()

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        return self.channel.poll()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Poll until something is so, asleep in between."""
        self.channel.wait(ready)

    def rest(self, between: Between, before_all_go_on: GoOn) -> Decision:
        """Meet all others, while the workers rest."""
        decision = self._meet(between, is_last=False)
        if decision.stop == layout.RUNNING:
            before_all_go_on()
        self.go_on()
        return decision

    def end(self) -> None:
        """Meet until all have ended, and part."""
        while not self.are_over.all():
            decision = self._meet(lambda *_: layout.RUNNING, is_last=True)
            self.stay()
        self.clear()
        self.channel.part()
        note_end(self.session, decision)
        pool_iterates(self.session, self.pool)
        self.is_over = True

    def close(self) -> None:
        """Give everything back; nobody sends anything more."""
        self.channel.close()

    # -- a meeting

    def _meet(self, between: Between, is_last: bool) -> Decision:
        """Come to one model, if anybody looks at it, and one decision."""
        self.arrive()
        session, stop = self.session, self.session.word(layout.STOP)
        found = self.channel.gathered(self._words(is_last, stop))
        epochs, stops = found[:, EPOCHS].astype(int), found[:, STOP].astype(int)
        self.are_over, n_epochs = found[:, IS_LAST] > 0.0, int(epochs.min())
        is_new = bool((epochs == n_epochs).all()) and n_epochs > self.verdict.epochs
        model = self.bring(int(found[:, CLOCK].max()))
        if is_new:
            if model is not None:
                self.keep_trace(n_epochs, model)
                if self.score is not None and set(stops.tolist()) <= set(ORDINARY):
                    with self.common():
                        self.verdict.score[:] = self.score()
            called = between(n_epochs, not self.are_over.any())
            stop = stop if called == layout.RUNNING else called
            self.called()
        said = self._said(stop)
        reason = next((one for one in (*stops, *said) if one not in ORDINARY), layout.RUNNING)
        if is_new:
            w = np.zeros(session.size) if model is None else model[0].astype(np.float64)
            is_finite = bool(found[:, IS_FINITE].all() and np.isfinite(w).all())
            judged = self.verdict.of(n_epochs, found[:, FIRST_SUM:].sum(axis=0), w, is_finite)
            reason = judged if reason == layout.RUNNING else reason
        if self.are_over.all() and reason == layout.RUNNING:
            reason = layout.STOPPED_BY_LIMIT
        decision = Decision(int(reason), n_epochs, self.verdict.loss, self.verdict.columns)
        note_decision(session, decision)
        return decision

    def _words(self, is_last: bool, stop: int) -> np.ndarray:
        session, n_epochs = self.session, self.session.word(layout.EPOCHS)
        sums = session.arrays["sums"][(n_epochs - 1) % 2]
        clock = session.table_here[:, layout.T_CLOCK].max()
        words: list[Any] = [n_epochs, is_last, stop, self.has_finite(), clock]
        return np.concatenate([words, sums])

    def _said(self, stop: int) -> list[int]:
        """Stop words of all sites, once callers have been called; none where nobody asks."""
        if not self.is_asked:
            return []
        return [int(one) for one in self.channel.gathered(np.array([stop]))[:, 0]]
