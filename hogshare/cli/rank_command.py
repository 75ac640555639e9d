"""A command on the ranks of MPI: each reads its part of the rows, and rank 0 does all else.

Rank 0 alone writes files, prints, and says what is wrong; the others have its exit code.
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

NOT_SAID = ("run", "prints", "n_jobs", "assigned")  # that may differ, or say nothing
ARRAYS = ("data", "columns", "lengths", "y")


def run(args: Any, command: Callable[..., int], part: Part | None = None) -> int:
    """Run a command by all ranks; its exit code.

    ``command(args)``, or ``command(args, gathered)`` if there are rows of all parts, has the
    workers of all ranks in ``args.assigned``. ``part(args, place, of)`` are rows that a rank reads,
    or None: it leaves that to rank 0.
    """
    from hogshare.runtimes.mpi.runtime import MPI

    runtime = MPI()
    rank, _ = runtime.place()
    try:
        code: int = runtime.lead(lambda: RankCommand(args, command, part))
    except Exception:
        if rank:  # of what rank 0 says
            return 1
        raise
    return code


class RankCommand:
    """A command that is led (`hogshare.runtimes.joint_runtime.Led`)."""

    def __init__(self, args: Any, command: Callable[..., int], part: Part | None) -> None:
        self.args, self.command, self.part = args, command, part

    what = "The command"

    @property
    def n_workers(self) -> int:
        """Of this rank: its share of the cores, if nobody says otherwise."""
        jobs: int | None = getattr(self.args, "n_jobs", None)
        return -1 if jobs is None else jobs

    def said(self) -> dict[str, Any]:
        """The command line."""
        return {k: v for k, v in vars(self.args).items() if k not in NOT_SAID}

    def shard(self, place: int, of: int) -> Shard:
        """What this rank reads."""
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
        """What the command gives."""
        from hogshare.io.libsvm import Gathered, IndexBeyond

        assigned = {"runtime": runtime, "n_jobs": n_workers}
        args = argparse.Namespace(**{**vars(self.args), "assigned": assigned})
        if not arrays:
            return self.command(args)
        told = next((one["beyond"] for one in facts if one["beyond"]), None)
        beyond = told and IndexBeyond(*told)
        some = any(one["some"] for one in facts)
        return self.command(args, Gathered(**arrays, some=some, beyond=beyond))

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[int, Mapping[str, Any]]:
        """Nothing: a command is for ranks that share memory; raises ValueError."""
        raise ValueError(
            "The command needs ranks that share memory: on several machines have a script fit the "
            "estimator, with runtime=hogshare.MPI()."
        )

    def received(self, made: int) -> int:
        """The exit code."""
        return made

    def take(self, received: int) -> int:
        """The same."""
        return received
