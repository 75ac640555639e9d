"""Ranks that go on when another has died: what `MPI(survive=True)` needs of an MPI, and of a run.

An MPI that knows of deaths (ULFM) has every call that meets a dead rank raise an error that says
so, and answers which ranks have died. Who does not need a dead rank's part goes on without it.

What ranks bring each other comes together at the first one that lives, which says who was in it:

    own part -> first;  parts of all that live -> first -> (who was in it, all parts) -> all

So a rank that dies between two messages is in it for all, or for nobody. When the first one dies
every rank reports to the next one what it waits for, and the last result that it has. Who has been
given a result is at most one ahead of who has not: no result is made before all that live have
brought their part. So the next one finds the result if anybody alive has it, and makes another one
only where nobody has.

    first dies -> (results so far, own part, last result) -> next: passes it on, or makes it anew

Of a rank that it knows to be dead nobody reads a letter any more: a result that only arrives then
would be another than the one that is made anew.

Who writes: the thread of a rank that talks to the others. Order: that of the letters of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hogshare.engine.choices import Choices
from hogshare.runtimes.mpi import door
from hogshare.runtimes.mpi.calls import Call
from hogshare.runtimes.mpi.channel import Wait
from hogshare.runtimes.mpi.rank_pool import RankPool
from hogshare.system.callers import warn

TOGETHER = "together"  # the kind of these letters


class RankDied(RuntimeWarning):
    """A rank of MPI has died; the others go on without it."""


def require(is_shared: bool) -> None:
    """Refuse to go on without ranks where that cannot be; raises ValueError.

    is_shared : whether the ranks share the memory of the run
    """
    if not door.outlives_ranks():
        raise ValueError(
            "MPI(survive=True) needs an MPI that knows when a rank has died, and a launcher that "
            "leaves the others alone: Open MPI 5, started by mpiexec --with-ft ulfm. This is "
            f"{door.known()['version']}; `hogshare doctor` says what it can, and what to do."
        )
    if is_shared:
        raise ValueError(
            "MPI(survive=True) is for ranks that share no memory, and these are on one machine: "
            "what a rank is writing when it dies the others would read. MPI(arena=False, "
            "survive=True) has them exchange messages."
        )


def refuse(what: str) -> ValueError:
    """The error of what needs every rank to its end."""
    return ValueError(f"MPI(survive=True) is not for {what}, which needs every rank to its end.")


def check(choices: Choices) -> None:
    """Refuse runs that need what only a dead rank would know; raises ValueError."""
    plane, rule = choices.plane, choices.rule
    if plane.has_master:
        raise refuse(type(plane).__name__)
    if rule.remembers:
        raise refuse(f"{type(rule).__name__}, which remembers something of each row")


class GatheredParts(NamedTuple):
    """What ranks have brought each other.

    number : which time it was, from 1
    parts : by rank, in their order
    """

    number: int
    parts: Mapping[int, Any]


class Contribution(NamedTuple):
    """What a rank has for the first one.

    results : that it has had by now
    part : of the next one, in a tuple; None: it has not come to that
    last : the last result; None: the first one has it too
    """

    results: int
    part: tuple[Any] | None
    last: GatheredParts | None = None


class Survivors(RankPool):
    """The ranks of a call that have not died, as one of them has them.

    is_over : whether the run is, so that nothing is lost with a rank
    """

    def __init__(self, call: Call, comm: Any) -> None:
        super().__init__(comm, call.poll)
        self.call, call.serve = call, self.serve
        self.living = self
        self.is_over = False
        self.notes: list[str] = []
        self._results, self._last = 0, GatheredParts(0, dict.fromkeys(range(self.size)))
        self._part: tuple[Any] | None = None  # of the next result, once this rank has come to it
        self._brought: dict[int, tuple[Any]] = {}  # parts of the next result, by rank
        self._buried: set[int] = set()
        self._first = 0

    def begin(self) -> None:
        """Go on without ranks that die from now on: all have come as far as this."""
        self.gathered(np.zeros(0))
        self.call.may_lose = True

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """The arrays of all that live, in their order."""
        return np.stack([*self.together(np.ascontiguousarray(numbers, np.float64)).values()])

    def spread(self, content: bytes) -> bytes:
        """What the first one that lives has, on each."""
        found: bytes = self.of_first(lambda: content)
        return found

    def of_first(self, make: Callable[[], Any], wait: Wait | None = None) -> Any:
        """What the first one that lives makes, on each."""
        while True:
            is_first = self.me == self._first
            found = self.together((make(),) if is_first else None, wait)
            for part in filter(None, found.values()):
                return part[0]

    def together(self, part: Any, wait: Wait | None = None) -> dict[int, Any]:
        """As of `hogshare.runtimes.mpi.channel.Living`."""
        number = self._results + 1
        self._part = (part,)
        if self.me == self._first:
            self._brought[self.me] = self._part
        else:
            self.call.post(self._first, TOGETHER, Contribution(self._results, self._part))
        (wait or self._until)(lambda: self._results >= number)
        parts = self._last.parts
        gone = [rank for rank in range(self.size) if rank not in parts and rank not in self.lost]
        self.lost = (*self.lost, *gone)
        for rank in gone:
            self._report(rank)
        return dict(parts)

    def serve(self) -> None:
        """Read what has come, bury who has died, and make a result that is whole."""
        for rank in self.call.talk.others:
            while rank not in self._buried and (letter := self.call.heard(rank, TOGETHER)):
                self._read(rank, letter.content)
        if self.call.may_lose and (dead := self.call.talk.dead - self._buried):
            self._bury(dead)
        self._make()

    # -- within

    def _until(self, ready: Callable[[], bool]) -> None:
        def polled() -> bool | None:
            self.call.raise_failures()
            return ready() or None

        self.call.talk.wait_for(polled)

    def _read(self, rank: int, content: GatheredParts | Contribution) -> None:
        if isinstance(content, GatheredParts):
            if content.number > self._results:
                self._take(content)
            return
        if content.results > self._results:
            assert content.last is not None, "who is ahead has been given a result by the one dead"
            self._take(content.last)
        elif content.results < self._results:
            self.call.post(rank, TOGETHER, self._last)
            return
        if content.part is not None:
            self._brought[rank] = content.part

    def _bury(self, dead: set[int]) -> None:
        self._buried |= dead
        first = min(rank for rank in range(self.size) if rank not in self._buried)
        if first == self._first:
            return
        self._first = first
        if first != self.me:
            self.call.post(first, TOGETHER, Contribution(self._results, self._part, self._last))
        elif self._part is not None:
            self._brought[first] = self._part

    def _make(self) -> None:
        """Make the next result, if this rank is the first and all that live have brought theirs."""
        alive = [rank for rank in range(self.size) if rank not in self._buried]
        if self.me != self._first or not all(rank in self._brought for rank in alive):
            return
        parts = {rank: part for rank, (part,) in sorted(self._brought.items())}
        self._take(GatheredParts(self._results + 1, parts))

    def _take(self, result: GatheredParts) -> None:
        """Have a result, and pass it on to who waits for it."""
        waiting, self._brought, self._part = list(self._brought), {}, None
        self._results, self._last = result.number, result
        for rank in waiting:
            if rank != self.me and rank not in self._buried:
                self.call.post(rank, TOGETHER, result)

    def _report(self, rank: int) -> None:
        rows, of = int(self.rows[rank]), int(self.rows.sum())
        sentence = f"rank {rank} has died, with {rows:,} of {of:,} rows"
        if self.is_over:
            sentence += "; the run was over, and only the report lacks its workers"
        else:
            sentence += ", which nobody visits any more; the run goes on without it"
        self.notes.append(sentence)
        warn(sentence, RankDied)
