"""The calls that the ranks of a communicator make together, with the same numbers on all of them.

A rank misses a call if it raises an error before the call begins, or if the other ranks do not come
within the waiting time. The rank then reports its error under the missed call's number. The other
ranks raise this error, and the next call has the same number on all ranks.

Writer: the calling thread.
"""

from __future__ import annotations

import time
from typing import Any

from hogshare.runtimes.mpi import door, rank_exit
from hogshare.runtimes.mpi.calls import Call, RankFailed
from hogshare.runtimes.mpi.door import library
from hogshare.runtimes.mpi.heart import Heart
from hogshare.runtimes.mpi.talk import PATIENT_SLEEP, SHORTEST_SLEEP, Talk
from hogshare.system import missed_calls

_sequences: dict[int, Sequence] = {}  # one for each communicator that was used, by handle


class RankMissing(TimeoutError):
    """A rank has not made a call that the others wait for."""


class Sequence:
    """The calls of one communicator.

    comm : the user's communicator. In the first call all of its ranks copy it, so that the calls'
        messages are separate from the user's messages.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self._talk: Talk | None = None
        self._heart: Heart | None = None
        self._opening: list[tuple[Any, Any]] = []  # two copies, and MPI's requests for them
        self._number = 0  # of the last call
        self._missed: list[BaseException] = []

    def next(self, seconds: float) -> Call:
        """Return the next call, after reporting the calls that this rank has missed.

        All ranks must make their first call of this method within `seconds`; otherwise it raises
        RankMissing. Raises RankFailed if a rank has died.
        """
        self._missed += missed_calls.taken()
        if self._talk is None:
            try:
                self._talk, self._heart = self._opened(seconds)
            except library().Exception as error:
                if (sentence := door.death(error, self.comm)) is None:
                    raise
                raise RankFailed(sentence) from error
            except RankMissing as error:
                # Report the missed call now: it belongs to this communicator, and must not be
                # reported in a call of another communicator.
                setattr(error, missed_calls.SETTLED, True)
                self._missed.append(error)
                raise
        call = Call(self._talk, self._number + 1, self._heart)
        while self._missed:
            call.report(self._missed[0])
            del self._missed[0]
            self._number += 1
            call = Call(self._talk, self._number + 1, self._heart)
        self._number += 1
        return call

    def _opened(self, seconds: float) -> tuple[Talk, Heart]:
        """Open the talk and the heartbeats, each on a copy of the communicator (collective)."""
        rank_exit.begin()
        # copy only once, even after a timeout: MPI pairs the ranks' copies in their order
        self._opening = self._opening or [self.comm.Idup(), self.comm.Idup()]
        deadline, nap = time.monotonic() + seconds, SHORTEST_SLEEP
        while not all(request.Test() for _, request in self._opening):
            if time.monotonic() > deadline:
                raise RankMissing(
                    f"Not all of {self.comm.Get_size()} ranks have called within {seconds:g} "
                    "seconds: make the same call on each of them, or wait longer with "
                    "MPI(start_timeout=...)."
                )
            time.sleep(nap)
            nap = min(2 * nap, PATIENT_SLEEP)
        for copy, _ in self._opening:
            copy.Set_errhandler(library().ERRORS_RETURN)
        talk, heart = Talk(self._opening[0][0]), Heart(self._opening[1][0])
        rank_exit.watch(talk)
        return talk, heart


def sequence_of(comm: Any) -> Sequence:
    """Return the sequence of a communicator's calls."""
    return _sequences.setdefault(comm.py2f(), Sequence(comm))
