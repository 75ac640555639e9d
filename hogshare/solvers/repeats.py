"""The arguments of a run, with which its report can repeat the run on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hogshare.barriers import BuiltIn
from hogshare.engine.choices import Choices
from hogshare.engine.description import describe
from hogshare.engine.stops import Stop
from hogshare.engine.world import World
from hogshare.planes import Plane
from hogshare.problems.protocol import Problem
from hogshare.report import Report
from hogshare.rules.protocol import Rule
from hogshare.rules.steps import StepSize

if TYPE_CHECKING:
    from hogshare.simulation.simulator import Simulator

SNAPSHOTS = 4  # per epoch, between which a crossing is interpolated


@dataclass(frozen=True, kw_only=True)
class Repeatable:
    """A call of `solve`, without the problem: plain data, so that a report may be pickled."""

    solve: Callable[..., Report]  # an attribute, since an import would be circular
    rule: Rule
    plane: Plane
    barrier: BuiltIn | None
    step: StepSize
    shuffle: bool
    block: int | None
    seed: int  # of the row order itself
    obstacle: str = ""  # the reason if it cannot be repeated

    def pace(self, problem: Problem, n_workers: int, trace: int) -> tuple[int, int]:
        """Return two numbers of rows of a real run: of a block, and between two exchanges.

        n_workers : number of the run's workers
        trace : number of snapshots per epoch
        """
        assert self.barrier is not None
        choices = Choices(
            problem=problem,
            rule=self.rule,
            plane=self.plane,
            barrier=self.barrier,
            step=self.step,
            stop=Stop(epochs=1),
            world=World((n_workers,)),
            seed=self.seed,
            shuffle=self.shuffle,
            trace=trace,
            block=self.block,
        )
        settings, _ = describe(choices)
        rows, interval = settings.plan["block_rows"], settings.plan["interval"]
        # in an ordered run an exchange follows every block
        return rows, rows if settings.plan["ordered"] else interval

    def epochs_to(
        self,
        objective: float,
        problem: Problem,
        n_workers: int,
        simulator: Simulator,
        block: int,
        most: int,
    ) -> float | None:
        """Simulate a run; return its number of epochs until the model reaches an objective.

        Return None if the run does not reach the objective within `most` epochs.

        block : number of rows of a block
        """
        reached = None

        def has_reached(epoch: int, snapshot: Callable[[], Any]) -> bool:
            nonlocal reached
            # "not at most" rather than "above": the objective may be NaN
            if not problem.objective_at(snapshot()) <= objective:
                return False
            reached = float(epoch)
            return True

        rule = self.rule
        counts_writes = rule.coordinate is not None
        report = self.solve(
            problem,
            rule=rule,
            plane=self.plane,
            barrier=self.barrier,
            runtime=simulator,
            n_workers=n_workers,
            step=None if rule.remembers else self.step,
            stop=Stop(epochs=most, tol=None),
            shuffle=self.shuffle,
            seed=self.seed,
            trace=SNAPSHOTS,
            block=None if counts_writes else block,
            on_epoch=has_reached,
        )
        crossed = report.epochs_to(objective)
        # the last snapshot may be a few blocks before the end of the epoch that reached it
        return reached if crossed is None else crossed


def repeatable(solve: Callable[..., Report], c: Choices, seed: int, late: bool) -> Repeatable:
    """Return the arguments of `solve`; `late` if it continued from a start or a checkpoint."""
    obstacle = ""
    if not isinstance(c.barrier, BuiltIn):
        obstacle = "its barrier is a function"
    elif late:
        obstacle = "it began from a start model or a checkpoint, which a report does not store"
    elif c.stop.validation is not None:
        obstacle = "it held out rows for validation, and a report does not store which ones"
    return Repeatable(
        solve=solve,
        rule=c.rule,
        plane=c.plane,
        barrier=c.barrier if isinstance(c.barrier, BuiltIn) else None,
        step=c.step,
        shuffle=c.shuffle,
        block=c.block,
        seed=seed,
        obstacle=obstacle,
    )
