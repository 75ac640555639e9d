"""``hogshare info``: versions, machine and what of it can be used."""

from __future__ import annotations

import json
import os
import platform
from typing import Any

from hogshare._version import __version__
from hogshare.cli import console

LIBRARIES = ("numpy", "numba", "llvmlite", "scipy", "scikit-learn", "joblib")
OPTIONAL = ("rich", "matplotlib", "mpi4py", "psutil")


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("info", help="show versions, cores, cache folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Print the facts as a table or as JSON."""
    facts = gather()
    if args.json:
        console.out(json.dumps(facts, indent=2))
    else:
        console.show_table(("what", "value"), [(k, _text(v)) for k, v in facts.items()])
    return 0


def gather() -> dict[str, Any]:
    """Collect everything there is to tell, as plain data."""
    import joblib

    from hogshare.kernels.jit import CACHE_FOLDER

    return {
        "hogshare": __version__,
        "python": platform.python_version(),
        **{name: version_of(name) for name in (*LIBRARIES, *OPTIONAL)},
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "usable cores": joblib.cpu_count(),
        "anonymous shared memory (memfd)": hasattr(os, "memfd_create"),
        "folder of compiled kernels": None if CACHE_FOLDER is None else str(CACHE_FOLDER),
    }


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, or None; imports nothing of it."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
