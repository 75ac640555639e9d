"""What a machine does when its workers rest: with all others it brings, judges, decides, and saves.

    bring one model -> evaluate criteria -> notify callers -> decide -> save, if the run goes on

Criteria are evaluated by all machines alike, on the same model, from sums in the order of the
machines: all come to the same answer without a word about it.

On one machine a worker that ends an epoch calls for a convergence check, by what the epoch has
changed in what is remembered of rows (`hogshare.kernels.schedule.epoch_criteria.call`). Machines
rest after every epoch, so here the same is asked then, of the sums of all, and the check is made at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.engine.checkpoint_schedule import NEVER, Keeper
from hogshare.engine.convergence_checks import AtPause, GradientChecks, reported_gradient
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rules import sgd_steps
from hogshare.problems.model import Model
from hogshare.runtimes.mpi.level import Level

ASKED = [layout.C_ENOUGH, layout.C_SMALL, layout.C_SOONEST]  # words of `Session.ask_for_check`
ENOUGH, SMALL, SOONEST = range(3)


class Asked:
    """When a convergence check is to be made before it is due, as the last one has said.

    It is taken out of the session's columns, of which kernels would make their own.
    """

    def __init__(self, session: Session) -> None:
        self.columns = session.schedule.columns
        self.words = np.zeros(len(ASKED))
        self.take()

    def take(self) -> None:
        """Take what stands in the columns; a check that has been called for is in the limit."""
        self.words = self.columns[ASKED, 0].copy()
        self.words[ENOUGH] = max(0.0, self.words[ENOUGH])
        self.clear()

    def put(self) -> None:
        """Put it there again."""
        self.columns[ASKED, 0] = self.words

    def clear(self) -> None:
        """Have kernels call for nothing."""
        self.columns[ASKED] = 0.0


class MachineEpochs(AtPause):
    """The end of an epoch of all machines.

    tell : ``tell(epochs)`` notifies this machine's caller; True: it has the run stop
    rests : who evaluates and saves; None: nobody
    due : the epoch of the next evaluation
    asked : by the last one
    problem : a part of the rows, or one that all have
    """

    def __init__(
        self,
        level: Level,
        tell: Callable[[int], bool],
        rests: AtPause | None,
        due: int,
        asked: Asked,
        problem: Any,
    ) -> None:
        self.level, self.tell, self.rests = level, tell, rests
        self.due, self.asked, self.problem = due if rests is not None else NEVER, asked, problem
        level.saves = isinstance(rests, Keeper)
        checks = rests.checks if isinstance(rests, Keeper) else rests
        if isinstance(checks, GradientChecks):
            checks.by_one = self._by_first
        self._each: Each = map

    def act(self, session: Session, each: Each = map) -> int | None:
        """Come to one decision with all machines."""
        self._each = each
        decision = self.level.pause(self._between, self._save)
        if decision.stop != layout.RUNNING:
            session.stop(decision.stop)
            return session.word(layout.EPOCHS)
        return decision.epochs + 1

    def _between(self, n_epochs: int, all_paused: bool) -> int:
        if all_paused and self.rests is not None and not self._goes_on(self.rests, n_epochs):
            return layout.STOPPED_BY_CRITERION
        return layout.STOPPED_BY_CALLER if self.tell(n_epochs) else layout.RUNNING

    def _goes_on(self, rests: AtPause, n_epochs: int) -> bool:
        """Evaluate, if it is time to; whether the run goes on."""
        session = self.level.session
        remembers = session.rule.method != sgd_steps.GRADIENT
        is_asked = remembers and self.asked.words[ENOUGH] > 0.0
        if n_epochs < self.due and not is_asked:
            return True
        if remembers:
            sums, n = session.arrays["sums"][(n_epochs - 1) % 2], session.settings.n_columns
            session.schedule.columns[layout.C_CHANGE, 0] = self.level.added(sums[2 * n :]).sum()
        with self.level.common():
            is_called = is_asked and self._is_called(session, n_epochs)
            if n_epochs < self.due and not is_called:
                return True
            self.asked.put()
            if is_called:
                session.schedule.columns[layout.C_ENOUGH, 0] = -float(n_epochs)
            again = rests.evaluate(session, self._each)
            self.asked.take()
        self.due = n_epochs if again is None else again
        return again is not None

    def _is_called(self, session: Session, n_epochs: int) -> bool:
        """As `hogshare.kernels.schedule.epoch_criteria.call`."""
        enough, small, soonest = self.asked.words.tolist()
        if session.change > enough or n_epochs < soonest:
            return False
        if small <= 0.0:
            return True
        model: Model = session.model()
        return reported_gradient(self.problem, session, np.asarray(model.coef, np.float64)) <= small

    def _save(self) -> None:
        """Save the run if it is time to: all are at rest, and have decided to go on."""
        rests, session = self.rests, self.level.session
        if not isinstance(rests, Keeper) or not rests.is_due:
            return
        if lost := self.level.pool.lost:
            rests.end(f"rank {lost[0]} has died, and with it its part of them")
            return
        self.level.bring_checkpointed()
        self.asked.put()
        session.over_sites = self.level.added
        try:
            with self.level.common():
                rests.save(session)
        finally:
            session.over_sites = None
        self.asked.clear()
        write = rests.meanwhile()
        if write is not None:  # together, so that all have been written or none
            write()

    def _by_first(self, found: Callable[[], np.ndarray]) -> np.ndarray:
        """What the first machine finds, whose last bits may be others than another's."""
        level = self.level
        if level.is_over:
            return level.pool.of_first(found)
        level.channel.pause()
        return level.of_first(found)
