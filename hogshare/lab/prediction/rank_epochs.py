"""Seconds of an epoch on M ranks that share no memory, from the costs of rows and messages.

    way      = latency + (M - 1) * bytes / bandwidth    seconds of an offer to all other ranks
    work     = time of a rank's cores for all ranks' offers
    R        = from the run's pace                      rows of a rank between two offers
    passing  = n / (M * R)                              offers of a rank in an epoch
    epoch    = n * row / M + passing * work + way + work + latency

with n rows in all and `row` seconds per row for a rank's workers, which continue while an offer is
under way. At an epoch's end each rank waits for the other ranks' offers, and for a short
message from each.

A rank defers changes if others changed the same coordinates. This increases the number of epochs,
not the seconds of an epoch. The number of epochs to a target is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from hogshare.runtimes.mpi.site_pace import DESCENT_SPREAD, offer_nanoseconds, rows_between

MOST_RANKS = 1 << 12
MOST_POWER = 10  # largest power of ten of the numbers of rows that are tried


@dataclass(frozen=True)
class ClusterCosts:
    """The measured costs of a cluster.

    row : seconds of a row, for all workers of a rank together
    latency : seconds of a short message in one direction
    bandwidth : bytes per second
    n_bytes : bytes of an offer to one other rank
    numbers : length of an offered vector
    """

    row: float
    latency: float
    bandwidth: float
    n_bytes: float
    numbers: int

    def way(self, ranks: int) -> float:
        """Seconds until an offer has reached all others."""
        return self.latency + (ranks - 1) * self.n_bytes / self.bandwidth

    def work(self, ranks: int) -> float:
        """Seconds of a rank's cores for one offer from each rank."""
        return 1e-9 * offer_nanoseconds(self.numbers, ranks)

    def interval(self, n_rows: int, ranks: int) -> float:
        """Rows of a rank between two offers."""
        return rows_between(n_rows, ranks, DESCENT_SPREAD, self.work(ranks) / self.row)

    def passing(self, n_rows: int, ranks: int) -> float:
        """Offers of a rank in an epoch, without the one at its end."""
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
        """The number of ranks, a power of two, with the shortest epoch."""
        counts = [1]
        while counts[-1] < MOST_RANKS:
            counts.append(2 * counts[-1])
        return min(counts, key=lambda m: self.epoch(n_rows, m))

    def pays_from(self, ranks: int = 2) -> int | None:
        """Fewest rows, to two digits, for which `ranks` ranks are faster than one; None: never."""
        for power in range(2, MOST_POWER):
            for lead in range(10, 100):
                n = lead * 10 ** (power - 1)
                if self.epoch(n, ranks) < self.epoch(n, 1):
                    return n
        return None
