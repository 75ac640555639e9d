"""The verdict on an epoch of all machines: the same criterion, step sizes and stop flag for all.

Each machine computes the verdict from the sums over all machines, with the same code as in a run on
one machine.

Writer: each rank's thread that communicates with other ranks.
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

    session : this machine's session, which gives the common rule and the initial columns; the
        columns are copied
    plan : the plan with the run's criterion, which a machine's kernels do not apply
    n_rows : number of rows that all machines train on

    columns : float64[N_COLUMN_FIELDS, n_columns], as in `layout`; `of` updates them
    loss : the mean loss of the last epoch
    epochs : the number of epochs with a verdict, including epochs before a resumed run
    score : float64[n_columns], scores of the common model on the held-out rows of all machines
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
        """Load or compile the verdict's kernel."""
        if JIT_DISABLED:
            return
        n = self.columns.shape[1]
        numbers = np.zeros(3 * n), np.zeros(self._size), self._divisors, np.zeros((2, n)), 1.0, 0
        site_exchange.decide.compile(
            tuple(map(typeof, (self.rule, self.plan, self.columns, *numbers)))
        )

    def of(self, n_epochs: int, sums: np.ndarray, w: np.ndarray, is_finite: bool) -> int:
        """Return the stop flag after `n_epochs` epochs; it is RUNNING if the run continues.

        sums : float64[3 * n_columns], the last epoch's sums over all machines
        w : float64[n_features * n_columns], the common vector
        is_finite : whether the values of all machines are finite; if not, the run has diverged

        This writes `columns`, `loss` and `epochs`.
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
