"""Runs that go on when the interpreter ends: those of daemon threads, for which nobody waits.

Their workers are threads and processes that end with the interpreter, so runs are told to stop, and
get a moment to do so. The thread whose run has been cut short ends there: it must not go on with
half a model.

Who writes: a thread that begins a run adds it to `_running`, and takes it out at its end; each in
one step of the interpreter, so that no lock is needed. Who frees: nobody needs to; the entries keep
no run.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hogshare.engine.session import Session

SECONDS = 1.0  # a run that does not end within is stuck in code of the user's

_running: dict[int, tuple[weakref.ref[Session], threading.Thread]] = {}
_ending = False


@contextlib.contextmanager
def known(session: Session) -> Iterator[None]:
    """Have a run told when the interpreter ends.

    Raises
    ------
    SystemExit
        In another than the main thread, if it does: the run is not begun, or has been cut short.
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


def _others() -> list[Session]:
    main, found = threading.main_thread(), list(_running.values())
    sessions = [session() for session, thread in found if thread is not main and thread.is_alive()]
    return [session for session in sessions if session is not None]


def _leave_if_over(me: threading.Thread) -> None:
    if _ending and me is not threading.main_thread():
        raise SystemExit("the process is ending")
