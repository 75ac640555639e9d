"""Whether a run whose losses no longer fall has come to where they cannot: `Stop.confirm`.

Losses stop falling at the optimum, and where steps are too short to get anywhere: one value of a
million, or a column of years beside others of size 1, makes them so. So a model is confirmed by
what it is, and by what scaled steps would gain from it (`hogshare.problems.linear.gains`).

A run may gain less than the tolerance in an epoch, and more in several. So it is doubted where the
step gains more than `SOON` epochs of such.

That takes two passes over the rows. They are spared where steps cannot be too short: the l2 part of
the penalty alone makes the distance fall by a factor of e in `epochs_of_penalty`, whatever the rows
are like, and if those are no more than `SOON`, a run that gains less than the tolerance in an epoch
is within `SOON` tolerances of the optimum.

Source for the rates: Shalev-Shwartz and Zhang (2013, JMLR 14), theorem 5; Defazio et al. (2014).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.schedule import repair, worker_life
from hogshare.problems.linear.gains import (
    ROUNDING,
    Direction,
    gain_of,
    share_of_tolerance,
    zeros,
)
from hogshare.problems.protocol import RowProblem

SOON = 15.0  # epochs; see the file's head
EVEN = 0.3  # of a tolerance that is not for targets much smaller than 1
BEFORE_GIVING_UP = 3  # looks
HARDLY_LESS = 0.9  # than the first of them has found
HOPELESS = 1.5  # times the epochs that are left

LOADED: set[tuple[Any, ...]] = set()  # kinds of rows whose kernels are there


class Confirmation:
    """The looks of one run whose losses have stopped falling.

    tol : `Stop.tol`
    epochs : those of the run, at most
    """

    def __init__(self, problem: RowProblem, tol: float, epochs: int) -> None:
        self.problem = problem
        self.epochs = epochs
        self.seen: list[dict[str, Any]] = []
        self.share = share_of_tolerance(problem)
        self.enough = SOON * max(tol, 0.0) * self.share

    def prepare(self) -> None:
        """Load or compile the kernels of a look, once for a kind of rows."""
        kind = self.problem.dtype, self.problem.rows.indices.dtype, self.problem.is_sparse
        if kind in LOADED:
            return
        LOADED.add(kind)
        problem, n = self.problem, self.problem.n_columns
        nothing = problem.rows._replace(y=problem.rows.y[:0])
        Direction(problem, nothing, zeros(problem)).objective(np.zeros(n))
        words = np.zeros((2, layout.N_CONTROL * layout.WORD), np.int64)
        repair.put_back(*words, 0, layout.FINISH_EPOCH)  # which `go_on` may need

    def is_needed(self, session: Session) -> bool:
        """Whether steps may be too short for all that the penalty makes of them."""
        return self.share < EVEN or not epochs_of_penalty(self.problem, session) <= SOON

    def confirm(self, session: Session) -> bool:
        """Look at the model; whether it is the optimum's, as far as one step tells."""
        gain, objective = gain_of(self.problem, session.model(), self.enough)
        epoch = session.word(layout.EPOCHS)
        self.seen.append({"epoch": epoch, "gain": gain, "objective": objective})
        return self.met

    @property
    def met(self) -> bool:
        """Whether the last look found that nothing is to be gained."""
        return not self.seen[-1]["gain"] > self._tolerance

    @property
    def _tolerance(self) -> float:
        rounding = ROUNDING[self.problem.dtype.itemsize]
        return max(self.enough, rounding * abs(self.seen[-1]["objective"]))

    @property
    def is_hopeless(self) -> bool:
        """Whether the looks so far foresee that the epochs that are left will not do."""
        if len(self.seen) < BEFORE_GIVING_UP:
            return False
        first, last = self.seen[0], min(self.seen[1:], key=lambda look: look["gain"])
        if not last["gain"] < HARDLY_LESS * first["gain"]:
            return True
        rate = math.log(first["gain"] / last["gain"]) / (last["epoch"] - first["epoch"])
        wanted = math.log(last["gain"] / self._tolerance) / rate
        return wanted > HOPELESS * (self.epochs - last["epoch"])

    def sentence(self) -> str:
        """What the last look found, in words."""
        gain, objective = self.seen[-1]["gain"], self.seen[-1]["objective"]
        return (
            f"scaled steps would gain {gain:.3g} of the objective's {objective:.3g} "
            f"(at most {self._tolerance:.3g} was asked for): steps are too short for columns or "
            "rows of such different sizes"
        )


def go_on(session: Session) -> None:
    """Let a run that its criterion has stopped begin again where it is; nobody works meanwhile."""
    schedule = session.schedule
    columns = schedule.columns
    columns[layout.C_ACTIVE] = 1.0
    columns[layout.C_PATIENCE] = 0.0
    for row in schedule.table:
        worker_life.apply(row, worker_life.REOPEN)
    schedule.control[layout.STOP] = layout.RUNNING
    epoch = session.word(layout.EPOCHS)
    begun = session.word(layout.READY) > epoch
    if begun and schedule.remaining[(epoch % len(schedule.sums)) * layout.WORD] == 0:
        # its last block was done while the run was being stopped: nobody has ended it
        repair.put_back(schedule.returned, schedule.control, 0, layout.FINISH_EPOCH)


def can_go_on(session: Session) -> bool:
    """Whether a run may begin again: not where workers keep an order, or a clock is virtual."""
    plan = session.plan
    left = session.word(layout.EPOCHS) < plan.max_epochs
    return left and not plan.ordered and not plan.parts and not plan.sleeps


def epochs_of_penalty(problem: RowProblem, session: Session) -> float:
    """Epochs in which the distance falls by a factor of e, at most; infinite without an l2 part."""
    if problem.l2 == 0.0 or problem.divisors is not None:
        return math.inf
    return session.row_memory.epochs_of_penalty(problem, session.rule)
