"""How far and how often: steps and exchanges of the rules that remember rows.

They converge linearly, so an epoch lost is a factor lost: `docs/exchange.md` has the measurements
behind the numbers here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from hogshare.engine.rules import SAGA, SDCA, Rule
from hogshare.kernels import losses, saga, sgd
from hogshare.planes.shared import EXCHANGE_SHARE
from hogshare.problems.linear import LinearProblem

SPREAD = 16  # rows per row that all workers have between two exchanges of each, at most
FREE = 40  # the same, where it costs no epochs
TOGETHER = 2  # visits to one row between two exchanges, of all workers
DELAY = 8  # rows per row of age at which SAGA keeps what an exchange holds back
DEAREST = 2.0  # estimate of an exchange's cost that SAGA bears, in its rows' time
FEWEST = 64  # rows between exchanges
LONGEST = 2.0 / 3.0  # constant step of SAGA that is stable on all rows tried, times L
# Share of an epoch in which SAGA's step is level before it falls. Without one it begins at twice
# its mean, which is too much where that is 2 / (3 L) already: for the largest rows, if they are
# drawn by importance, and for several workers whose steps are stretched.
LEVEL = 0.8
# Share of one row in all squared norms from which on SAGA's step is shorter where rows are drawn by
# importance: it is drawn many times within as many rows as there are between two visits of others.
HEAVY, CAUTION = 0.05, 0.75
SAMPLE_ROWS = 2048  # to tell the largest
INTERCEPT_ROWS = 3000  # in which the intercept settles, as far as one row's step allows


def stretches(
    rule: SAGA | SDCA, problem: LinearProblem, l1: float, numbers: sgd.Rule, n_workers: int
) -> Iterator[float]:
    """What to stretch steps by: the best first, which is taken if SAGA can keep with it.

    Two workers' steps of SAGA fall within an epoch, which is worth more than a stretch. More
    workers without a stretch are slow on rows that are all alike.
    """
    if isinstance(rule, SAGA) and n_workers == 2:
        yield 1.0
    yield min(n_workers, stretch_limit(rule, problem, l1, numbers))


def stretch_limit(rule: SAGA | SDCA, problem: LinearProblem, l1: float, numbers: sgd.Rule) -> float:
    """How much longer a worker's steps in its own copy may be; see `hogshare.kernels.exchange`.

    A step of SDCA that goes a share of the way to the optimum of its row alone may be one over that
    share as long (on the largest row), one of SAGA 2 / (3 L), from where its own steps turn
    unstable (`saga_step`), or less where uneven rows are drawn by importance. 1 for losses with
    kinks, where SDCA goes all of the way, and for SAGA with l1, whose zeros are exact.
    """
    if problem.loss in losses.KINKED:
        return 1.0
    smoothness = numbers.curvature * largest_weight(problem)
    if isinstance(rule, SDCA):
        _, largest = saga.norms_of(problem.rows, max(1, problem.n_rows // SAMPLE_ROWS))
        reach = smoothness * (largest / numbers.dual_scale + numbers.intercept_step)
        return 1.0 + 1.0 / max(reach, 1e-300)
    if l1 > 0.0:
        return 1.0
    with np.errstate(over="ignore"):
        mean, largest = saga.norms_of(problem.rows, 1)  # a sample may miss the one that diverges
    limit = np.inf
    if rule.sampling == "importance":
        # a step that is shorter out of `CAUTION` may not be stretched for it
        limit = 2.0 * mean / max(largest, 1e-300)
        largest = min(largest, 2.0 * mean)
    way = numbers.saga_step * smoothness * (largest + numbers.intercept_step)
    return max(1.0, min(limit, LONGEST / max(way, 1e-300)))


def oldest_reading(n_workers: int, stretch: float) -> float:
    """Intervals of which a worker may not know what the others did, if what is held back is kept.

    What is held back of a hot coordinate, all but stretch / workers, comes that many exchanges
    later, and meanwhile every worker has an interval of its own.
    """
    return n_workers * n_workers / stretch


def interval_with_memory(
    interval: int, easy: int, rule: SAGA | SDCA, n_rows: int, n_workers: int, oldest: float
) -> int:
    """Rows between exchanges for the rules whose every epoch is worth a factor.

    `interval` is what an exchange's cost asks for at least, `easy` where it costs next to nothing.
    Progress per epoch falls with the share of the rows that the workers have between two exchanges
    of each (SDCA on text: 1.02 times the epochs at a fortieth, 1.05 at a twentieth, 1.2 at a
    tenth). Up to a fortieth exchanges come as seldom as is easy; it is never above a sixteenth.
    SAGA exchanges so often that it can keep what is held back, unless that is too dear (the
    estimate is four times what was measured).
    """
    free = min(easy, n_rows // (FREE * n_workers))
    bearable = min(max(interval, FEWEST, free), n_rows // (SPREAD * n_workers))
    if isinstance(rule, SAGA):
        kept = int(n_rows / (DELAY * oldest))
        if DEAREST * EXCHANGE_SHARE * kept >= interval:
            bearable = min(bearable, kept)
    return max(1, bearable)


def longest_interval(n_workers: int, share: float) -> int:
    """Rows between exchanges, at most, where `share` of all visits go to one row.

    Workers that visit one row by turns, each with what it knows, take back each other's steps:
    that grows if they do it often before they agree. Two workers and one row of a third of the
    squares diverged with 80 visits between exchanges, four with 10; 5 were stable in turns.
    """
    return max(1, int(TOGETHER / (n_workers * share)))


def keeps(rule: SAGA | SDCA, l1: float, n_rows: int, age: float) -> bool:
    """Whether what an exchange holds back stays in the worker's copy, to be offered again.

    SDCA has to: its vector is a sum. For SAGA it is a matter of speed: better than dropping it if
    no reading is older than an eighth of the rows (`age` in rows, see `oldest_reading`). With l1
    exact zeros need the copy to be the shared vector.
    """
    return isinstance(rule, SDCA) or (l1 == 0.0 and DELAY * age <= n_rows)


def memory_numbers(
    rule: Rule, problem: LinearProblem, l1: float, n_rows: int, empty: bool
) -> dict[str, Any]:
    """Numbers of the rules that remember rows; neutral for the others.

    empty : whether nothing is remembered yet when the run begins
    """
    numbers = {
        "method": sgd.GRADIENT,
        "dual_scale": 1.0,
        "dual_rows": float(n_rows),
        "intercept_step": 0.0,
        "threshold": 0.0,
        "tamed": 0,
        "curvature": losses.CURVATURE[losses.CODES[problem.loss]],
        "saga_step": 0.0,
        "level": 1.0,
        "steep": 0,
        "keep": 0.0,
        "stretch": 1.0,
    }
    smoothness = max(numbers["curvature"] * largest_weight(problem), 1e-300)
    if isinstance(rule, SDCA):
        numbers["method"] = sgd.DUAL
        numbers["dual_scale"] = (1.0 - l1) * problem.alpha * n_rows
        numbers["threshold"] = l1 / (1.0 - l1)
        numbers["intercept_step"] = longest_intercept(problem) / (3.0 * smoothness)
    if isinstance(rule, SAGA):
        numbers["method"] = sgd.SAGA
        with np.errstate(over="ignore"):
            mean, largest = saga.norms_of(problem.rows, 1)
        share = intercept_share(problem, mean)
        numbers["saga_step"] = rule.step or saga_step(rule, smoothness, mean, largest, share)
        if rule.step is None and rule.sampling == "importance":
            heavy = max(HEAVY * problem.n_rows, 4.0) * mean  # of few rows each is much of the whole
            numbers["saga_step"] *= CAUTION if largest > heavy else 1.0
        numbers["tamed"] = int(rule.step is None)
        if rule.step is None:
            is_uniform = rule.sampling == "uniform"
            numbers["level"] = 0.0 if is_uniform else LEVEL
            numbers["steep"] = int(empty and is_uniform)
        numbers["intercept_step"] = share
    return numbers


def longest_intercept(problem: LinearProblem) -> float:
    """The intercept's step, at most, in units of 1 / (3 L) for the intercept alone; 0 without one.

    Every row has the intercept, at full size, so that with a step of 1 it follows the few rows in
    hand, and, within an epoch in which no row comes twice, those that are left. With many rows it
    settles within an epoch by far shorter steps.
    """
    return min(1.0, INTERCEPT_ROWS / problem.n_rows) if problem.fit_intercept else 0.0


def intercept_share(problem: LinearProblem, mean: float) -> float:
    """SAGA's step for the intercept in proportion to that for the features.

    So that it is at most `longest_intercept`, with a step of 1 / (3 L) in which the intercept
    counts by its share: ``L = smoothness (mean + share)``. Rows much larger than 1 make the step so
    short that the share is 1.
    """
    longest = longest_intercept(problem)
    return min(1.0, longest * mean / (1.0 - longest)) if longest < 1.0 else 1.0


def largest_weight(problem: LinearProblem) -> float:
    """The largest weight of a row and its class."""
    largest = float(problem.rows.weight.max(initial=0.0)) if problem.rows.weight.size else 1.0
    return largest * float(max(problem.positive.max(), problem.negative.max()))


def saga_step(rule: SAGA, smoothness: float, mean: float, largest: float, share: float) -> float:
    """1 / (3 L) with L of the mean row, but at most 1 / (2 L) of the largest.

    1 / (3 L) with the largest row's L is what the theory asks for; up to a constant 2 / (3 L) no
    set of rows was found on which a run diverges, and with 1 / L many. (A step that falls within
    the epoch may begin longer: see docs/auto.md.) Where rows are drawn by importance, a
    row's L over its chance is at most twice the mean, so that the first is below 2 / (3 L) anyway.

    Parameters
    ----------
    mean, largest : float
        Squared norms of the rows.
    share : float
        What the intercept adds to them.

    Raises
    ------
    ValueError
        If squared norms overflow: the step would be zero, and the model stay where it is.
    """
    if not math.isfinite(mean):
        raise ValueError(
            "Rows are too large: their squared norms leave the floating-point range, and with them "
            "every step. Scale the input, for example with StandardScaler or MinMaxScaler."
        )
    if rule.sampling == "importance":
        largest = mean
    steps = 3.0 * smoothness * (mean + share), 2.0 * smoothness * (largest + share)
    return 1.0 / max(*steps, 1e-300)
