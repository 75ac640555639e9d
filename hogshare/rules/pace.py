"""The pace of rules with a memory of rows: rows between exchanges, and length of local steps.

These rules converge linearly, so a lost epoch is a lost factor: `docs/exchange.md` has the
derivations, and `docs/tried/2026-11/exchange.md` the measurements behind the numbers. The plane
determines the cost of an exchange (`hogshare.planes.shared`). How often a rule that draws rows
visits each of them is part of it.
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

    Half the visits go to all rows equally, and half in proportion to a bound of the curvature of a
    row's loss. Because of the first half, the entries of flat rows do not become old, and a row's
    step (which is divided by its chance) is at most twice that of uniform visits.

    Source: Schmidt et al. 2015, "Non-uniform stochastic average gradient method for training
    conditional random fields".

    held_out : bools of shape (n_rows,), rows that are never visited

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
    if total == 0.0 or not np.isfinite(total):  # rows so large end the run with a message later
        return chances
    return np.asarray(0.5 * chances + 0.5 * smoothness * (chances.sum() / total))


def largest_share(problem: RowProblem, rule: Rule, held_out: np.ndarray | None) -> float:
    """Return the largest share of all visits that goes to one row."""
    if rule.sampling == "uniform":
        return 1.0 / problem.n_rows
    chances = row_chances(problem, rule, held_out)
    return float(chances.max() / chances.sum())


SPREAD = 16  # least ratio of all rows to those of all workers between two exchanges of each
FREE = 40  # the same ratio from which it costs no epochs
FREE_OF_TWO = 8  # the same for two workers of SDCA whose steps are stretched in full
TOGETHER = 2  # most visits of all workers to one row between two exchanges
DELAY = 8  # least ratio of rows to a reading's age at which SAGA carries withheld changes
FRESH = 12  # the same ratio from which that costs hardly an epoch
DEAREST = 2.0  # largest estimated cost of an exchange for SAGA, in its rows' time
BEARABLE = 0.2  # share of the easy interval, after which an exchange costs a tenth
FEWEST = 64  # rows between exchanges
MOST_ABREAST = 64  # windows of neighbours; with eight rows of text each they are half a megabyte
LONGEST = 2.0 / 3.0  # constant step of SAGA, times L, that is stable on all rows tried


class Pace(NamedTuple):
    """The settings of rules that remember rows, chosen together.

    interval : rows between two exchanges of a worker
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

    Steps of SAGA that are not stretched may fall within an epoch, which gains more than a stretch.
    But withheld changes must then be carried, and for that exchanges must be more frequent. This is
    worthwhile if an exchange is cheap, or would not be less frequent with a stretch.

    interval : rows between exchanges that the plane requests; if `automatic`, by its cost alone
    worthwhile : rows that are worth the waiting, if all workers wait for each other between
        exchanges; 0 if they do not
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
        # stretched steps are already long: they must not begin an epoch longer still
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

    The factor is used in `hogshare.kernels.exchange.copy_exchange`. If a step of SDCA goes a share
    of the way to the optimum of its row alone (the largest row), the factor is one over that share.
    A step of SAGA may be 2 / (3 L), above which its own steps become unstable (`saga_step`), or
    less if uneven rows are drawn by importance. The factor is 1 for losses with kinks, for which
    both rules go all of the way, and for SAGA with l1, whose zeros are exact. In its first epoch
    SDCA goes further than is counted in this (`hogshare.kernels.rules.dual_ascent`); with up to 32
    workers this did no harm.
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
    mean, largest = problem.norms  # not a sample's, which may miss the row that diverges
    limit = np.inf
    if rule.sampling == "importance":
        # a step that `CAUTION` has shortened must not be stretched to make up for it
        limit = 2.0 * mean / max(largest, 1e-300)
        largest = min(largest, 2.0 * mean)
    way = numbers.saga_step * smoothness * (largest + numbers.intercept_step)
    return max(1.0, min(limit, LONGEST / max(way, 1e-300)))


def oldest_reading(n_workers: int, stretch: float) -> float:
    """Return the age of the oldest reading, in intervals, if withheld changes are carried.

    For a hot coordinate an exchange withholds all but the share stretch / workers of a change. The
    withheld part arrives that many exchanges later, and in each of these every worker has an
    interval of its own.
    """
    return n_workers * n_workers / stretch


def interval_with_memory(
    interval: int, easy: int, rule: Rule, n_rows: int, n_workers: int, oldest: float
) -> int:
    """Return the rows between exchanges for rules whose every epoch gains a factor.

    `interval` is the least for an exchange's cost, and with `easy` it costs almost nothing. The
    more of the rows the workers have between two exchanges of each, the smaller is the progress per
    epoch (SDCA on text: 1.02 times the epochs at a fortieth, 1.05 at a twentieth, 1.2 at a tenth).
    Up to a fortieth, exchanges are as rare as `easy` allows; cost alone makes them no rarer than at
    a sixteenth. Between that and an eighth, two workers of SDCA that are stretched in full lose a
    fiftieth of their epochs and gain more in time. SAGA exchanges so often that it can carry
    withheld changes, unless that is too expensive (the estimate is four times the measurement), and
    somewhat more often if that is cheap.
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
    """Return the rows between exchanges if all workers wait for each other between two.

    These are as many as are worth the waiting. But if SAGA carries withheld changes, they are no
    more than that allows: dropping the changes costs more epochs than a round costs time. SDCA
    always carries them, and blocks of an eighth of a worker's rows cost it few epochs.
    """
    if not rule.is_sum and carries(rule, l1, n_rows, interval * oldest):
        worthwhile = min(worthwhile, int(n_rows / (DELAY * oldest)))
    return max(interval, worthwhile)


def windows_abreast(usual: int, n_workers: int, window: int, block_rows: int) -> int:
    """Return how many windows of neighbours SDCA reads alternately: more beyond two workers.

    A worker with stretched steps evens out the memories of a few rows before it comes to the next
    ones. The more windows these rows come from, the less they have in common from the last epoch,
    and the fewer epochs the run takes (a twenty-fifth fewer, with four and eight workers on text).
    Each worker then prefetches from more places, which takes about as much time, and with two
    workers more. A block has whole windows, or its worker would read no neighbours.
    """
    if n_workers <= 2:
        return usual
    return max(usual, min(usual * n_workers, MOST_ABREAST, block_rows // window))


def longest_interval(n_workers: int, share: float) -> int:
    """Return the most rows between exchanges if `share` of all visits go to one row.

    Workers that visit one row alternately, each with its own copy, undo each other's steps; the
    steps grow if this happens often before an exchange. With one row that had a third of the
    squares, two workers diverged at 80 visits between exchanges and four at 10; 5 were stable in
    alternation.
    """
    return max(1, int(TOGETHER / (n_workers * share)))


def carries(rule: Rule, l1: float, n_rows: int, age: float) -> bool:
    """Return whether withheld changes stay in the worker's copy, to be offered again.

    SDCA must carry them: its vector is a sum. SAGA is faster if it carries them than if it drops
    them, as long as no reading is older than an eighth of the rows (`age` in rows, see
    `oldest_reading`). With l1, exact zeros require that the copy equals the shared vector.
    """
    return rule.is_sum or (l1 == 0.0 and DELAY * age <= n_rows)
