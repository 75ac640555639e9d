"""Optional parts of the package: which extra brings a library, and what to type for it."""

from __future__ import annotations

import functools
from importlib import metadata

# by the library that is imported; pyproject.toml has the same extras
EXTRAS = {
    "rich": "cli",
    "matplotlib": "plot",
    "mpi4py": "mpi",
    "torch": "torch",
    "distributed": "dask",
    "pyarrow": "arrow",
}


def command_for(library: str, *besides: str) -> str:
    """What to type to have an optional library.

    By the extra, which knows the versions that will do. Pip takes the package that is installed
    for it and looks nowhere else. Where none is, as with a checkout on the path, the library is
    named alone: pip would look for this package in an index, and take whatever has its name.

    A library is one of `EXTRAS`, or one that pip knows by this name, as those that races are
    against; what comes with no extra is named `besides`.
    """
    by_extra = library in EXTRAS and _is_installed()
    wanted = f"'hogshare[{EXTRAS[library]}]'" if by_extra else library
    return " ".join(["pip install", wanted, *besides])


@functools.cache
def _is_installed() -> bool:
    """Whether pip knows of the package."""
    try:
        metadata.distribution("hogshare")
    except metadata.PackageNotFoundError:
        return False
    return True
