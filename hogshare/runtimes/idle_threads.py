"""Idle threads of other libraries that spin on the cores which a run needs.

After a threaded call OpenBLAS's threads wait for the next one awake, for 2^26 to 2^28 ticks (some
30 to 100 ms), and those of OpenMP for 1 to 200 ms: after a matrix product, a `predict` or a k-means
a run's workers share a core with somebody who does nothing. How long is settled when the library is
loaded, so nobody can be sent to sleep sooner; but idle threads can be ended, and the library starts
them again at its next threaded call (0.1 ms for one).

Who ends them: `end_spinning`, on the thread that begins a run, before its workers start.

- OpenBLAS has a function for it, which it calls itself before each fork. A call of another thread
  that computes meanwhile would never return; so all other threads of Python's have to sleep, at
  one and the same time: of two that call, one sleeps while it waits until the other is done.
  They are polled, and the function is called, without letting go of the interpreter, without which
  none of them can begin a call.
- OpenMP (5.0) has omp_pause_resource_all. GNU's ends the idle threads of the thread that calls it;
  LLVM's and Intel's, which MKL's are, those of the process, and only for a "hard" pause, which
  forgets the number of threads: it is set again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from typing import Any

from threadpoolctl import ThreadpoolController

from hogshare.system import machine

TASKS = "/proc/self/task"
LINE = 512  # bytes in which a thread's state stands
STATUS = 8192  # bytes in which its state and how often it has gone to sleep stand
PAUSE_HARD = 2  # OpenMP's omp_pause_hard

# Who looks for libraries has the C library's lock on all that are loaded: taken for a fork, see
# `hogshare.system.forks`.
_stopping = threading.RLock()
_libraries: list[Any] = []  # threadpoolctl's; looking for them takes some 4 ms
_modules = 0  # that were imported when they were looked for


def end_spinning(n_workers: int) -> list[str]:
    """End other libraries' idle threads if so many workers would share a core with them.

    Does nothing where enough cores are free, where another thread of Python's runs, which may be in
    a call of such a library, and where the system does not tell.

    Returns what was ended, for the report.
    """
    # one look: more would wait for those that run, and threads are asked themselves next
    if machine.busy_others(more=0) + n_workers <= machine.usable_cores():
        return []
    notes = []
    with contextlib.suppress(OSError):
        spinning = _strangers_awake()
        libraries = _known() if spinning else []
        if spinning > sum(max(0, library.num_threads - 1) for library in libraries):
            return []  # somebody besides Python calls them
        for library in libraries:
            if not spinning or not _end(library):
                continue
            left = _strangers_awake()
            if left < spinning:
                name = library.internal_api
                notes.append(f"{spinning - left} idle thread(s) of {name} that spun were ended")
            spinning = left
    return notes


def _known() -> list[Any]:
    global _libraries, _modules
    with _stopping:
        if len(sys.modules) != _modules:
            _modules = len(sys.modules)
            controllers = ThreadpoolController().lib_controllers
            _libraries = [library for library in controllers if _ender(library) is not None]
        return _libraries


def _ender(library: Any) -> tuple[str, tuple[int, ...]] | None:
    """Name and arguments of the library's function that ends its idle threads."""
    known: tuple[str, tuple[int, ...]]
    if library.internal_api == "openmp":
        known = "omp_pause_resource_all", (PAUSE_HARD,)
    elif library.internal_api == "openblas" and library.threading_layer == "pthreads":
        known = "blas_thread_shutdown_", ()
    else:
        return None
    return known if hasattr(library.dynlib, known[0]) else None


def _end(library: Any) -> bool:
    """End the library's idle threads, unless another thread of Python's runs."""
    name, args = _ender(library)  # type: ignore[misc]
    # of kinds that keep the interpreter in a call
    function = getattr(ctypes.PyDLL(None, handle=library.dynlib._handle), name)
    pread = ctypes.PyDLL(None).pread
    with contextlib.ExitStack() as stack:
        others, n_threads = [], library.num_threads
        for thread in threading.enumerate():
            if thread.native_id not in (None, threading.get_native_id()):
                with contextlib.suppress(FileNotFoundError):  # it has ended
                    path = f"{TASKS}/{thread.native_id}/status"
                    others.append(stack.enter_context(open(path, "rb")).fileno())
        page = ctypes.create_string_buffer(STATUS)

        def poll() -> list[bytes | None]:
            found = []
            for file in others:
                length = pread(file, page, STATUS, 0)  # before the page is copied
                found.append(_asleep(page.raw[: max(0, length)]))
            return found

        # From here on nobody else gets the interpreter. A thread that was asleep in two polls, and
        # has not gone to sleep in between, slept when the first one ended.
        first = poll()
        if None in first or poll() != first:
            return False
        function(*args)
    if library.num_threads != n_threads:
        library.set_num_threads(n_threads)
    return True


def _asleep(status: bytes) -> bytes | None:
    """How often a thread that sleeps has gone to sleep, by its status; None if it is awake.

    Of one that has ended there is no status, and it sleeps for good.
    """
    if not status:
        return b""
    state = status.partition(b"\nState:\t")[2][:1]
    sleeps = status.partition(b"\nvoluntary_ctxt_switches:\t")[2].partition(b"\n")[0]
    return sleeps if state == b"S" and sleeps else None


def _strangers_awake() -> int:
    """Threads of this process that are not Python's and run, or wait for a core."""
    ours = {str(thread.native_id) for thread in threading.enumerate()}
    awake = 0
    for task in os.listdir(TASKS):
        if task not in ours:
            with contextlib.suppress(FileNotFoundError), open(f"{TASKS}/{task}/stat", "rb") as file:
                awake += _state(file.read(LINE)) == b"R"
    return awake


def _state(line: bytes) -> bytes:
    """Of a thread, by its line; the name before it may hold brackets."""
    return line.rpartition(b") ")[2][:1]
