"""The progress table for users and reports: one entry per worker, by name.

Writers: each worker writes its own row (see `hogshare.kernels.layout`). Readers: the user's barrier
in any worker, and reports after the run. A column is copied entry by entry while workers write.
Therefore two columns, or two entries of a column, may be from different moments. The table is a
view of the run's memory, and needs no freeing.
"""

from __future__ import annotations

import numpy as np

from hogshare.kernels import layout

IN_RUN = (layout.ACTIVE, layout.WAITING)


class ProgressTable:
    """The progress of every worker of a run (the STAT table of Soori et al. 2019).

    All arrays have one entry per worker. They are copies of the present values, so writing to an
    array does not change the table.

    Parameters
    ----------
    array : ndarray of shape (n_workers, layout.N_TABLE), int64
        The shared table.

    Examples
    --------
    A barrier that lets a worker go on as soon as half of the others have caught up:

    >>> def half(table, me):
    ...     others = table.in_run.copy()
    ...     others[me] = False
    ...     near = table.clock[others] >= table.clock[me]
    ...     return near.sum() >= 0.5 * others.sum()
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def _column(self, field: int, scale: float = 1.0) -> np.ndarray:
        column = self._array[:, field].copy()
        if scale != 1.0:
            column = column * scale
        column.flags.writeable = False
        return column

    @property
    def clock(self) -> np.ndarray:
        """Number of completed blocks for barriers; a late worker joins at the least clock."""
        return self._column(layout.T_CLOCK)

    @property
    def blocks(self) -> np.ndarray:
        """Number of completed blocks."""
        return self._column(layout.T_BLOCKS)

    @property
    def rows(self) -> np.ndarray:
        """Number of visited rows."""
        return self._column(layout.T_ROWS)

    @property
    def state(self) -> np.ndarray:
        """State names: "starting", "running", "waiting", "done", "dead", "resting"."""
        return np.array(layout.STATES)[self._array[:, layout.T_STATE]]

    @property
    def in_run(self) -> np.ndarray:
        """Whether the worker has joined and not left; barriers ignore all other workers."""
        # one copy: two reads would miss a worker that changes from waiting to working between them
        state = self._array[:, layout.T_STATE].copy()
        active, waiting = IN_RUN  # two comparisons: np.isin takes ten times as long
        return (state == active) | (state == waiting)

    @property
    def dead(self) -> np.ndarray:
        """Whether the worker has died."""
        return self._array[:, layout.T_STATE] == layout.DEAD

    @property
    def gone(self) -> np.ndarray:
        """Whether the worker is done, dead or paused, and will not go on by itself.

        Unlike the inverse of `in_run`, this array is False for a starting worker, because the
        worker will join.
        """
        return self._array[:, layout.T_STATE] >= layout.DONE

    @property
    def version(self) -> np.ndarray:
        """Number of all workers' pushes in the last pulled vector; with a master, its version."""
        return self._column(layout.T_VERSION)

    @property
    def staleness(self) -> np.ndarray:
        """Number of other workers' pushes between the worker's last pull and its last push."""
        return self._column(layout.T_STALENESS)

    @property
    def mean_block_seconds(self) -> np.ndarray:
        """Mean computing time of a block so far; 0 before the first."""
        busy = self._array[:, layout.T_BUSY] * 1e-9
        return busy / np.maximum(self._array[:, layout.T_BLOCKS], 1)

    @property
    def waiting_seconds(self) -> np.ndarray:
        """Seconds that the worker waited at barriers, for blocks, and for planes."""
        return self._column(layout.T_WAITING, 1e-9)

    @property
    def heartbeat(self) -> np.ndarray:
        """``time.perf_counter()`` of the worker's last sign of life, in seconds."""
        return self._column(layout.T_HEARTBEAT, 1e-9)

    @property
    def max_staleness(self) -> int:
        """Largest staleness of the workers in the run."""
        return int(self.staleness[self.in_run].max(initial=0))

    @property
    def available_workers(self) -> int:
        """Number of workers in the run that wait."""
        return int((self._array[:, layout.T_STATE] == layout.WAITING).sum())
