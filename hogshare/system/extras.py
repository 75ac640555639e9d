"""Optional libraries: the package's extra for each, and the command that installs it."""

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

    If pip has installed this package, the command names the package's extra, which sets suitable
    versions. In this case pip uses the installed package, and does not search an index for the
    package. If the package is not installed, as with a checkout on the path, the command names only
    the library: pip would otherwise search an index for this package, and install any package with
    its name.

    library : a key of `EXTRAS`, or a library's name in pip, such as the libraries of the races
    besides : further libraries, without an extra
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
