"""How much memory there is for what somebody is about to allocate, and errors that say so.

Linux grants memory that it does not have, and kills a process that then uses it. So who is about to
use much asks here first.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

PLENTY = 1 << 28  # bytes that any file may ask for, if they are there
LITTLE = 1 << 26  # bytes that are not looked for, which takes up to half a millisecond
FOLD = 500  # times its size that a file may ask for beyond


def free(*, swap: bool = True, private: bool = True) -> int | None:
    """Bytes that can still be used, as Linux tells; None where nobody tells.

    What the machine has (with `swap`, pages may be swapped out for it), what the control groups of
    this process (of either version) allow, and what its limits do, of which the one on data does
    not count what is shared and not `private`.
    """
    offers = [*_of_the_machine(swap), *_of_the_groups(), *_of_the_limits(private)]
    return max(0, min(offers)) if offers else None


def require(nbytes: int, what: str) -> None:
    """Raise MemoryError rather than allocate more than there is; little is not checked.

    `what` needs it: the beginning of the error's sentence.
    """
    if nbytes < LITTLE:
        return
    available = free()
    if available is not None and nbytes > available:
        raise MemoryError(
            f"{what} needs {amount(nbytes)} of memory, and {amount(available)} is free"
        )


def require_for_file(nbytes: int, size: int, what: str) -> None:
    """Refuse what a file asks for if it is more than there is, or if no file of its size needs it.

    `size` is the file's, in bytes; `what` needs it, with the file's name.

    Raises
    ------
    ValueError
        If it is much, and more than `FOLD` times the file's size.
    MemoryError
        If it is more than there is.
    """
    if nbytes > max(PLENTY, FOLD * size):
        raise ValueError(
            f"{what} needs {amount(nbytes)} of memory, which is more than {FOLD} times the file's "
            f"{amount(size)}: it is damaged, or made to fill the memory"
        )
    require(nbytes, what)


def amount(nbytes: int) -> str:
    """A number of bytes in words."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:,.2f} {unit}"
    return f"{nbytes} bytes"


def _of_the_machine(swap: bool) -> list[int]:
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        kib = {name: int(rest.split()[0]) for name, rest in (x.split(":", 1) for x in lines)}
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
    """Return the bytes left under a control group's limit, its droppable file cache included."""
    try:
        top = int((group / limit).read_text())  # "max" is no number: no limit
        used = int((group / usage).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return max(0, top - used + int(stat.get("total_inactive_file", stat.get("inactive_file", 0))))


def _of_the_limits(private: bool) -> list[int]:
    """What `ulimit -v` and `ulimit -d` leave; of the second only what is this process's own."""
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
