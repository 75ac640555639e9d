"""Planes on ranks that share no memory: seconds, bytes and where the objective comes to.

Log loss on rows like text (Zipf), l2 with alpha = 1/n, SGD, as many epochs for all, one worker a
rank. Each plane runs as the network is, and with links that are emulated besides ("wan": 50 ms,
67 Mbit/s). "threads" is as many workers in one process, for scale. Medians over rounds, with the
planes in turn; bytes are what all ranks send in an epoch, by kind. Usage::

    mpiexec -n 2 python -m mpi4py bench/far_planes.py --json bench/results/far_planes.json
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from mpi4py import MPI as library
from summaries import store

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


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """Of every number."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    X, y = datasets.zipf_classification(n_samples=options.rows, n_features=options.features)
    problem = problems.linear(X, y, alpha=1.0 / options.rows)
    runs: dict[str, list[dict[str, float]]] = {}
    for seed in range(options.rounds + 1):  # the first warms up
        for link, between in LINKS.items():
            by = MPI(rows="all", arena=False, link=between)
            for name, plane in PLANES.items():
                run = {"plane": plane, "stop": options.epochs, "seed": seed, "n_workers": 1}
                report = solve(problem, runtime=by, **run)
                runs.setdefault(f"{link}: {name}", []).append(facts(problem, report))
        if RANK == 0:
            run = {"stop": options.epochs, "seed": seed, "n_workers": SIZE, "runtime": "threads"}
            runs.setdefault("threads", []).append(facts(problem, solve(problem, **run)))
    if RANK != 0:
        return
    results: dict[str, Any] = {
        "machine": outcome.machine(),
        "versions": outcome.versions() | {"mpi": library.Get_library_version().split("\n")[0]},
        "ranks": SIZE,
        "rows, features, epochs": [options.rows, options.features, options.epochs],
        **{name: medians(found[1:]) for name, found in runs.items()},
    }
    for name in runs:
        print(f"{name:32s}", "  ".join(f"{k} {v:.4g}" for k, v in results[name].items()))
    if options.json:
        store(options.json, results)


if __name__ == "__main__":
    main()
