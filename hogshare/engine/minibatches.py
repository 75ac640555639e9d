"""Mini-batches of gradients: how many rows a step has, and when all workers share in one step.

Behind `BSP` the workers of a round read the same vector. Where a step has a memory (momentum, the
moments of Adam) or is the mean over its rows, n steps from one vector are another optimiser than n
steps one after the other. So there the round is one mini-batch: each worker computes the gradient
of its part, and one step is taken by the sum (`hogshare.kernels.rounds`). That is synchronous data
parallelism, and the steps of one worker up to the order of a sum.
"""

from __future__ import annotations

from typing import Any

from hogshare.engine.outside import takes_passes
from hogshare.planes.protocol import Plane
from hogshare.rules.protocol import Rule

BLOCK_ROWS = 64  # whose gradients are one step, where nobody says how many are


def rows_of_step(rule: Rule, block: int | None) -> int:
    """Rows of a step, of which the last one of an epoch may have fewer."""
    return block or BLOCK_ROWS if rule.batch is None else int(rule.batch)


def may_split(problem: Any, rule: Rule, plane: Plane, block: int | None) -> bool:
    """Whether workers in step compute one mini-batch together, if the other choices allow it.

    Not where several steps are asked for between two exchanges, or in a block, or for an update.
    """
    if problem.has_rows or plane.has_homes or takes_passes(problem, rule):
        return False
    rows = rows_of_step(rule, block)
    if (block or rows) != rows or plane.numbers()["gradients"] > 1:
        return False
    if plane.has_copies and not plane.is_automatic and plane.interval(problem) > rows:
        return False
    is_other = problem.by_mean or rule.state(problem.n_params)
    return bool(is_other and problem.is_separable)  # last: modules of torch try their gradient
