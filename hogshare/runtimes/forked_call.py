"""A call that no signal can interrupt, made in a fork of this process, which Ctrl-C ends.

Python answers a signal between two steps of the interpreter, and a factorisation in LAPACK is one
step, which may take minutes. No helper thread would do: much of SciPy's LAPACK keeps the
interpreter's lock, and a process that ends waits for threads of BLAS. A fork has the rows already,
without a copy, and returns what is much smaller.

The fork writes to its own end of a pipe, once; the caller reads that, and then has the fork ended
and reaped, whatever has come. It ends with the caller, too (on Linux, by the kernel).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

from threadpoolctl import threadpool_info

from hogshare.system.callers import warn
from hogshare.system.interrupts import DeferredSignals

T = TypeVar("T")

SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl
KILLED = "the solver's process was killed: most likely memory ran out."
# of BLAS, as threadpoolctl calls them
THREADS_THAT_SURVIVE = {"pthreads", "intel", "tbb", "sequential", "disabled"}


class CallOutcome(NamedTuple):
    """What has come of a call."""

    result: Any
    warned: list[tuple[str, type[Warning]]]
    error: BaseException | None


def forked(function: Callable[[], T]) -> T:
    """Call a function in a fork, and return its result: nothing else of what it does is seen.

    Its warnings and errors are the caller's. In another thread than the main one, to which no
    signals come, and where nothing can be forked or BLAS would not survive it, it is a plain call.

    Raises
    ------
    MemoryError
        If the fork was killed, as the system does where memory runs out.
    """
    if not may_fork():
        return function()
    reader, writer = os.pipe()
    pid = -1
    try:
        with DeferredSignals():  # or a fork would be nobody's
            try:
                pid = _fork()
            except OSError:  # no memory is left for one, or no number
                pid = -1
            if pid == 0:
                _serve(function, writer)
            os.close(writer)
        if pid < 0:
            return function()
        try:
            with open(reader, "rb", closefd=False) as pipe:
                # a signal's handler ends this by raising; and an answer is known by its own end,
                # since a fork that another thread has made meanwhile may have the pipe open
                outcome = CallOutcome(*pickle.load(pipe))
        except (EOFError, pickle.UnpicklingError):
            raise MemoryError(KILLED) from None
    finally:
        with DeferredSignals():
            os.close(reader)
            _end(pid)
    for text, category in outcome.warned:
        warn(text, category)
    if outcome.error is not None:
        raise outcome.error
    result: T = outcome.result
    return result


def changed_by_fork(instance: object, call: Callable[[], object]) -> None:
    """Make a call that fits an estimator in a fork, and have its attributes set in this process.

    Raises
    ------
    MemoryError
        As `forked`.
    """

    def changes() -> tuple[dict[str, Any], list[str]]:
        before = dict(vars(instance))
        call()
        after = vars(instance)
        # a fitted array, of which each name ends with _, may have been written in its place
        changed = {
            name: x
            for name, x in after.items()
            if name.endswith("_") or before.get(name, after) is not x
        }
        return changed, [name for name in before if name not in after]

    changed, gone = forked(changes)
    vars(instance).update(changed)
    for name in gone:  # such as names of features, of a fit before
        vars(instance).pop(name, None)


def may_fork() -> bool:
    """Whether a call of `forked` is made in a fork, unless the system has none to give."""
    is_main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_main and _blas_survives_forks()


def _blas_survives_forks() -> bool:
    """Whether BLAS starts its threads anew in a fork: by GNU's OpenMP it would wait for the old."""
    found = threadpool_info()
    return all(
        library["user_api"] != "blas" or library.get("threading_layer") in THREADS_THAT_SURVIVE
        for library in found
    )


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads: ours are seen to by `hogshare.system.forks`, BLAS's
        # by BLAS, and the fork calls nothing else that has any
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(function: Callable[[], Any], writer: int) -> NoReturn:
    """What the fork does; it never returns, and runs nothing of an interpreter's end."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the caller acts
        end_with_parent()
        with open(writer, "wb") as pipe:
            pipe.write(_outcome(function))
    finally:
        os._exit(0)


def _outcome(function: Callable[[], Any]) -> bytes:
    result, error = None, None
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            result = function()
        except BaseException as raised:
            error = raised
    warned = [(str(one.message), one.category) for one in found]
    try:
        return pickle.dumps(tuple(CallOutcome(result, warned, error)))
    except Exception as unfit:
        sentence = RuntimeError(f"what the solver found cannot be sent: {unfit}")
        return pickle.dumps(tuple(CallOutcome(None, warned, sentence)))


def _end(pid: int) -> None:
    """End a fork, if there is one and it has not ended, and reap it."""
    if pid > 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the user's handler has reaped it
            os.waitpid(pid, 0)


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, in the middle of a call too."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux, where the call's end is its end
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
