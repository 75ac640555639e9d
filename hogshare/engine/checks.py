"""Looks at the model on its way, and says when to look again.

A look is a pass over the rows and costs as much as half an epoch to a whole one. So the next look
is at the epoch at which the rate of late foresees the end, and not later than twice the
epochs so far. What is foreseen depends on the models alone, not on the clock: one worker with a
seed stops at the same epoch in every call.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from hogshare.engine.automatic import COUPLED, UNSMOOTH
from hogshare.engine.optimality import Each, Optimality
from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.kernels import sgd
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Model

FIRST_LOOK = 3  # epochs


class Checks:
    """The criterion of `Stop.gradient` or `Stop.gap` over one run.

    Parameters
    ----------
    problem : LinearProblem
    stop : Stop
        With one of the two.
    """

    def __init__(self, problem: LinearProblem, stop: Stop) -> None:
        self.problem = problem
        self.kind = "gradient" if stop.gradient is not None else "gap"
        tolerance = stop.gradient if stop.gradient is not None else stop.gap
        assert tolerance is not None
        self.tolerance = float(tolerance)
        self.epochs = stop.epochs
        self.give_up = stop.give_up
        self.hopeless = False
        self.seen: list[dict[str, Any]] = []

    def prepare(self) -> None:
        """Load or compile the kernels of a look; a run does it before its workers start."""
        columns = self.problem.n_columns
        shape = columns, self.problem.n_features
        rows = self.problem.rows
        nothing = replace(self.problem, rows=rows._replace(y=rows.y[:0]))
        look = Optimality(nothing, Model(np.zeros(shape), np.zeros(columns)))
        if self.kind == "gap":
            look.gap()

    @property
    def met(self) -> bool:
        """Whether the last look found the model good enough."""
        return bool(self.seen) and self.seen[-1][self.kind] <= self.tolerance

    def look(self, session: Session, model: Model, epoch: int, each: Each = map) -> int | None:
        """Look at a model that no worker writes; the epoch to look again, or None to stop."""
        optimality = Optimality(
            self.problem,
            model,
            slopes=self._dual_slopes(session),
            sides=self.kind == "gap",
            each=each,
            n_parts=session.settings.n_workers,
        )
        value = optimality.gradient() if self.kind == "gradient" else optimality.gap()
        self.seen.append({"epoch": epoch, self.kind: value, "objective": optimality.objective})
        if self.met:
            return None
        if epoch == 0:
            return FIRST_LOOK
        wanted = self._foreseen()
        if self.give_up and len(self.seen) > 2:
            # that nothing has been gained (NaN) may be noise, early in a run
            stuck = math.isnan(wanted) and epoch >= self.epochs // 5
            self.hopeless = stuck or wanted > 1.5 * (self.epochs - epoch)
        if math.isnan(wanted) and not self.hopeless:
            return epoch + (epoch + 1) // 2
        return None if self.hopeless else epoch + max(1, math.ceil(min(epoch, wanted)))

    def _dual_slopes(self, session: Session) -> np.ndarray | None:
        if self.kind == "gradient" or session.rule.method != sgd.DUAL:
            return None
        if self.problem.loss not in UNSMOOTH:
            return None  # the derivatives at the model are ahead of the dual variables
        return -session.shared.dual.reshape(self.problem.n_rows, -1)[:, 1:].astype(np.float64)

    def _foreseen(self) -> float:
        """Epochs that it still takes at the rate of late; NaN where there is none.

        Of late is since the last look in the first two thirds of the epochs: runs begin faster than
        they go on, and two looks side by side tell mostly noise.
        """
        last = self.seen[-1]
        early = [look for look in self.seen if 3 * look["epoch"] <= 2 * last["epoch"]]
        first = early[-1] if early else self.seen[0]
        if not 0.0 < last[self.kind] < first[self.kind]:
            return math.nan  # also after the first look, and where a value is not finite
        rate = math.log(first[self.kind] / last[self.kind]) / (last["epoch"] - first["epoch"])
        if self.tolerance == 0.0:
            return math.inf
        return math.log(last[self.kind] / self.tolerance) / rate

    def sentence(self) -> str:
        """What the last look found, in words."""
        value = self.seen[-1][self.kind]
        name = "largest component of the gradient" if self.kind == "gradient" else "duality gap"
        how = "came down to" if self.met else "is still at"
        return f"the {name} {how} {value:.3g} ({self.tolerance:.3g} was asked for)"


def check_criterion(problem: LinearProblem, stop: Stop) -> None:
    """Refuse a criterion that the problem does not have.

    Raises
    ------
    ValueError
        If the gradient is asked of a loss with kinks, or the gap where there is no penalty.
    """
    if stop.gradient is not None and problem.loss in UNSMOOTH:
        raise ValueError(
            f"Stop(gradient=...) needs a smooth loss, which {problem.loss!r} is not: at its "
            "optimum the gradient need not be zero. Use gap= or tol=."
        )
    if stop.gap is not None and problem.loss in COUPLED:
        raise ValueError(
            f"Stop(gap=...) is not there for loss={problem.loss!r}, whose dual couples the "
            "columns. Use gradient= or tol=."
        )
    if stop.gap is not None and (problem.penalty is None or problem.alpha == 0.0):
        raise ValueError(
            "Stop(gap=...) needs a penalty with alpha > 0: without one the dual has no point near "
            "the optimum. Use gradient= or tol=."
        )
