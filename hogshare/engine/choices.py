"""What a run is made of: the problem and all that was chosen for it, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import Barrier, is_bsp
from hogshare.engine.stops import Stop
from hogshare.kernels import epochs, tracking
from hogshare.once import once
from hogshare.planes import Plane
from hogshare.rules.protocol import Rule
from hogshare.rules.steps import StepSize


@dataclass(frozen=True, kw_only=True)
class Choices:
    """A run before it has memory.

    Attributes
    ----------
    problem, rule, plane, barrier, step, stop, n_workers, shuffle, trace, block, record
        As of `solve`, but settled: none is a word, and `trace` is 0 where there is none.
    seed : int
        Of the row order itself.
    first_t : float
        Step counter of the run's first row.
    report_epochs : bool
        Whether somebody is told of every epoch.
    track : int
        As of `kernels.sgd.Rule`: whether losses are counted.
    sleeps, parts : int
        As of `Plan`.
    orderly : bool
        Whether BSP may keep workers in their order, for which all have to be there.
    empty : bool
        Whether a rule that remembers rows remembers none when the run begins; of a resumed run,
        when the one began that was interrupted.
    iterate : float
        As of `kernels.sgd.Rule`.
    n_machines : int
        That have rows of their own each, and exchange their vectors by messages.
    n_beside : int
        Rows that are trained on elsewhere.
    """

    problem: Any
    rule: Rule
    plane: Plane
    barrier: Barrier
    step: StepSize
    stop: Stop
    n_workers: int
    seed: int
    shuffle: bool = True
    first_t: float = 1.0
    trace: int = 0
    report_epochs: bool = False
    track: int = tracking.NOTHING
    block: int | None = None
    record: bool = False
    sleeps: int = 0
    parts: int = 0
    orderly: bool = True
    empty: bool = True
    iterate: float = 1.0
    n_machines: int = 1
    n_beside: int = 0

    @once
    def n_training(self) -> int:
        """Rows that are trained on."""
        mask = self.stop.validation
        return self.problem.n_rows - (0 if mask is None else int(np.count_nonzero(mask)))

    @property
    def n_all(self) -> int:
        """Rows that are trained on, here and elsewhere."""
        return self.n_training + self.n_beside

    @property
    def mode(self) -> int:
        """Code of the plane in the run's plan; where others write the vector nobody is alone."""
        return self.plane.mode(self.n_workers if self.n_machines == 1 else max(2, self.n_workers))

    @property
    def batch(self) -> int:
        """Rows of a mini-batch; there may be fewer."""
        return min(int(self.rule.batch), self.n_training)

    @property
    def is_ordered(self) -> bool:
        """Whether workers fold, or call their plane, and claim in their order."""
        has_order = self.mode in (epochs.EXCHANGE, epochs.MASTER) or self.plane.has_homes
        has_order = has_order and self.plane.groups(self.n_workers) is None
        return (
            self.orderly
            and self.n_workers > 1
            and has_order
            and is_bsp(self.barrier, self.n_workers)
        )

    @property
    def is_simulated(self) -> bool:
        """Whether the clock is virtual."""
        return self.sleeps == epochs.SIMULATED

    @property
    def exchanges_at_ends(self) -> bool:
        """Whether workers exchange at blocks' ends, and nowhere else."""
        return self.mode == epochs.EXCHANGE and (self.is_ordered or self.is_simulated)
