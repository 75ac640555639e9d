"""The rows of the progress table that the caller keeps of the workers of a context (STAT).

Who writes: the caller's thread, as it hands tasks out and takes results in. Who reads: the same,
and barriers of the user's, through `ProgressTable`. A block of the table is a task here.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout
from hogshare.shm.table import ProgressTable

NANO = 1e9


class WorkerProgress:
    """What is known of the workers.

    n_workers : rows to begin with: nobody has joined yet
    """

    def __init__(self, n_workers: int) -> None:
        self._array = np.zeros((n_workers, layout.N_TABLE), np.int64)

    @property
    def table(self) -> ProgressTable:
        """The table as it stands, and goes on."""
        return ProgressTable(self._array)

    def __len__(self) -> int:
        return len(self._array)

    def join(self, worker: int, now: float) -> None:
        """A worker is there, and available: at the least clock of the others."""
        if worker >= len(self._array):
            more = np.zeros((worker + 1 - len(self._array), layout.N_TABLE), np.int64)
            self._array = np.concatenate([self._array, more])
        table, row = self.table, self._array[worker]
        others = table.clock[table.in_run]
        row[layout.T_CLOCK] = max(row[layout.T_CLOCK], others.min(initial=1 << 62) % (1 << 62))
        row[layout.T_STATE] = layout.WAITING
        row[layout.T_STALENESS] = 0
        row[layout.T_JOINED] = row[layout.T_HEARTBEAT] = int(now * NANO)

    def leave(self, worker: int) -> None:
        """A worker is gone."""
        self._array[worker, layout.T_STATE] = layout.DEAD
        self._array[worker, layout.T_STALENESS] = 0

    def begin(self, worker: int, version: int) -> None:
        """A worker has been given a task, when so many results had been accepted."""
        row = self._array[worker]
        row[layout.T_STATE], row[layout.T_VERSION] = layout.ACTIVE, version
        row[layout.T_STALENESS] = 0

    def end(self, worker: int, now: float) -> None:
        """A worker is available again."""
        row = self._array[worker]
        row[layout.T_STATE], row[layout.T_HEARTBEAT] = layout.WAITING, int(now * NANO)
        row[layout.T_STALENESS] = 0

    def count(self, worker: int, n_samples: int, busy: float, waited: float) -> None:
        """A worker's task has been completed."""
        row = self._array[worker]
        row[layout.T_CLOCK] += 1
        row[layout.T_BLOCKS] += 1
        row[layout.T_PUSHES] += 1
        row[layout.T_ROWS] += n_samples
        row[layout.T_BUSY] += int(busy * NANO)
        row[layout.T_WAITING] += int(waited * NANO)

    def accept(self) -> None:
        """A result counts: who is at work is one result further behind."""
        running = self._array[:, layout.T_STATE] == layout.ACTIVE
        self._array[running, layout.T_STALENESS] += 1

    @property
    def available(self) -> list[int]:
        """Workers without a task."""
        found = np.flatnonzero(self._array[:, layout.T_STATE] == layout.WAITING)
        return [int(worker) for worker in found]
