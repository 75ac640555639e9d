"""The ranks of one machine, which share an arena that all can read and write.

This file makes one decision: the ranks of a job share an arena, or each rank has a vector of its
own and sends changes by messages (`hogshare.runtimes.mpi.machines`).

The leader creates the arena and its layout. The other ranks open the arena's descriptor in the file
system of processes (procfs). The system allows this if all processes belong to the same user. No
rank frees the memory; the system releases it when the last process that maps it has ended.
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
PROCESSES = Path("/proc/self/ns/pid")  # equal for ranks that see the same processes


@dataclass(frozen=True)
class Seat:
    """The place where a rank runs.

    host : the machine's name
    memory : an identifier, equal for ranks that can open each other's memory
    cores : numbers of the cores that the rank may use
    jobs : the requested number of workers; as in `n_jobs`
    process : the rank's process number on its machine
    """

    host: str
    memory: str
    cores: frozenset[int]
    jobs: int | None
    process: int = 0


@dataclass(frozen=True)
class MachineRanks:
    """The ranks of a job, in order.

    workers : the number of workers of each rank
    separation : the reason why the ranks share no arena; "" if they share an arena
    """

    ranks: tuple[int, ...]
    workers: tuple[int, ...]
    separation: str = ""

    @property
    def leader(self) -> int:
        """The rank that creates the arena, and decides."""
        return self.ranks[0]

    @property
    def n_workers(self) -> int:
        """The number of workers of all ranks."""
        return sum(self.workers)

    def workers_of(self, rank: int) -> range:
        """Return the numbers of a rank's workers."""
        place = self.ranks.index(rank)
        first = sum(self.workers[:place])
        return range(first, first + self.workers[place])

    def dealt(self, n_workers: int) -> MachineRanks:
        """Return the same ranks with `n_workers` workers, dealt in rotation.

        Examples
        --------
        >>> from hogshare.runtimes.mpi.rank_seats import MachineRanks
        >>> MachineRanks((0, 1, 2), (2, 1, 1)).dealt(2).workers
        (1, 1, 0)
        """
        if n_workers == self.n_workers:
            return self
        seats = sorted((nth, place) for place, n in enumerate(self.workers) for nth in range(n))
        more = ((None, k % len(self.ranks)) for k in range(n_workers - len(seats)))
        taken = [place for _, place in (*seats, *more)][:n_workers]
        return replace(self, workers=tuple(taken.count(place) for place in range(len(self.ranks))))


def seat(n_jobs: int | None) -> Seat:
    """Return the place where this rank runs."""
    host, memory = socket.gethostname(), ""
    with contextlib.suppress(OSError):
        memory = f"{BOOT_ID.read_text().strip()} {os.readlink(PROCESSES)}"
    affinity = getattr(os, "sched_getaffinity", None)
    cores = affinity(0) if affinity is not None else range(machine.cores())
    return Seat(host, memory or host, frozenset(cores), n_jobs, os.getpid())


def workers_of(seats: Sequence[Seat], rank: int) -> int:
    """Return a rank's number of workers.

    If the requested number is negative, it counts usable cores. The result is then at most the
    rank's share of these cores.

    seats : the seats of all ranks
    rank : the calling rank, because its own system interprets the requested number

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
    """Return a rank's number of cores, at least 1; ranks that may use the same core share it."""
    own = seats[rank]
    on_host = [other.cores for other in seats if other.host == own.host]
    share = sum(1.0 / sum(core in cores for cores in on_host) for core in own.cores)
    return max(1, int(share + 1e-9))


def machine_of(seats: Sequence[Seat], workers: Sequence[int], shares: bool) -> MachineRanks:
    """Return the ranks, and whether they share an arena.

    seats : the seats of all ranks
    workers : the number of workers of each rank
    shares : whether ranks of the same machine may share an arena
    """
    ranks, counts = tuple(range(len(seats))), tuple(workers)
    if not shares:
        return MachineRanks(ranks, counts, "MPI(arena=False) is set")
    other = next((rank for rank, one in enumerate(seats) if one.memory != seats[0].memory), None)
    if other is None:
        return MachineRanks(ranks, counts)
    why = f"rank {other} runs on {seats[other].host}, and rank 0 on {seats[0].host}"
    return MachineRanks(ranks, counts, f"{why}, or in another container")


def offer(arena: Arena) -> dict[str, Any]:
    """Return the data that another rank of the machine needs to open an arena."""
    return {"process": os.getpid(), "number": arena.fileno(), "layout": arena.describe()}


def accept(offered: dict[str, Any]) -> Arena:
    """Open an arena of another rank of the machine; raises OSError if the system forbids it."""
    number = opened(offered["process"], offered["number"])
    try:
        return Arena.attach(number, offered["layout"])
    finally:
        os.close(number)


def opened(process: int, number: int) -> int:
    """Return a new descriptor for a file that another rank's process has open.

    process : the process number of that rank on this machine
    number : the number of the file's descriptor in that process

    Raises OSError if the system forbids it.
    """
    try:
        return os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(
            error.errno,
            f"The memory of a rank's process {process} cannot be opened ({error}): run all ranks "
            "of a machine as one user and in one container, or use MPI(arena=False)",
        ) from error
