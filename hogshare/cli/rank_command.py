"""Commands on MPI ranks: each rank reads its part of the rows; rank 0 does all other work.

Only rank 0 writes files, prints and reports errors; the other ranks return its exit code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from hogshare.io.libsvm import Gathered
    from hogshare.problems.shard import Shard

    Part = Callable[[Any, int, int], Gathered | None]

NOT_SAID = ("run", "prints", "n_jobs", "assigned")  # may differ between ranks, or are internal
ARRAYS = ("data", "columns", "lengths", "y")


def run(args: Any, command: Callable[..., int], part: Part | None = None) -> int:
    """Run a command on all ranks; return its exit code.

    Collective: all ranks must call it.

    command : a function that returns the exit code. Rank 0 calls ``command(args)`` or, with the
        rows of all parts, ``command(args, gathered)``. ``args.assigned`` contains the runtime and
        the number of workers
    part : ``part(args, place, of)`` returns the rows that a rank reads; if `part` is None, rank 0
        reads all rows
    """
    from hogshare.runtimes.mpi.runtime import MPI

    runtime = MPI()
    rank, _ = runtime.place()
    try:
        code: int = runtime.lead(lambda: RankCommand(args, command, part))
    except Exception:
        if rank:  # rank 0 reports for all
            return 1
        raise
    return code


class RankCommand:
    """A command that rank 0 leads; it implements `hogshare.runtimes.joint_runtime.Led`."""

    def __init__(self, args: Any, command: Callable[..., int], part: Part | None) -> None:
        self.args, self.command, self.part = args, command, part

    what = "The command"

    @property
    def n_workers(self) -> int:
        """Number of workers of this rank; -1 stands for the rank's share of the cores."""
        jobs: int | None = getattr(self.args, "n_jobs", None)
        return -1 if jobs is None else jobs

    def said(self) -> dict[str, Any]:
        """Return the command line, which must agree between ranks."""
        return {k: v for k, v in vars(self.args).items() if k not in NOT_SAID}

    def shard(self, place: int, of: int) -> Shard:
        """Return the rows that this rank reads."""
        from hogshare.problems.shard import Shard

        found = None if self.part is None else self.part(self.args, place, of)
        if found is None:
            return Shard({})
        facts = {"some": found.some, "beyond": found.beyond and found.beyond.parts}
        return Shard({name: getattr(found, name) for name in ARRAYS}, facts)

    def made(
        self,
        runtime: Any,
        n_workers: int | None,
        facts: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray],
    ) -> int:
        """Run the command on all rows; return its exit code."""
        from hogshare.io.libsvm import Gathered, IndexBeyond

        assigned = {"runtime": runtime, "n_jobs": n_workers}
        args = argparse.Namespace(**{**vars(self.args), "assigned": assigned})
        if not arrays:
            return self.command(args)
        found = next((one["beyond"] for one in facts if one["beyond"]), None)
        beyond = found and IndexBeyond(*found)
        some = any(one["some"] for one in facts)
        return self.command(args, Gathered(**arrays, some=some, beyond=beyond))

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[int, Mapping[str, Any]]:
        """Raise ValueError: the command works only on ranks that share memory."""
        raise ValueError(
            "The command needs ranks that share memory: on several machines fit the estimator in a "
            "script, with runtime=hogshare.MPI()."
        )

    def received(self, made: int) -> int:
        """Return the exit code."""
        return made

    def take(self, received: int) -> int:
        """Return the exit code of rank 0."""
        return received
