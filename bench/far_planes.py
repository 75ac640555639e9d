"""Planes on ranks that share no memory: seconds, bytes and where the objective comes to.

Log loss on rows like text (Zipf), l2 with alpha = 1/n, SGD, as many epochs for all, one worker a
rank. Each plane runs as the network is, and with links that are emulated besides ("wan": 50 ms,
67 Mbit/s). "threads" is as many workers in one process, for scale. Medians over rounds, with the
planes in turn; bytes are what all ranks send in an epoch, by kind. Usage::

    mpiexec -n 2 python -m mpi4py bench/far_planes.py --json bench/results/far_planes.json
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import script
from mpi4py import MPI as library

from hogshare import MPI, Mirrors, Replicas, Shared, datasets, problems, solve
from hogshare.links import Link
from hogshare.report import Report
from hogshare.solvers import outcome

COMM = library.COMM_WORLD
RANK, SIZE = COMM.Get_rank(), COMM.Get_size()
EVERY = 2500  # rows of a rank between two messages of homes
LINKS = {"network": None, "wan": Link(latency=0.05, bandwidth=8.4e6)}
PLANES = {
    "Shared()": Shared(),
    "Replicas('root')": Replicas("root", every=EVERY),
    "Mirrors, in step": Mirrors(SIZE, every=EVERY, threshold=0.1),
    "Mirrors, difference 4": Mirrors(SIZE, every=EVERY, threshold=0.1, clock_difference=4, queue=6),
}


def facts(problem: Any, report: Report) -> dict[str, float]:
    """What is kept of a run."""
    model, traffic = report.model, report.traffic or {}
    sent = {f"MB an epoch, {k}": v["bytes"] * 1e-6 / report.n_epochs for k, v in traffic.items()}
    found = {"seconds": float(report.run_seconds or 0.0), **sent}
    return {**found, "objective": problem.objective(model.coef, model.intercept)}


def measure(options: Any) -> dict[str, Any] | None:
    """Medians of every plane and link; rank 0 has them."""
    X, y = datasets.zipf_classification(n_samples=options.rows, n_features=options.features)
    problem = problems.linear(X, y, alpha=1.0 / options.rows)

    def over_ranks(by: MPI, plane: Any) -> Callable[[int], dict[str, float]]:
        run = {"runtime": by, "plane": plane, "stop": options.epochs, "n_workers": 1}
        return lambda seed: facts(problem, solve(problem, seed=seed, **run))

    def in_threads(seed: int) -> dict[str, float]:
        run = {"stop": options.epochs, "n_workers": SIZE, "runtime": "threads"}
        return facts(problem, solve(problem, seed=seed, **run)) if RANK == 0 else {}

    contestants: dict[str, Callable[[int], dict[str, float]]] = {
        f"{link}: {name}": over_ranks(MPI(rows="all", arena=False, link=between), plane)
        for link, between in LINKS.items()
        for name, plane in PLANES.items()
    }
    runs = script.in_rounds({**contestants, "threads": in_threads}, options.rounds)
    if RANK != 0:
        return None
    table = {name: script.medians(found) for name, found in runs.items()}
    script.show(table, f"{SIZE} ranks")
    return {
        "machine": outcome.machine(),
        "versions": outcome.versions() | {"mpi": library.Get_library_version().split("\n")[0]},
        "ranks": SIZE,
        "rows, features, epochs": [options.rows, options.features, options.epochs],
        **table,
    }


if __name__ == "__main__":
    script.run(__doc__, measure, rows=100_000, features=20_000, epochs=10, rounds=5)
