"""Whose partitions are whose: a pure function of who is there.

A partition has a home, the worker of its number modulo the number of workers, and is there whenever
that one is. So who comes back finds its own, and nobody else's move.
"""

from __future__ import annotations

from collections.abc import Sequence


def owner_of(partition: int, n_workers: int, there: Sequence[int]) -> int:
    """Which worker has a partition.

    Parameters
    ----------
    partition : int
    n_workers : int
        Numbers of workers that there have been.
    there : sequence of int
        Who is there, in ascending order; at least one.

    Examples
    --------
    >>> from hogshare.tasks.ownership import owner_of
    >>> [owner_of(p, 3, [0, 1, 2]) for p in range(6)], [owner_of(p, 3, [0, 2]) for p in range(6)]
    ([0, 1, 2, 0, 1, 2], [0, 2, 2, 0, 0, 2])
    """
    home = partition % n_workers
    return home if home in there else there[(partition // n_workers + home) % len(there)]
