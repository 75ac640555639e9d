"""Costs of this machine's memory and threads, measured or assumed.

`hogshare info --probe` measures the costs (`hogshare.runtimes.machine_probe`) and stores them in a
file; the automatic choices load this file. A file is valid for one processor, one number of cores
and one minor version of hogshare. With any other file the defaults apply. The environment variable
``HOGSHARE_MACHINE`` names a file to use in place of the file in the cache folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import time
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from hogshare._version import __version__
from hogshare.system import files, folders
from hogshare.system.folders import cache_root
from hogshare.system.interrupts import DeferredSignals

CHECKS = 3  # further reads of the number of running threads
LARGEST = 1e12  # a larger constant is not a measurement


@dataclass(frozen=True)
class Machine:
    """Constants of a machine; the defaults are rounded values of a 2-core Sapphire Rapids server.

    All but `measured` are in nanoseconds, unless their names give another unit.
    """

    # One value of a sparse row with 67 of 47,236 features (as in rcv1): dot product and update, for
    # rows that are streamed from memory in order. The first constant is for one thread. The second
    # is for each of as many threads as there are usable cores, each thread with its own vector.
    sparse_value_ns: float = 1.4
    sparse_value_many_ns: float = 1.4
    stream_gb_per_second: float = 24.0  # reading 64 MB in order
    # one value of a dense row of 54 values (as in covtype): dot product and update
    dense_value_ns: float = 0.45
    miss_ns: float = 160.0  # latency of a random cache line out of 64 MB
    line_transfer_ns: float = 5.0  # reading a line that another core has just written, one of many
    hand_over_ns: float = 80.0  # from one core's store to the store of another that waited for it
    # from the waking of a sleeping thread to its start on another core, while the waker runs on
    thread_wake_ns: float = 100_000.0
    row_ns: float = 25.0  # a row, without its values; not measured
    column_value_ns: float = 1.2  # a value, for each further column of the model; not measured
    measured: tuple[str, ...] = ()  # names of the constants that were measured

    def constants(self) -> dict[str, float]:
        """Return all constants by name."""
        return {name: getattr(self, name) for name in NAMES}

    def floor_ns(self, n_threads: int) -> float:
        """Return the least time in ns per nonzero that SGD can take on sparse float32 rows.

        A nonzero is streamed, and its coordinate is read for the margin. Once the row's margin is
        known, the coordinate is changed and written. Rows come in order. Losses, schedules and
        other load are not counted.

        n_threads : 1 or the number of usable cores; nonzeros are counted over all threads
        """
        return self.sparse_value_ns if n_threads == 1 else self.sparse_value_many_ns / n_threads


NAMES = tuple(field.name for field in fields(Machine) if field.name != "measured")


@functools.cache
def load() -> Machine:
    """Return this machine's stored constants, or else the defaults; read once per process."""
    try:
        content = json.loads(_read())
    except (OSError, ValueError, RuntimeError):  # RuntimeError: no home, or nested too deeply
        return Machine()
    if not isinstance(content, dict) or content.get("key") != key():
        return Machine()
    constants = content.get("constants")
    if not isinstance(constants, dict) or not all(map(_is_constant, constants.items())):
        return Machine()
    return Machine(**constants, measured=tuple(constants))


def store(machine: Machine) -> None:
    """Store the measured constants, for this user only; from now on `load` returns them.

    Raises
    ------
    OSError
        If the constants cannot be written.
    """
    measured = {name: getattr(machine, name) for name in machine.measured}
    content = json.dumps({"key": key(), "constants": measured}, indent=2)
    try:
        if (path := _chosen()) is None:
            path = _path()
            folders.require(path.parent, make=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.replace(path, content.encode(), private=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if isinstance(error, folders.Unsafe):
            reason = f"{error.filename}: {reason}"
        raise OSError(f"the machine's constants could not be stored: {reason}") from error
    load.cache_clear()


def key() -> dict[str, Any]:
    """Return the key that a stored file must have to be valid."""
    return {
        "hogshare": ".".join(__version__.split(".")[:2]),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": usable_cores(),
    }


@functools.cache
def cores() -> int:
    """Return the number of the machine's cores; counted once, since counting reads a file."""
    return os.cpu_count() or 1


def usable_cores() -> int:
    """Return the number of cores on which the system lets the calling thread run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return cores()


def busy_others(more: int = CHECKS) -> int:
    """Return the number of other threads that run, or wait for a core; 0 if unknown.

    This counts threads of the whole machine, also inside a container. The result is the least of
    several reads, because a thread of this process that has just finished its part ends only when
    the calling thread releases the interpreter. A read takes 6 microseconds, or 90 after a pause.
    """
    with DeferredSignals(), contextlib.suppress(OSError, ValueError, IndexError):
        file = os.open("/proc/loadavg", os.O_RDONLY)
        try:
            least = _running(file)
            for _ in range(more):
                if least <= 1:
                    break
                time.sleep(0)
                least = min(least, _running(file))
            return max(0, least - 1)
        finally:
            os.close(file)
    return 0


def _running(file: int) -> int:
    running, _, _ = os.pread(file, 128, 0).split()[3].partition(b"/")
    return int(running)


def _is_constant(item: tuple[str, Any]) -> bool:
    name, value = item
    return name in NAMES and type(value) in (int, float) and 0.0 < value < LARGEST


def _chosen() -> Path | None:
    """Return the file that the user has named, if any."""
    chosen = os.environ.get("HOGSHARE_MACHINE")
    return Path(chosen) if chosen else None


def _read() -> bytes:
    """Return the stored file's content; refuse a cached file that another user may have written."""
    if (chosen := _chosen()) is not None:
        return chosen.read_bytes()
    with DeferredSignals():  # otherwise an interrupt may leave the file open
        return folders.read(_path())


def _path() -> Path:
    """Return the cache folder's file for this machine; several machines may share the folder."""
    digest = hashlib.sha256(json.dumps(key()).encode()).hexdigest()[:16]
    return cache_root() / f"machine-{digest}.json"


def _processor() -> str:
    """Return the model name of the processor, which `platform` does not know on Linux."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        # the first processor's part only: with many cores the file is slow to read
        for line in islice(lines, 32):
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "CPU part"):
                return value.strip()
    return platform.processor()
