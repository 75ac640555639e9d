"""A core of its own for each thread of a run, for its first milliseconds.

A new thread often shares a core with the thread that started it, until the system's balancer runs a
few milliseconds later. A fit of 20 ms loses a tenth of its time in this way. Two threads that are
woken together also share a core. So each worker takes a core of its own when it starts, and is
bound to this core before a pause. The worker is unbound as soon as it has had time to settle,
because a permanently bound thread is slower on a machine with other users.

After a pause of some milliseconds, nine threads in ten wake up on their waker's core. Such a thread
waits for the core, or takes the core from the waker. So before a thread is woken, it is bound to
the other cores, until it has settled or the run is over.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
import time

SETTLED_SECONDS = 0.005
UNKNOWN = -1
_next_core = itertools.count(os.getpid())  # concurrent fits start at different cores


try:
    _libc: ctypes.CDLL | None = ctypes.PyDLL(None)  # unlike CDLL never releases the GIL
except OSError:
    _libc = None


def _current_core() -> int:
    """Return the core on which the calling thread runs now; -1 if unknown."""
    with contextlib.suppress(AttributeError):
        return int(_libc.sched_getcpu())  # type: ignore[union-attr]
    return UNKNOWN


class CorePlacement:
    """Cores for the threads of one run; does nothing if threads cannot or need not be bound."""

    def __init__(self, n_workers: int) -> None:
        self._usable: set[int] = set()
        self._cores: list[int] = []  # by worker
        self._left: list[int] = []
        self._bound: dict[int, tuple[int, float]] = {}  # by worker: its thread, and until when
        self._sent: set[int] = set()  # workers that were bound off the caller's core
        if n_workers < 2 or not hasattr(os, "sched_setaffinity"):
            return
        usable = os.sched_getaffinity(0)
        if n_workers <= len(usable):
            self._usable = usable
            self._cores = [UNKNOWN] * n_workers
            ordered = sorted(usable)
            last = max(itertools.islice(_next_core, n_workers)) % len(ordered)
            self._left = ordered[last:] + ordered[:last]  # taken from the end

    def stay(self, worker: int) -> bool:
        """Take the core on which the calling thread runs, if it is free; return whether it was."""
        core = _current_core()
        try:
            self._left.remove(core)  # atomic under the GIL: no two threads remove the same core
        except ValueError:
            return False
        self._cores[worker] = core
        return True

    def other_cores(self, worker: int) -> set[int]:
        """Return the cores on which the worker's thread may wake up.

        If worker 0 has taken a core, these are all other usable cores. Otherwise the set is empty,
        and the thread may wake up on any core. After it wakes up, the thread takes one core.
        """
        if not self._usable or self._cores[0] == UNKNOWN:
            return set()
        self._sent.add(worker)
        return self._usable - {self._cores[0]}

    def take(self, worker: int) -> None:
        """Take the core on which the calling thread runs, or move the thread to a free one."""
        if not self._usable:
            return
        # A thread on a free core stays on it unbound. To move it would take 0.05 ms, in which no
        # other thread of this process runs Python: the last of 16 would begin a millisecond later.
        if not self._choose(worker):
            self.bind(worker)
        elif worker in self._sent:
            self._note(worker)
        elif os.sched_getaffinity(0) != self._usable:  # inherited from its starter
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._usable)

    def bind(self, worker: int) -> None:
        """Bind the calling thread to the worker's core, or to a free one if it has none."""
        if not self._usable:
            return
        if self._cores[worker] == UNKNOWN:
            self._choose(worker)
        self._note(worker)  # before the call that may fail: a sent thread is bound already
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {self._cores[worker]})

    def _note(self, worker: int) -> None:
        """Note that the calling thread is bound, and until when."""
        self._bound[worker] = threading.get_native_id(), time.perf_counter() + SETTLED_SECONDS

    def _choose(self, worker: int) -> bool:
        """Give the worker a core; return whether the calling thread runs on it."""
        if self.stay(worker):
            return True
        self._cores[worker] = self._left.pop()
        return False

    def settle(self, worker: int) -> None:
        """Unbind the calling thread, which runs the worker, if it has had time to settle."""
        bound = self._bound.get(worker)
        if bound is not None and time.perf_counter() > bound[1]:
            self._free(worker)

    def leave(self, worker: int) -> None:
        """Unbind the calling thread, which runs the worker."""
        self._bound.pop(worker, None)
        if self._usable:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._usable)

    def free(self) -> None:
        """Unbind all threads; may be called more than once."""
        for worker in list(self._bound):
            self._free(worker)

    def _free(self, worker: int) -> None:
        thread, _ = self._bound.pop(worker, (None, 0.0))
        if thread is not None:
            with contextlib.suppress(OSError):  # the thread may have ended
                os.sched_setaffinity(thread, self._usable)
