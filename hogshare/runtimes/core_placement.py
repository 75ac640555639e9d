"""A core of its own for each thread of a run, for its first milliseconds.

A thread that has just been started often shares a core with the one that started it until the
kernel's balancer looks, a few milliseconds later; a fit of 20 ms loses a tenth of its time by that.
So do two that are woken together. So each worker takes a core of its own when it starts, and is
bound to one before it rests, and frees itself as soon as it has had the time to settle: a lasting
binding would lose on a machine that others use too. Who finds itself on a core that nobody of its
run has taken stays there unbound: to move costs 0.05 ms, in which no other thread of this process
runs Python, so that the last of 16 would begin a millisecond later.

After a pause of some milliseconds a thread wakes up on the core of the one that wakes it, nine
times in ten, where it waits for its turn, or takes it; so it is kept off that core before, and
until it has settled or the run is over.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
import time

SETTLED_SECONDS = 0.005
NOWHERE = -1
_next_core = itertools.count(os.getpid())  # so that fits side by side do not choose the same cores


try:
    _libc: ctypes.CDLL | None = ctypes.PyDLL(None)  # keeps the interpreter: nothing is waited for
except OSError:
    _libc = None


def _current_core() -> int:
    """Where the calling thread runs now; -1 where that is not known."""
    with contextlib.suppress(AttributeError):
        return int(_libc.sched_getcpu())  # type: ignore[union-attr]
    return NOWHERE


class CorePlacement:
    """Cores for the threads of one run; does nothing where it cannot or need not."""

    def __init__(self, n_workers: int) -> None:
        self._usable: set[int] = set()
        self._cores: list[int] = []  # of each worker
        self._left: list[int] = []
        self._bound: dict[int, tuple[int, float]] = {}  # by worker: which thread, and until when
        self._sent: set[int] = set()  # workers that were kept off a core
        if n_workers < 2 or not hasattr(os, "sched_setaffinity"):
            return
        usable = os.sched_getaffinity(0)
        if n_workers <= len(usable):
            self._usable = usable
            self._cores = [NOWHERE] * n_workers
            ordered = sorted(usable)
            last = max(itertools.islice(_next_core, n_workers)) % len(ordered)
            self._left = ordered[last:] + ordered[:last]  # taken from the end

    def stay(self, worker: int) -> bool:
        """Take the core on which the calling thread runs, if nobody has it; whether nobody had."""
        here = _current_core()
        try:
            self._left.remove(here)  # one step of the interpreter: no two threads remove the same
        except ValueError:
            return False
        self._cores[worker] = here
        return True

    def elsewhere(self, worker: int) -> set[int]:
        """Where to send the worker's thread, which takes its core when it comes there.

        Off the calling thread's core, if that is worker 0's; anywhere, which is said by no core at
        all, if it is not.
        """
        if not self._usable or self._cores[0] == NOWHERE:
            return set()
        self._sent.add(worker)
        return self._usable - {self._cores[0]}

    def take(self, worker: int) -> None:
        """Take the core on which the calling thread runs, or move it to one that nobody has."""
        if not self._usable:
            return
        if not self._choose(worker):
            self.bind(worker)
        elif worker in self._sent:
            self._note(worker)
        elif os.sched_getaffinity(0) != self._usable:  # of the thread that has started it
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._usable)

    def bind(self, worker: int) -> None:
        """Bind the calling thread to the worker's core; to any that nobody has, if it has none."""
        if not self._usable:
            return
        if self._cores[worker] == NOWHERE:
            self._choose(worker)
        self._note(worker)  # first: who was sent is bound already
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {self._cores[worker]})

    def _note(self, worker: int) -> None:
        """Remember that the calling thread is not free to go."""
        self._bound[worker] = threading.get_native_id(), time.perf_counter() + SETTLED_SECONDS

    def _choose(self, worker: int) -> bool:
        """Give the worker a core; whether the calling thread runs there."""
        if self.stay(worker):
            return True
        self._cores[worker] = self._left.pop()
        return False

    def settle(self, worker: int) -> None:
        """Let the worker's thread, the calling one, go where it likes if it has had its time."""
        bound = self._bound.get(worker)
        if bound is not None and time.perf_counter() > bound[1]:
            self._free(worker)

    def leave(self, worker: int) -> None:
        """Let the calling thread, the worker's, go where it likes from now on."""
        self._bound.pop(worker, None)
        if self._usable:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._usable)

    def free(self) -> None:
        """Let all threads go where they like; may be called more than once."""
        for worker in list(self._bound):
            self._free(worker)

    def _free(self, worker: int) -> None:
        thread, _ = self._bound.pop(worker, (None, 0.0))
        if thread is not None:
            with contextlib.suppress(OSError):  # the thread may have ended
                os.sched_setaffinity(thread, self._usable)
