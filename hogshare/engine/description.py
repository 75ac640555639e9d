"""The fields of a run's plan and rule for kernels, computed from its problem and choices.

On a linear problem, kernels take a step for each row, and a block has enough rows to be worth a
claim (`hogshare.engine.linear_description`). If steps are taken outside of kernels, from a
gradient, a block is one step or a few steps.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_type_hints

import numpy as np

from hogshare.barriers import numbers_of
from hogshare.engine.arrays import Shapes, shapes
from hogshare.engine.choices import BLOCK_ROWS, Choices, rows_of_step
from hogshare.engine.gradient_steps import takes_passes
from hogshare.engine.linear_description import BlockPace, row_numbers, row_pace
from hogshare.engine.workspace import SessionSettings
from hogshare.kernels.rules import (
    block_sums,
    coordinate_steps,
    losses,
    penalties,
    sgd_steps,
    step_schedules,
)
from hogshare.kernels.schedule import epoch_schedule
from hogshare.kernels.schedule.epoch_schedule import EpochPlan
from hogshare.rules.row_memory import neutral

PASS_ROWS = 1 << 14, 1 << 16  # fewest and most rows of a pass's block
PASS_BLOCKS = 8  # blocks per worker and epoch, between these bounds
MESSAGE_ROWS = 1 << 12  # most rows of a pass that makes a message: it is added as it arrives
NO_LOSS = "squared_error"  # no kernel evaluates it: the gradient reports its own loss
KINDS = {
    kind: tuple(get_type_hints(kind).items()) for kind in (sgd_steps.RuleNumbers, EpochPlan)
}  # of their fields


def declared(numbers: sgd_steps.RuleNumbers | EpochPlan) -> dict[str, Any]:
    """Convert every number to the type that its field declares.

    A kernel is compiled for the types of its arguments, which takes seconds. An integer in a float
    field would compile another kernel. Examples are ``SAGA(step=1)``, and a `stretch` that is the
    number of workers.
    """
    fields = zip(KINDS[type(numbers)], numbers, strict=True)
    return {name: kind(value) for (name, kind), value in fields}


def describe(c: Choices) -> tuple[SessionSettings, Shapes]:
    """Settle a run's numbers and list the arrays it needs."""
    problem, rule, stop = c.problem, c.rule, c.stop
    if problem.has_rows:
        pace, numbers = row_pace(c, row_numbers(c))
    else:
        pace, numbers = block_pace(c), block_numbers(c)
    own_rows = c.n_all // c.n_workers if c.plane.shares_rows else c.n_all
    if c.plane.has_homes and c.n_workers > 1:
        c.plane.check_blocks(pace.block_rows, own_rows)
    shares = c.n_local if c.plane.shares_rows and c.n_workers > 1 else 0
    n_blocks = -(-c.n_training // pace.block_rows) * max(1, c.split)
    n_groups = 0
    if c.plane.has_cells:
        if not c.world.is_one:
            raise ValueError(
                f"The workers of {c.plane} share one memory: on ranks take plane=Shared()."
            )
        n_blocks = len(problem.cells.ends)
        n_groups = math.isqrt(n_blocks)
    if shares:
        least = c.n_training // shares if c.least_share is None else c.least_share
        if least < 1:
            raise ValueError(
                f"{c.n_workers} workers cannot share {c.n_all} rows: take at most as many "
                "workers, or rows='claimed'."
            )
        n_blocks = shares * max(1, min(least, -(-least // pace.block_rows)))
    elif c.is_ordered and c.plane.waits_for_rounds and n_blocks < c.n_workers:
        # only two epochs are open: a worker would find no block, and the others wait for its mail
        most = max(1, c.n_training // c.n_workers)
        raise ValueError(
            f"Behind BSP(), an epoch needs at least as many blocks as workers: it has {n_blocks} "
            f"of {pace.block_rows} rows for {c.n_workers} workers. Set every= (or block=, batch=) "
            f"to at most {most} rows, or take rows='share', fewer workers or another barrier."
        )
    plane_numbers = c.plane.numbers()
    if rule.average and c.n_workers > 1 and c.mode == epoch_schedule.LOCK_FREE and not c.split:
        # the sum of iterates counts every change: a lost change would stay in the sum
        plane_numbers["atomic"] = 1
    if is_one_step(c, pace.block_rows) and plane_numbers.get("fold") == epoch_schedule.WEIGHTED:
        # the weights assume that successive rows stop at their optimum; a step computed at the
        # snapshot does not stop at its optimum
        plane_numbers["fold"] = epoch_schedule.SUM
    plan = EpochPlan(
        block_rows=pace.block_rows,
        n_blocks=n_blocks,
        max_epochs=int(stop.epochs),
        interval=pace.interval,
        private=c.mode,
        shuffle=int(c.shuffle),
        replace=int(rule.replace),
        window=pace.window,
        abreast=pace.abreast,
        interleaved=int(pace.interleaved),
        seed=int(c.seed),
        record_every=max(1, n_blocks // c.trace) if c.trace else 0,
        report_epochs=int(c.report_epochs),
        early_stopping=int(stop.validation is not None),
        regression=int(problem.is_regression),
        patience=int(stop.patience),
        tol=-np.inf if stop.tol is None else float(stop.tol),
        ordered=int(c.is_ordered),
        inline=int(c.mode == epoch_schedule.MASTER and c.n_workers == 1),
        **numbers_of(c.barrier, c.n_workers),
        **plane_numbers,
        sleeps=c.sleeps,
        parts=0 if c.split else c.parts,  # if split, no worker reads while another one writes
        shares=shares,
        free=int(shares > 0 and c.goes_on),
        stride=c.n_all / max(1, c.n_training),
        first=c.world.first,
        everywhere=c.n_workers if shares else 0,
        split=c.split,
        step_rows=step_rows(c),
        grid=n_groups,
        copied=int(c.plane.steps_on_copies(problem, c.batch, pace.block_rows)),
    )
    settings = SessionSettings(
        declared(numbers),
        declared(plan),
        problem.rows.width,
        problem.n_features,
        problem.n_columns,
        c.world,
    )
    found = shapes(c, settings)
    in_sites = c.mode in (epoch_schedule.EXCHANGE, epoch_schedule.LOCK_FREE) and not c.world.is_one
    if in_sites:  # the curvature weighs a site's change, whatever the site's workers do
        found["curvature"] = ((settings.n_features,), "float32")
    return settings, found


def step_rows(c: Choices) -> int:
    """Return the number of rows of a mini-batch if one call takes a block's steps; else 0."""
    if c.problem.has_rows or not c.steps_in_call:
        return 0
    return min(c.n_all, rows_of_step(c.rule, c.block))


def is_one_step(c: Choices, block_rows: int) -> bool:
    """Whether a block is one step, computed from one reading of the vector."""
    if c.problem.has_rows:
        return block_rows <= c.batch > 1
    return not takes_passes(c.problem, c.rule) and block_rows <= (c.rule.batch or block_rows)


def block_numbers(c: Choices) -> sgd_steps.RuleNumbers:
    """Return a rule's numbers for kernels: they decide the run's end and the averaging."""
    return sgd_steps.RuleNumbers(
        loss=losses.CODES[NO_LOSS],
        epsilon=0.0,
        penalty=penalties.NONE,
        alpha=0.0,
        l1_ratio=0.0,
        schedule=step_schedules.CODES[c.step.kind],
        eta0=float(c.step.eta0),
        power_t=float(c.step.power_t),
        optimal_init=0.0,
        average=c.rule.average,
        fit_intercept=0,
        intercept_decay=0.0,
        track=block_sums.CRITERION,  # the gradient reports its loss in any case
        batch=c.batch,
        first_t=float(c.first_t),
        coordinate=coordinate_steps.ALL,
        iterate=1.0,
        **neutral(NO_LOSS, c.n_all),
    )


def block_pace(c: Choices) -> BlockPace:
    """Settle the number of rows of a block, and of an exchange's interval.

    (1) If the problem itself takes its steps in a pass over the block's rows, a block has enough
    rows to take longer than the call. (2) If the problem defines its own steps, or has a gradient,
    a block is one step. By default, an exchange follows every block, because a gradient is slow
    compared with an exchange. (3) If exchanges come only at the ends of blocks, a block of
    mini-batches has as many rows as the plane asks for. Every block of a worker with a home also
    has this number of rows. This does not change the number of rows of a step. (4) A message to a
    master is one step.
    """
    if c.plane.has_cells:  # a block has the rows of the largest cell
        return BlockPace(int(np.diff(c.problem.cells.ends, prepend=0).max()), 0, 0)
    wished = _wished(c)
    interval = c.plane.interval(c.problem) if c.mode == epoch_schedule.EXCHANGE else 0
    if c.steps_by_rows:
        fewest, most = PASS_ROWS
        share = -(-c.n_all // (PASS_BLOCKS * c.n_workers))
        # at most an even share, or one worker would get all rows
        fewest = min(fewest, -(-c.n_all // c.n_workers))
        rows = max(fewest, min(most, share))
        if c.mode == epoch_schedule.MASTER:  # the workers' messages begin at one vector
            rows = min(MESSAGE_ROWS, share)
        return _in_windows(c, min(c.n_all, c.block or wished or rows), interval)
    if c.split or c.steps_in_call:
        rows = max(1, c.steps_in_call) * rows_of_step(c.rule, c.block)
        return _in_windows(c, min(c.n_all, rows), interval)
    if c.rule.batch is not None:
        rows = c.block or wished or c.batch
    else:
        rows = c.block or min(BLOCK_ROWS, wished or BLOCK_ROWS)
    if c.exchanges_at_ends and c.block is None and c.rule.batch is not None:
        rows = max(rows, interval)
    rows = min(c.n_all, -(-min(rows, c.n_all) // c.batch) * c.batch)
    return _in_windows(c, rows, interval)


def _wished(c: Choices) -> int | None:
    """Return the rows of a block that a plane with homes asks for, or None for any number."""
    if not c.plane.has_homes or c.home_rows:
        return c.home_rows
    wished = c.plane.rows_of_block(c.problem, c.n_all, c.n_workers, 0.0)
    # not in a simulator, where a law decides the seconds; without a mini-batch, a block is one step
    has_short_steps = c.rule.batch is not None or c.steps_by_rows
    if wished is None and has_short_steps and not c.is_simulated:
        wished = c.plane.rows_worth_a_link(c.problem, c.n_all, c.n_workers)
        # at least two steps, whatever this site's timing: sites must not differ in having several
        if wished is not None:
            wished = max(wished, 2 * c.batch)
    return wished


def fitted(c: Choices) -> Choices:
    """Return the choices with the plane's own choices that depend on the problem settled."""
    plane = c.plane.fitted(c.problem, c.n_all, c.n_workers)
    c = replace(c, plane=plane)
    if c.problem.has_rows or not plane.has_homes or c.n_workers == 1:
        return c
    step_rows = 1 if c.steps_by_rows else rows_of_step(c.rule, c.block)
    return replace(c, plane=plane.by_steps(block_pace(c).block_rows, step_rows))


def _in_windows(c: Choices, rows: int, interval: int) -> BlockPace:
    window = rows if c.shuffle and c.problem.keeps_neighbours else 0
    return BlockPace(rows, max(rows, interval) if interval else 0, window)
