"""Spread new threads over the cores for their first milliseconds.

A thread that has just been started often shares a core with the one that started it until the
kernel's balancer looks, a few milliseconds later; a fit of 20 ms loses a tenth of its time by that.
So do two that are woken together. So each worker is bound to a core of its own when it starts, and
before it rests, and freed again as soon as it has had the time to settle: a lasting binding would
lose on a machine that others use too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading

SETTLED_SECONDS = 0.005
_next_core = itertools.count(os.getpid())  # so that fits side by side do not choose the same cores


class Placement:
    """Cores for the threads of one run; does nothing where it cannot or need not."""

    def __init__(self, n_workers: int) -> None:
        self._usable: set[int] = set()
        self._bound: list[int] = []
        if n_workers < 2 or not hasattr(os, "sched_setaffinity"):
            return
        usable = os.sched_getaffinity(0)
        if n_workers <= len(usable):
            self._usable = usable
            ordered = sorted(usable)
            self._cores = [ordered[next(_next_core) % len(ordered)] for _ in range(n_workers)]

    @property
    def binds(self) -> bool:
        """Whether any thread is bound."""
        return bool(self._bound)

    def bind(self, worker: int) -> None:
        """Bind the calling thread to a core."""
        if self._usable:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {self._cores[worker]})
                self._bound.append(threading.get_native_id())

    def free(self) -> None:
        """Let all threads go where they like; may be called more than once."""
        while self._bound:
            with contextlib.suppress(OSError):  # the thread may have ended
                os.sched_setaffinity(self._bound.pop(), self._usable)
