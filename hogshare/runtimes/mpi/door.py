"""The one place where mpi4py is imported: it begins MPI, so that nobody does who does not ask.

Also what is done with messages that a call which was broken off leaves under way.
"""

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


_left_behind: list[Any] = []


def leave_behind(*requests: Any) -> None:
    """Keep the buffers of sends that nobody may ever receive, of a run that was broken off.

    MPI may still read them, and to wait for them could take for ever.
    """
    _left_behind.extend(one for one in requests if one is not None and not one.Test())


def take_back(request: Any) -> None:
    """Cancel a receive that nothing will come for."""
    if request:  # one that is done is MPI's null, as after an error before the next was posted
        request.Cancel()
        request.Wait()  # which does not block after a cancel
