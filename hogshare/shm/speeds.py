"""The record of a run's speed: the last quanta of each worker, and the work of the master.

    quanta : int64 [n_workers + 1, RING_SIZE, N_QUANTUM]

Row `me` is the ring of worker `me`'s last quanta. The row after the last worker belongs to the
master, which adds all of its work to the first entry. Writers: the thread that drives the worker or
the master, in Python, once per quantum. Readers: the report, when all workers have left. Freeing:
the session's owner.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout

RING_SIZE = 256  # quanta of each worker; one takes milliseconds
SHORTEST_NS = 200_000  # least time of an entry: a small fit has no time for shorter entries
BLOCKS, ROWS, PUSHES, NANOSECONDS = range(4)
N_QUANTUM = 4
MESSAGES = BLOCKS  # field of the master's entry


class QuantumTimes:
    """One worker's ring of its last quanta.

    If a quantum has a counted block and visited rows, and was long enough, it becomes an entry.
    Otherwise it is merged with the next quantum. With BSP or with stragglers, a block may be
    visited in one quantum and counted in a later quantum. Both quanta and all quanta between them
    then become one entry.

    ring : ndarray of shape (RING_SIZE, N_QUANTUM), int64; the worker's own row
    table : ndarray of shape (layout.N_TABLE,), int64; the worker's row of the progress table
    """

    def __init__(self, ring: np.ndarray, table: np.ndarray) -> None:
        self._ring, self._table = ring, table
        self._count = 0
        self._blocks = table.item(layout.T_BLOCKS)
        self._rows = table.item(layout.T_ROWS)
        self._pushes = table.item(layout.T_PUSHES)
        self._busy = table.item(layout.T_BUSY)

    def note(self) -> None:
        """Write an entry if blocks and rows were added since the last; call once per quantum."""
        item = self._table.item  # takes a third of the time of an index
        busy = item(layout.T_BUSY)
        if busy - self._busy < SHORTEST_NS:
            return
        blocks, rows = item(layout.T_BLOCKS), item(layout.T_ROWS)
        if blocks == self._blocks or rows == self._rows:
            return
        pushes = item(layout.T_PUSHES)
        self._ring[self._count % RING_SIZE] = (
            blocks - self._blocks,
            rows - self._rows,
            pushes - self._pushes,
            busy - self._busy,
        )
        self._count += 1
        self._blocks, self._rows, self._pushes, self._busy = blocks, rows, pushes, busy


def recorded(quanta: np.ndarray) -> np.ndarray:
    """Return the entries of all workers, for a report.

    The result is a new int64 array of shape (n_workers, largest number of entries, N_QUANTUM) with
    blocks, rows, pushes and nanoseconds. For a worker with fewer entries, the remaining rows are
    zeros.
    """
    # entry by entry: a small fit has few entries, and reading unused ones would allocate their
    # pages
    used, item = 0, quanta.item
    for worker in range(len(quanta) - 1):
        while used < quanta.shape[1] and item(worker, used, ROWS):
            used += 1
    return quanta[:-1, :used].copy()
