"""A sum as fast as memory is."""

from __future__ import annotations

import numpy as np

from hogshare.kernels.jit import helper, kernel
from hogshare.kernels.parts import Helpers, draw, end_part, new_words, wait_for_parts

PART_VALUES = 1 << 18  # a thread's turn where several add up, some fifty microseconds


@helper
def _sum(values, start, end):
    result = values.dtype.type(0.0)
    for k in range(start, end):
        result += values[k]
    return result


@kernel
def total(values):
    """Sum of a vector, read in order. In its own precision: float64 sums would be the limit."""
    return _sum(values, np.uint64(0), np.uint64(values.shape[0]))


@kernel
def add_parts(values, words, me, found):
    """Add up parts of a vector until none is left; the first thread waits until all are done.

    words : int64
        See `hogshare.kernels.parts`.
    found : float64 [n_parts]
        The sums.
    """
    n_parts = found.shape[0]
    part = draw(words)
    while part < n_parts:
        start = np.uint64(part * PART_VALUES)
        end = min(np.uint64(values.shape[0]), start + np.uint64(PART_VALUES))
        found[part] = _sum(values, start, end)
        end_part(words)
        part = draw(words)
    if me == 0:
        wait_for_parts(words, n_parts)


def total_by(values: np.ndarray, helpers: Helpers) -> float:
    """Sum of a vector, by this thread and others."""
    found = np.zeros(-(-values.size // PART_VALUES))
    words = new_words()

    def add(me: int) -> None:
        add_parts(values, words, me, found)

    helpers.call(add)
    add(0)
    return float(found.sum())
