"""Levels: a level is a site's connection to the other sites of a run, with epoch barriers.

At an epoch barrier the sites exchange messages over a channel, and make one decision:

    words (epochs, stop flags, sums) of all  ->  one model  ->  callers  ->  one decision

A site that has stopped in the middle of an epoch joins the same epoch barriers as the paused sites,
until all sites have ended. The first site that leaves a barrier continues at once. Its next
messages may reach sites that are still in the barrier. These sites must not drop the messages.

Writer and reader: each rank's thread that communicates with other ranks. Order: the channel's
order. So a site that has received all sites' words at a barrier has also received all earlier
messages. Freeing: `close`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.runtimes.mpi.channel import NAP_SECONDS, Channel
from hogshare.runtimes.mpi.flat_vector import ORDINARY, Decision
from hogshare.runtimes.mpi.rank_pool import RankPool
from hogshare.runtimes.mpi.verdict import Verdict

EPOCHS, IS_LAST, STOP, IS_FINITE, CLOCK, FIRST_SUM = range(6)  # a site's words at a barrier

Model = tuple[np.ndarray, np.ndarray]  # coefficients and intercepts
# ``between(epochs, all_paused)`` is called when all sites have one model, before they decide. It
# returns this machine's reason to stop the run, or RUNNING. `all_paused` is True if no site has
# ended; all sites then make this call.
Between = Callable[[int, bool], int]
GoOn = Callable[[], None]  # called when all sites have decided to continue, before any continues
Score = Callable[[], np.ndarray]  # score of the common model, on the held-out rows of all sites


class Level:
    """The base class of levels.

    The constructor copies the pool's communicator, so all ranks must call it. It also replaces the
    session's plan: kernels check no criterion by themselves.

    Arguments of the constructor:

    pool : one rank for each site
    session : this site's session
    n_rows : number of rows that all sites train on

    Values that may be read:

    is_evaluated : whether any site evaluates the model between two epochs
    has_criterion : whether losses or held-out rows may end the run
    are_over : bool array of shape (n_sites,); True for a site that had ended, or died, at the last
        epoch barrier
    is_over : whether all sites have ended the run together, with no message under way
    is_served : whether workers wait for this thread's work, while any work is left
    saves : whether checkpoints are written
    score : function that computes the common model's score; None if no rows are held out
    """

    is_evaluated = True
    is_served = False
    saves = False
    score: Score | None = None

    def __init__(self, pool: RankPool, session: Session, n_rows: int) -> None:
        self.session, self.pool = session, pool
        self.channel = Channel(pool.copy_of_comm(), pool.watch, living=pool.living)
        self.channel.bury = self.bury
        self.traffic = self.channel.traffic
        self.verdict = Verdict(session, session.plan, n_rows)
        plan = session.plan
        self.has_criterion = plan.tol > -np.inf or plan.early_stopping > 0
        # no site checks a criterion by itself; all sites do so together at the epoch barriers
        session.plan = session.plan._replace(tol=-np.inf, early_stopping=0)
        self.is_over, self.are_over = False, np.zeros(pool.size, bool)

    # -- methods that differ between levels

    def has_finite(self) -> bool:
        """Whether all numbers that this site has before the exchange of models are finite."""
        return True

    def arrive(self) -> None:
        """Wait until the work is done that must precede this site's words."""

    def bring(self, clock: int) -> Model | None:
        """Make one model on all sites, if any site evaluates the model; all sites must call this.

        clock : the largest clock of any worker; all workers continue from this clock, which is
            written to the progress table

        Return the model, or None if no site evaluates it.
        """
        raise NotImplementedError

    def store_trace(self, n_epochs: int, model: Model) -> None:
        """Store the common model as the epoch's snapshot."""
        store_snapshot(self.session, n_epochs, *model)

    def called(self) -> None:
        """Note that callers have been called, which may have moved intercepts on all sites."""

    def go_on(self) -> None:
        """Begin the next epoch, after an epoch barrier."""

    def clear(self) -> None:
        """Complete all messages under way, when all sites have ended."""

    def bury(self, site: int) -> None:
        """Stop waiting for a dead site."""

    # -- methods of all levels

    def common(self) -> AbstractContextManager[None]:
        """Set the session's model to the common model within a with block, while all workers pause.

        The block may move intercepts, equally on all sites; the moved values stay after the block.
        """
        return nullcontext()

    def bring_checkpointed(self) -> None:
        """Exchange the arrays that a checkpoint needs besides the model; all sites must call it."""

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """Return all machines' arrays, of the same shape, in the order of machines (collective).

        After this call, the caller need not poll the channel, for any length of time.
        """
        found = self.channel.gathered(numbers)
        self.channel.pause()
        return found

    def added(self, numbers: np.ndarray) -> np.ndarray:
        """Return the sum of all machines' arrays, with the same bits on each (collective)."""
        return np.asarray(self.gathered(numbers).sum(axis=0))

    def of_first(self, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the first machine's two numbers on each machine (collective)."""
        if self.pool.living is not None:
            return np.asarray(self.pool.living.of_first(make, self.channel.wait))
        return np.asarray(self.gathered(make() if self.pool.me == 0 else np.zeros(2))[0])

    @property
    def nap(self) -> float:
        """The seconds between two polls, while workers work."""
        return NAP_SECONDS

    def begin(self, is_heard: bool) -> None:
        """Begin the run on all sites; all sites must call it.

        is_heard : whether this site evaluates the model during the run
        """
        raise NotImplementedError

    @property
    def deliver(self) -> Callable[[], None]:
        """The function that delivers interrupts while the channel waits."""
        return self.channel.deliver

    @deliver.setter
    def deliver(self, deliver: Callable[[], None]) -> None:
        self.channel.deliver = deliver

    def prepare(self) -> None:
        """Load or compile the kernel of decisions."""
        self.verdict.prepare()

    def poll(self) -> bool:
        """Do all pending work; return whether there was any."""
        return self.channel.poll()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Poll until `ready` returns True, and sleep between polls."""
        self.channel.wait(ready)

    def pause(self, between: Between, before_all_go_on: GoOn) -> Decision:
        """Join the epoch barrier, while the workers pause; all sites must call it, or `end`."""
        decision = self._meet(between, is_last=False)
        if decision.stop == layout.RUNNING:
            before_all_go_on()
        self.go_on()
        return decision

    def end(self) -> None:
        """Join epoch barriers until all sites have ended, and close the channel."""
        while not self.are_over.all():
            decision = self._meet(lambda *_: layout.RUNNING, is_last=True)
        self.clear()
        self.channel.part()
        note_end(self.session, decision)
        pool_iterates(self.session, self.pool)
        self.is_over = True

    def close(self) -> None:
        """Free the channel; no site sends anything more."""
        self.channel.close()

    # -- an epoch barrier

    def _meet(self, between: Between, is_last: bool) -> Decision:
        """Make one model, if any site evaluates it, and one decision."""
        self.arrive()
        session, stop = self.session, self.session.word(layout.STOP)
        words = self.channel.gathered_by_site(self._words(is_last, stop).view(np.uint8))
        sites, found = list(words), np.stack([one.view(np.float64) for one in words.values()])
        epochs, stops = found[:, EPOCHS].astype(int), found[:, STOP].astype(int)
        self.are_over[:] = True
        self.are_over[sites], n_epochs = found[:, IS_LAST] > 0.0, int(epochs.min())
        if self.pool.lost:
            self.verdict.n_rows = int(self.pool.training[sites].sum())
        is_new = bool((epochs == n_epochs).all()) and n_epochs > self.verdict.epochs
        model = self.bring(int(found[:, CLOCK].max()))
        if is_new:
            if model is not None:
                self.store_trace(n_epochs, model)
                self._take_score()
            called = between(n_epochs, not found[:, IS_LAST].any())
            stop = stop if called == layout.RUNNING else called
            self.called()
        said: list[int] = []
        if self.is_evaluated or self.are_over.any():  # if not, no caller has been called
            said = self.channel.gathered(np.array([stop]))[:, 0].astype(int).tolist()
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
        clock = session.local_table[:, layout.T_CLOCK].max()
        words: list[Any] = [n_epochs, is_last, stop, self.has_finite(), clock]
        return np.concatenate([words, sums])

    def _take_score(self) -> None:
        if self.score is not None:
            with self.common():
                self.verdict.score[:] = self.score()


def pool_iterates(session: Session, pool: RankPool) -> None:
    """Replace a machine's sum of iterates by the sum over all machines, after the run."""
    lag, local = session.arrays["lag"], session.locals()
    if not lag.size:
        return
    counts, total, intercepts = session.sums_of_iterates()
    local[:, [layout.L_AVERAGE_SCALE, layout.L_AVERAGE_COUNT]] = 0.0
    local[:, layout.L_AVERAGE_INTERCEPT] = 0.0
    lag[:] = 0.0
    lag[0, : session.size] = pool.added(total)
    local[0, layout.L_AVERAGE_COUNT] = pool.added(counts)
    local[0, layout.L_AVERAGE_INTERCEPT] = pool.added(intercepts)


def note_decision(session: Session, decision: Decision) -> None:
    """Write an epoch's common decision to the session."""
    session.schedule.columns[:] = decision.columns
    history = session.arrays["history"]
    if 0 < decision.epochs <= len(history):
        history[decision.epochs - 1] = decision.loss


def note_end(session: Session, decision: Decision) -> None:
    """End a machine's session at the common epoch."""
    session.schedule.control[layout.EPOCHS] = decision.epochs
    session.schedule.control[layout.STOP] = decision.stop
    end = slots_of(session, decision.epochs)
    session.arrays["snapshot_blocks"][end:] = 0  # blocks beyond the common end


def store_snapshot(
    session: Session, n_epochs: int, coefficients: np.ndarray, intercept: np.ndarray
) -> None:
    """Store the common vector as the epoch's snapshot, if the epoch has one."""
    snapshots, plan = session.arrays["snapshots"], session.plan
    end = slots_of(session, n_epochs)
    if 0 < end <= len(snapshots) and n_epochs * plan.n_blocks % plan.record_every == 0:
        snapshots[end - 1] = coefficients
        session.arrays["snapshot_intercepts"][end - 1] = intercept


def slots_of(session: Session, n_epochs: int) -> int:
    """Return the number of snapshots of `n_epochs` epochs; 0 without a trace."""
    plan = session.plan
    return n_epochs * plan.n_blocks // plan.record_every if plan.record_every else 0
