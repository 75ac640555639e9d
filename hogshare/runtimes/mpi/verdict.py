"""What an epoch of all machines comes to: one criterion, step sizes and a stop word, for all.

Made of the sums of all machines, by the code by which a run of one machine does it.

Who writes: whoever decides, in the thread of its rank that talks to the others.
"""

from __future__ import annotations

import numpy as np
from numba import typeof

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.exchange import site_exchange
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.rules import losses
from hogshare.kernels.schedule.epoch_schedule import EpochPlan
from hogshare.system.interrupts import errstate


class Verdict:
    """The verdict after each epoch.

    session : of a machine, for what all have alike: the rule, and the columns as they begin
    plan : with the criterion of the run, by which machines by themselves do not stop
    n_rows : rows that all machines train on
    columns : float64[N_COLUMN_FIELDS, n_columns]; as of `layout`
    loss : mean of the last epoch
    epochs : that have been judged, of a run that goes on those before, too
    score : float64[n_columns], on the held-out rows of all machines, of the model that all have
    """

    def __init__(self, session: Session, plan: EpochPlan, n_rows: int) -> None:
        self.rule, self.plan, self.n_rows = session.rule, plan, n_rows
        self._divisors, self._size = session.memory.divisors, session.size
        self.columns = session.schedule.columns.copy()
        self.epochs, history = session.word(layout.EPOCHS), session.arrays["history"]
        before = 0 < self.epochs <= len(history)
        self.loss = float(history[self.epochs - 1]) if before else np.nan
        self.kind = session.vector.w.dtype
        self.score = np.zeros(self.columns.shape[1])

    def prepare(self) -> None:
        """Load or compile its kernel."""
        if JIT_DISABLED:
            return
        n = self.columns.shape[1]
        numbers = np.zeros(3 * n), np.zeros(self._size), self._divisors, np.zeros((2, n)), 1.0, 0
        site_exchange.decide.compile(
            tuple(map(typeof, (self.rule, self.plan, self.columns, *numbers)))
        )

    def of(self, n_epochs: int, sums: np.ndarray, w: np.ndarray, is_finite: bool) -> int:
        """The stop word when so many epochs are over; RUNNING: the run goes on.

        sums : float64[3 * n_columns], of all machines, of the last epoch
        w : float64[n_features * n_columns], the vector that all have by then
        """
        self.epochs, n = n_epochs, self.columns.shape[1]
        parts = 1 if self.rule.loss == losses.MULTINOMIAL else n
        self.loss = float(sums[:n].sum()) / (self.n_rows * parts)
        with errstate(all="ignore"):
            scratch = np.stack([np.zeros(n), self.score])
            numbers = self.rule, self.plan, self.columns, sums, w, self._divisors, scratch
            is_over = site_exchange.decide(*numbers, float(self.n_rows), n_epochs - 1)
        if not is_finite:
            return layout.STOPPED_BY_DIVERGENCE
        return layout.STOPPED_BY_CRITERION if is_over else layout.RUNNING
