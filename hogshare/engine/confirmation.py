"""The check that a run is at the optimum when its losses no longer fall: `Stop.confirm`.

Losses stop falling at the optimum, but also if steps are too short. One value of a million, or a
column of years next to columns of size 1, makes steps too short. Therefore a check computes from
the model itself how much scaled steps would gain (`hogshare.problems.linear.gains`).

A run may gain less than the tolerance in one epoch, but more than the tolerance in several epochs.
Therefore the run goes on if the scaled step gains more than `SOON` times the tolerance.

A check takes two passes over the rows. It is omitted if steps cannot be too short. For any rows,
the l2 part of the penalty alone reduces the distance to the optimum by a factor of e in
`epochs_of_penalty` epochs. If this number is at most `SOON`, a run that gains less than the
tolerance in an epoch is within `SOON` times the tolerance of the optimum.

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

SOON = 15.0  # number of epochs; see the docstring of this file
EVEN = 0.3  # a lower `share_of_tolerance` means targets much smaller than 1: always checked
BEFORE_GIVING_UP = 3  # number of checks before a run may give up
HARDLY_LESS = 0.9  # a gain of at least this share of the first check's gain has not fallen
HOPELESS = 1.5  # a run gives up if it needs more than this many times the remaining epochs

LOADED: set[tuple[Any, ...]] = set()  # kinds of rows whose kernels are loaded


class Confirmation:
    """The checks of one run whose losses have stopped falling.

    tol : the value of `Stop.tol`
    epochs : the maximum number of epochs of the run
    """

    def __init__(self, problem: RowProblem, tol: float, epochs: int) -> None:
        self.problem = problem
        self.epochs = epochs
        self.seen: list[dict[str, Any]] = []
        self.share = share_of_tolerance(problem)
        self.enough = SOON * max(tol, 0.0) * self.share

    def prepare(self) -> None:
        """Load or compile the kernels of a check, once for each kind of rows."""
        kind = self.problem.dtype, self.problem.rows.indices.dtype, self.problem.is_sparse
        if kind in LOADED:
            return
        LOADED.add(kind)
        problem, n = self.problem, self.problem.n_columns
        nothing = problem.rows._replace(y=problem.rows.y[:0])
        Direction(problem, nothing, zeros(problem)).objective(np.zeros(n))
        words = np.zeros((2, layout.N_CONTROL * layout.WORD), np.int64)
        repair.put_back(*words, 0, layout.FINISH_EPOCH)  # `go_on` may need it

    def is_needed(self, session: Session) -> bool:
        """Whether steps may be too short despite the penalty, so that a check is needed."""
        return self.share < EVEN or not epochs_of_penalty(self.problem, session) <= SOON

    def confirm(self, session: Session) -> bool:
        """Evaluate the model; return whether it is at the optimum, judged from a scaled step."""
        gain, objective = gain_of(self.problem, session.model(), self.enough)
        epoch = session.word(layout.EPOCHS)
        self.seen.append({"epoch": epoch, "gain": gain, "objective": objective})
        return self.met

    @property
    def met(self) -> bool:
        """Whether the last check found no gain above the tolerance."""
        return not self.seen[-1]["gain"] > self._tolerance

    @property
    def _tolerance(self) -> float:
        rounding = ROUNDING[self.problem.dtype.itemsize]
        return max(self.enough, rounding * abs(self.seen[-1]["objective"]))

    @property
    def is_hopeless(self) -> bool:
        """Whether the checks so far predict that the remaining epochs will not suffice."""
        if len(self.seen) < BEFORE_GIVING_UP:
            return False
        first, last = self.seen[0], min(self.seen[1:], key=lambda check: check["gain"])
        if not last["gain"] < HARDLY_LESS * first["gain"]:
            return True
        rate = math.log(first["gain"] / last["gain"]) / (last["epoch"] - first["epoch"])
        wanted = math.log(last["gain"] / self._tolerance) / rate
        return wanted > HOPELESS * (self.epochs - last["epoch"])

    def sentence(self) -> str:
        """Describe the result of the last check."""
        gain, objective = self.seen[-1]["gain"], self.seen[-1]["objective"]
        return (
            f"scaled steps would gain {gain:.3g} of the objective's {objective:.3g} "
            f"(at most {self._tolerance:.3g} was asked for): steps are too short for columns or "
            "rows of such different sizes"
        )


def go_on(session: Session) -> None:
    """Continue a run that its criterion has stopped; call it while no worker works."""
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
        # the epoch's last block was done while the run was being stopped: no worker has ended the
        # epoch yet
        repair.put_back(schedule.returned, schedule.control, 0, layout.FINISH_EPOCH)


def can_go_on(session: Session) -> bool:
    """Whether a stopped run may continue.

    A run may not continue if it is ordered, if its plan has `parts` or `sleeps`, or if no epochs
    remain.
    """
    plan = session.plan
    left = session.word(layout.EPOCHS) < plan.max_epochs
    return left and not plan.ordered and not plan.parts and not plan.sleeps


def epochs_of_penalty(problem: RowProblem, session: Session) -> float:
    """Bound the epochs in which the distance to the optimum falls by a factor of e.

    The bound is infinite without an l2 part.
    """
    if problem.l2 == 0.0 or problem.divisors is not None:
        return math.inf
    return session.row_memory.epochs_of_penalty(problem, session.rule)
