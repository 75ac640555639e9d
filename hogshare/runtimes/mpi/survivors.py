"""Ranks that continue after a death: the requirements of `MPI(survive=True)`, and their exchange.

With an MPI that detects deaths (ULFM), every MPI call that needs a dead rank raises a specific
error, and MPI lists the dead ranks. A rank that does not need a dead rank's part continues without
this part.

The first surviving rank collects the parts of an exchange, and lists the ranks that took part:

    own part -> first;  survivors' parts -> first -> (ranks that took part, all parts) -> all

So if a rank dies between two messages, either all ranks or no ranks count it as a participant. When
the first surviving rank dies, every rank reports its part and its last result to the next first
rank. A rank is at most one result ahead of the others, because a result needs the parts of all
survivors. If any survivor has the result, the next first rank gets this result and forwards it.
Otherwise the next first rank makes a new result.

    first dies -> (results so far, own part, last result) -> next first: forwards or makes a result

A letter is a message of `hogshare.runtimes.mpi.talk`. If a rank knows that another rank is dead, it
reads no more letters of this rank: a result in such a letter might differ from the new result.

Writer: each rank's thread that communicates with other ranks. Order: the order of a call's letters.
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

TOGETHER = "together"  # the kind of this file's letters


class RankDied(RuntimeWarning):
    """A rank of MPI has died; the other ranks continue without it."""


def require(is_shared: bool) -> None:
    """Raise ValueError if the run cannot continue after a death.

    is_shared : whether the ranks share the memory of the run
    """
    if not door.outlives_ranks():
        raise ValueError(
            "MPI(survive=True) needs an MPI that knows when a rank has died, and a launcher that "
            "leaves the others alone: Open MPI 5, started by mpiexec --with-ft ulfm. This is "
            f"{door.known()['version']}; run `hogshare doctor` for its abilities, and advice."
        )
    if is_shared:
        raise ValueError(
            "MPI(survive=True) is for ranks that share no memory, and these share an arena: the "
            "others would read what a dying rank has half written. Use MPI(arena=False, "
            "survive=True), with which ranks exchange messages."
        )


def refuse(what: str) -> ValueError:
    """Return the error for a run that needs every rank to its end."""
    return ValueError(f"MPI(survive=True) is not for {what}, which needs every rank to its end.")


def check(choices: Choices) -> None:
    """Raise ValueError for runs that need data of a dead rank."""
    plane, rule = choices.plane, choices.rule
    if plane.has_master:
        raise refuse(type(plane).__name__)
    if rule.remembers:
        raise refuse(f"{type(rule).__name__}, which remembers something of each row")


class GatheredParts(NamedTuple):
    """The result of an exchange.

    number : the exchange's number, from 1
    parts : the part of each rank that took part, by rank, in the order of ranks
    """

    number: int
    parts: Mapping[int, Any]


class Contribution(NamedTuple):
    """A rank's contribution to an exchange, for the first rank.

    results : the number of results that the rank has
    part : the rank's part of the next result, in a tuple; None if the rank has not reached that
        exchange
    last : the rank's last result; None if the first rank also has this result
    """

    results: int
    part: tuple[Any] | None
    last: GatheredParts | None = None


class Survivors(RankPool):
    """One rank's view of the ranks of a call that have not died.

    is_over : whether the run is over; a death can then lose no result
    """

    def __init__(self, call: Call, comm: Any) -> None:
        super().__init__(comm, call.poll)
        self.call, call.serve = call, self.serve
        self.living = self
        self.is_over = False
        self.notes: list[str] = []
        self._results, self._last = 0, GatheredParts(0, dict.fromkeys(range(self.size)))
        self._part: tuple[Any] | None = None  # of the next result, once this rank has reached it
        self._brought: dict[int, tuple[Any]] = {}  # parts of the next result, by rank
        self._buried: set[int] = set()
        self._first = 0

    def begin(self) -> None:
        """Continue without ranks that die from now on, after waiting for all ranks (collective)."""
        self.gathered(np.zeros(0))
        self.call.may_lose = True

    def gathered(self, numbers: np.ndarray) -> np.ndarray:
        """Return all survivors' arrays, in the order of ranks; all survivors must call it."""
        return np.stack([*self.together(np.ascontiguousarray(numbers, np.float64)).values()])

    def spread(self, content: bytes) -> bytes:
        """Return the first survivor's content on each rank; all survivors must call it."""
        found: bytes = self.of_first(lambda: content)
        return found

    def of_first(self, make: Callable[[], Any], wait: Wait | None = None) -> Any:
        """Return the first survivor's result on each rank; all survivors must call it."""
        while True:
            is_first = self.me == self._first
            found = self.together((make(),) if is_first else None, wait)
            for part in filter(None, found.values()):
                return part[0]

    def together(self, part: Any, wait: Wait | None = None) -> dict[int, Any]:
        """Return each survivor's part; see `hogshare.runtimes.mpi.channel.Living`."""
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
        """Read received letters, drop dead ranks, and make a result once its parts are complete."""
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
            assert content.last is not None, "a rank ahead has a result of the dead first rank"
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
        """Make the next result, if this rank is the first and has all survivors' parts."""
        alive = [rank for rank in range(self.size) if rank not in self._buried]
        if self.me != self._first or not all(rank in self._brought for rank in alive):
            return
        parts = {rank: part for rank, (part,) in sorted(self._brought.items())}
        self._take(GatheredParts(self._results + 1, parts))

    def _take(self, result: GatheredParts) -> None:
        """Store a result, and send it to the ranks that wait for it."""
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
            sentence += ", which are no longer trained on; the run continues without it"
        self.notes.append(sentence)
        warn(sentence, RankDied)
