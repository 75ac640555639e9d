"""What a run was called with, so that its report can have it done again on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hogshare.barriers import Barrier, BuiltIn
from hogshare.engine.rules import SGD, Rule
from hogshare.engine.steps import StepSize
from hogshare.engine.stops import Stop
from hogshare.planes import Plane
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Model
from hogshare.report import Report

if TYPE_CHECKING:
    from hogshare.simulation.simulator import Simulator

SNAPSHOTS = 4  # of an epoch, between which a crossing is interpolated


@dataclass(frozen=True, kw_only=True)
class Again:
    """A call of `solve`, without the problem: plain data, so that a report may be pickled.

    Parameters
    ----------
    solve : callable
        `hogshare.solve`; here, because it makes these.
    rule, plane, barrier, step, shuffle : as of `solve`
    seed : int
        Of the row order itself.
    obstacle : str
        Why it cannot be done again, if so.
    """

    solve: Callable[..., Report]
    rule: Rule
    plane: Plane
    barrier: BuiltIn | None
    step: StepSize
    shuffle: bool
    seed: int
    obstacle: str = ""

    def epochs_to(
        self,
        objective: float,
        problem: LinearProblem,
        n_workers: int,
        simulator: Simulator,
        block: int,
        most: int,
    ) -> float | None:
        """Epochs until the objective comes down to a value; None if `most` do not do.

        Parameters
        ----------
        objective : float
        problem : LinearProblem
        n_workers : int
        simulator : Simulator
        block : int
            Rows of a block.
        most : int
            Epochs.
        """

        def is_there(epoch: int, snapshot: Callable[[], Model]) -> bool:
            model = snapshot()
            return bool(problem.objective(model.coef, model.intercept) <= objective)

        rule = self.rule
        counts_writes = isinstance(rule, SGD) and rule.coordinate is not None
        report = self.solve(
            problem,
            rule=rule,
            plane=self.plane,
            barrier=self.barrier,
            runtime=simulator,
            n_workers=n_workers,
            step=self.step if isinstance(rule, SGD) else None,
            stop=Stop(epochs=most, tol=None),
            shuffle=self.shuffle,
            seed=self.seed,
            trace=SNAPSHOTS,
            block=None if counts_writes else block,
            on_epoch=is_there,
        )
        return report.epochs_to(objective)


def again(
    solve: Callable[..., Report],
    rule: Rule,
    plane: Plane,
    barrier: Barrier,
    step: StepSize,
    stop: Stop,
    shuffle: bool,
    seed: int,
    begins_late: bool,
) -> Again:
    """Keep what `solve` was called with; `begins_late`: from a start model or a checkpoint."""
    obstacle = ""
    if not isinstance(barrier, BuiltIn):
        obstacle = "its barrier is a function"
    elif begins_late:
        obstacle = "it began from a start model or a checkpoint, which a report does not keep"
    elif stop.validation is not None:
        obstacle = "it held rows out for validation, and which ones a report does not keep"
    return Again(
        solve=solve,
        rule=rule,
        plane=plane,
        barrier=barrier if isinstance(barrier, BuiltIn) else None,
        step=step,
        shuffle=shuffle,
        seed=seed,
        obstacle=obstacle,
    )
