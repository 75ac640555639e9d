"""Threads of the pool that help the calling one with a pass over rows before a run.

They come as soon as they can, and nobody waits for one that comes too late: its core is busy with
something else, and a pass takes a millisecond. Who shares what, and who waits for what, is told in
`hogshare.kernels.parts`.
"""

from __future__ import annotations

from collections.abc import Callable

from hogshare.kernels.jit import JIT_DISABLED
from hogshare.kernels.parts import NOBODY, Helpers
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.placement import Placement
from hogshare.runtimes.pool import pool

# For each thread: a tenth of a millisecond at least, when rows come from memory.
LEAST_VALUES = 1 << 17


def helpers_for(n_values: int, n_jobs: int | None) -> Helpers:
    """Threads besides this one for a pass over so many values, before anybody knows what pays.

    Raises
    ------
    ValueError
        If `n_jobs` is 0.
    """
    most = n_values // LEAST_VALUES
    if JIT_DISABLED or most < 2 or n_jobs == 1:
        return NOBODY
    count = min(most, usable_workers(n_jobs)) - 1
    return Helpers(count, lambda function: _call(function, count)) if count else NOBODY


def _call(function: Callable[[int], None], count: int) -> None:
    """Let threads call ``function(k)``, each on a core of its own if there are as many."""
    placement = Placement(count + 1)
    placement.stay(0)

    def help_out(me: int) -> None:
        try:
            placement.take(me)
            function(me)
        finally:
            placement.leave(me)

    for me in range(1, count + 1):
        pool().submit_to(placement.elsewhere(me), help_out, me)
