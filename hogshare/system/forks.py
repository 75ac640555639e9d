"""What a fork finds in other threads' hands: every lock that there is, in one place.

The child of a fork has one thread, the one that forked, and memory as it was in that moment. A lock
that another thread held stays taken in it, what that thread was about to change stays half changed,
and a module that it was importing never comes. So, of all locks that a fit meets and that Python
does not see to itself:

- `TAKEN`: the thread that forks takes them before, so that what they guard is whole, and gives them
  back in both processes. That waits for whoever has one: for a kernel that is being compiled, some
  seconds, since half of LLVM's state is of no use to anybody.
- `RENEWED`: made anew in the child, where what they guard is good at any moment.
- Imports, which are a lock for each module: the fork waits for those that a fit may need.

It never waits with any of them in its hands, so that it does not matter in which order others take
them; and a thread may take again what it has, so that a fork in the middle of a compilation, by the
handler of a signal for example, does not wait for itself. Who has waited for `PATIENCE_SECONDS`
forks all the same, and to compile is an error in the child: nothing waits without an end.

Signals are taken meanwhile as in any `DeferredSignals`, since what a handler raises in a hook is
lost. They are sent again in the parent when it has forked.

Nothing is imported for this: what has not been loaded has no lock. Who writes: the thread that
forks, to what is its own (`_mine`). Who frees: the hooks after the fork, in both processes.
"""

from __future__ import annotations

import _imp
import _thread
import collections
import contextlib
import importlib
import itertools
import logging  # noqa: F401  # its hook, which is to run after ours, is there now
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

PATIENCE_SECONDS = 60.0  # compiling a kernel may take 20 where the machine is slow and busy
POLL_SECONDS = 0.001


class Lock(Protocol):
    """One that a thread may take again while it has it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it."""

    def release(self) -> None:
        """Give it back."""


class TakenLock(NamedTuple):
    """A lock that is taken for a fork."""

    module: str
    find: Callable[[Any], Lock]
    lose: Callable[[Any], None]  # what the child does if it could not be had


class Renewed(NamedTuple):
    """What a child makes anew."""

    module: str
    renew: Callable[[Any], None]


def _new(name: str, make: Callable[[], Any]) -> Callable[[Any], None]:
    """Another lock, not the same one made free: who forks may be about to give it back."""
    return lambda module: setattr(module, name, make())


class _Lost:
    """Stands for a lock that another thread had at the fork, and has for ever."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Say that it cannot be had."""
        raise RuntimeError(
            "this process was forked while another thread of its parent compiled, and went on to "
            f"do so for {PATIENCE_SECONDS:g} seconds: it can neither compile nor load kernels. "
            'Fork earlier, or start processes by "spawn" or "forkserver".'
        )

    def release(self) -> None:
        """Do nothing: nobody has taken it."""

    def _is_owned(self) -> bool:
        return False


def _lose_compiler(_: Any) -> None:
    sys.modules["numba.core.compiler_lock"].global_compiler_lock._lock = _Lost()
    sys.modules["llvmlite.binding.ffi"].lib._lock._lock = _Lost()


def _context_lock(name: str) -> Callable[[Any], Lock]:
    return lambda registry: vars(registry.CPUTarget)[name]._lock


def _renew_numpys(module: Any) -> None:
    lock = module._rand._bit_generator.lock
    is_owned = getattr(lock, "_is_owned", None)  # NumPy 1 has a plain one
    if is_owned is None or not is_owned():
        lock._at_fork_reinit()


TAKEN = (
    # Who hires a member, or asks one, is halfway between its socket and what is known of it.
    TakenLock("hogshare.runtimes.crew", lambda m: m._lock, _new("_lock", threading.RLock)),
    # Who looks for libraries has the C library's lock on all that are loaded.
    TakenLock(
        "hogshare.runtimes.idle_threads", lambda m: m._stopping, _new("_stopping", threading.RLock)
    ),
    # Types, templates and code in the making. Within this one Numba takes that of its call stack,
    # and kernels are shown to it (`hogshare.kernels.jit.decorators`), loaded and kept.
    TakenLock("numba.core.compiler_lock", lambda m: m.global_compiler_lock._lock, _lose_compiler),
    # LLVM, which is called without the lock above where its objects are freed.
    TakenLock("llvmlite.binding.ffi", lambda m: m.lib._lock._lock, _lose_compiler),
    # Numba's contexts, which are made at its first use by anybody.
    TakenLock("numba.core.registry", _context_lock("_toplevel_target_context"), _lose_compiler),
    TakenLock("numba.core.registry", _context_lock("_toplevel_typing_context"), _lose_compiler),
)

