"""``hogshare info``: show versions, the machine, its usable part and its memory's speed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hogshare._version import __version__
from hogshare.cli import console
from hogshare.io.tables import cell

if TYPE_CHECKING:
    from hogshare.system.machine import Machine

LIBRARIES = ("numpy", "numba", "llvmlite", "scipy", "scikit-learn", "joblib")
OPTIONAL = ("rich", "matplotlib", "mpi4py", "psutil")
# a lower bound on the time of every SGD kernel, for rows with 67 of 47,236 features
FLOOR = "floor of sparse float32 rows, ns per nonzero"


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("info", help="show versions, cores, cache folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="measure the machine's constants (a second) and store them for automatic choices",
    )
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Print the facts as a table or as JSON; store measured constants."""
    measured = probe() if args.probe else None
    facts = gather()
    if measured:
        facts |= describe(measured, facts["usable cores"])
    console.show_data(args.json, facts, ("what", "value"), _rows(facts))
    if measured:
        from hogshare.system import machine

        machine.store(measured)
    return 0


def probe() -> Machine:
    """Measure the constants of this machine."""
    from hogshare.runtimes import machine_probe

    return machine_probe.probe()


def gather() -> dict[str, Any]:
    """Collect all facts, as plain data."""
    import joblib

    from hogshare.kernels.jit import decorators
    from hogshare.system import machine

    cores = joblib.cpu_count()
    return {
        "hogshare": __version__,
        "python": platform.python_version(),
        **{name: version_of(name) for name in (*LIBRARIES, *OPTIONAL)},
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": machine.cores(),
        "usable cores": cores,
        "anonymous shared memory (memfd)": hasattr(os, "memfd_create"),
        "folder of compiled kernels": None
        if decorators.CACHE_FOLDER is None
        else str(decorators.CACHE_FOLDER),
        **({"why there is none": decorators.NO_FOLDER} if decorators.NO_FOLDER else {}),
        "HOGSHARE_CACHE_DIR": os.environ.get("HOGSHARE_CACHE_DIR"),
        **describe(machine.load(), cores),
    }


def describe(machine: Machine, cores: int) -> dict[str, Any]:
    """Return the constants, the source of each, and the lower bound that follows from them."""
    sources = {True: "measured", False: "default"}
    return {
        "constants": {
            name: {"value": value, "source": sources[name in machine.measured]}
            for name, value in machine.constants().items()
        },
        FLOOR: {f"{n} thread{'s' * (n > 1)}": machine.floor_ns(n) for n in sorted({1, cores})},
    }


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, or None, without importing it."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts as lines of two cells; a fact with parts has a line for each."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from ((f"{name}: {part}", _text(v)) for part, v in value.items())
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{_text(value['value'])} ({value['source']})"
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else cell(value)
