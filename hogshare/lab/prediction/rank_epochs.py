"""Compute the seconds of an epoch on M ranks without shared memory, from measured costs.

    way      = latency + (M - 1) * bytes / bandwidth    seconds of an offer to all other ranks
    work     = time of a rank's cores for all ranks' offers
    R        = from the run's pace                      rows of a rank between two offers
    passing  = n / (M * R)                              offers of a rank in an epoch
    epoch    = n * row / M + passing * work + way + work + latency

n is the number of all rows. `row` is the seconds per row of all workers of a rank together. The
workers continue while an offer (the rank's changes for the other ranks) is under way. At the end of
an epoch, each rank waits for the offers of the other ranks, and for a short message from each.

A rank defers changes of coordinates that other ranks also changed. This increases the number of
epochs, not the seconds of an epoch. The number of epochs to a target is measured, not computed.
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
    bandwidth : bytes per second of a link
    n_bytes : bytes of an offer to one other rank
    numbers : length of an offered vector
    """

    row: float
    latency: float
    bandwidth: float
    n_bytes: float
    numbers: int

    def way(self, ranks: int) -> float:
        """Return the seconds until an offer has reached all other ranks."""
        return self.latency + (ranks - 1) * self.n_bytes / self.bandwidth

    def work(self, ranks: int) -> float:
        """Return the seconds of a rank's cores for one offer from each rank."""
        return 1e-9 * offer_nanoseconds(self.numbers, ranks)

    def interval(self, n_rows: int, ranks: int) -> float:
        """Return the number of rows of a rank between two offers."""
        return rows_between(n_rows, ranks, DESCENT_SPREAD, self.work(ranks) / self.row)

    def passing(self, n_rows: int, ranks: int) -> float:
        """Return the offers of a rank in an epoch, without the offer at its end."""
        return n_rows / (ranks * self.interval(n_rows, ranks))

    def epoch(self, n_rows: int, ranks: int) -> float:
        """Return the seconds of an epoch.

        Examples
        --------
        >>> costs = ClusterCosts(row=1e-6, latency=1e-4, bandwidth=1e9, n_bytes=1e5, numbers=25_000)
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
        """Return the number of ranks, a power of two, with the shortest epoch."""
        counts = [1]
        while counts[-1] < MOST_RANKS:
            counts.append(2 * counts[-1])
        return min(counts, key=lambda m: self.epoch(n_rows, m))

    def pays_from(self, ranks: int = 2) -> int | None:
        """Return the fewest rows, to two digits, at which `ranks` ranks are faster than one.

        None if they are never faster.
        """
        for power in range(2, MOST_POWER):
            for lead in range(10, 100):
                n = lead * 10 ** (power - 1)
                if self.epoch(n, ranks) < self.epoch(n, 1):
                    return n
        return None
