"""A level whose sites meet at the end of an epoch, by a channel, and come to one decision.

    words (epochs, stop words, sums) of all  ->  one model  ->  callers  ->  one decision

Who has stopped in the middle of an epoch comes to the same epoch_barriers as those who rest, until
all have ended. A site that is through a meeting first goes on at once: what it sends from then on
may come before the others are through, and is not to be dropped.

Who writes and reads: the thread of each rank that talks to the others. Order: that of the channel,
so that who has all words of a meeting has all that was posted before them. Who frees: `close`.
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

EPOCHS, IS_LAST, STOP, IS_FINITE, CLOCK, FIRST_SUM = range(6)  # of a site's words in a meeting

Model = tuple[np.ndarray, np.ndarray]  # coefficients and intercepts
# ``between(epochs, all_paused)`` is called when all have one model, before they decide: it answers
# why this machine has the run stop, or RUNNING; `all_paused`: nobody has ended, so that all are
# there
Between = Callable[[int, bool], int]
GoOn = Callable[[], None]  # called when all have decided to go on, before anybody does
Score = Callable[[], np.ndarray]  # of the model that all have, on the held-out rows of all


class Level:
    """What levels have alike; what differs is for those to say.

    is_evaluated : whether anybody looks at the model between two epochs
    has_criterion : whether losses or held-out rows may end the run
    are_over : bool of shape (n_sites,), sites that have ended, or died, as of the last meeting
    is_over : whether all sites have ended the run together, so that nothing is under way
    is_served : whether workers wait for what this thread does, while there is any
    saves : whether checkpoints are written
    score : what is asked when all have one model; None: no rows are held out

    pool : one rank for each site
    n_rows : rows that all sites train on
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
        # by itself a site meets no criterion; whether all do is decided in the epoch_barriers
        session.plan = session.plan._replace(tol=-np.inf, early_stopping=0)
        self.is_over, self.are_over = False, np.zeros(pool.size, bool)

    # -- what differs

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

    def store_trace(self, n_epochs: int, model: Model) -> None:
        """Put the model that all have into the place of the epoch's snapshot."""
        store_snapshot(self.session, n_epochs, *model)

    def called(self) -> None:
        """Note that callers have been called, who may have moved intercepts, everywhere alike."""

    def go_on(self) -> None:
        """Begin the next epoch, after a meeting."""

    def clear(self) -> None:
        """Bring to an end what is under way, when all have ended."""

    def bury(self, site: int) -> None:
        """Wait for nothing more of a site that has died."""

    # -- what all have

    def common(self) -> AbstractContextManager[None]:
        """A block in which the session's model is what all have alike, while all rest.

        Intercepts that are moved in it stay where all have moved them.
        """
        return nullcontext()

    def bring_checkpointed(self) -> None:
        """Have what a checkpoint needs besides the model on every machine."""

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """All machines' arrays, in their order, on each; all have to ask, with one shape.

        Whoever has asked does something else then, unheard, for as long as it takes.
        """
        found = self.channel.gathered(numbers)
        self.channel.pause()
        return found

    def added(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of all machines' arrays, in their order, on each: the same bits."""
        return np.asarray(self.gathered(numbers).sum(axis=0))

    def of_first(self, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The two numbers that the first machine makes, on each."""
        if self.pool.living is not None:
            return np.asarray(self.pool.living.of_first(make, self.channel.wait))
        return np.asarray(self.gathered(make() if self.pool.me == 0 else np.zeros(2))[0])

    @property
    def nap(self) -> float:
        """Seconds for which there is nothing to do, while workers work."""
        return NAP_SECONDS

    def begin(self, is_heard: bool) -> None:
        """Begin together; `is_heard`: somebody here evaluates the model on the way."""
        raise NotImplementedError

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

    def pause(self, between: Between, before_all_go_on: GoOn) -> Decision:
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
        if self.is_evaluated or self.are_over.any():  # else nobody has been called
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
    """Have a machine's sum of iterates be that of all; when the run is over."""
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
    """Write down what an epoch has come to, for all alike."""
    session.schedule.columns[:] = decision.columns
    history = session.arrays["history"]
    if 0 < decision.epochs <= len(history):
        history[decision.epochs - 1] = decision.loss


def note_end(session: Session, decision: Decision) -> None:
    """Have a machine's session end where all do."""
    session.schedule.control[layout.EPOCHS] = decision.epochs
    session.schedule.control[layout.STOP] = decision.stop
    end = slots_of(session, decision.epochs)
    session.arrays["snapshot_blocks"][end:] = 0  # beyond what all have done


def store_snapshot(
    session: Session, n_epochs: int, coefficients: np.ndarray, intercept: np.ndarray
) -> None:
    """Put the vector that all have into the place of the epoch's snapshot, if there is one."""
    snapshots, plan = session.arrays["snapshots"], session.plan
    end = slots_of(session, n_epochs)
    if 0 < end <= len(snapshots) and n_epochs * plan.n_blocks % plan.record_every == 0:
        snapshots[end - 1] = coefficients
        session.arrays["snapshot_intercepts"][end - 1] = intercept


def slots_of(session: Session, n_epochs: int) -> int:
    """Snapshots of so many epochs; 0 without a trace."""
    plan = session.plan
    return n_epochs * plan.n_blocks // plan.record_every if plan.record_every else 0
