"""A command that the ranks of a job measure together, as ranks that share no memory; rank 0 prints.

Every rank does all of it in step with the others: reads the rows, runs what is run, and sums up.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from hogshare.cli import options, outputs, rank_command
from hogshare.lab.harness.command import Command, check_files


def run(command: Command, args: Any) -> int:
    """Measure by all ranks, and have rank 0 print and store; the exit code.

    What is measured has the runtime of all ranks in ``args.assigned``.
    """
    from hogshare.runtimes.mpi.runtime import MPI

    if command.check is not None:
        command.check(args)
    runtime = MPI(arena=False)
    rank, size = runtime.place()
    if size == 1:
        raise options.WrongCommandLine(
            f"bench {command.name} measures between ranks, and there is one: start it by mpiexec "
            f"-n 2 python -m mpi4py -m hogshare bench {command.name}, or by srun in a job of "
            "several tasks"
        )
    try:
        result = runtime.lead(lambda: Measuring(args, command))
    except Exception:
        if rank:  # of what rank 0 says
            return 1
        raise
    if rank == 0:
        outputs.store(args, result, command.show, command.draw)
    return 0


class Measuring(rank_command.RankCommand):
    """The measurement, made by all ranks together."""

    def __init__(self, args: Any, measured: Command) -> None:
        super().__init__(args, lambda args: 0, None)
        self.measured, self.what = measured, f"bench {measured.name}"

    @property
    def n_workers(self) -> int:
        """Of this rank: its share of the cores, if nobody says otherwise."""
        return int(self.args.workers or -1)

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[Any, Mapping[str, Any]]:
        """What rank 0 has come to; the others' part is to have run with it."""
        place, _ = runtime.place()
        with _quiet(place > 0):
            if place == 0:
                check_files(self.args)
            args = argparse.Namespace(**{**vars(self.args), "assigned": {"runtime": runtime}})
            return self.measured.result(args), {}


@contextlib.contextmanager
def _quiet(is_other: bool) -> Iterator[None]:
    """Have a rank that is not the first print nothing."""
    if not is_other:
        yield
        return
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
