"""How a rank ends: it says so, and one that ends by an error ends the job.

MPI waits for every rank when one ends. Where others wait for that rank's part in a call, both would
wait for ever. So a rank that ends says goodbye, and who needs it then raises. An error that nobody
has caught ends the job, whoever has started it: its traceback stands on standard error by then, and
the others', if they were told, have had a moment to appear. That a rank is killed the launcher
sees, and ends the others.

Who writes: the main thread, when a talk is opened and when the interpreter ends.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from hogshare.runtimes.mpi import door
from hogshare.runtimes.mpi.door import library
from hogshare.runtimes.mpi.talk import GOODBYE, Letter, Talk

GRACE_SECONDS = 0.5  # for the others' tracebacks
LEAVE_SECONDS = 2.0  # for a goodbye to go
NAP_SECONDS = 0.005
INTERRUPTED = 130  # what a shell says of a program that Ctrl-C has ended
RESTING = "has ended"

_talks: list[Talk] = []
_process = 0
_processes: set[int] = set()
_before: Any = None
_aborting: list[int] = []  # what the script has left with, if by an error


def begin() -> None:
    """Have an error that nobody catches end the job from now on; the first call does it."""
    global _process, _before
    if _process == os.getpid():
        return
    _process = os.getpid()
    _before, sys.excepthook = sys.excepthook, _end_by
    atexit.register(_at_exit)
    _hear_of_aborts()


def watch(talk: Talk) -> None:
    """Have this process say goodbye on a talk when it ends."""
    _talks.append(talk)


def know(processes: Iterable[int]) -> None:
    """Note the processes of this machine's ranks, which an error that nobody catches ends."""
    _processes.update(processes)


def _hear_of_aborts() -> None:
    """Have ``python -m mpi4py`` tell here, too, that the script has failed."""
    module = library()
    tell = getattr(module, "_set_abort_status", None)
    if tell is None:
        return

    def told(status: int) -> None:
        _aborting.append(status)
        tell(status)

    module._set_abort_status = told


def _say_goodbye(how: str) -> None:
    for talk in _talks:
        for to in talk.others:
            talk.post(to, Letter(0, GOODBYE, how))


def _at_exit() -> None:
    """Say goodbye, and wait asleep for the others': MPI would wait for them on a core."""
    if os.getpid() != _process or not _talks:
        return
    _say_goodbye(RESTING)
    for talk in _talks:
        talk.flush(LEAVE_SECONDS)
    if door.died(library().COMM_WORLD):
        _leave(_aborting[-1] if _aborting else 0)
    if _aborting:  # mpi4py's launcher is about to end the job
        return
    while any(len(talk.gone) < talk.size - 1 for talk in _talks):
        for talk in _talks:
            talk.poll()
        time.sleep(NAP_SECONDS)


def _end_by(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error that nobody has caught, and end the job."""
    _before(kind, error, trace)
    if os.getpid() != _process:
        return
    sys.stderr.flush()
    _say_goodbye(f"has ended by {kind.__name__}: {error}")
    for talk in _talks:
        talk.flush(GRACE_SECONDS)
    time.sleep(GRACE_SECONDS)
    for process in _processes:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGCONT)  # a launcher waits for one that is halted
    status = INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1
    if door.died(library().COMM_WORLD):
        _leave(status)
    library().COMM_WORLD.Abort(status)


def _leave(status: int) -> None:
    """End this process without MPI, which cannot end where a rank has died.

    The end of Open MPI waits for that rank, or frees what a collective call that has failed has
    freed; and a launcher that outlives ranks waits for those that an abort has ended.
    """
    global _process
    _process = 0  # nothing of this file is left to do
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)
