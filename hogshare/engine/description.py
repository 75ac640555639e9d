"""From a problem and the choices for it to the numbers of a run."""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np

from hogshare.barriers import numbers_of
from hogshare.engine.arrays import Shapes, shapes
from hogshare.engine.blockwise import block_numbers, block_pace
from hogshare.engine.choices import Choices
from hogshare.engine.rowwise import row_numbers, row_pace
from hogshare.engine.workspace import Settings
from hogshare.kernels import epochs, sgd
from hogshare.kernels.epochs import Plan

KINDS = {kind: tuple(get_type_hints(kind).items()) for kind in (sgd.Rule, Plan)}  # of their fields


def declared(numbers: sgd.Rule | Plan) -> dict[str, Any]:
    """Every number as the type that its field declares.

    A kernel is compiled for the types it is called with, in seconds, so an integer where a fraction
    may stand (``SAGA(step=1)``, a stretch that is the number of workers) would cost a kernel more.
    """
    fields = zip(KINDS[type(numbers)], numbers, strict=True)
    return {name: kind(value) for (name, kind), value in fields}


def describe(c: Choices) -> tuple[Settings, Shapes]:
    """Settle a run's numbers and list the arrays it needs."""
    problem, rule, stop = c.problem, c.rule, c.stop
    if problem.has_rows:
        pace, numbers = row_pace(c, row_numbers(c))
    else:
        pace, numbers = block_pace(c), block_numbers(c)
    own_rows = c.n_all // c.n_everywhere if c.plane.shares_rows else c.n_all
    if c.plane.has_homes and c.n_everywhere > 1:
        c.plane.check_blocks(pace.block_rows, own_rows)
    shares = c.n_workers if c.plane.shares_rows and c.n_everywhere > 1 else 0
    n_blocks = -(-c.n_training // pace.block_rows) * max(1, c.split)
    if shares:
        least = c.n_training // shares if c.least_share is None else c.least_share
        if least < 1:
            raise ValueError(
                f"{c.n_everywhere} workers cannot share {c.n_all} rows: take at most as many "
                "workers, or rows='claimed'."
            )
        n_blocks = shares * max(1, min(least, -(-least // pace.block_rows)))
    plane_numbers = c.plane.numbers()
    if rule.average and c.n_workers > 1 and c.mode == epochs.LOCK_FREE and not c.split:
        # the sum of iterates counts every change: one that is lost would stay in it for good
        plane_numbers["atomic"] = 1
    plan = Plan(
        block_rows=pace.block_rows,
        n_blocks=n_blocks,
        max_epochs=int(stop.epochs),
        interval=pace.interval,
        private=c.mode,
        shuffle=int(c.shuffle),
        replace=int(rule.replace),
        window=pace.window,
        abreast=pace.abreast,
        turned=int(pace.turned),
        seed=int(c.seed),
        record_every=max(1, n_blocks // c.trace) if c.trace else 0,
        report_epochs=int(c.report_epochs),
        early_stopping=int(stop.validation is not None),
        regression=int(problem.is_regression),
        patience=int(stop.patience),
        tol=-np.inf if stop.tol is None else float(stop.tol),
        ordered=int(c.is_ordered),
        inline=int(c.mode == epochs.MASTER and c.n_workers == 1),
        **numbers_of(c.barrier, c.n_workers),
        **plane_numbers,
        sleeps=c.sleeps,
        parts=0 if c.split else c.parts,  # then nobody reads the vector while another writes
        shares=shares,
        free=int(shares > 0 and c.goes_on),
        stride=c.n_all / max(1, c.n_training),
        first=c.first,
        everywhere=c.n_everywhere if shares else 0,
        split=c.split,
    )
    settings = Settings(
        declared(numbers),
        declared(plan),
        problem.rows.width,
        problem.n_features,
        problem.n_columns,
        c.n_workers,
        c.first,
        c.n_everywhere,
    )
    found = shapes(problem, settings, c.n_training, c.trace, rule, c.record, c.plane)
    if c.n_machines > 1:  # what a machine's change is weighed by, whatever its workers do
        found["curvature"] = ((settings.n_features,), "float32")
    return settings, found
