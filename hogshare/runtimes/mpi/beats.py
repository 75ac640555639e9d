"""Heartbeats by messages, of ranks that share no memory: a link that is down is told from one slow.

Each rank sends a word to its neighbours every so many seconds, from the thread that talks to them,
and listens for theirs; who has said a first word is expected to go on. MPI itself says nothing of a
link that is down.

Who writes and reads: that thread alone. Who frees: `close`, which takes back the receives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.runtimes.mpi.calls import RankFailed
from hogshare.runtimes.mpi.door import leave_behind, take_back

EVERY_SECONDS = 1.0
SILENT_SECONDS = 30.0
RESTS, BEATS, PARTS = range(3)  # what a word says


class Neighbour:
    """What one rank knows of another's heart.

    comm : for nothing else
    rank : the other's
    """

    def __init__(self, comm: Any, rank: int) -> None:
        self._comm, self.rank = comm, rank
        self._in, self._out = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._coming = comm.Irecv(self._in, source=rank)
        self._going: Any = None
        self.heard: float | None = None  # when, if it is expected to go on
        self.has_said_last = self.has_heard_last = False

    def say(self, word: int) -> None:
        """Send a word, unless the one before is still on its way, or was the last."""
        if not self.has_said_last and (self._going is None or self._going.Test()):
            self._out[0] = word
            self._going = self._comm.Isend(self._out, dest=self.rank)
            self.has_said_last = word == PARTS

    def has_parted(self) -> bool:
        """Whether both have said their last word, and it has come."""
        return self.has_said_last and self.has_heard_last and bool(self._going.Test())

    def listen(self, now: float) -> None:
        """Take in what has come."""
        while not self.has_heard_last and self._coming.Test():
            self.heard = now if self._in[0] == BEATS else None
            self.has_heard_last = bool(self._in[0] == PARTS)
            if self.has_heard_last:
                return
            self._coming = self._comm.Irecv(self._in, source=self.rank)

    def close(self) -> None:
        """Expect nothing more."""
        leave_behind(self._going)
        if not self.has_heard_last:
            take_back(self._coming)


class Beats:
    """A rank's heart, and its ear on its neighbours'.

    comm : for nothing else
    neighbours : ranks that messages are exchanged with
    """

    def __init__(self, comm: Any, neighbours: Sequence[int]) -> None:
        self._neighbours = [Neighbour(comm, rank) for rank in neighbours]
        self._next = 0.0

    def poll(self) -> None:
        """Beat, if it is time to, and listen.

        Raises RankFailed if a rank that has been heard of is silent for too long.
        """
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY_SECONDS
            for other in self._neighbours:
                other.say(BEATS)
        for other in self._neighbours:
            other.listen(now)
            if other.heard is not None and now - other.heard > SILENT_SECONDS:
                raise RankFailed(
                    f"Rank {other.rank} has not been heard of for {SILENT_SECONDS:g} seconds: its "
                    "process is halted, or the link to its machine is down."
                )

    def rest(self) -> None:
        """Say that this rank does something else, for as long as it takes."""
        for other in self._neighbours:
            other.say(RESTS)
        self._next = 0.0

    def have_parted(self) -> bool:
        """Say the last word to all; whether theirs have come, so that nothing is under way."""
        for other in self._neighbours:
            other.say(PARTS)
            other.listen(time.monotonic())
        return all(other.has_parted() for other in self._neighbours)

    def close(self) -> None:
        """Give everything back; nobody sends anything more."""
        for other in self._neighbours:
            other.close()
