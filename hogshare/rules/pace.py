"""The pace of rules with a memory of rows: rows between exchanges, and length of local steps.

These rules converge linearly, so a lost epoch costs a factor of the convergence. See
`docs/exchange.md` for the derivations, and `docs/tried/2026-11/exchange.md` for the measurements
behind the numbers. The plane determines the cost of an exchange (`hogshare.planes.shared`). This
file also computes how often a rule that draws rows visits each row.
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

    Half of the visits are distributed equally over all rows, and half in proportion to a bound of
    the curvature of a row's loss. Because of the first half, the memory entries of flat rows do not
    become old, and a row's step (which is divided by its chance) is at most twice its step with
    uniform visits.

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
    # rows of this size end the run with a message later
    if total == 0.0 or not np.isfinite(total):
        return chances
    return np.asarray(0.5 * chances + 0.5 * smoothness * (chances.sum() / total))


def largest_share(problem: RowProblem, rule: Rule, held_out: np.ndarray | None) -> float:
    """Return the largest share of all visits that goes to one row."""
    if rule.sampling == "uniform":
        return 1.0 / problem.n_rows
    chances = row_chances(problem, rule, held_out)
    return float(chances.max() / chances.sum())


# An interval's spread is the ratio of all rows to all workers' rows between two exchanges.
SPREAD = 16  # least spread
FREE = 40  # from this spread on, exchanges cost no epochs
FREE_OF_TWO = 8  # the same for two workers of SDCA whose steps are stretched in full
TOGETHER = 2  # most visits of all workers to one row between two exchanges
DELAY = 8  # SAGA carries withheld changes if the ratio of rows to a reading's age is at least this
FRESH = 12  # from this ratio on, carrying costs hardly an epoch
DEAREST = 2.0  # largest estimated cost of an exchange for SAGA, as a multiple of its rows' time
BEARABLE = 0.2  # share of the easy interval, after which an exchange costs a tenth
FEWEST = 64  # fewest rows between exchanges
MOST_ABREAST = 64  # most windows of neighbours; with eight rows of text each, half a megabyte
LONGEST = 2.0 / 3.0  # the constant step of SAGA, times L, that is stable on all rows tried


class Pace(NamedTuple):
    """The settings of rules that remember rows, chosen together.

    interval : number of rows between two exchanges of a worker
    stretch : factor of a worker's steps in its own copy
    carry : whether the changes that an exchange withholds stay in the copy
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

    If SAGA's steps are not stretched, they may fall within an epoch. This gains more than a
    stretch, but withheld changes must then be carried, so exchanges must be more frequent. It is
    worthwhile if an exchange is cheap, or if exchanges would not be less frequent with a stretch.

    interval : number of rows between exchanges that the plane requests
    automatic : whether `interval` depends only on the cost of an exchange
    worthwhile : number of rows that are worth the waiting time, if all workers wait for each other
        between exchanges; 0 if they do not wait
    limits : least and most rows between exchanges that the run's other choices allow
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

    The factor is used in `hogshare.kernels.exchange.copy_exchange`. A step of SDCA goes a share of
    the way to the optimum of its row alone; the factor is one over the share of the largest row. A
    step of SAGA may be 2 / (3 L), above which its own steps become unstable (`saga_step`), or less
    if uneven rows are drawn by importance. The factor is 1 for losses with kinks, because both
    rules then go all of the way, and for SAGA with l1, because its zeros are exact. In its first
    epoch, SDCA goes further than this counts (`hogshare.kernels.rules.dual_ascent`); with up to 32
    workers, this did no harm.
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
    mean, largest = problem.norms  # of all rows: a sample may miss the row that diverges
    limit = np.inf
    if rule.sampling == "importance":
        # a step that `CAUTION` has shortened must not be stretched to make up for it
        limit = 2.0 * mean / max(largest, 1e-300)
        largest = min(largest, 2.0 * mean)
    way = numbers.saga_step * smoothness * (largest + numbers.intercept_step)
    return max(1.0, min(limit, LONGEST / max(way, 1e-300)))


def oldest_reading(n_workers: int, stretch: float) -> float:
    """Return the age of the oldest reading, in intervals, if withheld changes are carried.

    For a hot coordinate, an exchange passes only the share stretch / n_workers of a change. The
    withheld part arrives about n_workers / stretch exchanges later, and before each of these
    exchanges, every worker has an interval of its own.
    """
    return n_workers * n_workers / stretch


def interval_with_memory(
    interval: int, easy: int, rule: Rule, n_rows: int, n_workers: int, oldest: float
) -> int:
    """Return the number of rows between exchanges for rules that gain a factor in every epoch.

    interval : the least number of rows, from the cost of an exchange
    easy : the number of rows with which an exchange costs almost nothing

    The larger the share of the rows that all workers have between two exchanges, the smaller is the
    progress per epoch (SDCA on text takes 1.02 times the epochs at a share of a fortieth, 1.05 at a
    twentieth, 1.2 at a tenth). Up to a fortieth, exchanges are as rare as `easy` allows. The cost
    of exchanges makes them rarer at most up to a sixteenth. Two workers of SDCA whose steps are
    stretched in full go up to an eighth: they lose a fiftieth of their epochs and gain more in
    time. SAGA exchanges so often that it can carry withheld changes, unless this is too expensive
    (the estimate is four times the measurement), and somewhat more often if this is cheap.
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

    It is the number of rows that is worth the waiting time. If SAGA carries withheld changes, it is
    at most the number with which SAGA can do so: dropping the changes costs more epochs than a
    round costs time. SDCA always carries them, and blocks of an eighth of a worker's rows cost SDCA
    few epochs.
    """
    if not rule.is_sum and carries(rule, l1, n_rows, interval * oldest):
        worthwhile = min(worthwhile, int(n_rows / (DELAY * oldest)))
    return max(interval, worthwhile)


def windows_abreast(usual: int, n_workers: int, window: int, block_rows: int) -> int:
    """Return how many windows of neighbours SDCA reads alternately: more with over two workers.

    A worker with stretched steps evens out the memories of a few rows before it comes to the next
    rows. If these rows come from more windows, they have less in common from the last epoch, and
    the run takes fewer epochs (a twenty-fifth fewer, with four and eight workers on text). But each
    worker then prefetches from more places. An epoch then takes about the same time, but more time
    with two workers. A block has whole windows, or its worker would not read neighbours.
    """
    if n_workers <= 2:
        return usual
    return max(usual, min(usual * n_workers, MOST_ABREAST, block_rows // window))


def longest_interval(n_workers: int, share: float) -> int:
    """Return the most rows between exchanges if one row has the share `share` of all visits.

    Workers that visit the same row alternately, each with its own copy, undo each other's steps;
    the steps grow if this happens often before an exchange. With one row that had a third of the
    squares, two workers diverged at 80 visits between exchanges, and four workers at 10 visits; 5
    alternating visits were stable.
    """
    return max(1, int(TOGETHER / (n_workers * share)))


def carries(rule: Rule, l1: float, n_rows: int, age: float) -> bool:
    """Return whether withheld changes stay in the worker's copy, to be offered again.

    SDCA must carry them, because its vector is a sum. SAGA is faster if it carries them, as long as
    no reading is older than an eighth of the rows (`age` is in rows, see `oldest_reading`). With
    l1, SAGA does not carry them: exact zeros require that the copy equals the shared vector.
    """
    return rule.is_sum or (l1 == 0.0 and DELAY * age <= n_rows)
