"""When a run's checkpoints are written: a `Keeper` is what the caller does at the right moments.

Who calls: the caller's thread alone, but for what `meanwhile` hands out: that is done in another
one, and the caller waits for its end before it calls again. The only worker in the calling thread
is saved as it stands, at the end of an epoch, so that a run with checkpoints is bit for bit the run
without. Workers in other threads and processes rest for it, as they do for a look: at an epoch they
have left, the state is copied, they go on, and the copy is written meanwhile.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from hogshare.engine.checkpoints import Checkpoint, OneFile, Saved
from hogshare.engine.convergence_checks import AtPause, Checks
from hogshare.engine.run_state import collect
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.problems.model import Model
from hogshare.system.callers import users_line

NEVER = sys.maxsize  # an epoch that does not come
GROWTH = 8  # of the epochs between two checkpoints, at most, where seconds decide

OnEpoch = Callable[[int, Callable[[], Model]], bool]


class CheckpointFailed(RuntimeWarning):
    """A checkpoint could not be written; the run goes on, and the file is the one before."""


class Keeper(AtPause):
    """Writes the checkpoints of one run, between its looks.

    facts : see `hogshare.engine.checkpoints.facts_of`
    checks : who looks at the model; called from here, at its own epochs
    next_check : epoch of the first look; without checks it does not matter
    inside : whether the only worker is the calling thread
    files : who reads and writes them
    """

    def __init__(
        self,
        session: Session,
        checkpoint: Checkpoint,
        facts: dict[str, Any],
        checks: Checks | None,
        next_check: int,
        inside: bool,
        files: OneFile | None = None,
    ) -> None:
        self.session = session
        self.checkpoint = checkpoint
        self.facts = facts
        self.checks = checks
        self.next_check = NEVER if checks is None else next_check
        self.inside = inside
        self.files = files or OneFile()
        self.notes: list[str] = []
        self._failing = False
        self._unwritten: Saved | None = None
        self._began = self._last = time.monotonic()
        self._first = self._kept = session.word(layout.EPOCHS)
        self._gap = checkpoint.epochs
        self._next = self._after(self._kept)

    @property
    def limit(self) -> int:
        """The epoch at which workers are to rest."""
        return self._look_at if self.inside else min(self._look_at, self._next)

    @property
    def is_due(self) -> bool:
        """Whether the state is to be copied while workers rest."""
        return not self.inside and self.session.word(layout.EPOCHS) >= self._next

    @property
    def at_pause(self) -> AtPause | None:
        """What a runtime is to call when workers rest; None where they never do."""
        return self if not self.inside or self.checks is not None else None

    # -- the only worker is the calling thread ---------------------------------------------------

    def notified_by(self, on_epoch: OnEpoch | None) -> OnEpoch | None:
        """What a runtime is to call after each epoch."""
        if not self.inside:
            return on_epoch

        def told(epoch: int, snapshot: Callable[[], Model]) -> bool:
            stop = on_epoch is not None and on_epoch(epoch, snapshot)
            over = epoch >= self.session.plan.max_epochs
            over = over or stop or self.session.word(layout.STOP) != layout.RUNNING
            waited = time.monotonic() - self._last >= self.checkpoint.seconds
            if over or (epoch >= self._next and waited):
                self._write(self._collect())
                self._next = self._after(epoch)
            return bool(stop)

        return told

    # -- workers rest ----------------------------------------------------------------------------

    def act(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model if its time has come, then copy the run's state if its time has."""
        if self.evaluate(session, each) is None:
            return None
        self.save(session)
        return self.limit

    def evaluate(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model if its time has come; the epoch of the next time, or None to stop."""
        epoch = session.word(layout.EPOCHS)
        if self.checks is not None and epoch >= self._look_at:
            again = self.checks.act(session, each)
            if again is None:
                return None
            self.next_check = again
        return self._look_at

    def save(self, session: Session) -> None:
        """Copy the run's state if its time has come."""
        epoch = session.word(layout.EPOCHS)
        if self.is_due:
            self._unwritten = self._collect()
            self._pace(epoch)
            self._next = self._after(epoch)

    def meanwhile(self) -> Callable[[], None] | None:
        """What writes the state that has been copied: nobody waits for the disk."""
        saved, self._unwritten = self._unwritten, None
        return None if saved is None else functools.partial(self._write, saved)

    def end(self, why: str) -> None:
        """Write no more checkpoints; `why` is said once."""
        if self._next < NEVER:
            self._warn(
                f"{self.checkpoint.path}: no more checkpoints are written, because {why}; the "
                "file is the last one that was whole"
            )
        self._next = NEVER

    def finish(self) -> None:
        """Save the run at its end, when all have left."""
        if not self.inside and self._next < NEVER and self._kept < self.session.word(layout.EPOCHS):
            self._write(self._collect())

    # -- both ------------------------------------------------------------------------------------

    def _after(self, epoch: int) -> int:
        """The epoch of the next checkpoint: the same ones whether or not a run was resumed."""
        return (epoch // self._gap + 1) * self._gap

    def _pace(self, epoch: int) -> None:
        """Rest as often as the seconds ask for, by the epochs so far."""
        every = self.checkpoint.epochs
        passed = max(self.files.agreed(time.monotonic() - self._began), 1e-9)
        wanted = round(self.checkpoint.seconds * (epoch - self._first) / passed / every)
        self._gap = every * max(1, min(wanted, GROWTH * self._gap // every))

    @property
    def _look_at(self) -> int:
        """The epoch of the next look; an epoch's end may have asked for an earlier one."""
        called_for = self.session.called_for if self.checks is not None else None
        return self.next_check if called_for is None else min(self.next_check, called_for)

    def _collect(self) -> Saved:
        checks = self.checks
        looks: dict[str, Any] = {"seen": [], "next": 0}
        if checks is not None:
            epoch = self.session.word(layout.EPOCHS)
            # a look that has ended the run is done again by the run that goes on
            again = self._look_at <= epoch
            seen = [dict(look) for look in checks.seen if look["epoch"] < epoch or not again]
            looks = {"seen": seen, "next": self._look_at}
        return collect(self.session, self.facts, looks)

    def _write(self, saved: Saved) -> None:
        """Write a state, unless it is that of a run that diverges."""
        if not saved.model().is_finite():
            return
        try:
            self.files.save(saved, self.checkpoint.path)
        except OSError as error:
            self._last = time.monotonic()
            if not self._failing:
                self._failing = True
                self._tell(error)
            return
        self._failing = False
        self._kept = saved.epochs
        self._last = time.monotonic()

    def _tell(self, error: OSError) -> None:
        path = self.checkpoint.path
        self._warn(
            f"{path}: the checkpoint could not be written ({error.strerror or error}); the fit "
            "goes on and tries again at the next one, and the file is as it was before"
        )

    def _warn(self, sentence: str) -> None:
        self.notes.append(sentence)
        warnings.warn(sentence, CheckpointFailed, stacklevel=users_line())
