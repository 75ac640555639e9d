"""Locks of other threads at a fork: a table of these locks, and the hooks that take them.

The child of a fork has only the thread that forked, and memory as it was at that moment. If another
thread had taken a lock, the lock stays taken. If the other thread was changing data, the data stay
half changed. If it was importing a module, the import never ends. A fit needs three kinds of locks
that Python does not handle itself:

- `TAKEN`: the forking thread takes them before the fork, when their data is consistent, and
  releases them in both processes. It waits for other threads that have taken such a lock. This may
  last some seconds if a kernel is being compiled, but without it LLVM's state in the child would be
  half changed and useless.
- `RENEWED`: the child makes new locks, because the data under these locks is always consistent.
- Import locks, one for each module: the fork waits for the modules that a fit may need.

No wait is endless. If a fork cannot take all locks within `PATIENCE_SECONDS`, it proceeds with the
free locks, and compiling in the child is an error. Signals are deferred meanwhile, because a
handler's exception in a hook would be lost; the parent sends them again after the fork.

Nothing is imported for this: a module that is not loaded has no lock. The forking thread writes
only its own data (`_mine`); the hooks after the fork free this data in both processes.
"""

from __future__ import annotations

import _imp
import _thread
import collections
import contextlib
import importlib
import itertools
import logging  # noqa: F401  # registers its hook before ours: before a fork, ours then runs first
import operator
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from hogshare.system.interrupts import SIGNALS, DeferredSignals

PATIENCE_SECONDS = 60.0  # compiling a kernel may take 20 s on a slow and busy machine
POLL_SECONDS = 0.001


class Lock(Protocol):
    """A reentrant lock, since a signal handler may fork while its own thread compiles."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""

    def release(self) -> None:
        """Release the lock."""


class TakenLock(NamedTuple):
    """A lock that is taken for a fork."""

    module: str
    find: Callable[[Any], Lock]
    lose: Callable[[Any], None]  # called in the child if the lock could not be taken


class Renewed(NamedTuple):
    """Data of a module that a child makes anew."""

    module: str
    renew: Callable[[Any], None]


def _new(name: str, make: Callable[[], Any]) -> Callable[[Any], None]:
    """Return a function that stores a new lock in a module as `name`.

    The forking thread may still release the old lock later.
    """
    return lambda module: setattr(module, name, make())


class _Lost:
    """A replacement for a lock that another thread had taken at the fork."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Raise: the lock cannot be taken."""
        raise RuntimeError(
            "this process was forked while another thread of its parent was compiling, for more "
            f"than {PATIENCE_SECONDS:g} seconds: it can neither compile nor load kernels. "
            'Fork earlier, or start processes by "spawn" or "forkserver".'
        )

    def release(self) -> None:
        """Do nothing: the lock is never taken."""

    def _is_owned(self) -> bool:
        return False


def _lose_compiler(_: Any) -> None:
    sys.modules["numba.core.compiler_lock"].global_compiler_lock._lock = _Lost()
    sys.modules["llvmlite.binding.ffi"].lib._lock._lock = _Lost()


def _context_lock(name: str) -> Callable[[Any], Lock]:
    return lambda registry: vars(registry.CPUTarget)[name]._lock


def _renew_numpys(module: Any) -> None:
    lock = module._rand._bit_generator.lock
    is_owned = getattr(lock, "_is_owned", None)  # NumPy 1 has a plain lock, without this method
    if is_owned is None or not is_owned():
        lock._at_fork_reinit()


TAKEN = (
    # A thread that starts or calls a crew member changes the member's socket and entry together.
    TakenLock("hogshare.runtimes.crew", lambda m: m._lock, _new("_lock", threading.RLock)),
    # A thread that lists libraries has the C library's lock on all loaded libraries.
    TakenLock(
        "hogshare.runtimes.idle_threads", lambda m: m._stopping, _new("_stopping", threading.RLock)
    ),
    # Types, templates and unfinished code. While Numba has this lock, it takes the lock of its call
    # stack, and kernels are registered (`hogshare.kernels.jit.decorators`), loaded and cached.
    TakenLock("numba.core.compiler_lock", lambda m: m.global_compiler_lock._lock, _lose_compiler),
    # LLVM, which frees objects without the lock above.
    TakenLock("llvmlite.binding.ffi", lambda m: m.lib._lock._lock, _lose_compiler),
    # Numba's contexts, which are made at its first use.
    TakenLock("numba.core.registry", _context_lock("_toplevel_target_context"), _lose_compiler),
    TakenLock("numba.core.registry", _context_lock("_toplevel_typing_context"), _lose_compiler),
)

RENEWED = (
    Renewed("hogshare.system.interrupts", lambda m: m.forget_deferral()),
    Renewed("hogshare.runtimes.crew", lambda m: m.forget_crew()),
    # Pickling puts the user's modules on cloudpickle's list, and runs the user's code. A fork does
    # not wait for this code.
    Renewed("hogshare.runtimes.user_objects", lambda m: m.forget_packing()),
    Renewed("hogshare.runtimes.interpreter_exit", lambda m: m.forget_threads()),
    # NumPy's global generator: half-drawn numbers are as random as any, and a fork does not wait
    # for a long draw.
    Renewed("numpy.random.mtrand", _renew_numpys),
    # Classes that are sent by value, in two tables: if one table lacks an entry, the next use adds
    # it.
    *(
        Renewed(module, _new("_DYNAMIC_CLASS_TRACKER_LOCK", threading.Lock))
        for module in ("cloudpickle.cloudpickle", "numba.cloudpickle.cloudpickle")
    ),
)

