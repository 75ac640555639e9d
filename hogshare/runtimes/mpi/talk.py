"""Messages between ranks: posted, and polled for; nobody ever waits within MPI.

A blocked receive, a barrier and whatever else waits within MPI take a core, from those that
compute. So all that is sent goes by `Isend`, all that comes is looked for now and then, and who
waits sleeps in between: an idle rank takes a twentieth of a core.

A message is one array of bytes, a pickled `Letter`. Those of one rank to another stay in order. All
go through a communicator of their own, so that they meet none of the user's.

Who writes: the thread that calls, one at a time, everything here. A buffer that is under way is
kept until MPI says that it has gone. Who frees: nobody needs to; MPI ends with the process.
"""

from __future__ import annotations

import pickle
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hogshare.runtimes.mpi import door
from hogshare.runtimes.mpi.door import library

T = TypeVar("T")

SPIN_SECONDS = 30e-6  # most answers take a few microseconds
SHORTEST_SLEEP = 50e-6
LONGEST_SLEEP = 0.0005
SHARE_SLEPT = 0.125  # of what has been waited: how long the next sleep is
PATIENT_SECONDS = 1.0  # of waiting, after which sleeps are longer
PATIENT_SLEEP = 0.002

GOODBYE, FAILED = "goodbye", "failed"  # kinds that everybody understands at any time


class Letter(NamedTuple):
    """What one rank tells another.

    call : the number of the call that it belongs to
    kind : what it is
    content : anything that can be pickled
    """

    call: int
    kind: str
    content: Any


class Talk:
    """A rank's messages to and from the others of a communicator.

    comm : for nothing else: a copy of the user's
    gone : ranks that have ended, and how
    dead : those of them that were killed, where MPI knows of deaths
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.gone: dict[int, str] = {}
        self.dead: set[int] = set()
        self._may_lose = door.outlives_ranks()
        self._library = library()
        self._status = self._library.Status()
        self._under_way: list[tuple[Any, np.ndarray, int]] = []
        self._coming: dict[int, deque[tuple[Any, np.ndarray]]] = defaultdict(deque)
        self._letters: dict[int, deque[Letter]] = defaultdict(deque)

    @property
    def others(self) -> list[int]:
        """All ranks but this one."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def post(self, to: int, letter: Letter) -> None:
        """Send a letter; returns at once."""
        if to in self.dead:
            return
        content = np.frombuffer(_pickled(tuple(letter)), np.uint8)
        try:
            request = self.comm.Isend([content, self._library.BYTE], dest=to)
        except Exception as error:  # it has died since the last poll
            if not (self._may_lose and door.is_death(error)):
                raise
            return
        self._under_way.append((request, content, to))

    def poll(self) -> None:
        """Take in what has come, and let go of what has gone."""
        if self._may_lose:
            self._bury()
        try:
            self._poll()
        except Exception as error:
            if not door.is_death(error):
                raise
            self._bury()

    def _bury(self) -> None:
        """Expect nothing more of ranks that have died."""
        self.dead |= set(door.died(self.comm))
        for rank in self.dead:
            self.gone.setdefault(rank, door.DIED)
            self._coming.pop(rank, None)  # also what has come to be known of since
        self._under_way = [one for one in self._under_way if one[2] not in self.dead]

    def _poll(self) -> None:
        self._under_way = [one for one in self._under_way if not one[0].Test()]
        anybody, status = self._library.ANY_SOURCE, self._status
        while (message := self.comm.Improbe(anybody, self._library.ANY_TAG, status)) is not None:
            content = np.empty(status.Get_count(self._library.BYTE), np.uint8)
            request = message.Irecv([content, self._library.BYTE])
            self._coming[status.Get_source()].append((request, content))
        for source, queue in self._coming.items():
            while queue and queue[0][0].Test():  # in the order in which they were sent
                _, content = queue.popleft()
                letter = Letter(*pickle.loads(content.data))
                if letter.kind == GOODBYE:
                    self.gone[source] = letter.content
                else:
                    self._letters[source].append(letter)

    def letters(self, source: int) -> deque[Letter]:
        """What has come from a rank and not been taken; who takes it, takes it from the left."""
        return self._letters[source]

    def wait_for(self, ready: Callable[[], T | None], seconds: float | None = None) -> T | None:
        """Poll until something is ready, asleep in between; None if it is not in time.

        ready : what it answers is returned, unless it is None
        seconds : None: as long as it takes
        """
        began = time.perf_counter()
        while True:
            self.poll()
            if (answer := ready()) is not None:
                return answer
            waited = time.perf_counter() - began
            if seconds is not None and waited > seconds:
                return None
            if waited > SPIN_SECONDS:
                longest = LONGEST_SLEEP if waited < PATIENT_SECONDS else PATIENT_SLEEP
                time.sleep(min(max(SHORTEST_SLEEP, SHARE_SLEPT * waited), longest))

    def flush(self, seconds: float) -> None:
        """See what has been posted on its way, for some time."""
        self.wait_for(lambda: not self._under_way or None, seconds)


def _pickled(content: Any) -> bytes:
    """As bytes; with code of its own what a script has defined inside of functions."""
    try:
        return pickle.dumps(content, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        packed: bytes = cloudpickle.dumps(content, 5)
        return packed
