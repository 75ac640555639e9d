"""The end of daemon threads' runs when the interpreter ends.

The interpreter does not wait for daemon threads, and the workers of their runs end with the
interpreter. So when the interpreter ends, the runs of daemon threads are stopped, and get a moment
to end. If a run has been cut short, its thread raises an error, because the thread must not go on
with an incomplete model.

A pool thread may be stuck in the user's code, and cannot be ended. Such a thread is *left behind*:
the run does not wait for it. The interpreter ends daemon threads that wait for the GIL. But a
thread in a kernel does not wait for the GIL, and would run code that is gone. So if a thread
returns from the user's code after it was left behind, it goes no further.

Writers: a thread that begins a run adds the run to `_running`, and removes it at the run's end.
Each of these operations is one step of the interpreter, and needs no lock. The entries are weak and
need no freeing. A thread registers itself in `_outside`. Only the end of the process writes
`_left_behind`.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hogshare.engine.session import Session

T = TypeVar("T")

SECONDS = 1.0  # a run that takes longer to end is stuck in the user's code

_running: dict[int, tuple[weakref.ref[Session], threading.Thread]] = {}
_ending = False
_outside: dict[int, str] = {}  # thread in a user's function -> the function's name
_left_behind = False


@contextlib.contextmanager
def known(session: Session) -> Iterator[None]:
    """Register a run, which is stopped when the interpreter ends.

    If the interpreter ends, raises SystemExit in any thread except the main thread. The run then
    does not begin, or has been cut short.
    """
    key, me = id(session), threading.current_thread()
    _running[key] = weakref.ref(session, lambda _: _running.pop(key, None)), me
    try:
        _leave_if_over(me)
        yield
        _leave_if_over(me)
    finally:
        _running.pop(key, None)


def end_runs() -> None:
    """Stop the runs of other threads at the interpreter's end, and wait a moment for them."""
    global _ending
    _ending = True
    deadline = time.monotonic() + SECONDS
    while (left := _others()) and time.monotonic() < deadline:
        for session in left:
            session.stop()
        time.sleep(0.001)


def noted(function: Callable[..., T]) -> Callable[..., T]:
    """Wrap a user's function: each thread is registered while it is in the function."""
    name = getattr(function, "__qualname__", None) or repr(function)

    def ask(*args: Any) -> T:
        me = threading.get_ident()
        _outside[me] = name
        try:
            return function(*args)
        finally:
            # The order matters: `leave_behind` sets the flag and then reads `_outside`. So either
            # this thread sees the flag, or `leave_behind` sees that this thread has come back.
            _outside.pop(me, None)
            while _left_behind:
                time.sleep(0.01)

    ask.__qualname__ = name
    return ask


def are_outside(threads: Collection[int]) -> bool:
    """Whether there are threads, and all of them are in the user's code now."""
    return bool(threads) and all(thread in _outside for thread in threads)


def leave_behind(threads: Collection[int | None], tasks: Collection[Any]) -> list[str]:
    """If all threads with a task are in the user's code, leave them behind.

    Return the names of the user's functions that they are in.
    """
    global _left_behind
    _left_behind = True
    inside = [name for thread, name in list(_outside.items()) if thread in threads]
    _left_behind = 0 < len(tasks) <= len(inside)
    return inside if _left_behind else []


def forget_threads() -> None:
    """Forget the parent's threads in a forked child, which has none of them."""
    _outside.clear()


def _others() -> list[Session]:
    main, found = threading.main_thread(), list(_running.values())
    sessions = [session() for session, thread in found if thread is not main and thread.is_alive()]
    return [session for session in sessions if session is not None]


def _leave_if_over(me: threading.Thread) -> None:
    if _ending and me is not threading.main_thread():
        raise SystemExit("the process is ending")
