"""How long an epoch takes on M ranks that share no memory, by what rows and messages cost.

    way      = latency + (M - 1) * bytes / bandwidth    of an offer to all others
    work     = what it, and those of the others, take from a rank's cores
    R        = as of a run's pace                       rows of a rank between two offers
    passing  = n / (M * R)                              of a rank in an epoch
    epoch    = n * row / M + passing * work + way + work + latency

with n rows in all, of which a rank's workers take one in `row` seconds: they go on while an offer
is under way. At an epoch's end all wait for everybody's, and for a word of each.

What a rank holds back because others changed the same coordinates costs epochs, not seconds of one:
how many epochs a target takes is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from hogshare.runtimes.mpi.site_pace import DESCENT_SPREAD, offer_nanoseconds, rows_between

MOST_RANKS = 1 << 12
MOST_POWER = 10  # of ten: numbers of rows that are tried


@dataclass(frozen=True)
class ClusterCosts:
    """What a cluster has been measured to take.

    row : seconds of a row, of all workers of a rank together
    latency : seconds of a short message, one way
    bandwidth : bytes a second
    n_bytes : of an offer to one other rank
    numbers : of a vector that is offered
    """

    row: float
    latency: float
    bandwidth: float
    n_bytes: float
    numbers: int

    def way(self, ranks: int) -> float:
        """Seconds until an offer is with all others."""
        return self.latency + (ranks - 1) * self.n_bytes / self.bandwidth

    def work(self, ranks: int) -> float:
        """Seconds that an offer of each rank takes from a rank's cores."""
        return 1e-9 * offer_nanoseconds(self.numbers, ranks)

    def interval(self, n_rows: int, ranks: int) -> float:
        """Rows of a rank between two offers."""
        return rows_between(n_rows, ranks, DESCENT_SPREAD, self.work(ranks) / self.row)

    def passing(self, n_rows: int, ranks: int) -> float:
        """Offers of a rank in an epoch, besides the one at its end."""
        return n_rows / (ranks * self.interval(n_rows, ranks))

    def epoch(self, n_rows: int, ranks: int) -> float:
        """Seconds of an epoch.

        Examples
        --------
        >>> costs = Costs(row=1e-6, latency=1e-4, bandwidth=1e9, n_bytes=1e5, numbers=25_000)
        >>> [round(costs.epoch(1_000_000, ranks), 3) for ranks in (1, 2, 100)]
        [1.0, 0.503, 0.033]
        """
        alone = n_rows * self.row
        if ranks == 1:
            return alone
        work = self.work(ranks)
        at_end = self.way(ranks) + work + self.latency
        return alone / ranks + self.passing(n_rows, ranks) * work + at_end

    def best(self, n_rows: int) -> int:
        """The power of two of ranks by which an epoch is shortest."""
        counts = [1]
        while counts[-1] < MOST_RANKS:
            counts.append(2 * counts[-1])
        return min(counts, key=lambda m: self.epoch(n_rows, m))

    def pays_from(self, ranks: int = 2) -> int | None:
        """Rows from which so many ranks are faster than one, to two digits; None: never."""
        for power in range(2, MOST_POWER):
            for lead in range(10, 100):
                n = lead * 10 ** (power - 1)
                if self.epoch(n, ranks) < self.epoch(n, 1):
                    return n
        return None
