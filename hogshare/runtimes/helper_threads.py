"""Threads of the pool that help the calling one with a pass over rows before a run.

They come as soon as they can, and nobody waits for one that comes too late: its core is busy with
something else, and a pass takes a millisecond. As long as some have not come none are sent for, or
they would pile up, and with them the rows that each holds. Who shares what, and who waits for what,
is told in `hogshare.kernels.rows.shared_passes`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future

from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.rows.shared_passes import NOBODY, Helpers
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.core_placement import CorePlacement
from hogshare.runtimes.pool import ThreadPool, pool
from hogshare.system.interrupts import DeferredSignals
from hogshare.system.machine import usable_cores

# For each thread: a third of a millisecond, which it takes to find a thread and to wake it while
# nothing of that is in the caches. Looked over by two after another process had computed, 0.4 to
# 0.9 million values took 1.4 to 1.6 times as long as by one, 1.1 and 1.7 million as long, 3.4
# million 0.9 times.
LEAST_VALUES = 1 << 20
# Helpers of all calls, and whose they are; what two callers miss of each other does no harm.
_out: list[tuple[ThreadPool, Future[None]]] = []


def helpers_for(n_values: int, n_jobs: int | None) -> Helpers:
    """Threads besides this one for a pass over so many values, before anybody knows what pays.

    Raises ValueError if `n_jobs` is 0.
    """
    most = n_values // LEAST_VALUES
    if JIT_DISABLED or most < 2 or n_jobs == 1:
        return NOBODY
    count = min(most, usable_workers(n_jobs), usable_cores()) - 1
    return Helpers(count, lambda function: _call(function, count)) if count else NOBODY


def _call(function: Callable[[int], None], count: int) -> None:
    """Let threads call ``function(k)``, each on a core of its own if there are as many."""
    placement = CorePlacement(count + 1)
    placement.stay(0)

    def help_out(me: int) -> None:
        try:
            placement.take(me)
            function(me)
        finally:
            placement.leave(me)

    threads = pool()  # after a fork another one
    _out[:] = [(owner, task) for owner, task in _out if owner is threads and not task.done()]
    # where the system starts no thread nobody helps
    with DeferredSignals(), contextlib.suppress(RuntimeError):
        for me in range(1, count + 1 - len(_out)):
            task = threads.submit_to(placement.elsewhere(me), help_out, me)
            _out.append((threads, task))
