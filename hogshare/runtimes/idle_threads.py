"""Idle threads of other libraries that spin on the cores which a run needs.

After a threaded call, a library's idle threads spin while they wait for the next call: OpenBLAS's
threads for 2^26 to 2^28 ticks (some 30 to 100 ms), OpenMP's threads for 1 to 200 ms. So after a
matrix product, a `predict` or a k-means, a run's workers share cores with idle threads. The
spinning time is fixed when the library is loaded, so the threads cannot be sent to sleep sooner.
But they can be ended; the library starts them again at its next threaded call (0.1 ms for each
thread).

`end_spinning` ends the idle threads. The thread that begins a run calls it before the workers
start.

- OpenBLAS has a function that ends its threads; it calls this function itself before each fork. If
  another thread is in a call that computes at this time, that call never returns. So all other
  Python threads must be asleep at one moment. (If two threads are in calls, one of them sleeps
  until the other is done.) This file polls the threads and calls the function without releasing the
  GIL in between, so no thread can begin a call.
- OpenMP (5.0) has omp_pause_resource_all. GNU's version ends the idle threads of the calling
  thread. LLVM's and Intel's version (also in MKL) ends the idle threads of the process, but only
  with a "hard" pause. A hard pause resets the number of threads, so this file sets it again.
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
LINE = 512  # bytes of a thread's stat file that contain its state
STATUS = 8192  # bytes of a thread's status file that contain its state and count of sleeps
PAUSE_HARD = 2  # OpenMP's omp_pause_hard

# A scan for libraries takes the C library's lock on its list of libraries. So a fork must take this
# lock first; see `hogshare.system.forks`.
_stopping = threading.RLock()
_libraries: list[Any] = []  # threadpoolctl's; a scan for them takes some 4 ms
_modules = 0  # number of imported modules at the last scan


def end_spinning(n_workers: int) -> list[str]:
    """End other libraries' idle threads if `n_workers` workers would share a core with them.

    The function does nothing in three cases: (1) enough cores are free; (2) another Python thread
    runs, which may be in a call of such a library; (3) the system does not report the states of
    threads.

    Returns notes on the ended threads, for the report.
    """
    # read once: more reads would wait for running threads; the threads themselves are read next
    if machine.busy_others(more=0) + n_workers <= machine.usable_cores():
        return []
    notes = []
    with contextlib.suppress(OSError):
        spinning = _strangers_awake()
        libraries = _known() if spinning else []
        if spinning > sum(max(0, library.num_threads - 1) for library in libraries):
            return []  # threads that are not Python's call the libraries
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
    """Return name and arguments of the library's function that ends its idle threads."""
    known: tuple[str, tuple[int, ...]]
    if library.internal_api == "openmp":
        known = "omp_pause_resource_all", (PAUSE_HARD,)
    elif library.internal_api == "openblas" and library.threading_layer == "pthreads":
        known = "blas_thread_shutdown_", ()
    else:
        return None
    return known if hasattr(library.dynlib, known[0]) else None


def _end(library: Any) -> bool:
    """End the library's idle threads, unless another Python thread runs."""
    name, args = _ender(library)  # type: ignore[misc]
    # PyDLL does not release the GIL in a call
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

        # From now on no other thread gets the GIL. If a thread was asleep in two polls, and its
        # count of sleeps has not changed in between, it was asleep when the first poll ended.
        first = poll()
        if None in first or poll() != first:
            return False
        function(*args)
    if library.num_threads != n_threads:
        library.set_num_threads(n_threads)
    return True


def _asleep(status: bytes) -> bytes | None:
    """Return a sleeping thread's count of sleeps, read from its status; None if it is awake.

    The status of a thread that has ended is empty; such a thread counts as asleep.
    """
    if not status:
        return b""
    state = status.partition(b"\nState:\t")[2][:1]
    sleeps = status.partition(b"\nvoluntary_ctxt_switches:\t")[2].partition(b"\n")[0]
    return sleeps if state == b"S" and sleeps else None


def _strangers_awake() -> int:
    """Return the number of this process's non-Python threads that run, or wait for a core."""
    ours = {str(thread.native_id) for thread in threading.enumerate()}
    awake = 0
    for task in os.listdir(TASKS):
        if task not in ours:
            with contextlib.suppress(FileNotFoundError), open(f"{TASKS}/{task}/stat", "rb") as file:
                awake += _state(file.read(LINE)) == b"R"
    return awake


def _state(line: bytes) -> bytes:
    """Return a thread's state from its stat line; the name before it may contain brackets."""
    return line.rpartition(b") ")[2][:1]