RENEWED = (
    Renewed("hogshare.system.interrupts", lambda m: m.forget_deferral()),
    Renewed("hogshare.runtimes.crew", lambda m: m.forget_crew()),
    # Who packs has modules of the user's on cloudpickle's list, and runs code of the user's, which
    # is not waited for.
    Renewed("hogshare.runtimes.user_objects", lambda m: m.forget_luggage()),
    Renewed("hogshare.runtimes.interpreter_exit", lambda m: m.forget_threads()),
    # NumPy's own generator: numbers that are half drawn are as random as others, and who draws many
    # is not waited for.
    Renewed("numpy.random.mtrand", _renew_numpys),
    # Classes that are sent by value: two tables, of which one may lack what is in the other, and
    # then gets it at the next look.
    *(
        Renewed(module, _new("_DYNAMIC_CLASS_TRACKER_LOCK", threading.Lock))
        for module in ("cloudpickle.cloudpickle", "numba.cloudpickle.cloudpickle")
    ),
)

# What a fit may import while it runs. A module of the user's may take any time, or wait for the
# thread that forks.
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
    """What a thread has taken for a fork."""

    def __init__(self) -> None:
        self.signals = DeferredSignals()
        self.taken: list[Lock] = []
        self.lost: list[TakenLock] = []
        self.holds_imports = False

    def take(self) -> None:
        """Take everything, or, when patience is over, what can be had."""
        end = time.monotonic() + PATIENCE_SECONDS
        first: Lock | None = None
        while time.monotonic() < end:
            locks = [lock for _, lock in _found()]
            busy = _take(locks, first, end)
            if busy is not None:
                first = busy
                continue
            self.taken = locks
            _imp.acquire_lock()  # nobody begins to import any more; Python takes it next, anyway
            self.holds_imports = True
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
        """Give all of it back."""
        taken, self.taken = self.taken, []
        _release(taken)
        if self.holds_imports:
            self.holds_imports = False
            _imp.release_lock()


def _found() -> list[tuple[TakenLock, Lock]]:
    """The locks of what has been loaded."""
    found = []
    for one in TAKEN:
        with contextlib.suppress(AttributeError, KeyError):  # also another version's
            found.append((one, one.find(sys.modules[one.module])))
    return found


def _take(locks: Sequence[Lock], first: Lock | None, end: float) -> Lock | None:
    """Take all of them, waiting for the first; or none, and return one that somebody else has."""
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
    """Whether another thread is about to import what a fit may need."""
    me, modules = threading.get_ident(), getattr(importlib._bootstrap, "_module_locks", {})
    for name, there in list(modules.items()):
        lock = there()
        if lock is None or name.partition(".")[0] not in IMPORTED:
            continue
        if getattr(lock, "owner", None) not in (None, me):
            return True
        inner = getattr(lock, "lock", None)  # which it takes for the moment of a change
        if inner is not None:
            if not inner.acquire(blocking=False):
                return True
            inner.release()
    return False


def stay(process: int) -> None:
    """Refuse to go on in a child of the process in which something began with others' help.

    Raises
    ------
    RuntimeError
        In any other process.
    """
    if os.getpid() != process:
        raise RuntimeError(
            "this process was forked in the middle of a fit, which is its parent's, with all its "
            "workers: leave the child by os._exit() or an exception, or fit anew in it."
        )


_mine = threading.local()  # forks that a thread is about, of which each is within the one before

# Signals that came meanwhile. No step of the interpreter may come between sending them and the end
# of the hook, which would handle them there: the hook is built in, from end to end. It takes as
# many numbers as there are signals and leaves one in the place of each that has no handler.
_NO_SIGNAL = int(getattr(signal, "SIGKILL", 0))
_came = collections.deque([_NO_SIGNAL] * len(SIGNALS), len(SIGNALS))
_taken_out = zip(
    iter(_came.popleft, None), map(_came.append, itertools.repeat(_NO_SIGNAL)), strict=False
)
_sent = map(_thread.interrupt_main, map(operator.itemgetter(0), _taken_out))
_send = partial(next, zip(*[_sent] * len(SIGNALS), strict=True))


def _before() -> None:
    """Take what is held; first of all hooks, which run in the reverse order before a fork.

    That of `logging` takes a lock for which one may wait who compiles.
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
        _came.extend([_NO_SIGNAL] * len(SIGNALS))  # these are the parent's
        fork.signals.came.clear()
        fork.signals.__exit__()


def _under_way() -> _Fork:
    forks = _mine.__dict__.get("forks")
    return forks.pop() if forks else _Fork()  # a signal's handler has raised before anything else


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    os.register_at_fork(after_in_parent=_send)