# Packages that a fit may import while it runs. The user's modules are not among them: importing one
# may take any time, or wait for the thread that forks.
IMPORTED = sys.stdlib_module_names | {
    "cloudpickle",
    "hogshare",
    "joblib",
    "llvmlite",
    "numba",
    "numpy",
    "scipy",
    "sklearn",
    "threadpoolctl",
}


class _Fork:
    """The locks that a thread has taken for a fork."""

    def __init__(self) -> None:
        self.signals = DeferredSignals()
        self.taken: list[Lock] = []
        self.lost: list[TakenLock] = []
        self.has_import_lock = False

    def take(self) -> None:
        """Take all locks or, after `PATIENCE_SECONDS`, all free locks."""
        end = time.monotonic() + PATIENCE_SECONDS
        first: Lock | None = None
        while time.monotonic() < end:
            locks = [lock for _, lock in _found()]
            busy = _take(locks, first, end)
            if busy is not None:
                first = busy
                continue
            self.taken = locks
            # no thread can begin an import now; Python itself would take this lock next
            _imp.acquire_lock()
            self.has_import_lock = True
            if not _others_import() and locks == [lock for _, lock in _found()]:
                return
            self.give_back()
            time.sleep(POLL_SECONDS)
        for one, lock in _found():
            if lock.acquire(blocking=False):
                self.taken.append(lock)
            else:
                self.lost.append(one)

    def give_back(self) -> None:
        """Release all locks that were taken."""
        taken, self.taken = self.taken, []
        _release(taken)
        if self.has_import_lock:
            self.has_import_lock = False
            _imp.release_lock()


def _found() -> list[tuple[TakenLock, Lock]]:
    """Return the locks of all loaded modules."""
    found = []
    for one in TAKEN:
        with contextlib.suppress(AttributeError, KeyError):  # another version may lack a lock
            found.append((one, one.find(sys.modules[one.module])))
    return found


def _take(locks: Sequence[Lock], first: Lock | None, end: float) -> Lock | None:
    """Take all locks and return None; or take no lock, and return a lock that is not free.

    This waits only for `first`. It never waits while it has a lock, so it does not matter in which
    order other threads take the locks.
    """
    taken: list[Lock] = []
    for lock in sorted(locks, key=lambda lock: lock is not first):
        seconds = max(0.0, end - time.monotonic()) if lock is first else 0.0
        if not lock.acquire(timeout=seconds):
            _release(taken)
            return lock
        taken.append(lock)
    return None


def _release(locks: Sequence[Lock]) -> None:
    for lock in reversed(locks):
        lock.release()


def _others_import() -> bool:
    """Return whether another thread is importing a module that a fit may need."""
    me, modules = threading.get_ident(), getattr(importlib._bootstrap, "_module_locks", {})
    for name, reference in list(modules.items()):
        lock = reference()
        if lock is None or name.partition(".")[0] not in IMPORTED:
            continue
        if getattr(lock, "owner", None) not in (None, me):
            return True
        inner = getattr(lock, "lock", None)  # taken only while the module's lock changes
        if inner is not None:
            if not inner.acquire(blocking=False):
                return True
            inner.release()
    return False


def stay(process: int) -> None:
    """Refuse to continue an operation in a fork of the process that began it with workers.

    process : number of the process that began the operation

    Raises
    ------
    RuntimeError
        If this process is another one.
    """
    if os.getpid() != process:
        raise RuntimeError(
            "this process was forked in the middle of a fit, which belongs to its parent with all "
            "its workers: leave the child by os._exit() or an exception, or fit anew in it."
        )


_mine = threading.local()  # a thread's unfinished forks, each nested in the one before

# Signals that came during the fork. From their sending to the end of the hook, the interpreter must
# not run, since it would handle the signals inside the hook. The hook therefore consists of
# built-in functions only. It takes as many numbers as there are kinds of signals. In place
# of each, it puts back the number of a signal without a handler.
_NO_SIGNAL = int(getattr(signal, "SIGKILL", 0))
_came = collections.deque([_NO_SIGNAL] * len(SIGNALS), len(SIGNALS))
_taken_out = zip(
    iter(_came.popleft, None), map(_came.append, itertools.repeat(_NO_SIGNAL)), strict=False
)
_sent = map(_thread.interrupt_main, map(operator.itemgetter(0), _taken_out))
_send = partial(next, zip(*[_sent] * len(SIGNALS), strict=True))


def _before() -> None:
    """Take all locks; this hook must run before the hook of `logging`.

    That hook takes a lock for which a thread that compiles may wait. Before a fork, hooks run in
    the reverse order of their registration.
    """
    fork = _Fork()
    fork.signals.__enter__()
    _mine.__dict__.setdefault("forks", []).append(fork)
    fork.take()


def _in_parent() -> None:
    fork = _under_way()
    fork.give_back()
    _came.extend(fork.signals.came)
    fork.signals.came.clear()
    fork.signals.__exit__()


def _in_child() -> None:
    fork = _under_way()
    try:
        for one in fork.lost:
            one.lose(sys.modules[one.module])
        for each in RENEWED:
            with contextlib.suppress(AttributeError, KeyError):
                each.renew(sys.modules[each.module])
    finally:
        fork.give_back()
        _came.extend([_NO_SIGNAL] * len(SIGNALS))  # the signals in it are the parent's
        fork.signals.came.clear()
        fork.signals.__exit__()


def _under_way() -> _Fork:
    forks = _mine.__dict__.get("forks")
    # if there is no entry, a signal's handler raised before `_before` had done anything
    return forks.pop() if forks else _Fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    os.register_at_fork(after_in_parent=_send)
