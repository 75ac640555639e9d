"""The calls that the ranks of a communicator make together, numbered alike on all of them.

A rank that has missed a call, because it raised before the call began or because it waited in vain
for the others, takes that call's number and reports the error under it: the others raise it, and
the next call has the same number everywhere.

Who writes: the thread that calls.
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

_sequences: dict[int, Sequence] = {}  # of the communicators that calls were made on, by handle


class RankMissing(TimeoutError):
    """A rank has not made a call that the others wait for."""


class Sequence:
    """The calls of one communicator.

    comm : it is copied by all of its ranks in the first call, so that messages of one's own meet
        none
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self._talk: Talk | None = None
        self._heart: Heart | None = None
        self._opening: list[tuple[Any, Any]] = []  # two copies, and MPI's requests for them
        self._number = 0  # of the last call
        self._missed: list[BaseException] = []

    def next(self, seconds: float) -> Call:
        """The next call; what this rank has missed is reported first.

        Raises RankMissing if the first one is not made by all ranks within so many seconds;
        RankFailed if one has died.
        """
        self._missed += missed_calls.taken()
        if self._talk is None:
            try:
                self._talk, self._heart = self._opened(seconds)
            except library().Exception as error:
                if (sentence := door.death(error, self.comm)) is None:
                    raise
                raise RankFailed(sentence) from error
            except RankMissing as error:  # a call of these ranks, not of the next that there are
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
        """Talk and heartbeats, on copies of the communicator that all of its ranks have to make."""
        rank_exit.begin()
        # once: of more copies that one rank makes, the others' first ones would be the first
        self._opening = self._opening or [self.comm.Idup(), self.comm.Idup()]
        deadline, nap = time.monotonic() + seconds, SHORTEST_SLEEP
        while not all(request.Test() for _, request in self._opening):
            if time.monotonic() > deadline:
                raise RankMissing(
                    f"Not all of {self.comm.Get_size()} ranks have called within {seconds:g} "
                    "seconds: each of them has to make the same call. start_timeout= of MPI says "
                    "how long to wait."
                )
            time.sleep(nap)
            nap = min(2 * nap, PATIENT_SLEEP)
        for copy, _ in self._opening:
            copy.Set_errhandler(library().ERRORS_RETURN)
        talk, heart = Talk(self._opening[0][0]), Heart(self._opening[1][0])
        rank_exit.watch(talk)
        return talk, heart


def sequence_of(comm: Any) -> Sequence:
    """The calls of a communicator."""
    return _sequences.setdefault(comm.py2f(), Sequence(comm))
