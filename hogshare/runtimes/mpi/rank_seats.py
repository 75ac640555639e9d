"""The ranks of one machine, which share an arena: what one writes there all others can read.

This is where it is settled whether the ranks of a job do so, or have a vector each, and exchange
what they have changed by messages (`hogshare.runtimes.mpi.machines`).

Who writes: the leader makes an arena, and its lay-out; the others open its descriptor in the file
system of processes (procfs), which the system allows to processes of one user. Who frees: nobody
needs to; the memory goes with the last process that has it mapped.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hogshare.runtimes.choice import usable_workers
from hogshare.shm.arena import Arena
from hogshare.system import machine

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PROCESSES = Path("/proc/self/ns/pid")  # who has the same sees the same processes


@dataclass(frozen=True)
class Seat:
    """Where a rank runs.

    host : its name
    memory : what is the same for ranks that can open each other's memory
    cores : numbers of the cores that it may use
    jobs : workers that it was asked for
    process : its number there
    """

    host: str
    memory: str
    cores: frozenset[int]
    jobs: int | None
    process: int = 0


@dataclass(frozen=True)
class MachineRanks:
    """The ranks of a job, in order.

    workers : of each of these ranks
    apart : why they share no arena; "": they do
    """

    ranks: tuple[int, ...]
    workers: tuple[int, ...]
    apart: str = ""

    @property
    def leader(self) -> int:
        """The rank that makes the arena, and decides."""
        return self.ranks[0]

    @property
    def n_workers(self) -> int:
        """Of all ranks."""
        return sum(self.workers)

    def workers_of(self, rank: int) -> range:
        """Numbers of a rank's workers."""
        place = self.ranks.index(rank)
        first = sum(self.workers[:place])
        return range(first, first + self.workers[place])

    def dealt(self, n_workers: int) -> MachineRanks:
        """The same ranks with so many workers, dealt out in turn; these, if it is as many.

        Examples
        --------
        >>> from hogshare.runtimes.mpi.rank_seats import MachineRanks
        >>> MachineRanks((0, 1, 2), (2, 1, 1)).dealt(2).workers
        (1, 1, 0)
        """
        if n_workers == self.n_workers:
            return self
        seats = sorted((turn, place) for place, n in enumerate(self.workers) for turn in range(n))
        more = ((None, k % len(self.ranks)) for k in range(n_workers - len(seats)))
        taken = [place for _, place in (*seats, *more)][:n_workers]
        return replace(self, workers=tuple(taken.count(place) for place in range(len(self.ranks))))


def seat(n_jobs: int | None) -> Seat:
    """Where this rank runs."""
    host, memory = socket.gethostname(), ""
    with contextlib.suppress(OSError):
        memory = f"{BOOT_ID.read_text().strip()} {os.readlink(PROCESSES)}"
    affinity = getattr(os, "sched_getaffinity", None)
    cores = affinity(0) if affinity is not None else range(machine.cores())
    return Seat(host, memory or host, frozenset(cores), n_jobs, os.getpid())


def workers_of(seats: Sequence[Seat], rank: int) -> int:
    """Workers of a rank: its share of the cores that it may use, if it was asked for all.

    seats : of all ranks
    rank : the one that asks: what its number of workers means is for its own system to say

    Examples
    --------
    Two ranks that may both use all of four cores, and two that have two each:

    >>> from hogshare.runtimes.mpi.rank_seats import Seat, share_of
    >>> both = [Seat("a", "a", frozenset(range(4)), -1)] * 2
    >>> bound = [Seat("a", "a", frozenset({0, 1}), -1), Seat("a", "a", frozenset({2, 3}), -1)]
    >>> share_of(both, 0), share_of(bound, 0)
    (2, 2)
    """
    asked = seats[rank].jobs
    count = usable_workers(asked)
    return count if asked is None or asked > 0 else min(count, share_of(seats, rank))


def share_of(seats: Sequence[Seat], rank: int) -> int:
    """Cores of a rank, each divided by the ranks that may use it; at least one."""
    here = seats[rank]
    beside = [other.cores for other in seats if other.host == here.host]
    share = sum(1.0 / sum(core in cores for cores in beside) for core in here.cores)
    return max(1, int(share + 1e-9))


def machine_of(seats: Sequence[Seat], workers: Sequence[int], shares: bool) -> MachineRanks:
    """The ranks, and whether they share an arena.

    shares : whether ranks of one machine may
    """
    ranks, counts = tuple(range(len(seats))), tuple(workers)
    if not shares:
        return MachineRanks(ranks, counts, "arena=False of MPI says so")
    other = next((rank for rank, one in enumerate(seats) if one.memory != seats[0].memory), None)
    if other is None:
        return MachineRanks(ranks, counts)
    why = f"rank {other} runs on {seats[other].host}, and rank 0 on {seats[0].host}"
    return MachineRanks(ranks, counts, f"{why}, or in another container")


def offer(arena: Arena) -> dict[str, Any]:
    """What another rank of the machine needs to open an arena."""
    return {"process": os.getpid(), "number": arena.fileno(), "layout": arena.describe()}


def accept(offered: dict[str, Any]) -> Arena:
    """Open an arena of another rank of the machine; raises OSError if the system forbids it."""
    number = opened(offered["process"], offered["number"])
    try:
        return Arena.attach(number, offered["layout"])
    finally:
        os.close(number)


def opened(process: int, number: int) -> int:
    """A descriptor for what another rank's process has open under a number.

    Raises OSError if the system forbids it.
    """
    try:
        return os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(
            error.errno,
            f"The memory of a rank's process {process} cannot be opened ({error}): ranks of one "
            "machine have to be of one user, and in one container",
        ) from error
