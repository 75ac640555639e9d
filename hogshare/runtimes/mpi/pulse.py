"""Heartbeats of ranks in the arena of a run: they distinguish a halted rank from a working rank.

Writers: each rank's calling thread writes the rank's own word every few milliseconds of a run. If
the word is 0, the rank does other work, or has not started.
Readers: all other ranks, which end the run when a rank is silent for too long. A read is a plain
load of an aligned word, without any ordering.
Freeing: the arena's owner.
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
    """Return the shape and dtype of the array of heartbeats, by its name."""
    return {NAME: ((n_ranks * layout.WORD,), "int64")}


class Pulse:
    """A rank's heartbeat, and its check of the other ranks' heartbeats.

    words : ndarray of int64, an array of the run, with one word for each rank
    """

    def __init__(self, words: np.ndarray, rank: int) -> None:
        self._words = words[:: layout.WORD]
        self._rank, self._seconds = rank, SILENT_SECONDS
        self._last = self._words.copy()
        self._since = np.full(len(self._words), time.monotonic())

    def beat(self) -> None:
        """Write this rank's heartbeat, and check the other ranks' heartbeats.

        Only the calling thread of a rank may call this. Raises RankFailed if a rank that has begun
        to beat is silent for too long.
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
                "process is halted, or does not release the GIL."
            )

    def pause(self) -> None:
        """Announce that this rank will stop beating, for any length of time."""
        self._words[self._rank] = 0
