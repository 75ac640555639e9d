"""The end of a rank: it notifies the others, and an uncaught error ends the job.

When a rank ends, its MPI waits for all ranks to end. If another rank waited for that rank's part in
a call, both would wait for ever. So a rank that ends notifies the other ranks, and ranks that need
its part raise an error. An uncaught error ends the job under any launcher. Before the job ends, the
error's traceback is printed to standard error, and the notified ranks get a moment to print their
tracebacks. If a rank is killed, the launcher ends the other ranks.

Writer: the main thread, when a talk is opened and when the interpreter ends.
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
LEAVE_SECONDS = 2.0  # for a goodbye to be sent
NAP_SECONDS = 0.005
INTERRUPTED = 130  # a shell's exit status for a program that Ctrl-C has ended
ENDED = "has ended"

_talks: list[Talk] = []
_process = 0
_processes: set[int] = set()
_before: Any = None
_aborting: list[int] = []  # the script's exit status, if it ended by an error


def begin() -> None:
    """Make an uncaught error end the job from now on; only the first call has an effect."""
    global _process, _before
    if _process == os.getpid():
        return
    _process = os.getpid()
    _before, sys.excepthook = sys.excepthook, _end_by
    atexit.register(_at_exit)
    _hear_of_aborts()


def watch(talk: Talk) -> None:
    """Make this process say goodbye to the ranks of a talk when it ends."""
    _talks.append(talk)


def know(processes: Iterable[int]) -> None:
    """Note the processes of this machine's ranks: an uncaught error ends them."""
    _processes.update(processes)


def _hear_of_aborts() -> None:
    """Make ``python -m mpi4py`` also notify this module when the script has failed."""
    module = library()
    set_status = getattr(module, "_set_abort_status", None)
    if set_status is None:
        return

    def note_status(status: int) -> None:
        _aborting.append(status)
        set_status(status)

    module._set_abort_status = note_status


def _say_goodbye(how: str) -> None:
    for talk in _talks:
        for to in talk.others:
            talk.post(to, Letter(0, GOODBYE, how))


def _at_exit() -> None:
    """Say goodbye, and sleep until all others have, because MPI would take a core to wait."""
    if os.getpid() != _process or not _talks:
        return
    _say_goodbye(ENDED)
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
    """Print an uncaught error, and end the job."""
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
            os.kill(process, signal.SIGCONT)  # a launcher would wait for a halted process
    status = INTERRUPTED if issubclass(kind, KeyboardInterrupt) else 1
    if door.died(library().COMM_WORLD):
        _leave(status)
    library().COMM_WORLD.Abort(status)


def _leave(status: int) -> None:
    """End this process without MPI, which cannot end after a rank has died.

    Open MPI's finalization waits for the dead rank, or frees memory that a failed collective call
    has already freed. An abort does not help: a launcher that tolerates dead ranks waits for the
    ranks that the abort has ended.
    """
    global _process
    _process = 0  # this file has no further work at exit
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)
