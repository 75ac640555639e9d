"""The one place where mpi4py is imported: it begins MPI, so that nobody does who does not ask.

Also what is done with messages that a call which was broken off leaves under way.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from hogshare.system import extras

# what Open MPI's launcher has its ranks find, if it was started with --with-ft ulfm
WITH_SURVIVORS = "OMPI_MCA_mpi_ft_enable"
DIED = "has died"


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


@functools.cache
def known() -> dict[str, Any]:
    """What this MPI is: its version, whether threads may share it, and deaths.

    ``knows_deaths`` says whether a call that meets a dead rank can raise an error that says so
    (ULFM, the fault tolerance of MPI-5); others wait for that rank, or end with it.
    """
    mpi = library()
    return {
        "version": " ".join(mpi.Get_library_version().splitlines()[0].partition(",")[0].split()),
        "threads": mpi.Query_thread() == mpi.THREAD_MULTIPLE,
        # an MPI without such an error has mpi4py take the one that stands for whatever is unknown
        "knows_deaths": mpi.ERR_PROC_FAILED != mpi.ERR_UNKNOWN,
    }


def is_death(error: BaseException) -> bool:
    """Whether an error of MPI says that a rank has died."""
    mpi = library()
    if not isinstance(error, mpi.Exception) or mpi.ERR_PROC_FAILED == mpi.ERR_UNKNOWN:
        return False
    return error.Get_error_class() in (mpi.ERR_PROC_FAILED, mpi.ERR_PROC_FAILED_PENDING)


def death(error: BaseException, comm: Any) -> str | None:
    """MPI's error in a sentence that names who has died; None: it is another one.

    What is collective may fail by any error when a rank dies in it.
    """
    if not isinstance(error, library().Exception) or not outlives_ranks():
        return None
    if not (dead := died(comm)) and not is_death(error):
        return None
    who = f"Rank {min(dead)}" if dead else "A rank"
    return f"{who} {DIED}, and this call needs every rank."


def died(comm: Any) -> list[int]:
    """Ranks of a communicator that have died, as this rank's MPI knows so far.

    From then on a receive from anybody does not fail because of them.
    """
    if not outlives_ranks():
        return []
    failed, found = comm.Get_failed(), []
    if n := failed.Get_size():
        comm.Ack_failed()
        of_comm = comm.Get_group()
        found = library().Group.Translate_ranks(failed, list(range(n)), of_comm)
        of_comm.Free()
    failed.Free()  # who polls asks thousands of times a second
    return [int(k) for k in found]


def leaves_others() -> bool:
    """Whether the launcher was asked to leave the other ranks alone when one has died."""
    return os.environ.get(WITH_SURVIVORS) == "1"


def outlives_ranks() -> bool:
    """Whether ranks go on when another has died: MPI knows, and the job was started so."""
    return leaves_others() and bool(known()["knows_deaths"])


_left_behind: list[Any] = []


def leave_behind(*requests: Any) -> None:
    """Keep the buffers of sends that nobody may ever receive, of a run that was broken off.

    MPI may still read them, and to wait for them could take for ever.
    """
    _left_behind.extend(one for one in requests if one is not None and not one.Test())
