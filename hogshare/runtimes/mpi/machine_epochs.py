"""The end of an epoch on all machines, while their workers pause: one model, one decision, a save.

    make one model -> evaluate criteria -> notify callers -> decide -> save, if the run goes on

All machines evaluate criteria on the same model, and add sums in the order of the machines. So they
reach the same decision without a message about the decision.

In a run on one machine, the worker that ends an epoch may request a convergence check. The worker
decides by the change of the remembered rows in this epoch
(`hogshare.kernels.schedule.epoch_criteria.call`). In a run on several machines, all workers pause
after every epoch. Each machine then applies the same test to the sums over all machines, and makes
the check at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.engine.checkpoint_session import NEVER, CheckpointWriter
from hogshare.engine.convergence_checks import AtPause, GradientChecks, reported_gradient
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rules import sgd_steps
from hogshare.problems.model import Model
from hogshare.runtimes.mpi.level import Level

ASKED = [layout.C_ENOUGH, layout.C_SMALL, layout.C_SOONEST]  # set by `Session.ask_for_check`
ENOUGH, SMALL, SOONEST = range(3)


class Asked:
    """The last check's request for an early convergence check.

    The request is removed from the session's columns, because kernels would apply it to this
    machine's sums alone.
    """

    def __init__(self, session: Session) -> None:
        self.columns = session.schedule.columns
        self.fields = np.zeros(len(ASKED))
        self.take()

    def take(self) -> None:
        """Remove the request from the columns; the limit already includes a requested check."""
        self.fields = self.columns[ASKED, 0].copy()
        self.fields[ENOUGH] = max(0.0, self.fields[ENOUGH])
        self.clear()

    def put(self) -> None:
        """Write the request back to the columns."""
        self.columns[ASKED, 0] = self.fields

    def clear(self) -> None:
        """Clear the columns: kernels then call no check."""
        self.columns[ASKED] = 0.0


class MachineEpochs(AtPause):
    """The end of an epoch of all machines.

    notify : ``notify(epochs)`` notifies this machine's caller, and returns True if the caller stops
        the run
    at_pause : evaluates the model and saves checkpoints; None if the run does neither
    due : the epoch of the next evaluation
    asked : the last evaluation's request for an early check
    problem : the problem of this machine's rows, or of all rows
    """

    def __init__(
        self,
        level: Level,
        notify: Callable[[int], bool],
        at_pause: AtPause | None,
        due: int,
        asked: Asked,
        problem: Any,
    ) -> None:
        self.level, self.notify, self.at_pause = level, notify, at_pause
        self.due, self.asked, self.problem = due if at_pause is not None else NEVER, asked, problem
        level.saves = isinstance(at_pause, CheckpointWriter)
        checks = at_pause.checks if isinstance(at_pause, CheckpointWriter) else at_pause
        if isinstance(checks, GradientChecks):
            checks.by_one = self._by_first
        self._each: Each = map

    def act(self, session: Session, each: Each = map) -> int | None:
        """Make one decision together with all machines; all must call it."""
        self._each = each
        decision = self.level.pause(self._between, self._save)
        if decision.stop != layout.RUNNING:
            session.stop(decision.stop)
            return session.word(layout.EPOCHS)
        return decision.epochs + 1

    def _between(self, n_epochs: int, all_paused: bool) -> int:
        if all_paused and self.at_pause is not None and not self._goes_on(self.at_pause, n_epochs):
            return layout.STOPPED_BY_CRITERION
        return layout.STOPPED_BY_CALLER if self.notify(n_epochs) else layout.RUNNING

    def _goes_on(self, at_pause: AtPause, n_epochs: int) -> bool:
        """Evaluate, if an evaluation is due; return whether the run continues."""
        session = self.level.session
        remembers = session.rule.method != sgd_steps.GRADIENT
        is_asked = remembers and self.asked.fields[ENOUGH] > 0.0
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
            again = at_pause.evaluate(session, self._each)
            self.asked.take()
        self.due = n_epochs if again is None else again
        return again is not None

    def _is_called(self, session: Session, n_epochs: int) -> bool:
        """Apply the test of `hogshare.kernels.schedule.epoch_criteria.call` to the common sums."""
        enough, small, soonest = self.asked.fields.tolist()
        if session.change > enough or n_epochs < soonest:
            return False
        if small <= 0.0:
            return True
        model: Model = session.model()
        return reported_gradient(self.problem, session, np.asarray(model.coef, np.float64)) <= small

    def _save(self) -> None:
        """Save the run if a save is due; all machines are paused, and have decided to continue."""
        at_pause, session = self.at_pause, self.level.session
        if not isinstance(at_pause, CheckpointWriter) or not at_pause.is_due:
            return
        if lost := self.level.pool.lost:
            at_pause.end(f"rank {lost[0]} has died, and with it its part of them")
            return
        self.level.bring_checkpointed()
        self.asked.put()
        session.over_sites = self.level.added
        try:
            with self.level.common():
                at_pause.save(session)
        finally:
            session.over_sites = None
        self.asked.clear()
        write = at_pause.meanwhile()
        if write is not None:  # not in the background: all machines write their parts, or none does
            write()

    def _by_first(self, found: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the first machine's result: machines' results may differ in the last bits."""
        level = self.level
        if level.is_over:
            return level.pool.of_first(found)
        level.channel.pause()
        return level.of_first(found)
