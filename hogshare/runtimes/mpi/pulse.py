"""Heartbeats of ranks, in the arena of a run: a rank that is halted is told from one that works.

Who writes: each rank its own word, from its calling thread, every so many milliseconds of a run; 0
says that it does something else, or is not there yet.
Who reads: all others, which end the run when one is silent for long; a plain load of an aligned
word, of which no order is asked.
"""

from __future__ import annotations

import time

import numpy as np

from hogshare.kernels import layout
from hogshare.runtimes.mpi.calls import RankFailed
from hogshare.runtimes.mpi.channel import SILENT_SECONDS

NAME = "heartbeats"  # of the array
Shapes = dict[str, tuple[tuple[int, ...], str]]


def shapes(n_ranks: int) -> Shapes:
    """The array that a run has besides its own."""
    return {NAME: ((n_ranks * layout.WORD,), "int64")}


class Pulse:
    """A rank's heart, and its eye on the others'.

    words : ndarray of int64; the array of the run
    """

    def __init__(self, words: np.ndarray, rank: int) -> None:
        self._words = words[:: layout.WORD]
        self._rank, self._seconds = rank, SILENT_SECONDS
        self._last = self._words.copy()
        self._since = np.full(len(self._words), time.monotonic())

    def beat(self) -> None:
        """Show that this rank is there, and see whether the others are.

        Raises RankFailed if one has not been heard of for too long since it was first.
        """
        now = time.monotonic()
        self._words[self._rank] += 1
        words = self._words.copy()
        self._since[(words != self._last) | (words == 0)] = now
        self._last = words
        silent = np.flatnonzero(now - self._since > self._seconds)
        if silent.size:
            raise RankFailed(
                f"Rank {silent[0]} has not been heard of for {self._seconds:g} seconds: its "
                "process is halted, or holds the interpreter."
            )

    def pause(self) -> None:
        """Show that this rank is about to do something else, for as long as it takes."""
        self._words[self._rank] = 0
