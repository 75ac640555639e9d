"""What a run keeps of its speed: the last turns of each worker, and what the master has done.

    turns : int64 [n_workers + 1, RING_SIZE, N_QUANTUM]

Row `me` belongs to worker `me`, a ring of its last turns; of the row after the last worker the
first entry belongs to the master, who adds up there. Who writes: the driver's thread of each, in
Python, once a turn. Who reads: the report, when all have left. Who frees: the session's owner.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout

RING_SIZE = 256  # turns of each worker; one takes milliseconds
SHORTEST_NS = 200_000  # of an entry: a small fit has no time for more
BLOCKS, ROWS, PUSHES, NANOSECONDS = range(4)
N_QUANTUM = 4
MESSAGES = BLOCKS  # of the master's entry


class QuantumTimes:
    """One worker's ring.

    A turn that ends with a block counted and rows visited is an entry, if it was long enough, else
    it is one with the next. Where a block is visited in one turn and counted in another (behind
    BSP, or with stragglers), both are one entry, and so is what lay between them.

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
        """Write an entry, if blocks and rows have been added since the last; after each turn."""
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


def recorded(turns: np.ndarray) -> np.ndarray:
    """The entries of all workers, as a report has them.

    Returns int64 array of shape (n_workers, most entries of any, N_QUANTUM); blocks, rows, pushes,
    nanoseconds; zeros where a worker has fewer.
    """
    # one after the other: a small fit has written few, and what it has not touched is no memory yet
    used, item = 0, turns.item
    for worker in range(len(turns) - 1):
        while used < turns.shape[1] and item(worker, used, ROWS):
            used += 1
    return turns[:-1, :used].copy()
