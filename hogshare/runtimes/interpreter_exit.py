"""Runs that go on when the interpreter ends: those of daemon threads, for which nobody waits.

Their workers are threads and processes that end with the interpreter, so runs are told to stop, and
get a moment to do so. The thread whose run has been cut short ends there: it must not go on with
half a model.

A thread of ours that is in code of the user's may be stuck there, and nobody can end it. It is left
behind: the interpreter ends daemon threads that wait for it. But one in a kernel does not wait, and
its code would be gone under its feet. So who comes back from the user's code when it has been left
behind goes no further: either it sees that, or whoever leaves sees that it has come back.

Who writes: a thread that begins a run adds it to `_running`, and takes it out at its end; each in
one step of the interpreter, so that no lock is needed. Who frees: nobody needs to; the entries keep
no run. A thread notes itself in `_outside`; only the end of the process writes `_left_behind`.
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

SECONDS = 1.0  # a run that does not end within is stuck in code of the user's

_running: dict[int, tuple[weakref.ref[Session], threading.Thread]] = {}
_ending = False
_outside: dict[int, str] = {}  # threads in code of the user's, and in which
_left_behind = False


@contextlib.contextmanager
def known(session: Session) -> Iterator[None]:
    """Have a run told when the interpreter ends.

    Raises SystemExit in another than the main thread, if it does: the run is not begun, or has been
    cut short.
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
    """Stop the runs of other threads, and wait a moment for them; at the interpreter's end."""
    global _ending
    _ending = True
    deadline = time.monotonic() + SECONDS
    while (left := _others()) and time.monotonic() < deadline:
        for session in left:
            session.stop()
        time.sleep(0.001)


def noted(function: Callable[..., T]) -> Callable[..., T]:
    """A function of the user's, by which a thread is known to be in it while it is."""
    name = getattr(function, "__qualname__", None) or repr(function)

    def ask(*args: Any) -> T:
        me = threading.get_ident()
        _outside[me] = name
        try:
            return function(*args)
        finally:
            _outside.pop(me, None)
            while _left_behind:
                time.sleep(0.01)

    ask.__qualname__ = name
    return ask


def are_outside(threads: Collection[int]) -> bool:
    """Whether there are threads, all of which are in code of the user's now."""
    return bool(threads) and all(thread in _outside for thread in threads)


def leave_behind(threads: Collection[int | None], tasks: Collection[Any]) -> list[str]:
    """Leave threads behind, if all that have a task are in code of the user's; says in which."""
    global _left_behind
    _left_behind = True
    inside = [name for thread, name in list(_outside.items()) if thread in threads]
    _left_behind = 0 < len(tasks) <= len(inside)
    return inside if _left_behind else []


def forget_threads() -> None:
    """In a forked child, which has none of them."""
    _outside.clear()


def _others() -> list[Session]:
    main, found = threading.main_thread(), list(_running.values())
    sessions = [session() for session, thread in found if thread is not main and thread.is_alive()]
    return [session for session in sessions if session is not None]


def _leave_if_over(me: threading.Thread) -> None:
    if _ending and me is not threading.main_thread():
        raise SystemExit("the process is ending")
