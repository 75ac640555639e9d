"""A measurement that all ranks of a job make together, without shared memory; rank 0 prints.

Every rank executes the whole measurement in lockstep with the others: it reads the rows, takes part
in each run, and summarises the runs.
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
    """Measure on all ranks, print and write files on rank 0; return the exit code.

    Every rank must call this function. The measurement finds the runtime of all ranks in
    ``args.assigned``.
    """
    from hogshare.runtimes.mpi.runtime import MPI

    if command.check is not None:
        command.check(args)
    runtime = MPI(arena=False)
    rank, size = runtime.place()
    if size == 1:
        raise options.WrongCommandLine(
            f"bench {command.name} needs several ranks, and there is one: start it with mpiexec "
            f"-n 2 python -m mpi4py -m hogshare bench {command.name}, or with srun in a job of "
            "several tasks"
        )
    try:
        result = runtime.lead(lambda: Measuring(args, command))
    except Exception:
        if rank:  # rank 0 reports for all
            return 1
        raise
    if rank == 0:
        outputs.store(args, result, command.show, command.draw)
    return 0


class Measuring(rank_command.RankCommand):
    """A measurement that all ranks make together."""

    def __init__(self, args: Any, measured: Command) -> None:
        super().__init__(args, lambda args: 0, None)
        self.measured, self.what = measured, f"bench {measured.name}"

    @property
    def n_workers(self) -> int:
        """Number of workers of this rank; by default its share of the cores."""
        return int(self.args.workers or -1)

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[Any, Mapping[str, Any]]:
        """Measure together with the other ranks; only rank 0's result is used."""
        place, _ = runtime.place()
        with _quiet(place > 0):
            if place == 0:
                check_files(self.args)
            args = argparse.Namespace(**{**vars(self.args), "assigned": {"runtime": runtime}})
            return self.measured.result(args), {}


@contextlib.contextmanager
def _quiet(is_other: bool) -> Iterator[None]:
    """Suppress the output of a rank other than the first."""
    if not is_other:
        yield
        return
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
