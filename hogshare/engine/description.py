"""From a problem and the choices for it to the numbers of a run."""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np

from hogshare.barriers import Barrier, is_bsp, numbers_of
from hogshare.engine.arrays import Shapes, shapes
from hogshare.engine.memory_steps import memory_numbers
from hogshare.engine.pace import longest_interval, pace_of, windows_abreast
from hogshare.engine.rules import SAGA, SDCA, SGD, Rule
from hogshare.engine.sampling import largest_share
from hogshare.engine.session import Settings
from hogshare.engine.steps import StepSize, optimal_start
from hogshare.engine.stops import Stop
from hogshare.kernels import coordinate, epochs, losses, penalties, schedules, sgd
from hogshare.kernels.epochs import Plan
from hogshare.planes import Plane, Shared
from hogshare.planes.shared import descent_interval, row_nanoseconds
from hogshare.problems.linear import LinearProblem, effective_l1_ratio
from hogshare.problems.rows import block_rows, windows

KINDS = {kind: tuple(get_type_hints(kind).items()) for kind in (sgd.Rule, Plan)}  # of their fields
MESSAGE_ROWS = 64  # whose steps are one message to a master, where none says how many
ROUND_NS = 50_000  # of computing, below which waiting for each other is too much of a round


def declared(numbers: sgd.Rule | Plan) -> dict[str, Any]:
    """Every number as the type that its field declares.

    A kernel is compiled for the types it is called with, in seconds, so an integer where a fraction
    may stand (``SAGA(step=1)``, a stretch that is the number of workers) would cost a kernel more.
    """
    fields = zip(KINDS[type(numbers)], numbers, strict=True)
    return {name: kind(value) for (name, kind), value in fields}


