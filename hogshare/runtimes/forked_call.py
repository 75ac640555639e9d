"""Calls that Python cannot interrupt: they run in a fork of this process, which Ctrl-C ends.

Python handles a signal between two steps of the interpreter. A factorization in LAPACK is one step,
and may take minutes. A helper thread would not help: much of SciPy's LAPACK does not release the
GIL, and a process that ends waits for threads of BLAS. A fork has the rows without a copy, and its
result is much smaller than the rows.

The fork writes its result once to its end of a pipe. The caller reads the result. Then, in any
case, the caller ends and reaps the fork. If the caller ends first, the fork ends with it (on Linux,
the system's kernel ends the fork).
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
# threading layers of BLAS, named as in threadpoolctl
THREADS_THAT_SURVIVE = {"pthreads", "intel", "tbb", "sequential", "disabled"}


class CallOutcome(NamedTuple):
    """The result, warnings and error of a call."""

    result: Any
    warned: list[tuple[str, type[Warning]]]
    error: BaseException | None


def forked(function: Callable[[], T]) -> T:
    """Call a function in a fork, and return its result.

    The function runs on a copy of this process's memory, and its result is sent as a pickle. Its
    warnings and errors are repeated in the caller. The function is called without a fork in three
    cases: (1) the calling thread is not the main thread, and so gets no signals; (2) forks are
    impossible; (3) BLAS would not survive a fork.

    Raises
    ------
    MemoryError
        If the fork was killed, most likely by the system because memory ran out.
    """
    if not may_fork():
        return function()
    reader, writer = os.pipe()
    pid = -1
    try:
        with DeferredSignals():  # a signal in this block would lose the fork
            try:
                pid = _fork()
            except OSError:  # no memory, or no process number, is left
                pid = -1
            if pid == 0:
                _serve(function, writer)
            os.close(writer)
        if pid < 0:
            return function()
        try:
            with open(reader, "rb", closefd=False) as pipe:
                # A signal's handler ends this read by raising. The end of the pickle ends the read:
                # if another thread's fork has the pipe open, end of file may not come.
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
    """Call an estimator's fit in a fork, and copy the changed attributes to `instance`.

    Raises
    ------
    MemoryError
        If the fork was killed; see `forked`.
    """

    def changes() -> tuple[dict[str, Any], list[str]]:
        before = dict(vars(instance))
        call()
        after = vars(instance)
        # also by name: a fitted array (its name ends with _) may have been changed in place
        changed = {
            name: x
            for name, x in after.items()
            if name.endswith("_") or before.get(name, after) is not x
        }
        return changed, [name for name in before if name not in after]

    changed, gone = forked(changes)
    vars(instance).update(changed)
    for name in gone:  # such as the feature names of an earlier fit
        vars(instance).pop(name, None)


def may_fork() -> bool:
    """Whether `forked` makes its call in a fork, if the system can fork."""
    is_main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_main and _blas_survives_forks()


def _blas_survives_forks() -> bool:
    """Whether BLAS restarts its threads in a fork; with GNU's OpenMP it waits for old threads."""
    found = threadpool_info()
    return all(
        library["user_api"] != "blas" or library.get("threading_layer") in THREADS_THAT_SURVIVE
        for library in found
    )


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of forks in a process with other threads. `hogshare.system.forks`
        # handles this package's threads, and BLAS handles its own threads. The fork calls no other
        # code with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(function: Callable[[], Any], writer: int) -> NoReturn:
    """Run the call in the fork; never returns, and skips the interpreter's exit handlers."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's: the caller handles it
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
        sentence = RuntimeError(f"the solver's result or error cannot be sent: {unfit}")
        return pickle.dumps(tuple(CallOutcome(None, warned, sentence)))


def _end(pid: int) -> None:
    """End a fork, if there is one and it has not ended, and reap it."""
    if pid > 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the user's handler has reaped it
            os.waitpid(pid, 0)


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, even in the middle of a call."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux: it ends after the call
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
