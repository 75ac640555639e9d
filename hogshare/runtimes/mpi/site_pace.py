"""The interval in rows between a site's offers, and whether all sites wait for each other.

An *offer* is a message with a site's changes (`site`). Its cost is the time that the site's
communicating thread takes from the workers' cores. For each offer, this thread reads the vector
once, and writes it once for received offers; MPI copies the message, and Python moves it. An offer
is due after the larger of two intervals: (1) the rows that take twenty times as long as an offer;
(2) the share of a site's rows for which the sites' vectors stay close: an eighth for plain descent,
and a sixteenth for rules that remember rows.

Curvature may be larger between sites than between workers. This needs no other interval: the
weight of a coordinate (`hogshare.kernels.exchange.site_exchange`) falls as its curvature times the
rows. So coordinates with too much curvature for the interval are averaged.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from hogshare.barriers import BSP
from hogshare.engine.choices import Choices
from hogshare.planes.shared import row_nanoseconds
from hogshare.rules.pace import DELAY

OFFER_NS, MESSAGE_NS = 100_000.0, 50_000.0  # costs of an offer, and of each of its messages
COORDINATE_NS, VALUE_NS = 4.0, 3.0  # costs of each of their values
EASY_SHARE, DEAREST_SHARE = 20.0, 4.0  # time of rows between two offers, in times of an offer
DESCENT_SPREAD, SPREAD = 8, 16  # a site's number of rows, divided by the rows between two offers
SHORT, SPREAD_OF_SUMS, LEAST_BLOCK = 4096, 64, 32  # see `in_rounds`
FIRST = 256  # a worker's rows between two offers, at the start of a run


def offer_nanoseconds(size: int, sites: int) -> float:
    """Return a site's nanoseconds for its offer of `size` values, and for all other offers."""
    each = MESSAGE_NS + VALUE_NS * size
    return OFFER_NS + COORDINATE_NS * size + (sites - 1) * each


def rows_between(n_rows: int, sites: int, spread: int, offer_rows: float) -> float:
    """Return the number of rows of a site between two of its offers.

    n_rows : number of rows of all sites
    sites : number of sites
    spread : largest number of offers of a site in an epoch
    offer_rows : number of rows that take as long as an offer
    """
    return max(n_rows / (spread * sites), EASY_SHARE * offer_rows)


class SitePace(NamedTuple):
    """The interval between a site's offers.

    rows : number of rows between two offers, over all workers of the site
    first : the number of rows between two offers at the start of a run
    carries : whether the part of a change that a weight withholds is offered later
    """

    rows: int
    first: int
    carries: bool

    def rows_now(self, done: int) -> int:
        """Return the present number of rows between two offers: `done`, but from `first` to `rows`.

        The model moves fast at the start of a run, so its first offers follow each other closely.

        done : the number of rows that the site has done so far

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

    choices : the run's choices, with the numbers of sites and of all rows
    size : length of an exchanged vector
    """
    problem, rule, sites = choices.problem, choices.rule, len(choices.world.sites)
    spread = SPREAD if rule.remembers else DESCENT_SPREAD
    are_rounds = choices.block and not choices.names_barrier  # rounds offer by themselves
    offer_rows = 0.0 if are_rounds else _offer_rows(choices, size)
    rows = max(1, int(rows_between(choices.n_all, sites, spread, offer_rows)))
    first = min(rows, FIRST * choices.n_local)
    # as with workers, a withheld change comes several exchanges later, and must not be too old
    fresh = DELAY * rows * sites**2 <= choices.n_all and problem.l1 == 0.0
    return SitePace(rows, first, rule.remembers and fresh)


def need_rounds(choices: Choices, size: int) -> bool:
    """Whether sites must wait for each other's offers.

    A rule that remembers rows converges only if the remembered values belong to recent models that
    all sites had. Rows with few features are so quick that an epoch may end before an offer is
    answered. The result depends on the rows, and may differ between sites. So the caller must use
    one site's result on all sites.
    """
    is_free = not choices.names_barrier and choices.block is None
    if not (choices.rule.remembers and is_free and size <= SHORT):
        return False
    rows = choices.n_all / len(choices.world.sites)
    return DEAREST_SHARE * _offer_rows(choices, size) > rows / SPREAD


def in_rounds(choices: Choices) -> Choices:
    """Return choices with a barrier of all workers, and equally many rounds at all sites."""
    rounds = SPREAD_OF_SUMS if choices.rule.is_sum else SPREAD
    least = LEAST_BLOCK * choices.n_workers
    rounds = max(1, min(rounds, choices.n_all // least))
    block = max(1, choices.n_training // (rounds * choices.n_local))
    return dataclasses.replace(choices, barrier=BSP(), block=block)


def _offer_rows(choices: Choices, size: int) -> float:
    """Return the rows that take as long as an offer."""
    sites = len(choices.world.sites)
    return offer_nanoseconds(size, sites) / row_nanoseconds(choices.problem)
