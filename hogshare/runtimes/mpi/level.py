"""The level between machines, as one of them has it: what they tell each other during a run.

Who writes: the thread of the rank that talks to the others, everything of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.runtimes.mpi.assembly import NAP_SECONDS, Assembly, Pool
from hogshare.runtimes.mpi.channel import Channel, EdgeTraffic
from hogshare.runtimes.mpi.words import Decision

# ``between(epochs, all_rest)`` is called when all have one model, before they decide: it answers
# why this machine has the run stop, or RUNNING; `all_rest`: nobody has ended, so that all are there
Between = Callable[[int, bool], int]
GoOn = Callable[[], None]  # called when all have decided to go on, before anybody does
Score = Callable[[], np.ndarray]  # of the model that all have, on the held-out rows of all


class Level:
    """What the ends of a machine have alike.

    pool : one rank for each machine
    deliver : an interrupt, while it waits
    is_over : whether all machines have ended the run together, so that nothing is under way
    saves : whether checkpoints are written
    score : what is asked when all have one model; None: no rows are held out
    """

    pool: Pool
    session: Session
    beats: Any
    traffic: EdgeTraffic
    deliver: Callable[[], None]
    is_over: bool
    is_served: bool = False  # whether workers wait for what this thread does, while there is any
    assembly: Assembly | Channel
    score: Score | None = None
    saves: bool = False

    def common(self) -> AbstractContextManager[None]:
        """A block in which the session's model is what all have alike, while all rest.

        Intercepts that are moved in it stay where all have moved them.
        """
        return nullcontext()

    def bring_kept(self) -> None:
        """Have what a checkpoint needs besides the model on every machine."""

    def added(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of all machines' arrays, on each, the same bits; all have to ask.

        In the order of the machines. Whoever has asked does something else then, unheard.
        """
        found = self.assembly.gathered(numbers).sum(axis=0)
        self.beats.rest()
        return np.asarray(found)

    def of_first(self, numbers: np.ndarray) -> np.ndarray:
        """The first machine's array, on each; all have to ask, with one shape."""
        found = self.assembly.gathered(numbers)[0]
        self.beats.rest()
        return np.asarray(found)

    def prepare(self) -> None:
        """Load or compile kernels; a run does nothing else before."""
        raise NotImplementedError

    def begin(self, is_heard: bool) -> None:
        """Begin together; `is_heard`: somebody here evaluates the model on the way."""
        raise NotImplementedError

    def rest(self, between: Between, before_all_go_on: GoOn) -> Decision:
        """Come to one model and one decision with all machines, while the workers rest."""
        raise NotImplementedError

    def end(self) -> None:
        """Bring the run to its end on all machines, with one model."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the messages took; nobody sends anything more."""
        raise NotImplementedError

    def poll(self) -> bool:
        """Do whatever there is to do; whether anything was."""
        raise NotImplementedError

    def wait(self, ready: Callable[[], bool]) -> None:
        """Poll until something is so, asleep in between."""
        while not ready():
            if not self.poll():
                self.deliver()
                self.pool.look()
                time.sleep(NAP_SECONDS)


_never_freed: list[Any] = []


def give_back(comms: Sequence[Any], is_over: bool) -> None:
    """Free the communicators of a run, unless it was broken off.

    MPI may give the number of one that is free to the next one. Messages that nobody has received,
    of a run that was broken off, would then be received in another run.
    """
    if not is_over:
        _never_freed.extend(comms)
        return
    for comm in comms:
        comm.Free()


def pool_iterates(session: Session, pool: Pool) -> None:
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


def keep_snapshot(
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
