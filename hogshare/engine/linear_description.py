"""The numbers of a run on a linear problem, for kernels that take a step for each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.engine.choices import Choices
from hogshare.kernels.rules import coordinate_steps, losses, penalties, sgd_steps, step_schedules
from hogshare.kernels.schedule import epoch_schedule
from hogshare.planes.shared import descent_interval, message_rows, row_nanoseconds
from hogshare.problems.linear import effective_l1_ratio
from hogshare.problems.linear.row_arrays import block_rows, windows
from hogshare.rules.pace import largest_share, longest_interval, pace_of, windows_abreast
from hogshare.rules.steps import optimal_start
from hogshare.system.interrupts import errstate

SOME_EPOCHS = 10  # after this number of epochs, step sizes hardly fall any more
TINY = 1e-300
ROUND_NS = 50_000  # a round that computes for less time spends too large a part of it waiting


class BlockPace(NamedTuple):
    """The division of rows into blocks.

    block_rows : number of rows of a block
    interval : number of rows between two exchanges of private copies
    window, abreast, interleaved : see `EpochPlan`
    """

    block_rows: int
    interval: int
    window: int = 0
    abreast: int = 1
    interleaved: bool = False


def row_numbers(c: Choices) -> sgd_steps.RuleNumbers:
    """Return the `RuleNumbers` of loss, penalty and rule; `row_pace` may change some of them."""
    problem, rule, step = c.problem, c.rule, c.step
    # until the sites exchange, a site's rows also represent the rows of other sites
    # (`kernels.exchange.site_exchange`)
    exchanges = not (c.plane.has_homes or c.plane.has_master)
    n_rows = c.n_training if exchanges and not rule.is_sum else c.n_all
    l1 = effective_l1_ratio(problem.penalty, problem.l1_ratio)
    return sgd_steps.RuleNumbers(
        loss=losses.CODES[problem.loss],
        epsilon=problem.epsilon,
        penalty=penalties.code_of(problem.penalty, l1),
        alpha=problem.alpha,
        l1_ratio=l1,
        schedule=step_schedules.CODES[step.kind],
        eta0=float(step.eta0),
        power_t=float(step.power_t),
        optimal_init=optimal_start(problem.loss, problem.epsilon, problem.alpha),
        average=rule.average,
        fit_intercept=int(problem.fit_intercept),
        # scikit-learn's smaller intercept step for sparse rows, whose features are small
        intercept_decay=0.01 if problem.is_sparse else 1.0,
        track=c.track,
        batch=c.batch,
        first_t=float(c.first_t),
        coordinate=coordinate_steps.CODES[rule.coordinate],
        iterate=c.iterate,
        # with homes, each row counts once, as on one machine
        stride=1.0 if c.plane.has_homes else c.n_all / max(1, c.n_training),
        represents=c.n_all / c.n_training if exchanges and rule.is_sum else 1.0,
        **rule.numbers(problem, l1, n_rows, c.empty),
    )


def row_pace(c: Choices, numbers: sgd_steps.RuleNumbers) -> tuple[BlockPace, sgd_steps.RuleNumbers]:
    """Settle the rows of blocks and exchange intervals.

    A rule that remembers rows needs these numbers for its steps. The function therefore also
    returns the rule's numbers.
    """
    problem, rule, mode, n = c.problem, c.rule, c.mode, c.n_training
    interval = c.plane.interval(problem) if mode == epoch_schedule.EXCHANGE else 0
    automatic = mode == epoch_schedule.EXCHANGE and c.plane.is_automatic
    ordered, at_ends = c.is_ordered, c.exchanges_at_ends
    if automatic and not rule.remembers and not (c.is_simulated or ordered):
        # on a virtual clock and in rounds the interval is also the length of every block
        interval = descent_interval(problem, numbers.l1_ratio, n, c.n_local)
    cap = n
    if automatic and rule.remembers and not rule.is_sum:
        cap = longest_interval(c.n_local, largest_share(problem, rule, c.stop.validation))
    # fewest rows that are worth the waiting time of a round, if no choice sets the number
    worthwhile = int(ROUND_NS / row_nanoseconds(problem)) if ordered and automatic else 0
    rows, follows = block_rows(n, c.n_local, c.trace), False
    if c.block is not None:
        rows = min(c.block, rows) if c.trace else min(c.block, n)
    elif rule.coordinate is not None or c.parts:  # a block is a write cycle, as pushes count cycles
        rows = c.batch
    elif mode == epoch_schedule.MASTER:
        wished = c.plane.rows_of_block(problem, n, c.n_workers, 0.0)
        wished = wished or message_rows(problem, numbers.l1_ratio, n, c.n_workers)
        rows = min(n, c.batch if c.batch > 1 else min(wished, -(-n // max(1, c.trace))))
    elif at_ends:
        rows, follows = min(cap, rows), True
    elif c.plane.has_homes:
        wished = c.home_rows or c.plane.rows_of_block(
            problem, c.n_all, c.n_workers, _late_step(c, numbers)
        )
        rows = min(wished or rows, n)  # a trace does not change the rounds
    if mode == epoch_schedule.EXCHANGE and rule.remembers:
        limits = 1, rows if follows else cap
        if at_ends and not follows:
            limits = rows, rows if ordered else cap
        asked = interval, automatic, worthwhile
        found = pace_of(rule, problem, numbers, n, c.n_local, *asked, limits)
        interval, worthwhile = found.interval, 0
        numbers = numbers._replace(
            stretch=found.stretch, carry=float(found.carry), level=found.level
        )
    if follows:
        rows = min(max(interval, worthwhile), rows)
    # whole mini-batches, because a block's end would cut a mini-batch short
    rows = min(n, -(-rows // c.batch) * c.batch)
    window, abreast = 0, 1
    if c.shuffle:
        window, abreast = windows(problem.rows, problem.n_rows, rule.reads_neighbours)
    interleaved = rule.interleaves_windows and abreast > 1
    if interleaved:
        abreast = windows_abreast(abreast, c.n_local, window, rows)
    return BlockPace(rows, interval, window, abreast, interleaved), numbers


def _late_step(c: Choices, numbers: sgd_steps.RuleNumbers) -> float:
    """Return a row's step size at the run's end, or after `SOME_EPOCHS` epochs if earlier."""
    t = c.first_t + c.n_all * min(c.stop.epochs, SOME_EPOCHS)
    kind, eta0, power_t = step_schedules.CODES[c.step.kind], numbers.eta0, numbers.power_t
    alpha, start = max(numbers.alpha, TINY), numbers.optimal_init
    with errstate(all="ignore"):  # kernels may take a step size that is not finite
        power, t = np.float64(power_t), np.float64(t)
        return float(step_schedules.step_size(kind, eta0, power, alpha, start, t))
