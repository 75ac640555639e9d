"""The pace of rules with a memory of rows: rows between exchanges, and length of local steps.

These rules converge linearly: each epoch divides the error by a factor, which is lost with a lost
epoch. `docs/exchange.md` has the derivations, and `docs/tried/2026-11/exchange.md` has the
measurements from which the numbers come. The plane determines the cost of an exchange
(`hogshare.planes.shared`). This file also computes how often a rule that draws rows visits each
row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.kernels.rules import losses, sgd_steps
from hogshare.planes.shared import EXCHANGE_SHARE, easy_interval
from hogshare.problems.protocol import RowProblem
from hogshare.rules.protocol import Rule
from hogshare.rules.saga import LEVEL
from hogshare.system.interrupts import errstate


def row_chances(problem: RowProblem, rule: Rule, held_out: np.ndarray | None) -> np.ndarray:
    """Return the mean number of visits of each row in an epoch.

    Half of the visits are distributed equally over all rows. The other half is distributed in
    proportion to a bound of the curvature of a row's loss. Because of the first half, the memory
    entries of rows with little curvature do not become old. For the same reason, the step of a row,
    which is divided by the row's chance, is at most twice the step with uniform visits.

    Source: Schmidt et al. 2015, "Non-uniform stochastic average gradient method for training
    conditional random fields".

    held_out : bools of shape (n_rows,), True for rows that are never visited

    Returns float64 of shape (n_rows,), whose sum is the number of rows that are not held out.
    """
    chances = np.ones(problem.n_rows)
    if held_out is not None:
        chances[held_out] = 0.0
    if rule.sampling == "uniform":
        return chances
    smoothness = problem.squared_norms + float(problem.fit_intercept)
    with errstate(all="ignore"):  # squared norms may overflow
        smoothness *= problem.row_sizes() * chances
        total = smoothness.sum()
    # rows of this size end the run later, with a message
    if total == 0.0 or not np.isfinite(total):
        return chances
    return np.asarray(0.5 * chances + 0.5 * smoothness * (chances.sum() / total))


def largest_share(problem: RowProblem, rule: Rule, held_out: np.ndarray | None) -> float:
    """Return the largest share of all visits that one row receives."""
    if rule.sampling == "uniform":
        return 1.0 / problem.n_rows
    chances = row_chances(problem, rule, held_out)
    return float(chances.max() / chances.sum())


# The spread of an interval is the number of all rows divided by the number of rows that all workers
# visit between two exchanges.
SPREAD = 16  # least spread
FREE = 40  # from this spread on, exchanges cost no epochs
FREE_OF_TWO = 8  # the same for two workers of SDCA whose steps are stretched in full
TOGETHER = 2  # most visits of all workers to one row between two exchanges
DELAY = 8  # SAGA carries withheld changes if rows / age of a reading is at least this
FRESH = 12  # from this ratio on, carrying hardly costs an epoch
DEAREST = 2.0  # largest estimated cost of an exchange for SAGA, as a multiple of its rows' time
BEARABLE = 0.2  # share of the easy interval at which exchanges take a tenth of the time
FEWEST = 64  # fewest rows between exchanges
MOST_ABREAST = 64  # most windows; with eight rows of text each, they have half a megabyte
LONGEST = 2.0 / 3.0  # largest constant step of SAGA, times L, that is stable on all rows tried


class Pace(NamedTuple):
    """The settings of rules that remember rows, which depend on each other.

    interval : number of rows between two exchanges of a worker
    stretch : factor of a worker's steps in its own copy
    carry : whether the changes that an exchange withholds stay in the worker's copy
    level : share of an epoch in which SAGA's step is level before it falls
    """

    interval: int
    stretch: float
    carry: bool
    level: float


def pace_of(
    rule: Rule,
    problem: RowProblem,
    numbers: sgd_steps.RuleNumbers,
    n_rows: int,
    n_workers: int,
    interval: int,
    automatic: bool,
    worthwhile: int,
    limits: tuple[int, int],
) -> Pace:
    """Choose the pace of a rule that remembers rows, on `n_rows` of the problem's rows.

    SAGA's steps may either be stretched, or fall within an epoch. Falling steps gain more, but then
    withheld changes must be carried, which requires more frequent exchanges. So the steps fall if
    an exchange is cheap, or if exchanges would not be less frequent with stretched steps.

    interval : number of rows between exchanges that the plane requests
    automatic : whether `interval` depends only on the cost of an exchange
    worthwhile : number of rows that take long enough compared to the waiting time, if all workers
        wait for each other between exchanges; 0 if they do not wait
    limits : least and largest number of rows between exchanges that the run's other choices allow
    """
    l1 = numbers.l1_ratio
    least, most = limits
    easy = easy_interval(problem)

    def at(stretch: float) -> Pace:
        oldest, rows = oldest_reading(n_workers, stretch), interval
        if automatic and l1 == 0.0:
            rows = interval_with_memory(interval, easy, rule, n_rows, n_workers, oldest)
        rows = interval_of_rounds(rows, worthwhile, rule, l1, n_rows, oldest)
        rows = max(least, min(rows, most))
        # stretched steps are already long, and must not be even longer at the start of an epoch
        level = max(numbers.level, LEVEL) if stretch > 1.0 else numbers.level
        return Pace(rows, stretch, carries(rule, l1, n_rows, rows * oldest), level)

    falls = not rule.is_sum and (numbers.level < LEVEL or n_workers == 2)
    plain = at(1.0)
    if falls and plain.carry and plain.interval >= BEARABLE * easy:
        return plain
    stretched = at(min(n_workers, stretch_limit(rule, problem, numbers)))
    if falls and plain.carry and plain.interval >= stretched.interval:
        return plain
    return stretched


def stretch_limit(rule: Rule, problem: RowProblem, numbers: sgd_steps.RuleNumbers) -> float:
    """Return the largest factor of a worker's steps in its own copy.

    `hogshare.kernels.exchange.copy_exchange` uses this factor. A step of SDCA goes a share of the
    way to the optimum of its row alone, and the factor is one over this share for the largest row.
    A step of SAGA may be at most 2 / (3 L), above which steps become unstable (`saga_step`), and
    less if uneven rows are drawn by importance. The factor is 1 for losses with kinks, because a
    step of either rule then goes the whole way. It is 1 for SAGA with l1, because SAGA's zeros are
    exact. In its first epoch, SDCA takes longer steps than this function assumes
    (`hogshare.kernels.rules.dual_ascent`). With up to 32 workers, these steps did no harm.
    """
    if problem.loss in losses.KINKED:
        return 1.0
    smoothness = numbers.curvature * problem.largest_weight
    if rule.is_sum:
        _, largest = problem.sampled_norms
        reach = smoothness * (largest / numbers.dual_scale + numbers.intercept_step)
        return 1.0 + 1.0 / max(reach, 1e-300)
    if numbers.l1_ratio > 0.0:
        return 1.0
    mean, largest = problem.norms  # of all rows: a sample may miss the row whose steps diverge
    limit = np.inf
    if rule.sampling == "importance":
        # a step that `CAUTION` has shortened must not be stretched to make up for it
        limit = 2.0 * mean / max(largest, 1e-300)
        largest = min(largest, 2.0 * mean)
    way = numbers.saga_step * smoothness * (largest + numbers.intercept_step)
    return max(1.0, min(limit, LONGEST / max(way, 1e-300)))


def oldest_reading(n_workers: int, stretch: float) -> float:
    """Return the age of the oldest reading if withheld changes are carried, in intervals.

    A reading is a value of the vector from which a worker computes a step. For a coordinate that
    all workers change, an exchange passes only the share stretch / n_workers of a change. The
    withheld part arrives about n_workers / stretch exchanges later. Before each of these exchanges,
    all n_workers workers complete an interval.
    """
    return n_workers * n_workers / stretch


def interval_with_memory(
    interval: int, easy: int, rule: Rule, n_rows: int, n_workers: int, oldest: float
) -> int:
    """Return the number of rows between exchanges for rules that gain a factor in every epoch.

    interval : the least number of rows, from the cost of an exchange
    easy : the number of rows at which an exchange costs almost nothing

    Consider the share of all rows that all workers visit between two exchanges. The larger this
    share, the smaller is the progress per epoch. For example, SDCA on text takes 1.02 times the
    epochs at a share of 1/40, 1.05 times at 1/20, and 1.2 times at 1/10. Up to a share of 1/40, the
    number of rows is `easy`. The cost of exchanges may increase the share to 1/16 at most. Two
    workers of SDCA whose steps are stretched in full go up to 1/8: they take 1/50 more epochs, but
    save more time than this. SAGA exchanges so often that it can carry withheld changes, unless
    this is too expensive (the estimated cost is four times the measured cost). If exchanges are
    cheap, SAGA exchanges more often than this.
    """
    share = FREE_OF_TWO if rule.is_sum and oldest <= 2.0 else FREE
    free = min(easy, n_rows // (share * n_workers))
    bearable = max(free, min(max(interval, FEWEST), n_rows // (SPREAD * n_workers)))
    if not rule.is_sum:
        fresh, carried = (int(n_rows / (delay * oldest)) for delay in (FRESH, DELAY))
        least = interval / (DEAREST * EXCHANGE_SHARE)
        if fresh >= max(least, BEARABLE * easy):
            bearable = min(bearable, fresh)
        elif carried >= least:
            bearable = min(bearable, carried)
    return max(1, bearable)


def interval_of_rounds(
    interval: int, worthwhile: int, rule: Rule, l1: float, n_rows: int, oldest: float
) -> int:
    """Return the number of rows between exchanges if all workers wait for each other in between.

    This is the number of rows that take long enough compared to the waiting time (`worthwhile`). If
    SAGA carries withheld changes, the number is at most the number with which SAGA can carry them,
    because dropping the changes would cost more epochs than the time of a round. SDCA always
    carries withheld changes. With blocks of an eighth of a worker's rows, SDCA takes only a few
    more epochs.
    """
    if not rule.is_sum and carries(rule, l1, n_rows, interval * oldest):
        worthwhile = min(worthwhile, int(n_rows / (DELAY * oldest)))
    return max(interval, worthwhile)


def windows_abreast(usual: int, n_workers: int, window: int, block_rows: int) -> int:
    """Return the number of windows that SDCA reads alternately, larger with more than two workers.

    A window is a group of neighbouring rows. A worker with stretched steps evens out the memories
    of a few rows before it reads the next rows. If these few rows come from more windows, they have
    less in common from the last epoch, and the run takes fewer epochs: 4 % fewer, with four and
    eight workers on text. But each worker then prefetches from more places. With two workers this
    makes an epoch slower; with more workers the time of an epoch is about the same. A block must
    have whole windows, otherwise its worker would not read neighbours.
    """
    if n_workers <= 2:
        return usual
    return max(usual, min(usual * n_workers, MOST_ABREAST, block_rows // window))


def longest_interval(n_workers: int, share: float) -> int:
    """Return the largest number of rows between exchanges if one row has `share` of all visits.

    If workers with private copies visit the same row alternately, they undo each other's steps. The
    steps grow if this happens often before an exchange. In tests with one row that had a third of
    the sum of squared norms, two workers diverged at 80 visits of the row between exchanges, and
    four workers at 10 visits. Five alternating visits were stable.
    """
    return max(1, int(TOGETHER / (n_workers * share)))


def carries(rule: Rule, l1: float, n_rows: int, age: float) -> bool:
    """Return whether withheld changes are carried: stay in the worker's copy for later exchanges.

    age : age of the oldest reading in rows, see `oldest_reading`

    SDCA must carry withheld changes, because its vector is a sum. SAGA is faster if it carries
    them, as long as `age` is at most an eighth of the rows. With l1, SAGA does not carry them,
    because for exact zeros the copy must equal the shared vector.
    """
    return rule.is_sum or (l1 == 0.0 and DELAY * age <= n_rows)
