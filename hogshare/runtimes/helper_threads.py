"""Threads of the pool that help the calling one with a pass over rows before a run.

A helper begins as soon as it gets a core. No thread waits for a helper that has not begun: the
helper's core is busy, and a pass takes only a millisecond. `hogshare.kernels.rows.shared_passes`
describes the shared data and the waits.
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

# Least number of values for each thread. Reading them takes a third of a millisecond, as long as
# finding and waking a thread with cold caches. After another process had computed, the time of two
# threads was 1.4 to 1.6 times the time of one thread for 0.4 to 0.9 million values, equal to it for
# 1.1 and 1.7 million, and 0.9 times as long for 3.4 million.
LEAST_VALUES = 1 << 20
# Helpers of all calls, with their pools. It has no lock: if two callers miss each other's helpers,
# no harm is done.
_out: list[tuple[ThreadPool, Future[None]]] = []


def helpers_for(n_values: int, n_jobs: int | None) -> Helpers:
    """Return threads that help with a pass over the data before the run's workers are chosen.

    n_values : number of values that the pass reads
    n_jobs : the requested number of workers, which limits the number of threads

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

    threads = pool()  # a fork has another one
    # Count helpers that have not begun, too. Otherwise such helpers would pile up, and each refers
    # to the rows of its pass.
    _out[:] = [(owner, task) for owner, task in _out if owner is threads and not task.done()]
    # if the system starts no thread, the pass has no helpers
    with DeferredSignals(), contextlib.suppress(RuntimeError):
        for me in range(1, count + 1 - len(_out)):
            task = threads.submit_to(placement.other_cores(me), help_out, me)
            _out.append((threads, task))
