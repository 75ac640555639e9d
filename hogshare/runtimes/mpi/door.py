"""The only import of mpi4py: the import begins MPI, so only callers of MPI may cause it.

This file also stores the buffers of messages that an aborted call leaves under way.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from hogshare.system import extras

# set by Open MPI's launcher for its ranks, if it was started with --with-ft ulfm
WITH_SURVIVORS = "OMPI_MCA_mpi_ft_enable"
DIED = "has died"


@functools.cache
def library() -> Any:
    """Return the module `mpi4py.MPI`; the first call imports it, and so begins MPI.

    Raises ImportError if mpi4py is not installed, or finds no MPI.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library is found
        how = extras.command_for("mpi4py", "mpich")
        raise ImportError(
            f"runtime='mpi' needs mpi4py and an MPI, which are both available as wheels: {how} "
            f"({error})."
        ) from error
    return MPI


@functools.cache
def known() -> dict[str, Any]:
    """Return this MPI's version, and whether it supports threads and detects deaths.

    ``knows_deaths`` is True if an MPI call can raise a specific error when a rank of the call is
    dead (ULFM, the fault tolerance of MPI-5). Without this support, MPI waits for the dead rank, or
    ends all ranks.
    """
    mpi = library()
    return {
        "version": " ".join(mpi.Get_library_version().splitlines()[0].partition(",")[0].split()),
        "threads": mpi.Query_thread() == mpi.THREAD_MULTIPLE,
        # for an MPI without this error, mpi4py defines it as the error for unknown errors
        "knows_deaths": mpi.ERR_PROC_FAILED != mpi.ERR_UNKNOWN,
    }


def is_death(error: BaseException) -> bool:
    """Whether an error of MPI says that a rank has died."""
    mpi = library()
    if not isinstance(error, mpi.Exception) or mpi.ERR_PROC_FAILED == mpi.ERR_UNKNOWN:
        return False
    return error.Get_error_class() in (mpi.ERR_PROC_FAILED, mpi.ERR_PROC_FAILED_PENDING)


def death(error: BaseException, comm: Any) -> str | None:
    """Return a message that names the dead rank, or None if no death caused the error.

    When a rank dies in a collective call, the call may fail with any error on the other ranks.
    """
    if not isinstance(error, library().Exception) or not outlives_ranks():
        return None
    if not (dead := died(comm)) and not is_death(error):
        return None
    name = f"Rank {min(dead)}" if dead else "A rank"
    return f"{name} {DIED}, and this call needs every rank."


def died(comm: Any) -> list[int]:
    """Return the ranks of a communicator that have died, as far as this rank's MPI knows.

    After this call, a receive from any source (MPI.ANY_SOURCE) no longer fails because of these
    ranks.
    """
    if not outlives_ranks():
        return []
    failed, found = comm.Get_failed(), []
    if n := failed.Get_size():
        comm.Ack_failed()
        of_comm = comm.Get_group()
        found = library().Group.Translate_ranks(failed, list(range(n)), of_comm)
        of_comm.Free()
    failed.Free()  # polls call this thousands of times a second
    return [int(k) for k in found]


def leaves_others() -> bool:
    """Whether the launcher was started to leave the other ranks running after a death."""
    return os.environ.get(WITH_SURVIVORS) == "1"


def outlives_ranks() -> bool:
    """Whether ranks continue after a death: MPI detects it, and the launcher allows it."""
    return leaves_others() and bool(known()["knows_deaths"])


_left_behind: list[Any] = []


def leave_behind(*requests: Any) -> None:
    """Store the buffers of an aborted run's sends, which may never be received.

    MPI may still read these buffers, and a wait for the sends might never end.
    """
    _left_behind.extend(one for one in requests if one is not None and not one.Test())
