"""The interval in rows between a site's offers, and whether all sites wait for each other.

The cost of an offer is the time that the site's communicating thread takes from the workers' cores:
it reads the vector once for an offer and writes it once for received ones, and each message is
copied by MPI and moved by Python. An offer is due at the larger of two intervals: rows that take
twenty times as long, and a share of a site's rows for which sites stay close, an eighth for plain
descent and a sixteenth for rules that remember rows.

Larger curvature between sites than between workers needs no other rule: the weight of a coordinate
(`hogshare.kernels.exchange.site_exchange`) falls as its curvature times the rows, so coordinates
with too much curvature for the interval are averaged.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from hogshare.barriers import BSP
from hogshare.engine.choices import Choices
from hogshare.planes.shared import row_nanoseconds
from hogshare.rules.pace import DELAY

OFFER_NS, MESSAGE_NS = 100_000.0, 50_000.0  # of an offer, and of each of its messages of any size
COORDINATE_NS, VALUE_NS = 4.0, 3.0  # of each of their numbers
EASY_SHARE, DEAREST_SHARE = 20.0, 4.0  # rows' time between two offers, in times of an offer
DESCENT_SPREAD, SPREAD = 8, 16  # a site's rows, in those between two offers
SHORT, SPREAD_OF_SUMS, LEAST_BLOCK = 4096, 64, 32  # see `in_rounds`
FIRST = 256  # rows of a worker between two offers, at a run's start


def offer_nanoseconds(size: int, sites: int) -> float:
    """Return the time that an offer of `size` numbers to all, and theirs, take from a site."""
    each = MESSAGE_NS + VALUE_NS * size
    return OFFER_NS + COORDINATE_NS * size + (sites - 1) * each


def rows_between(n_rows: int, sites: int, spread: int, offer_rows: float) -> float:
    """Return the rows of a site between two of its offers.

    n_rows : rows of all sites
    offer_rows : rows that take as long as an offer
    """
    return max(n_rows / (spread * sites), EASY_SHARE * offer_rows)


class SitePace(NamedTuple):
    """The interval between a site's offers.

    rows : rows of all its workers between two offers
    first : the same at a run's start
    carries : whether the part that a weight withholds is offered later
    """

    rows: int
    first: int
    carries: bool

    def rows_now(self, done: int) -> int:
        """Return the rows between offers: few while the model moves fast, then as many as done.

        Examples
        --------
        >>> from hogshare.runtimes.mpi.site_pace import SitePace
        >>> pace = SitePace(rows=4000, first=512, carries=False)
        >>> pace.rows_now(0), pace.rows_now(2000), pace.rows_now(10**6)
        (512, 2000, 4000)
        """
        return min(self.rows, max(self.first, done))


def site_pace(choices: Choices, size: int) -> SitePace:
    """Return the interval between offers of a run's sites.

    choices : with the number of sites and of their rows
    size : numbers of an exchanged vector
    """
    problem, rule, sites = choices.problem, choices.rule, len(choices.world.sites)
    spread = SPREAD if rule.remembers else DESCENT_SPREAD
    are_rounds = choices.block and not choices.names_barrier  # which offer by themselves
    offer_rows = 0.0 if are_rounds else _offer_rows(choices, size)
    rows = max(1, int(rows_between(choices.n_all, sites, spread, offer_rows)))
    first = min(rows, FIRST * choices.n_local)
    # as for workers: a withheld change comes several exchanges later, and must not be too old
    fresh = DELAY * rows * sites**2 <= choices.n_all and problem.l1 == 0.0
    return SitePace(rows, first, rule.remembers and fresh)


def need_rounds(choices: Choices, size: int) -> bool:
    """Whether sites must wait for each other's offers.

    A rule that remembers rows converges only if its memory is of recent models that all sites had.
    Rows of few features are so quick that an epoch may end before an offer is answered. Sites may
    differ, by their rows: one site's result must count for all.
    """
    is_free = not choices.names_barrier and choices.block is None
    if not (choices.rule.remembers and is_free and size <= SHORT):
        return False
    rows = choices.n_all / len(choices.world.sites)
    return DEAREST_SHARE * _offer_rows(choices, size) > rows / SPREAD


def in_rounds(choices: Choices) -> Choices:
    """Return choices with a barrier of all workers, equally often in an epoch at every site."""
    rounds = SPREAD_OF_SUMS if choices.rule.is_sum else SPREAD
    least = LEAST_BLOCK * choices.n_workers
    rounds = max(1, min(rounds, choices.n_all // least))
    block = max(1, choices.n_training // (rounds * choices.n_local))
    return dataclasses.replace(choices, barrier=BSP(), block=block)


def _offer_rows(choices: Choices, size: int) -> float:
    """Return the rows that take as long as an offer."""
    sites = len(choices.world.sites)
    return offer_nanoseconds(size, sites) / row_nanoseconds(choices.problem)
