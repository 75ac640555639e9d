"""Tells the caller about finished epochs, one by one and in its own thread."""

from __future__ import annotations

from collections.abc import Callable

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.problems.model import Model

OnEpoch = Callable[[int, Callable[[], Model]], bool]


class EpochHook:
    """Calls ``on_epoch(epoch, snapshot)`` once per epoch, in order; stops the run if it says so."""

    def __init__(self, session: Session, on_epoch: OnEpoch | None) -> None:
        self.session = session
        self.on_epoch = on_epoch
        self.seen = 0

    def poll(self, snapshot: Callable[[], Model] | None = None) -> None:
        """Report the epochs that have ended since the last call."""
        while self.on_epoch is not None and self.seen < self.session.word(layout.EPOCHS):
            if self.session.word(layout.STOP) == layout.STOPPED_BY_DIVERGENCE:
                return
            self.seen += 1
            if self.on_epoch(self.seen, snapshot or self.session.model):
                self.session.stop()
                self.on_epoch = None  # epochs that end before all have stopped are not reported
                return
