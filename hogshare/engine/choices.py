"""The choices of a run (problem, rule, plane, barrier, ...), and values computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.barriers import Barrier, is_bsp
from hogshare.engine.gradient_steps import is_known, takes_passes
from hogshare.engine.stops import Stop
from hogshare.engine.world import World
from hogshare.kernels.rules import block_sums
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes import Plane
from hogshare.rules.protocol import Rule
from hogshare.rules.steps import StepSize
from hogshare.system.lazy_attribute import once

BLOCK_ROWS = 64  # rows of one step by a gradient, if no choice sets the number


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The settled choices of a run, before its memory is allocated.

    problem, rule, plane, barrier, step, stop, shuffle, trace, block, record : see `solve`. Names
        are replaced by objects, and `trace` is 0 without a trace
    world : the workers and their sites
    seed : the settled seed of the row order
    first_t : step counter of the run's first row
    report_epochs : whether every epoch is reported to a callback
    track : whether losses are counted, see `kernels.rules.sgd_steps.RuleNumbers`
    sleeps, parts : see `EpochPlan`
    orderly : whether BSP may order the workers, for which all workers must be present
    has_teams : whether workers may wait for each other within a block, see `Runtime`
    empty : whether the rule's memory of rows is empty when the run begins; for a resumed run,
        whether it was empty when the interrupted run began
    iterate : see `kernels.rules.sgd_steps.RuleNumbers`
    n_far : number of rows that other sites train on
    far : ndarray of bool of shape (n_rows,) that marks the rows of other sites among the problem's
        rows, or None if the problem has only this site's rows
    least_share : the least number of rows of any worker at any site, or None if only this site's
        workers count
    home_rows : number of rows of a home's block, if sites have agreed on a number
    waits_at_ends : whether a decision at an epoch's end changes the next epoch
    names_barrier : whether the caller has chosen the barrier
    """

    problem: Any
    rule: Rule
    plane: Plane
    barrier: Barrier
    step: StepSize
    stop: Stop
    world: World
    seed: int
    shuffle: bool = True
    first_t: float = 1.0
    trace: int = 0
    report_epochs: bool = False
    track: int = block_sums.NOTHING
    block: int | None = None
    record: bool = False
    sleeps: int = 0
    parts: int = 0
    orderly: bool = True
    has_teams: bool = False
    empty: bool = True
    iterate: float = 1.0
    n_far: int = 0
    far: np.ndarray | None = None
    least_share: int | None = None
    home_rows: int | None = None
    waits_at_ends: bool = False
    names_barrier: bool = True

    @once
    def n_training(self) -> int:
        """Number of rows that this site trains on."""
        mask = self.remote_rows
        return self.problem.n_rows - (0 if mask is None else int(np.count_nonzero(mask)))

    @property
    def remote_rows(self) -> np.ndarray | None:
        """Mask of the rows that are held out or belong to other sites; None without such rows."""
        return self.stop.validation if self.far is None else self.far

    @property
    def n_all(self) -> int:
        """Number of rows that all sites together train on."""
        return self.n_training + self.n_far

    @property
    def n_workers(self) -> int:
        """Number of workers of all sites."""
        return self.world.n_workers

    @property
    def n_local(self) -> int:
        """Number of workers of this site."""
        return len(self.world.local_workers)

    @property
    def mode(self) -> int:
        """Code of the plane in the run's plan.

        With split mini-batches, workers need no private copies, because no worker reads the vector
        while another worker writes it.
        """
        if self.split and self.plane.has_copies:
            return epoch_schedule.LOCK_FREE
        return self.plane.mode(self.n_workers)

    @property
    def batch(self) -> int:
        """Number of rows of a mini-batch, 1 by default; the last of an epoch may have fewer."""
        return min(int(self.rule.batch or 1), self.n_all)

    @property
    def steps_by_rows(self) -> bool:
        """Whether the problem itself takes a step for each row, in passes."""
        return takes_passes(self.problem, self.rule) and not self.problem.has_steps

    @property
    def is_ordered(self) -> bool:
        """Whether workers fold (or call their plane) and claim in the order of their numbers."""
        has_order = (
            self.mode in (epoch_schedule.EXCHANGE, epoch_schedule.MASTER) or self.plane.has_homes
        )
        has_order = has_order and self.plane.groups(self.n_workers) is None
        return self._is_in_step and (has_order or self.split > 0)

    @property
    def _is_in_step(self) -> bool:
        return self.orderly and self.n_workers > 1 and is_bsp(self.barrier, self.n_workers)

    @once
    def split(self) -> int:
        """Number of workers that share each mini-batch; 0 if workers have their own."""
        is_local = self._is_in_step and self.world.is_one
        is_split = is_local and may_split(self.problem, self.rule, self.plane, self.block)
        return self.n_workers if is_split else 0

    @once
    def steps_in_call(self) -> int:
        """Number of mini-batches of a block, if one call takes all their steps; else 0."""
        problem, plane = self.problem, self.plane
        if plane.has_homes or not takes_steps_in_calls(problem, self.rule, self.mode):
            return 0
        if self.mode == epoch_schedule.EXCHANGE:
            return 0
        if self.n_workers > 1 and not self.has_teams:
            return 0
        if not (problem.may_team(self.split) if self.split else self.n_workers == 1):
            return 0
        rows = rows_of_step(self.rule, self.block)
        n_batches = -(-self.n_all // rows)
        if self.block is not None:
            return -(-min(self.block, self.n_all) // rows)
        wanted = 1 if self.is_simulated else problem.steps_of_block(rows)
        if self.trace:
            wanted = min(wanted, n_batches // self.trace)
        return int(max(1, min(wanted, n_batches)))

    @property
    def goes_on(self) -> bool:
        """Whether workers begin the next epoch without waiting for each other.

        Only workers with rows of their own can do so, and only on one site.
        """
        waits = self.waits_at_ends or self.is_ordered or not self.world.is_one
        return self.plane.goes_on and not waits

    @property
    def is_simulated(self) -> bool:
        """Whether the clock is virtual."""
        return self.sleeps == epoch_schedule.SIMULATED

    @property
    def exchanges_at_ends(self) -> bool:
        """Whether workers exchange only at the ends of blocks."""
        return self.mode == epoch_schedule.EXCHANGE and (self.is_ordered or self.is_simulated)


def rows_of_step(rule: Rule, block: int | None) -> int:
    """Return the number of rows of a step; the last step of an epoch may have fewer."""
    return block or BLOCK_ROWS if rule.batch is None else int(rule.batch)


def takes_steps_in_calls(problem: Any, rule: Rule, mode: int) -> bool:
    """Whether workers take many successive steps in one call."""
    return mode != epoch_schedule.MASTER and is_known(rule) and problem.trains


def may_split(problem: Any, rule: Rule, plane: Plane, block: int | None) -> bool:
    """Whether workers in step compute one mini-batch together, if the other choices allow it.

    With `BSP`, the workers of a round read the same vector. If a step has a memory (momentum, the
    moments of Adam) or is the mean over its rows, n steps from the same vector differ from n
    successive steps: the run would use another optimiser. Therefore the round is one mini-batch.
    Each worker computes the gradient of its part, and one worker takes a step by the sum of the
    gradients (`hogshare.kernels.schedule.ordered_rounds`). This is synchronous data parallelism:
    the steps equal the steps of one worker, up to the order of a sum.

    A mini-batch is not split if the caller asks for several steps between two exchanges, in a
    block, or in an update.
    """
    if problem.has_rows or plane.has_homes or takes_passes(problem, rule):
        return False
    rows = rows_of_step(rule, block)
    if (block or rows) != rows or plane.numbers()["gradients"] > 1:
        return False
    if plane.has_copies and not plane.is_automatic and plane.interval(problem) > rows:
        return False
    is_other = problem.by_mean or rule.state(problem.n_params)
    # `is_separable` is read last: for a torch module it computes a gradient on trial
    return bool(is_other and problem.is_separable)
