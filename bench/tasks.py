"""Asynchronous tasks against ASYNC's figures: delay, production pattern, waits, overhead.

- Delay (figures 3 to 6): eight worker processes, one of them delayed by 0, 30, 60 and 100 %, tasks
  that sleep 20 ms and compute; the time to a target, and the waiting time of a worker, on three
  shapes.
- Production pattern (figures 7 and 8, table III): 32 worker processes, of which six take 1.5 to 2.5
  times as long and two up to ten times; asynchronous methods run without a barrier, and with one
  that releases 22.
- Overhead: milliseconds from submitting a task to collecting its result, one at a time, empty and
  with a model of 400 kB and 4 MB, by executor; "futures" is `concurrent.futures`.

Usage::

    python bench/tasks.py --json bench/results/tasks.json
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from operator import add
from typing import Any

import numpy as np
import script

from hogshare import AsyncContext, datasets
from hogshare.lab.experiments import common_options
from hogshare.lab.experiments.tasks import TASKS

DELAYS = ("cds:0", "cds:0.3", "cds:0.6", "cds:1")
SIZES = {"empty": 0, "400 kB": 50_000, "4 MB": 500_000}
OF_RANKS = "--overhead-of-ranks"


def shapes() -> dict[str, tuple[Any, np.ndarray]]:
    """Rows as large as RESULTS names them, in place of epsilon, mnist8m and rcv1."""
    sparse = datasets.zipf_classification(n_samples=20_000, n_features=47_236)
    return {
        "dense 4,000 x 200": datasets.dense(n_samples=4000, n_features=200),
        "dense 8,000 x 784": datasets.dense(n_samples=8000, n_features=784),
        "sparse 20,000 x 47,236": sparse,
    }


def race(X: Any, y: np.ndarray, rounds: int, **settings: Any) -> list[dict[str, Any]]:
    """The command's table, of log loss with alpha = 1/n."""
    run = {"alpha": 1.0 / len(y), "base_ms": 20.0, "runtime": "processes", "epochs": 8}
    given = TASKS.defaults(**run, rounds=rounds, points=4, **settings)
    table = TASKS.measure(common_options.stated(X, y, given), given)["table"]
    return [{k: v for k, v in row.items() if k not in ("contestant", "epochs")} for row in table]


def nothing(rows: Any, *values: Any) -> int:
    """An empty task."""
    return 0


def in_turn(one: Callable[[], Any], count: int) -> float:
    """Median milliseconds of a call, after some that warm up."""
    for _ in range(20):
        one()
    return 1e3 * statistics.median(script.seconds(one) for _ in range(count))


def overhead(workers: Any) -> dict[str, float]:
    """Milliseconds of a task by what travels with it; nothing on ranks that run them."""
    found = {}
    with AsyncContext(workers, n_workers=1) as ac:
        if ac.leads:
            points = ac.parallelize(np.zeros((8, 1)))
            for name, size in SIZES.items():

                def one(size: int = size) -> None:
                    values = (ac.broadcast(np.zeros(size)),) if size else ()
                    points.map(nothing, *values).reduce(add)
                    ac.collect()

                found[name] = in_turn(one, 50 if size > 100_000 else 200)
    return found


def overheads() -> dict[str, dict[str, float]]:
    """The same of all executors."""
    from distributed import Client, LocalCluster

    found = {"threads": overhead("threads"), "processes": overhead("processes")}
    ranks = [sys.executable, "-m", "mpi4py", __file__, OF_RANKS]
    job = subprocess.run(["mpiexec", "-n", "2", *ranks], stdout=subprocess.PIPE, check=True)
    found["ranks"] = json.loads(job.stdout)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(processes=True, silence_logs=50, **options) as own, Client(own) as client:
        found["Dask"] = overhead(client)
    with ProcessPoolExecutor(1) as pool:
        models = {name: np.zeros(size) for name, size in SIZES.items()}
        found["futures"] = {
            name: in_turn(lambda w=w: pool.submit(nothing, w).result(), 100)  # type: ignore[misc]
            for name, w in models.items()
        }
    return found


def measure(options: Any) -> dict[str, Any] | None:
    """Overhead, and every shape's races."""
    if options.overhead_of_ranks:
        if found := overhead("mpi"):
            print(json.dumps(found))
        return None
    results: dict[str, Any] = {"overhead, ms": overheads()}
    script.show(results["overhead, ms"], "overhead, ms")
    cluster: dict[str, Any] = {"stragglers": ["pcs"], "workers": 32}
    parts: dict[str, dict[str, Any]] = {
        "delay": {"stragglers": list(DELAYS)},
        "production": cluster,
        "production, 22 released": {**cluster, "available": 22},
    }
    for name, (X, y) in shapes().items():
        results[name] = {what: race(X, y, options.rounds, **how) for what, how in parts.items()}
        for what, table in results[name].items():
            script.show(table, f"{name}, {what}")
    return results


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=3, overhead_of_ranks=False)
