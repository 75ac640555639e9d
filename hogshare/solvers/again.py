"""What a run was called with, so that its report can have it done again on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hogshare.barriers import Barrier, BuiltIn
from hogshare.engine.description import describe
from hogshare.engine.rules import SGD, Rule
from hogshare.engine.steps import StepSize
from hogshare.engine.stops import Stop
from hogshare.kernels import tracking
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
    rule, plane, barrier, step, shuffle, block : as of `solve`
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
    block: int | None
    seed: int
    obstacle: str = ""

    def pace(self, problem: LinearProblem, n_workers: int, trace: int) -> tuple[int, int]:
        """Rows of a block, and rows between two exchanges, of a real run with so many workers.

        Parameters
        ----------
        problem : LinearProblem
        n_workers : int
        trace : int
            Snapshots per epoch.
        """
        assert self.barrier is not None
        settings, _ = describe(
            problem,
            rule=self.rule,
            plane=self.plane,
            barrier=self.barrier,
            step=self.step,
            stop=Stop(epochs=1),
            n_workers=n_workers,
            seed=self.seed,
            shuffle=self.shuffle,
            first_t=1.0,
            trace=trace,
            report_epochs=False,
            track=tracking.NOTHING,
            block=self.block,
            empty=True,
        )
        rows, interval = settings.plan["block_rows"], settings.plan["interval"]
        return rows, rows if settings.plan["ordered"] else interval

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
        reached = None

        def is_there(epoch: int, snapshot: Callable[[], Model]) -> bool:
            nonlocal reached
            model = snapshot()
            if not problem.objective(model.coef, model.intercept) <= objective:
                return False
            reached = float(epoch)
            return True

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
        crossed = report.epochs_to(objective)
        # the last snapshot may be a few blocks before the end of the epoch that reached it
        return reached if crossed is None else crossed


def again(
    solve: Callable[..., Report],
    rule: Rule,
    plane: Plane,
    barrier: Barrier,
    step: StepSize,
    stop: Stop,
    shuffle: bool,
    block: int | None,
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
        block=block,
        seed=seed,
        obstacle=obstacle,
    )
