"""The prediction of `Report.predict` for two workers, against two workers.

Each round runs one worker and two, one after another, and predicts the ratio of their throughputs
from either run. A round in which a worker did not get its core's whole time is repeated, since its
wall time is useless; after that, processor time, halved for two workers, estimates their time with
separate cores. Medians over rounds, with quartiles. With ``--costs`` also the separate costs of
rows and exchanges: processor time per row against exchanges per row, over several intervals.
Usage::

    python bench/prediction.py --data zipf,imdb,a9a --json bench/results/prediction.json
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import script

from hogshare import Shared, Stop, datasets, problems, solve
from hogshare.planes.shared import descent_interval

COST_EPOCHS = 10
OWN_CORES = 0.97  # processor time over the workers' time, below which somebody else took a core
MOST_TRIES = 8


def run(problem: Any, n_workers: int, epochs: int, **more: Any) -> Any:
    """One run of plain SGD."""
    runtime = "caller" if n_workers == 1 else "threads"
    stop = Stop(epochs=epochs, tol=None)
    return solve(problem, n_workers=n_workers, runtime=runtime, stop=stop, seed=0, **more)


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75))
    return {"median": float(median), "low": float(low), "high": float(high)}


def timed(problem: Any, n_workers: int, epochs: int) -> tuple[Any, float, bool]:
    """A run, its processor time, and whether its workers had their cores for themselves."""
    before = time.process_time()
    report = run(problem, n_workers, epochs)
    spent = time.process_time() - before
    busy = sum(worker["mean_block_seconds"] * worker["blocks"] for worker in report.workers)
    return report, spent, spent >= OWN_CORES * busy


def compare(problem: Any, epochs: int, rounds: int) -> dict[str, Any]:
    """Measured and predicted ratios of two workers' throughput to one's."""
    keys = ("wall", "processor", "from_one", "from_two", "off_from_one", "off_from_two")
    kept: dict[str, list[float]] = {key: [] for key in keys}
    tried = 0
    run(problem, 2, 2)
    while len(kept["wall"]) < rounds and tried < MOST_TRIES * rounds:
        tried += 1
        (one, spent_one, alone_one), (two, spent_two, alone_two) = (
            timed(problem, k, epochs) for k in (1, 2)
        )
        if not alone_one:
            continue
        predicted = float(one.predict([2]).speedup[0])
        kept["processor"].append(2.0 * spent_one / spent_two)
        kept["from_one"].append(predicted)
        if not alone_two:
            continue
        wall = one.seconds["run"] / two.seconds["run"]
        again = float(two.predict([2]).speedup[0])
        kept["wall"].append(wall)
        kept["from_two"].append(again)
        kept["off_from_one"].append(predicted / wall - 1.0)
        kept["off_from_two"].append(again / wall - 1.0)
    counts = {"tried": tried, "one_alone": len(kept["from_one"]), "both": len(kept["wall"])}
    return {**counts, **{key: spread(values) for key, values in kept.items() if values}}


def costs(problem: Any, rounds: int) -> dict[str, float]:
    """Processor time of a row and of an exchange: least processor time of each interval."""
    auto = descent_interval(problem, 0.0, problem.n_rows, 2)
    pushes, times = [], []
    for interval in (max(1, auto // 4), max(2, auto // 2), auto, 4 * auto):
        least = np.inf
        for _ in range(rounds):
            before = time.process_time()
            report = run(problem, 2, COST_EPOCHS, plane=Shared(exchange=interval))
            spent = time.process_time() - before
            rows = sum(worker["rows"] for worker in report.workers)
            least = min(least, spent / rows)
        pushes.append(sum(worker["pushes"] for worker in report.workers) / rows)
        times.append(least)
    exchange, row = np.polyfit(pushes, times, 1)
    return {"row_ns": row * 1e9, "exchange_us": exchange * 1e6}


def measure(options: Any) -> dict[str, Any]:
    """Every set."""
    results = {}
    for name in options.data:
        X, y = datasets.load(name)
        problem = problems.linear(X.astype(options.dtype), y, alpha=1.0 / len(y))
        results[name] = compare(problem, options.epochs, options.rounds)
        if options.costs:
            results[name] |= costs(problem, options.rounds)
        print(name, json.dumps(results[name], indent=1), flush=True)
    settings = {name: getattr(options, name) for name in ("epochs", "rounds", "dtype")}
    return {"settings": settings, "sets": results}


if __name__ == "__main__":
    script.run(__doc__, measure, data=("zipf",), epochs=40, rounds=9, dtype="float32", costs=False)
