"""The caller's progress table of a context's workers (STAT), in which a block is a task.

Writers: the caller's thread, when it submits tasks and receives results. Readers: the same thread,
and users' barriers, through `ProgressTable`.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.schedule import worker_life
from hogshare.shm.table import ProgressTable

NANO = 1e9


class WorkerProgress:
    """The progress table of a context.

    n_workers : initial number of rows of the table; no worker has joined yet
    """

    def __init__(self, n_workers: int) -> None:
        self._array = np.zeros((n_workers, layout.N_TABLE), np.int64)

    @property
    def table(self) -> ProgressTable:
        """A live view of the table; `join` of a worker with a new number replaces the table."""
        return ProgressTable(self._array)

    def among(self, workers: Collection[int]) -> ProgressTable:
        """Return a table in which only `workers` can be in the run; barriers ignore the others."""
        if len(workers) == len(self):  # as a rule, and then a copy would take longer than the rest
            return self.table
        array = self._array.copy()
        for me in np.flatnonzero(self.table.in_run).tolist():
            if me not in workers:
                worker_life.apply(array[me], worker_life.LEAVE)
        return ProgressTable(array)

    def __len__(self) -> int:
        return len(self._array)

    def join(self, worker: int, now: float) -> None:
        """Register a worker as available; raise its clock to the least of the others' clocks."""
        if worker >= len(self._array):
            more = np.zeros((worker + 1 - len(self._array), layout.N_TABLE), np.int64)
            self._array = np.concatenate([self._array, more])
        table, row = self.table, self._array[worker]
        others = table.clock[table.in_run]
        # without others the minimum is 1 << 62, whose remainder is 0
        row[layout.T_CLOCK] = max(row[layout.T_CLOCK], others.min(initial=1 << 62) % (1 << 62))
        is_new = row[layout.T_STATE] != layout.DEAD
        worker_life.apply(row, worker_life.AWAIT if is_new else worker_life.REPLACE)
        row[layout.T_STALENESS] = 0
        row[layout.T_JOINED] = row[layout.T_HEARTBEAT] = int(now * NANO)

    def leave(self, worker: int) -> None:
        """Register that a worker is gone."""
        worker_life.apply(self._array[worker], worker_life.DIE)
        self._array[worker, layout.T_STALENESS] = 0

    def begin(self, worker: int, version: int) -> None:
        """Register a worker's new task.

        version : number of results that were accepted before the task was submitted
        """
        row = self._array[worker]
        worker_life.apply(row, worker_life.WORK)
        row[layout.T_VERSION] = version
        row[layout.T_STALENESS] = 0

    def end(self, worker: int, now: float) -> None:
        """Register that a worker is available again."""
        row = self._array[worker]
        worker_life.apply(row, worker_life.WAIT)
        row[layout.T_HEARTBEAT] = int(now * NANO)
        row[layout.T_STALENESS] = 0

    def count(self, worker: int, n_samples: int, busy: float, waited: float) -> None:
        """Count a worker's completed task."""
        row = self._array[worker]
        row[layout.T_CLOCK] += 1
        row[layout.T_BLOCKS] += 1
        row[layout.T_PUSHES] += 1
        row[layout.T_ROWS] += n_samples
        row[layout.T_BUSY] += int(busy * NANO)
        row[layout.T_WAITING] += int(waited * NANO)

    def accept(self) -> None:
        """Count an accepted result: the staleness of all working workers rises by one."""
        running = self._array[:, layout.T_STATE] == layout.ACTIVE
        self._array[running, layout.T_STALENESS] += 1

    @property
    def available(self) -> list[int]:
        """The workers without a task."""
        found = np.flatnonzero(self._array[:, layout.T_STATE] == layout.WAITING)
        return [int(worker) for worker in found]
