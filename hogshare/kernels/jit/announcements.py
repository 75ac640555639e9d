"""Announcements that kernels are being compiled, if compiling takes longer than a second.

Before a first fit runs, compiling takes some twenty seconds. In this file a *block* is the
outermost call of this package in a thread. Its first second of compiling is silent. After that one
line says what is compiled, for which caller, and where the code is cached. When the run begins or
the block ends, another line says how long compiling took. Loading machine code is not announced.

Lines are messages of the logger ``hogshare``, at the level INFO. Without a logging setup they go to
standard error instead; `logging` treats warnings in this way. Nothing is ever printed on standard
output. No line is a Python warning, because a test suite may treat warnings as errors. If logging
is set up, its levels decide. ``HOGSHARE_QUIET=1`` silences standard error in this process and in
processes that inherit the variable.

Writers: each thread writes the state of its own block. If several threads and processes compile at
the same time, one thread announces: it has a lock on the cache's folder (or, without a cache, on
this package's folder) until its block ends. The system frees the lock if the process dies.

This needs no thread and no timer. A kernel is compiled with a hundred helpers, and the compiler
checks before each helper whether the silent second is over.
"""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numba import types

from hogshare.kernels.jit import cache

try:
    import fcntl
except ImportError:  # not POSIX: each process announces for itself
    fcntl = None

SILENT_SECONDS = 1.0

log = logging.getLogger("hogshare")


class _State(threading.local):
    """The state of a thread's block."""

    depth = 0  # of blocks
    kernels = 0  # number of kernels that are being compiled, one within another
    name = ""  # the caller that the block compiles for
    silent = False
    began = 0.0  # when compiling began, if `kernels` is not 0
    arguments: Sequence[Any] = ()  # the kernel's argument types, as Numba has them
    seconds = 0.0  # time of the kernels compiled since the last announcement
    count = 0  # number of these kernels
    asked = False  # whether the right to announce has been decided: the silent second is over
    announces = False
    lock = None  # a descriptor, while this thread announces


_state = _State()
_process: dict[str, Any] = {"silent": False, "folder": lambda: None}


def cached_in(folder: Callable[[], Path | None]) -> None:
    """Set the function that returns the folder of the cache, or None if there is none."""
    _process["folder"] = folder


@contextlib.contextmanager
def block(name: str, silent: bool = False) -> Iterator[None]:
    """Announce the kernels that are compiled inside this context.

    name : the caller that the announcement names, for instance an estimator. If contexts are
        nested, the outermost name is used.
    silent : whether to announce nothing, because other code shows the compiling
    """
    if _state.depth == 0:
        _begin(name, silent)
    _state.depth += 1
    try:
        yield
        if _state.depth == 1:
            over()
    finally:
        _state.depth -= 1
        if _state.depth == 0:
            _end()


def over() -> None:
    """Announce the time of compiling so far, because the run begins now.

    Nothing is announced if compiling took less than SILENT_SECONDS, or if another thread or process
    announces.
    """
    s = _state
    if not s.count or s.kernels:
        return
    new = not s.asked and s.seconds >= SILENT_SECONDS and _ask()
    if s.announces:
        for_whom = f" for {s.name}" if new else ""
        plural = "s" * (s.count != 1)
        _announce(f"compiled {s.count} kernel{plural}{for_whom} in {s.seconds:.1f} s")
    if s.asked:
        s.seconds, s.count = 0.0, 0


def silence() -> None:
    """Announce nothing in this process, because its parent announces."""
    _process["silent"] = True


@contextlib.contextmanager
def compiling(name: str, arguments: Sequence[Any]) -> Iterator[None]:
    """Count the time inside this context as time of compiling a kernel.

    The time includes the functions that the kernel calls.

    arguments : the kernel's argument types, as Numba has them
    """
    s = _state
    with contextlib.nullcontext() if s.depth else block(name):
        if not s.kernels:
            s.began, s.arguments = time.perf_counter(), arguments
        s.kernels += 1
        try:
            yield
            s.count += 1
        finally:
            s.kernels -= 1
            if not s.kernels:
                s.seconds += time.perf_counter() - s.began
                s.arguments = ()


def tick() -> None:
    """Check whether the silent second is over; called again and again while a kernel compiles."""
    s = _state
    if s.asked or not s.kernels:
        return
    if s.seconds + time.perf_counter() - s.began >= SILENT_SECONDS and _ask():
        _announce(f"compiling kernels for {s.name}{_number(s.arguments)}: some 20 s, {_place()}")


def _ask() -> bool:
    """Decide whether this block announces, and return it; called once in a block."""
    _state.asked = True
    _state.announces = not (_state.silent or _process["silent"]) and _lock()
    return _state.announces


def _begin(name: str, silent: bool) -> None:
    s = _state
    s.name, s.silent = name, silent
    s.seconds, s.count, s.asked, s.announces = 0.0, 0, False, False


def _end() -> None:
    s = _state
    s.announces, s.asked = False, False
    if s.lock is not None:
        # unlocked explicitly, because a child that was forked meanwhile has the descriptor too
        fcntl.flock(s.lock, fcntl.LOCK_UN)
        os.close(s.lock)
        s.lock = None


def _place() -> str:
    """Describe where the code is cached, which also says whether other processes compile it too."""
    folder = _process["folder"]()
    if folder is None or cache._WARNED:
        return "in each process, because nothing can be cached"
    return f"once; cached in {folder}"


def _number(arguments: Sequence[Any]) -> str:
    """Return the dtype of the first float array among the arguments, in brackets, or ``""``.

    It is usually the rows' dtype.
    """
    for one in arguments:
        if isinstance(one, types.Array) and isinstance(one.dtype, types.Float):
            return f" ({one.dtype})"
        if isinstance(one, types.BaseTuple) and (found := _number(tuple(one))):
            return found
    return ""


def _lock() -> bool:
    """Take the right to announce; return False if another thread or process has it."""
    if fcntl is None:
        return True
    folder = _process["folder"]() or Path(__file__).parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True  # announcing twice is better than never
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    except OSError:  # a file system without locks
        os.close(descriptor)
        return True
    _state.lock = descriptor
    return True


def _announce(text: str) -> None:
    """Pass a line to the logger, or to standard error if logging is not set up."""
    if any(not isinstance(one, logging.NullHandler) for one in _handlers()):
        log.info(text)
    elif _is_welcome() and os.environ.get("HOGSHARE_QUIET", "0") in ("", "0"):
        with contextlib.suppress(Exception):  # standard error may be closed, or a broken pipe
            print(f"hogshare: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _handlers() -> Iterator[logging.Handler]:
    """Yield the handlers that get this logger's messages."""
    one = log
    while one is not None:
        yield from one.handlers
        one = one.parent if one.propagate else None


def _is_welcome() -> bool:
    """Return whether standard error is open and no level set by the user forbids INFO.

    The root logger's default level is WARNING, so this level alone forbids nothing.
    """
    if sys.stderr is None:  # or `print` would take standard output
        return False
    if log.disabled or log.manager.disable >= logging.INFO:
        return False
    level = log.getEffectiveLevel()
    return level <= logging.INFO or (
        level == logging.WARNING == logging.root.level and not log.level
    )
