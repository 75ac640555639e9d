"""Free memory, and errors for allocations that exceed it.

Linux grants memory that it does not have, and kills a process that uses this memory. Code that is
about to use much memory therefore checks the free memory first.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

PLENTY = 1 << 28  # bytes that a file of any size may need
LITTLE = 1 << 26  # bytes below which memory is not checked: a check takes up to 0.5 ms
FOLD = 500  # a file that needs more than `PLENTY` may need this many times its size


def free(*, swap: bool = True, private: bool = True) -> int | None:
    """Return the bytes that can still be used, as Linux reports them; None if unknown.

    The result is the least of three numbers: (1) the free bytes of the machine and, with `swap`, of
    its swap space; (2) the bytes that the process's control groups (of either version) allow; (3)
    the bytes that the process's limits allow. The limit on data applies only to `private` memory,
    not to shared memory.
    """
    offers = [*_of_the_machine(swap), *_of_the_groups(), *_of_the_limits(private)]
    return max(0, min(offers)) if offers else None


def require(nbytes: int, what: str) -> None:
    """Raise MemoryError if more memory is needed than is free; small amounts are not checked.

    what : a phrase for the object that needs the memory; the subject of the error's sentence
    """
    if nbytes < LITTLE:
        return
    available = free()
    if available is not None and nbytes > available:
        raise MemoryError(
            f"{what} needs {amount(nbytes)} of memory, and {amount(available)} is free"
        )


def require_for_file(nbytes: int, size: int, what: str) -> None:
    """Refuse a file that needs more memory than is free, or than any file of its size can need.

    nbytes : number of bytes that the file needs in memory
    size : size of the file in bytes
    what : a phrase for the object that needs the memory, with the file's name

    Raises
    ------
    ValueError
        If `nbytes` is more than `PLENTY`, and more than `FOLD` times the file's size.
    MemoryError
        If `nbytes` is more than is free.
    """
    if nbytes > max(PLENTY, FOLD * size):
        raise ValueError(
            f"{what} needs {amount(nbytes)} of memory, which is more than {FOLD} times the file's "
            f"{amount(size)}: it is damaged, or made to fill the memory"
        )
    require(nbytes, what)


def amount(nbytes: int) -> str:
    """Format a number of bytes with its unit."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:,.2f} {unit}"
    return f"{nbytes} bytes"


def _of_the_machine(swap: bool) -> list[int]:
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        kib = {name: int(value.split()[0]) for name, value in (x.split(":", 1) for x in lines)}
        return [1024 * (kib["MemAvailable"] + (kib["SwapFree"] if swap else 0))]
    return []


def _of_the_groups() -> list[int]:
    offers = []
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                folder, names = Path("/sys/fs/cgroup"), ("memory.max", "memory.current")
            elif "memory" in controllers.split(","):
                folder = Path("/sys/fs/cgroup/memory")
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            else:
                continue
            own = folder / path.lstrip("/")
            offers += [
                left
                for group in (own, *own.parents)
                if group.is_relative_to(folder) and (left := _capacity(group, *names)) is not None
            ]
    return offers


def _capacity(group: Path, limit: str, usage: str) -> int | None:
    """Return the bytes left under a control group's limit, with its droppable file cache."""
    try:
        top = int((group / limit).read_text())  # "max" is not a number: no limit
        used = int((group / usage).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return max(0, top - used + int(stat.get("total_inactive_file", stat.get("inactive_file", 0))))


def _of_the_limits(private: bool) -> list[int]:
    """Return the bytes that `ulimit -v` and, for private memory, `ulimit -d` leave."""
    try:
        import resource  # Unix only
    except ImportError:
        return []
    # pages in statm: all, resident, shared, text, libraries, data and stack, dirty
    places = {resource.RLIMIT_AS: 0, **({resource.RLIMIT_DATA: 5} if private else {})}
    tops = [(resource.getrlimit(limit)[0], place) for limit, place in places.items()]
    tops = [(top, place) for top, place in tops if top != resource.RLIM_INFINITY]
    if not tops:
        return []
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = Path("/proc/self/statm").read_text().split()
        return [top - int(pages[place]) * resource.getpagesize() for top, place in tops]
    return []
