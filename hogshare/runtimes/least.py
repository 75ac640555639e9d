"""The clocks of the workers in a run, kept by counts."""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.barriers import enough, within
from hogshare.shm.table import IN_RUN

ABSENT = -1


class LeastClock:
    """How many workers in the run stand at each clock, and the least: O(1) for each block.

    Parameters
    ----------
    table : ndarray of shape (n_workers, layout.N_TABLE), int64
        The progress table, of which `update` looks at a row at a time.
    """

    def __init__(self, table: np.ndarray) -> None:
        self._table = table
        self._known = [ABSENT] * len(table)
        self._counts: dict[int, int] = {}
        self.in_run = 0
        self.least = 0

    def update(self, worker: int) -> bool:
        """Look at a worker's row; whether its clock, or its being in the run, has changed."""
        row, before = self._table[worker], self._known[worker]
        now = int(row[layout.T_CLOCK]) if row[layout.T_STATE] in IN_RUN else ABSENT
        if now == before:
            return False
        self._known[worker] = now
        counts = self._counts
        if before != ABSENT:
            self.in_run -= 1
            counts[before] -= 1
            if not counts[before]:
                del counts[before]
        if now != ABSENT:
            self.least = min(self.least, now) if self.in_run else now
            self.in_run += 1
            counts[now] = counts.get(now, 0) + 1
        while self.in_run and self.least not in counts:
            self.least += 1
        return True

    def lets_pass(self, clock: int, staleness: int, share: float) -> bool:
        """Whether a worker of the run that waits with this clock has enough of the others near."""
        if not self.in_run or within(clock, self.least, staleness):
            return True
        if share == 1.0:
            return False
        near = sum(n for reached, n in self._counts.items() if within(clock, reached, staleness))
        return bool(enough(near - 1, self.in_run - 1, share))  # itself is near itself, no other
