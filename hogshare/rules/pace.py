"""How often the rules that remember rows exchange, and how far they go meanwhile.

They converge linearly, so an epoch lost is a factor lost: `docs/exchange.md` has the rules, and
`docs/tried/2026-11/exchange.md` the measurements behind the numbers.
What an exchange costs is the plane's to say (`hogshare.planes.shared`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.kernels.rules import losses, sgd_steps
from hogshare.planes.shared import EXCHANGE_SHARE, easy_interval
from hogshare.problems.protocol import RowProblem
from hogshare.rules.protocol import Rule
from hogshare.rules.saga import LEVEL

SPREAD = 16  # rows per row that all workers have between two exchanges of each, at most
FREE = 40  # the same, where it costs no epochs
FREE_OF_TWO = 8  # the same of two workers of SDCA whose steps are stretched in full
TOGETHER = 2  # visits to one row between two exchanges, of all workers
DELAY = 8  # rows per row of age at which SAGA keeps what an exchange holds back
FRESH = 12  # the same at which that costs hardly an epoch
DEAREST = 2.0  # estimate of an exchange's cost that SAGA bears, in its rows' time
BEARABLE = 0.2  # rows between exchanges, in those after which one costs next to nothing (a tenth)
FEWEST = 64  # rows between exchanges
MOST_ABREAST = 64  # windows of neighbours; of eight rows of text each they are half a megabyte
LONGEST = 2.0 / 3.0  # constant step of SAGA that is stable on all rows tried, times L


class Pace(NamedTuple):
    """What is settled together for the rules that remember rows.

    interval : rows between two exchanges of a worker
    stretch : what a worker's steps in its own copy are multiplied by
    carry : whether what an exchange holds back stays in the copy
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
    """Settle the pace of a rule that remembers rows, on `n_rows` of the problem's.

    Steps of SAGA that are not stretched may fall within an epoch, which is worth more than a
    stretch. But what is held back has to be kept then, and to be kept it has to come sooner: that
    is worth it where an exchange is not dear, or would not come later with a stretch.

    interval : rows between exchanges that the plane asks for; where it is `automatic`, for its cost
        alone
    worthwhile : rows that are worth the waiting where all workers wait for each other between
        exchanges; 0 where they do not
    limits : rows between exchanges, at least and at most, that the rest of the run leaves to choose
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
        # steps that are longer already may hardly be longer still at an epoch's beginning
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
    """How much longer a worker's steps in its own copy may be; see
    `hogshare.kernels.exchange.copy_exchange`.

    A step of SDCA that goes a share of the way to the optimum of its row alone may be one over that
    share as long (on the largest row), one of SAGA 2 / (3 L), from where its own steps turn
    unstable (`saga_step`), or less where uneven rows are drawn by importance. 1 for losses with
    kinks, where both go all of the way, and for SAGA with l1, whose zeros are exact. In its first
    epoch SDCA goes further than is counted here (`hogshare.kernels.rules.dual_ascent`); up to 32
    workers were not worse for it.
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
    mean, largest = problem.norms  # a sample may miss the one that diverges
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
    interval: int, easy: int, rule: Rule, n_rows: int, n_workers: int, oldest: float
) -> int:
    """Rows between exchanges for the rules whose every epoch is worth a factor.

    `interval` is what an exchange's cost asks for at least, `easy` where it costs next to nothing.
    Progress per epoch falls with the share of the rows that the workers have between two exchanges
    of each (SDCA on text: 1.02 times the epochs at a fortieth, 1.05 at a twentieth, 1.2 at a
    tenth). Up to a fortieth exchanges come as seldom as is easy; cost alone takes them no further
    than a sixteenth. Two workers of SDCA that are stretched in full lose a fiftieth of their epochs
    from there to an eighth, and gain more than that in time. SAGA exchanges so often that it can
    keep what is held back, unless that is too dear (the estimate is four times what was measured),
    and somewhat more often where that is cheap.
    """
    share = FREE_OF_TWO if rule.is_sum and oldest <= 2.0 else FREE
    free = min(easy, n_rows // (share * n_workers))
    bearable = max(free, min(max(interval, FEWEST), n_rows // (SPREAD * n_workers)))
    if not rule.is_sum:
        fresh, kept = (int(n_rows / (delay * oldest)) for delay in (FRESH, DELAY))
        least = interval / (DEAREST * EXCHANGE_SHARE)
        if fresh >= max(least, BEARABLE * easy):
            bearable = min(bearable, fresh)
        elif kept >= least:
            bearable = min(bearable, kept)
    return max(1, bearable)


def interval_of_rounds(
    interval: int, worthwhile: int, rule: Rule, l1: float, n_rows: int, oldest: float
) -> int:
    """Rows between exchanges where all workers wait for each other between two.

    As many as are worth it. But where SAGA keeps what an exchange holds back, no more than it can
    keep it with: dropping it costs more epochs than a round costs time. SDCA keeps it anyway, and
    blocks of an eighth of a worker's rows cost it few epochs.
    """
    if not rule.is_sum and carries(rule, l1, n_rows, interval * oldest):
        worthwhile = min(worthwhile, int(n_rows / (DELAY * oldest)))
    return max(interval, worthwhile)


def windows_abreast(usual: int, n_workers: int, window: int, block_rows: int) -> int:
    """Windows of neighbours that SDCA reads in turn: more for more than two workers.

    A worker whose steps are stretched has evened out what a few rows remember before it comes to
    the next ones. The more windows those rows are from, the less they have in common from the epoch
    before, and the fewer epochs it takes (a twenty-fifth, with four and eight workers on text).
    Each worker reads ahead in more places for it, which takes about as much time, and two workers
    more. A block has whole windows, or its worker would read no neighbours.
    """
    if n_workers <= 2:
        return usual
    return max(usual, min(usual * n_workers, MOST_ABREAST, block_rows // window))


def longest_interval(n_workers: int, share: float) -> int:
    """Rows between exchanges, at most, where `share` of all visits go to one row.

    Workers that visit one row by turns, each with what it knows, take back each other's steps:
    that grows if they do it often before they agree. Two workers and one row of a third of the
    squares diverged with 80 visits between exchanges, four with 10; 5 were stable in turns.
    """
    return max(1, int(TOGETHER / (n_workers * share)))


def carries(rule: Rule, l1: float, n_rows: int, age: float) -> bool:
    """Whether what an exchange holds back stays in the worker's copy, to be offered again.

    SDCA has to: its vector is a sum. For SAGA it is a matter of speed: better than dropping it if
    no reading is older than an eighth of the rows (`age` in rows, see `oldest_reading`). With l1
    exact zeros need the copy to be the shared vector.
    """
    return rule.is_sum or (l1 == 0.0 and DELAY * age <= n_rows)
