"""The numbers of a run whose blocks' steps are taken outside of kernels, by a gradient.

Beside `hogshare.engine.rowwise`, which has those of linear problems: there steps are rows, and a
block as many as are worth a worker's while; here a block is a step, or a few.
"""

from __future__ import annotations

from hogshare.engine.choices import Choices
from hogshare.engine.rowwise import Pace
from hogshare.kernels import coordinate, epochs, losses, penalties, schedules, sgd, tracking
from hogshare.rules.numbers import neutral

NO_LOSS = "squared_error"  # which no kernel evaluates: the gradient tells of its own
BLOCK_ROWS = 64  # whose gradients are one step, where nobody says how many are


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
        **neutral(NO_LOSS, c.n_training),
    )


def block_pace(c: Choices) -> Pace:
    """Settle blocks and exchanges.

    A gradient takes its time, beside which an exchange costs little: after every block, if nobody
    says otherwise. Where exchanges come at blocks' ends and nowhere else, a block of mini-batches
    is as long as the plane asks for. A message to a master is one step.
    """
    interval = c.plane.interval(c.problem) if c.mode == epochs.EXCHANGE else 0
    rows = c.block or (c.batch if c.batch > 1 else BLOCK_ROWS)
    if c.exchanges_at_ends and c.block is None and c.batch > 1:
        rows = max(rows, interval)
    rows = min(c.n_training, -(-min(rows, c.n_training) // c.batch) * c.batch)
    return Pace(rows, max(rows, interval) if interval else 0)
