"""The one place where mpi4py is imported: it begins MPI, so that nobody does who does not ask."""

from __future__ import annotations

import functools
from typing import Any

from hogshare.system import extras


@functools.cache
def library() -> Any:
    """The module `mpi4py.MPI`; MPI has begun when it is there.

    Raises ImportError if it is not installed, or finds no MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the second where no library of MPI's is found
        how = extras.command_for("mpi4py", "mpich")
        raise ImportError(
            f"runtime='mpi' needs mpi4py and an MPI, which both come as wheels: {how} ({error})."
        ) from error
    return MPI
