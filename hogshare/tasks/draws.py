"""The rows that a task draws: a pure function of seed, round and partition.

A repeated task draws the same rows on any worker. The caller needs the drawn rows for their
history, and computes them itself, without a message.
"""

from __future__ import annotations

import numpy as np


def drawn_rows(
    seed: int, number: int, partition: int, n_rows: int, rate: float, replace: bool = False
) -> np.ndarray:
    """Return the rows that a round of tasks draws from a partition, as places within it.

    number : number of the round of tasks, from 0
    n_rows : number of rows of the partition
    rate : probability in (0, 1] with which each row is drawn, as in Spark's ``RDD.sample``; with
        `replace`, the mean number of times that each row is drawn
    replace : whether a row may be drawn more than once

    The places are in ascending order; the result may be empty.

    Examples
    --------
    >>> from hogshare.tasks.draws import drawn_rows
    >>> drawn_rows(seed=0, number=3, partition=1, n_rows=4, rate=1.0).tolist()
    [0, 1, 2, 3]
    """
    if rate == 1.0 and not replace:
        return np.arange(n_rows, dtype=np.int64)
    rng = np.random.default_rng([seed, number, partition])
    if replace:
        count = int(rng.poisson(rate * n_rows)) if n_rows else 0
        return np.sort(rng.integers(0, max(1, n_rows), count))
    count = int(rng.binomial(n_rows, rate))
    # for a given count, independent draws are a sample without replacement
    return np.sort(rng.choice(n_rows, count, replace=False, shuffle=False).astype(np.int64))


def draws_of_task(
    seed: int,
    number: int,
    sizes: dict[int, int],
    rate: float,
    replace: bool = False,
) -> dict[int, np.ndarray]:
    """Return the rows that a task draws from each of its partitions, at least one in total.

    seed, number, rate, replace : as in `drawn_rows`
    sizes : number of rows of each of the task's partitions

    The partitions are in the order of `sizes`. If the random draws give no row, the task has one
    row, because a mean must not divide by zero. Spark fails in this case.
    """
    found = {
        partition: drawn_rows(seed, number, partition, n_rows, rate, replace)
        for partition, n_rows in sizes.items()
    }
    if not any(len(rows) for rows in found.values()):
        first = next((p for p, n_rows in sizes.items() if n_rows), None)
        if first is not None:
            # the 1 makes this stream independent of the one in `drawn_rows`
            rng = np.random.default_rng([seed, number, first, 1])
            found[first] = rng.integers(0, sizes[first], 1)
    return found