def describe(
    problem: LinearProblem,
    *,
    rule: Rule,
    plane: Plane,
    barrier: Barrier,
    step: StepSize,
    stop: Stop,
    n_workers: int,
    seed: int,
    shuffle: bool,
    first_t: float,
    trace: int,
    report_epochs: bool,
    track: int,
    block: int | None,
    record: bool = False,
    sleeps: int = 0,
    parts: int = 0,
    orderly: bool = True,
    empty: bool,
    iterate: float = 1.0,
) -> tuple[Settings, Shapes]:
    """Settle a run's numbers and list the arrays it needs.

    sleeps, parts : as of `Plan`
    orderly : whether BSP may keep workers in their order, for which all have to be there
    empty : whether a rule that remembers rows remembers none when the run begins; of a resumed run,
        when the one began that was interrupted
    iterate : as of `hogshare.kernels.sgd.Rule`
    """
    n_rows = problem.n_rows
    held_out = 0 if stop.validation is None else int(np.count_nonzero(stop.validation))
    n_training = n_rows - held_out
    mode = plane.mode(n_workers)
    interval = plane.interval(problem) if mode == epochs.EXCHANGE else 0
    l1 = effective_l1_ratio(problem.penalty, problem.l1_ratio)
    automatic = mode == epochs.EXCHANGE and isinstance(plane, Shared) and plane.exchange == "auto"
    ordered = orderly and n_workers > 1 and mode != epochs.LOCK_FREE and is_bsp(barrier, n_workers)
    if automatic and isinstance(rule, SGD) and sleeps != epochs.SIMULATED and not ordered:
        # on a virtual clock and in rounds blocks are as long as this, from the first one on
        interval = descent_interval(problem, l1, n_training, n_workers)
    cap = n_training
    if automatic and isinstance(rule, SAGA):
        cap = longest_interval(n_workers, largest_share(problem, rule, stop.validation))
    numbers = sgd.Rule(
        loss=losses.CODES[problem.loss],
        epsilon=problem.epsilon,
        penalty=penalties.code_of(problem.penalty, l1),
        alpha=problem.alpha,
        l1_ratio=l1,
        schedule=schedules.CODES[step.kind],
        eta0=float(step.eta0),
        power_t=float(step.power_t),
        optimal_init=optimal_start(problem.loss, problem.epsilon, problem.alpha),
        average=rule.average,
        fit_intercept=int(problem.fit_intercept),
        # scikit-learn's smaller intercept step for sparse rows, whose features are small
        intercept_decay=0.01 if problem.is_sparse else 1.0,
        track=track,
        batch=min(int(rule.batch), n_training),
        first_t=float(first_t),
        coordinate=coordinate.CODES[rule.coordinate],
        iterate=iterate,
        **memory_numbers(rule, problem, l1, n_training, empty),
    )
    # on a virtual clock and in rounds workers exchange at blocks' ends, and nowhere else
    at_ends = mode == epochs.EXCHANGE and (ordered or sleeps == epochs.SIMULATED)
    # rows that are worth the waiting for a round, where nobody has said how many
    worthwhile = int(ROUND_NS / row_nanoseconds(problem)) if ordered and automatic else 0
    rows_per_block, follows = block_rows(n_training, n_workers, trace), False
    if block is not None:
        rows_per_block = min(block, rows_per_block) if trace else min(block, n_training)
    elif rule.coordinate is not None or parts:  # a block is a write cycle: pushes count those
        rows_per_block = min(rule.batch, n_training)
    elif mode == epochs.MASTER:
        rows_per_block = min(MESSAGE_ROWS if rule.batch == 1 else rule.batch, n_training)
    elif at_ends:
        rows_per_block, follows = min(cap, rows_per_block), True
    if mode == epochs.EXCHANGE and not isinstance(rule, SGD):
        limits = 1, rows_per_block if follows else cap
        if at_ends and not follows:
            limits = rows_per_block, rows_per_block if ordered else cap
        asked = interval, automatic, worthwhile
        pace = pace_of(rule, problem, numbers, n_training, n_workers, *asked, limits)
        interval, worthwhile = pace.interval, 0
        numbers = numbers._replace(stretch=pace.stretch, keep=float(pace.keep), level=pace.level)
    if follows:
        rows_per_block = min(max(interval, worthwhile), rows_per_block)
    # whole mini-batches: a block's end cuts one short
    batch = min(int(rule.batch), n_training)
    rows_per_block = min(n_training, -(-rows_per_block // batch) * batch)
    n_blocks = -(-n_training // rows_per_block)
    record_every = max(1, n_blocks // trace) if trace else 0
    window, abreast = 0, 1
    if shuffle:
        window, abreast = windows(problem.rows, problem.n_rows, isinstance(rule, SAGA))
    turned = isinstance(rule, SDCA) and abreast > 1
    if turned:
        abreast = windows_abreast(abreast, n_workers, window, rows_per_block)
    plane_numbers = plane.numbers()
    if rule.average and n_workers > 1 and mode == epochs.LOCK_FREE:
        # the sum of iterates counts every change: one that is lost would stay in it for good
        plane_numbers["atomic"] = 1
    plan = Plan(
        block_rows=rows_per_block,
        n_blocks=n_blocks,
        max_epochs=int(stop.epochs),
        interval=interval,
        private=mode,
        shuffle=int(shuffle),
        replace=int(isinstance(rule, SAGA) and rule.replace),
        window=window,
        abreast=abreast,
        turned=int(turned),
        seed=int(seed),
        record_every=record_every,
        report_epochs=int(report_epochs),
        early_stopping=int(stop.validation is not None),
        regression=int(problem.is_regression),
        patience=int(stop.patience),
        tol=-np.inf if stop.tol is None else float(stop.tol),
        ordered=int(ordered),
        inline=int(mode == epochs.MASTER and n_workers == 1),
        **numbers_of(barrier, n_workers),
        **plane_numbers,
        sleeps=sleeps,
        parts=parts,
    )
    settings = Settings(
        declared(numbers),
        declared(plan),
        problem.rows.width,
        problem.n_features,
        problem.n_columns,
        n_workers,
    )
    draws = isinstance(rule, SAGA) and rule.draws
    return settings, shapes(problem, settings, n_training, trace, draws, record)
