"""Messages between ranks, which are posted and polled for: no rank ever waits within MPI.

Any wait within MPI, such as a blocked receive or a barrier, takes a core from workers. So all
messages are sent by `Isend`, and ranks poll for them. A waiting rank sleeps between polls: an idle
rank takes a twentieth of a core.

A message is one array of bytes, a pickled `Letter`. Messages from one rank to another arrive in
posting order. They have a communicator of their own, separate from the user's communicator.

Writer: the calling thread, one at a time, writes all data of this file. Freeing: a buffer under way
lives until MPI has sent it; MPI ends with the process.
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
from hogshare.runtimes.user_objects import pickled

T = TypeVar("T")

SPIN_SECONDS = 30e-6  # most answers take a few microseconds
SHORTEST_SLEEP = 50e-6
LONGEST_SLEEP = 0.0005
SHARE_SLEPT = 0.125  # the next sleep, as a share of the time waited so far
PATIENT_SECONDS = 1.0  # seconds of waiting, after which sleeps are longer
PATIENT_SLEEP = 0.002

GOODBYE, FAILED = "goodbye", "failed"  # kinds that every rank accepts at any time


class Letter(NamedTuple):
    """A message from one rank to another.

    call : the number of the call that the message belongs to
    kind : the name of the message's kind
    content : any object that can be pickled
    """

    call: int
    kind: str
    content: Any


class Talk:
    """A rank's messages to and from the other ranks of a communicator.

    comm : a copy of the user's communicator, only for these messages
    gone : the ranks that have ended; for each, a phrase that says how it has ended
    dead : the ranks among `gone` that were killed, if MPI detects deaths
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
        """All ranks except this rank."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def post(self, to: int, letter: Letter) -> None:
        """Send a letter, without waiting; do nothing if the rank is dead."""
        if to in self.dead:
            return
        content = np.frombuffer(pickled(tuple(letter)), np.uint8)
        try:
            request = self.comm.Isend([content, self._library.BYTE], dest=to)
        except Exception as error:  # the rank has died since the last poll
            if not (self._may_lose and door.is_death(error)):
                raise
            return
        self._under_way.append((request, content, to))

    def poll(self) -> None:
        """Receive messages, and release buffers that have been sent."""
        if self._may_lose:
            self._bury()
        try:
            self._poll()
        except Exception as error:
            if not door.is_death(error):
                raise
            self._bury()

    def _bury(self) -> None:
        """Drop dead ranks and their messages."""
        self.dead |= set(door.died(self.comm))
        for rank in self.dead:
            self.gone.setdefault(rank, door.DIED)
            self._coming.pop(rank, None)  # also messages received since its death
        self._under_way = [one for one in self._under_way if one[2] not in self.dead]

    def _poll(self) -> None:
        self._under_way = [one for one in self._under_way if not one[0].Test()]
        any_rank, status = self._library.ANY_SOURCE, self._status
        # a matched probe: the receive after it cannot take another message
        while (message := self.comm.Improbe(any_rank, self._library.ANY_TAG, status)) is not None:
            content = np.empty(status.Get_count(self._library.BYTE), np.uint8)
            request = message.Irecv([content, self._library.BYTE])
            self._coming[status.Get_source()].append((request, content))
        for source, queue in self._coming.items():
            while queue and queue[0][0].Test():  # in the order of sending
                _, content = queue.popleft()
                letter = Letter(*pickle.loads(content.data))
                if letter.kind == GOODBYE:
                    self.gone[source] = letter.content
                else:
                    self._letters[source].append(letter)

    def letters(self, source: int) -> deque[Letter]:
        """Return the queue of a rank's received letters, which the caller takes from the left."""
        return self._letters[source]

    def wait_for(self, ready: Callable[[], T | None], seconds: float | None = None) -> T | None:
        """Poll until `ready` returns a value; return this value, or None after `seconds`.

        Sleeps between polls.

        ready : called after each poll; returns a value to end the wait, or None to continue it
        seconds : largest waiting time; if None, no limit
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
        """Poll until all posted messages are sent, for at most `seconds`."""
        self.wait_for(lambda: not self._under_way or None, seconds)
