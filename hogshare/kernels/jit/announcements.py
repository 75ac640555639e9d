"""Says that kernels are being compiled, where that takes so long that somebody would wonder.

A first fit stands still for some twenty seconds. So the first second of compiling of a *block*, the
outermost call of this package in a thread, is silent; then one line says what is compiled, for
whom and where it is kept, and one says how long it took, when the run begins or the block ends. Of
what is loaded nothing is said.

Lines are messages of the logger ``hogshare``, at the level INFO. Where nobody has set up logging
they go to standard error instead, as the last resort of `logging` does with warnings: nothing is
ever printed on standard output, and nothing is a warning, which a test suite may take for an error.
Who has set it up decides by its levels. ``HOGSHARE_QUIET=1`` silences standard error, in processes
that inherit it too.

Who writes: each thread its own block. Of several threads and processes that compile at the same
time one tells: it holds a lock on the cache's folder, or this package's if there is none, till its
block ends. The system frees it if the process dies.

No thread and no timer: a kernel is compiled with a hundred helpers, and the second is noticed where
the next one begins.
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
except ImportError:  # not POSIX: each tells for itself
    fcntl = None

SILENT_SECONDS = 1.0

log = logging.getLogger("hogshare")


class _State(threading.local):
    """Where a thread is."""

    depth = 0  # of blocks
    kernels = 0  # that are being compiled, one within another
    name = ""  # for whom
    silent = False
    began = 0.0  # to compile, if `kernels`
    arguments: Sequence[Any] = ()  # of the kernel, types of Numba's
    seconds = 0.0  # of the kernels that are compiled, since the last time that they were told
    count = 0  # of these kernels
    asked = False  # whether it tells; the silent second is over then
    tells = False
    lock = None  # a descriptor, while this thread tells


_state = _State()
_process: dict[str, Any] = {"silent": False, "folder": lambda: None}


def cached_in(folder: Callable[[], Path | None]) -> None:
    """Learn who says in which folder machine code is kept; None: in none."""
    _process["folder"] = folder


@contextlib.contextmanager
def block(name: str, silent: bool = False) -> Iterator[None]:
    """What is compiled in here is announced once, as what `name` needs: an estimator, say.

    The outermost block's name counts. Where it is `silent` something else shows that.
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
    """Tell how long it took so far, if that is worth a line: now the work begins."""
    s = _state
    if not s.count or s.kernels:
        return
    new = not s.asked and s.seconds >= SILENT_SECONDS and _ask()
    if s.tells:
        for_whom = f" for {s.name}" if new else ""
        plural = "s" * (s.count != 1)
        _announce(f"compiled {s.count} kernel{plural}{for_whom} in {s.seconds:.1f} s")
    if s.asked:
        s.seconds, s.count = 0.0, 0


def silence() -> None:
    """Let this process say nothing: its parent does."""
    _process["silent"] = True


@contextlib.contextmanager
def compiling(name: str, arguments: Sequence[Any]) -> Iterator[None]:
    """In here a kernel is compiled for arguments of these types, and others that it calls."""
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
    """See whether the silent second is over; called all the while that a kernel is compiled."""
    s = _state
    if s.asked or not s.kernels:
        return
    if s.seconds + time.perf_counter() - s.began >= SILENT_SECONDS and _ask():
        _announce(f"compiling kernels for {s.name}{_number(s.arguments)}: some 20 s, {_place()}")


def _ask() -> bool:
    """Whether this block tells; asked once."""
    _state.asked = True
    _state.tells = not (_state.silent or _process["silent"]) and _lock()
    return _state.tells


def _begin(name: str, silent: bool) -> None:
    s = _state
    s.name, s.silent = name, silent
    s.seconds, s.count, s.asked, s.tells = 0.0, 0, False, False


def _end() -> None:
    s = _state
    s.tells, s.asked = False, False
    if s.lock is not None:
        fcntl.flock(s.lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has it too
        os.close(s.lock)
        s.lock = None


def _place() -> str:
    """Whether others will have to wait too."""
    folder = _process["folder"]()
    if folder is None or cache._WARNED:
        return "in each process, for nothing can be kept"
    return f"once; kept in {folder}"


def _number(arguments: Sequence[Any]) -> str:
    """The rows' type of number, as far as arguments tell: the first array's of floats."""
    for one in arguments:
        if isinstance(one, types.Array) and isinstance(one.dtype, types.Float):
            return f" ({one.dtype})"
        if isinstance(one, types.BaseTuple) and (found := _number(tuple(one))):
            return found
    return ""


def _lock() -> bool:
    """Whether nobody else tells now; this thread does then."""
    if fcntl is None:
        return True
    folder = _process["folder"]() or Path(__file__).parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True  # rather twice than never
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
    """Hand a line to the logger, or to standard error where nobody has set up logging."""
    if any(not isinstance(one, logging.NullHandler) for one in _handlers()):
        log.info(text)
    elif _is_welcome() and os.environ.get("HOGSHARE_QUIET", "0") in ("", "0"):
        with contextlib.suppress(Exception):  # there may be none, or nobody who reads
            print(f"hogshare: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _handlers() -> Iterator[logging.Handler]:
    """Who gets this logger's messages."""
    one = log
    while one is not None:
        yield from one.handlers
        one = one.parent if one.propagate else None


def _is_welcome() -> bool:
    """Whether anybody can read it, and no level that is set forbids it; the root's is WARNING."""
    if sys.stderr is None:  # or `print` would take standard output
        return False
    if log.disabled or log.manager.disable >= logging.INFO:
        return False
    level = log.getEffectiveLevel()
    return level <= logging.INFO or (
        level == logging.WARNING == logging.root.level and not log.level
    )
