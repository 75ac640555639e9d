"""A run's record of its speed: the last quanta of each worker, and the work of the master.

    quanta : int64 [n_workers + 1, RING_SIZE, N_QUANTUM]

Row `me` is worker `me`'s ring of its last quanta. The row after the last worker belongs to the
master, which adds up in its first entry. Writers: each one's driving thread, in Python, once per
quantum. Readers: the report, when all have left. Freeing: the session's owner.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout

RING_SIZE = 256  # quanta of each worker; one takes milliseconds
SHORTEST_NS = 200_000  # of an entry: a small fit has no time for shorter ones
BLOCKS, ROWS, PUSHES, NANOSECONDS = range(4)
N_QUANTUM = 4
MESSAGES = BLOCKS  # of the master's entry


class QuantumTimes:
    """One worker's ring.

    A quantum with a counted block and visited rows is an entry if it was long enough; otherwise it
    is merged with the next. If a block is visited in one quantum and counted in another (behind
    BSP, or with stragglers), both are one entry, with all quanta between them.

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
        """Write an entry if blocks and rows have been added since the last; call per quantum."""
        item = self._table.item  # a third of the time of an index
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

    An int64 array of shape (n_workers, most entries of any, N_QUANTUM) of blocks, rows, pushes,
    nanoseconds; zeros if a worker has fewer entries.
    """
    # one by one: a small fit has few entries, and reading the others would allocate their pages
    used, item = 0, quanta.item
    for worker in range(len(quanta) - 1):
        while used < quanta.shape[1] and item(worker, used, ROWS):
            used += 1
    return quanta[:-1, :used].copy()
