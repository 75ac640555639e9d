"""Choose an executor by the argument `workers`."""

from __future__ import annotations

import importlib
from typing import Any

from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.mpi.runtime import MPI
from hogshare.simulation.simulator import Simulator
from hogshare.system.messages import nearest
from hogshare.system.ranges import whole
from hogshare.tasks.executor import Executor
from hogshare.tasks.rank_executor import Job, RankExecutor
from hogshare.tasks.store import Shelf

PLACES = {
    "processes": ("process_executor", "ProcessExecutor"),
    "threads": ("thread_executor", "ThreadExecutor"),
}


def job_of(workers: Any) -> Job | None:
    """Return the job of MPI ranks for `workers`, or None if `workers` does not mean MPI.

    All ranks must call this function. Raises ValueError if there is only one rank.
    """
    if isinstance(workers, Job):
        return workers
    if isinstance(workers, str) and workers == "mpi":
        workers = MPI()
    return Job(workers) if isinstance(workers, MPI) else None


def executor_of(workers: Any, n_workers: int | None, shelf: Shelf) -> tuple[Executor, int]:
    """Return the executor for `workers`, and its number of workers.

    Raises ValueError or TypeError if `workers` names no executor.
    """
    if n_workers is not None:
        whole(1, n_workers=n_workers)
    if type(workers).__module__.partition(".")[0] == "distributed":
        from hogshare.tasks.cluster_executor import ClusterExecutor

        cluster = ClusterExecutor(shelf, workers, n_workers)
        return cluster, len(cluster.workers)
    if isinstance(workers, Job):
        ranks = RankExecutor(shelf, workers, n_workers)
        return ranks, len(ranks.workers)
    count = usable_workers(-1) if n_workers is None else int(n_workers)
    if isinstance(workers, Simulator):
        from hogshare.tasks.virtual_executor import VirtualExecutor

        return VirtualExecutor(shelf, count, workers), count
    if not isinstance(workers, str) or workers not in PLACES:
        hint = nearest(workers, (*PLACES, "mpi")) if isinstance(workers, str) else ""
        raise ValueError(
            "workers must be 'processes', 'threads', 'mpi', a Simulator, an MPI or a "
            f"dask.distributed.Client; got {workers!r}.{hint}"
        )
    place, name = PLACES[workers]
    module = importlib.import_module(f"hogshare.tasks.{place}")
    executor: Executor = getattr(module, name)(shelf, count)
    return executor, count
