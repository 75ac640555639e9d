"""What this machine's memory and threads cost, measured or assumed.

`hogshare info --probe` measures (`hogshare.runtimes.machine_probe`) and stores; the automatic
choices load. A file is good for one processor, one number of cores and one minor version of
hogshare; whatever else is found is as good as nothing, and the defaults hold. The environment's
``HOGSHARE_MACHINE`` names another file than the one in the cache folder.
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

CHECKS = 3  # more, at what others do
LARGEST = 1e12  # a constant beyond is no measurement


@dataclass(frozen=True)
class Machine:
    """Constants of a machine; the defaults are rounded from a server's (2 cores, Sapphire Rapids).

    All but `measured` are nanoseconds, or as their names say.
    """

    # One value of a sparse row of 67 among 47,236 features (rcv1's): dot product and update, of
    # rows that are streamed from memory in order; by one thread, and by each of as many threads as
    # there are usable cores, with a vector each.
    sparse_value_ns: float = 1.4
    sparse_value_many_ns: float = 1.4
    stream_gb_per_second: float = 24.0  # reading 64 MB in order
    dense_value_ns: float = 0.45  # one of a dense row of 54 (covtype's): dot product and update
    miss_ns: float = 160.0  # latency of a random cache line out of 64 MB
    line_transfer_ns: float = 5.0  # a line that another core has just written, in a row of many
    hand_over_ns: float = 80.0  # from a store by one core to another's that has waited for it
    # until a thread that sleeps begins, on another core, while the one that wakes it goes on
    thread_wake_ns: float = 100_000.0
    row_ns: float = 25.0  # of a row besides its values; not measured
    column_value_ns: float = 1.2  # of a value for each further column of the model; not measured
    measured: tuple[str, ...] = ()  # which of these have been

    def constants(self) -> dict[str, float]:
        """All of them by name."""
        return {name: getattr(self, name) for name in NAMES}

    def floor_ns(self, n_threads: int) -> float:
        """Least time per nonzero that SGD can take on sparse float32 rows.

        The nonzero is streamed and its coordinate read for the margin; then, when all of the row
        are known, it is changed and written. Rows come in order, and there is no loss, no schedule
        and nobody else. For one thread, or for as many as there are usable cores: then per nonzero
        of all threads.
        """
        return self.sparse_value_ns if n_threads == 1 else self.sparse_value_many_ns / n_threads


NAMES = tuple(field.name for field in fields(Machine) if field.name != "measured")


@functools.cache
def load() -> Machine:
    """The constants of this machine as stored, else the defaults; read once per process."""
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
    """Keep what has been measured, for this user only; from now on `load` returns it.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    kept = {name: getattr(machine, name) for name in machine.measured}
    content = json.dumps({"key": key(), "constants": kept}, indent=2)
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
    """What a stored file has to agree with."""
    return {
        "hogshare": ".".join(__version__.split(".")[:2]),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": usable_cores(),
    }


@functools.cache
def cores() -> int:
    """Cores of the whole machine; counted once, which reads a file."""
    return os.cpu_count() or 1


def usable_cores() -> int:
    """Cores that the system lets the calling thread run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return cores()


def busy_others(more: int = CHECKS) -> int:
    """Threads that run, or wait for a core, besides the calling one; 0 where nobody knows.

    Of the whole machine, also from inside of a container. The least of some looks, 6 microseconds
    each, or 90 after a pause: a thread of this process that has just done its part ends it when the
    first one lets the interpreter go.
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
    """The file that the user has named, wherever that is."""
    chosen = os.environ.get("HOGSHARE_MACHINE")
    return Path(chosen) if chosen else None


def _read() -> bytes:
    """What has been stored; from the cache folder only what nobody else can have put there."""
    if (chosen := _chosen()) is not None:
        return chosen.read_bytes()
    with DeferredSignals():  # or an interrupt may leave the file open
        return folders.read(_path())


def _path() -> Path:
    """The cache folder's file for this kind of machine: a home may be shared by several."""
    digest = hashlib.sha256(json.dumps(key()).encode()).hexdigest()[:16]
    return cache_root() / f"machine-{digest}.json"


def _processor() -> str:
    """Model name of the processor; on Linux `platform` does not know it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        # the first processor's part only: with many cores the file is slow to read
        for line in islice(lines, 32):
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "CPU part"):
                return value.strip()
    return platform.processor()
