"""The numbers of a run whose blocks' steps are taken outside of kernels, by a gradient.

Beside `hogshare.engine.rowwise`, which has those of linear problems: there steps are rows, and a
block as many as are worth a worker's while; here a block is a step, or a few.
"""

from __future__ import annotations

from hogshare.engine.choices import BLOCK_ROWS, Choices, rows_of_step
from hogshare.engine.outside import takes_passes
from hogshare.engine.rowwise import Pace
from hogshare.kernels import coordinate, epochs, losses, penalties, schedules, sgd, tracking
from hogshare.rules.numbers import neutral

PASS_ROWS = 1 << 14, 1 << 16  # of a block of a pass: fewest and most
PASS_BLOCKS = 8  # per worker and epoch, in between
MESSAGE_ROWS = 1 << 12  # of a pass whose change is a message, at most: it is added as it comes
NO_LOSS = "squared_error"  # which no kernel evaluates: the gradient tells of its own


def block_numbers(c: Choices) -> sgd.Rule:
    """What kernels are told of a rule: when a run ends, and from when on iterates are averaged."""
    return sgd.Rule(
        loss=losses.CODES[NO_LOSS],
        epsilon=0.0,
        penalty=penalties.NONE,
        alpha=0.0,
        l1_ratio=0.0,
        schedule=schedules.CODES[c.step.kind],
        eta0=float(c.step.eta0),
        power_t=float(c.step.power_t),
        optimal_init=0.0,
        average=c.rule.average,
        fit_intercept=0,
        intercept_decay=0.0,
        track=tracking.CRITERION,  # the gradient tells of its loss in any case
        batch=c.batch,
        first_t=float(c.first_t),
        coordinate=coordinate.ALL,
        iterate=1.0,
        **neutral(NO_LOSS, c.n_all),
    )


def block_pace(c: Choices) -> Pace:
    """Settle blocks and exchanges.

    Of a problem with a pass a block is as many rows as take longer than the call for them; where
    a problem says its steps itself, a block is one of those, as where it is a gradient. A
    gradient takes its time, beside which an exchange costs little: after every block, if nobody
    says otherwise. Where exchanges come at blocks' ends and nowhere else, a block of mini-batches
    is as long as the plane asks for, and so is every block of a worker with a home; a step is no
    longer for it. A message to a master is one step.
    """
    wished = _wished(c)
    interval = c.plane.interval(c.problem) if c.mode == epochs.EXCHANGE else 0
    if takes_passes(c.problem, c.rule) and not c.problem.has_steps:
        fewest, most = PASS_ROWS
        share = -(-c.n_all // (PASS_BLOCKS * c.n_everywhere))
        # an even share where that is less: else one worker would have it all
        fewest = min(fewest, -(-c.n_all // c.n_everywhere))
        rows = max(fewest, min(most, share))
        if c.mode == epochs.MASTER:  # of which the workers' messages begin at one vector
            rows = min(MESSAGE_ROWS, share)
        return _in_windows(c, min(c.n_all, c.block or wished or rows), interval)
    if c.split:
        return _in_windows(c, min(c.n_all, rows_of_step(c.rule, c.block)), interval)
    if c.rule.batch is not None:
        rows = c.block or wished or c.batch
    else:
        rows = c.block or min(BLOCK_ROWS, wished or BLOCK_ROWS)
    if c.exchanges_at_ends and c.block is None and c.rule.batch is not None:
        rows = max(rows, interval)
    rows = min(c.n_all, -(-min(rows, c.n_all) // c.batch) * c.batch)
    return _in_windows(c, rows, interval)


def _wished(c: Choices) -> int | None:
    """Rows of a block that the plane asks for, where workers have homes; None: any."""
    if not c.plane.has_homes:
        return None
    return c.plane.rows_of_block(c.problem, c.n_all, c.n_everywhere, 0.0)


def _in_windows(c: Choices, rows: int, interval: int) -> Pace:
    window = rows if c.shuffle and c.problem.keeps_neighbours else 0
    return Pace(rows, max(rows, interval) if interval else 0, window)
