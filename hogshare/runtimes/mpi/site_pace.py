"""How often a site offers what its vector has changed, by rows; and whether all wait for all.

What an offer costs a site is the time that its talking thread takes from the workers' cores: the
vector is read once to offer, and written once for what has come, and each message is copied by MPI
and moved by Python. An offer is due when the rows since the last one have taken twenty times as
long, or when they are as many as keep sites close: an eighth of a site's for plain descent, and a
sixteenth for rules that remember rows.

More curvature between sites than between workers asks for nothing else: the weight of a coordinate
(`hogshare.kernels.exchange.site_exchange`) falls as its curvature times the rows, so what is too
curved for the interval is averaged.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from hogshare.barriers import BSP
from hogshare.engine.choices import Choices
from hogshare.planes.shared import row_nanoseconds
from hogshare.rules.pace import DELAY

OFFER_NS, MESSAGE_NS = 100_000.0, 50_000.0  # of an offer, and of each message of it, however short
COORDINATE_NS, VALUE_NS = 4.0, 3.0  # of each of their numbers
EASY_SHARE, DEAREST_SHARE = 20.0, 4.0  # rows' time between two offers, in offers
DESCENT_SPREAD, SPREAD = 8, 16  # a site's rows, in those between two offers
SHORT, SPREAD_OF_SUMS, LEAST_BLOCK = 4096, 64, 32  # see `in_rounds`
FIRST = 256  # rows of a worker between two offers at first


def offer_nanoseconds(size: int, sites: int) -> float:
    """What an offer of so many numbers to all others, and theirs, take from a site's cores."""
    each = MESSAGE_NS + VALUE_NS * size
    return OFFER_NS + COORDINATE_NS * size + (sites - 1) * each


def rows_between(n_rows: int, sites: int, spread: int, offer_rows: float) -> float:
    """Rows of a site between two of its offers.

    n_rows : of all sites
    offer_rows : rows that take as long as an offer
    """
    return max(n_rows / (spread * sites), EASY_SHARE * offer_rows)


class SitePace(NamedTuple):
    """How often a site offers.

    rows : of all its workers, between two offers
    first : of all its workers, at first
    carries : whether the part that a weight withholds is offered later
    """

    rows: int
    first: int
    carries: bool

    def rows_now(self, done: int) -> int:
        """Rows between offers: few at first, when the model moves fast; then as many as are done.

        Examples
        --------
        >>> from hogshare.runtimes.mpi.site_pace import SitePace
        >>> pace = SitePace(rows=4000, first=512, carries=False)
        >>> pace.rows_now(0), pace.rows_now(2000), pace.rows_now(10**6)
        (512, 2000, 4000)
        """
        return min(self.rows, max(self.first, done))


def site_pace(choices: Choices, size: int) -> SitePace:
    """How often a site of a run offers.

    choices : with how many sites there are, and how many rows they have
    size : numbers of a vector that is exchanged
    """
    problem, rule, sites = choices.problem, choices.rule, len(choices.world.sites)
    spread = SPREAD if rule.remembers else DESCENT_SPREAD
    are_rounds = choices.block and not choices.names_barrier  # which offer by themselves
    offer_rows = 0.0 if are_rounds else _offer_rows(choices, size)
    rows = max(1, int(rows_between(choices.n_all, sites, spread, offer_rows)))
    first = min(rows, FIRST * choices.n_local)
    # as of workers: what is held back comes so many exchanges later, and is not to be too old
    fresh = DELAY * rows * sites**2 <= choices.n_all and problem.l1 == 0.0
    return SitePace(rows, first, rule.remembers and fresh)


def need_rounds(choices: Choices, size: int) -> bool:
    """Whether sites have to wait for each other's offers.

    A rule that remembers rows settles only if what it remembers is of models that all have had, a
    short while ago. Rows of few features are so quick that an epoch may be over before an offer is
    answered. Sites may find differently, by their rows: one has to say so for all.
    """
    is_free = not choices.names_barrier and choices.block is None
    if not (choices.rule.remembers and is_free and size <= SHORT):
        return False
    rows = choices.n_all / len(choices.world.sites)
    return DEAREST_SHARE * _offer_rows(choices, size) > rows / SPREAD


def in_rounds(choices: Choices) -> Choices:
    """Choices of a run whose workers wait for all others, as often in an epoch at every site."""
    rounds = SPREAD_OF_SUMS if choices.rule.is_sum else SPREAD
    least = LEAST_BLOCK * choices.n_workers
    rounds = max(1, min(rounds, choices.n_all // least))
    block = max(1, choices.n_training // (rounds * choices.n_local))
    return dataclasses.replace(choices, barrier=BSP(), block=block)


def _offer_rows(choices: Choices, size: int) -> float:
    """Rows that take as long as an offer."""
    sites = len(choices.world.sites)
    return offer_nanoseconds(size, sites) / row_nanoseconds(choices.problem)
