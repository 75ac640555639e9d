"""Optional parts of the package: the extra that brings a library, and the command for it."""

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
    """Return the command that installs an optional library.

    It names the extra, which fixes suitable versions; pip then uses the installed package and
    searches no index for it. If the package is not installed, as with a checkout on the path, the
    command names the library alone: pip would otherwise search an index for this package, and
    install whatever has its name.

    A library is one of `EXTRAS`, or one with this name in pip, as the libraries of the races;
    libraries without an extra are given as `besides`.
    """
    by_extra = library in EXTRAS and _is_installed()
    wanted = f"'hogshare[{EXTRAS[library]}]'" if by_extra else library
    return " ".join(["pip install", wanted, *besides])


@functools.cache
def _is_installed() -> bool:
    """Return whether pip has installed the package."""
    try:
        metadata.distribution("hogshare")
    except metadata.PackageNotFoundError:
        return False
    return True
