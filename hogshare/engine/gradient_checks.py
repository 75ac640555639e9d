"""Convergence checks of problems by a gradient: its largest component, in a pass over all rows."""

from __future__ import annotations

import math

import numpy as np

from hogshare.engine.checks import FIRST_LOOK, Checks, whole
from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.parts import Each
from hogshare.problems.gradient import GradientProblem


class GradientChecks(Checks):
    """The criterion of `Stop.gradient` over one run of a problem by a gradient.

    Parameters
    ----------
    problem : GradientProblem
    stop : Stop
        With `gradient`.
    """

    def __init__(self, problem: GradientProblem, stop: Stop) -> None:
        super().__init__(problem, stop, False)

    def prepare(self) -> None:
        """Nothing: the gradient is not ours."""

    def look(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the gradient at the model, which no worker writes meanwhile.

        Returns the epoch to look again, or None to stop.
        """
        epoch, model = session.word(layout.EPOCHS), session.model()
        gradient = self.problem.gradient_at(model)
        largest = float(np.abs(gradient).max(initial=0.0))
        objective = self.problem.objective_at(model)
        self.seen.append({"epoch": epoch, "gradient": largest, "objective": objective})
        if self.met:
            return None
        if epoch == 0:
            return FIRST_LOOK
        wanted = self._foreseen("gradient")
        if self.gives_up(epoch, wanted):
            return None
        return epoch + ((epoch + 1) // 2 if math.isinf(wanted) else whole(min(epoch, wanted)))
