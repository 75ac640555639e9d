"""Time per epoch against scikit-learn, and two workers against one in time to the same objective.

Everything is taken in one run, the contestants in turn, medians and spread over the rounds.
Compiling and a warm-up run are excluded. Usage::

    python bench/throughput.py --data-home FOLDER --json bench/results/throughput.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier as ScikitSGD

import hogshare
from hogshare import Shared, Stop, datasets, problems, solve
from hogshare.solvers import outcome

EPOCHS = 10
# What two cores give two runs that have nothing to do with each other, time per run: two workers
# of one run share the same caches and memory, and cannot be expected to do better.
CEILING = "two runs at once, each halved"


def rounds(contestants: dict[str, Callable[[], float]], n: int) -> dict[str, list[float]]:
    """Run the contestants in turn, `n` rounds after one that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for k in range(n + 1):
        for name, run in contestants.items():
            took = run()
            if k:
                seconds[name].append(took)
    return seconds


def per_epoch(X: Any, y: np.ndarray, n: int) -> dict[str, Any]:
    """Whole fits of both estimators, per nonzero and epoch."""
    settings = {"loss": "log_loss", "max_iter": EPOCHS, "tol": None, "random_state": 0}

    def fit(kind: Any, **extra: Any) -> float:
        start = time.perf_counter()
        kind(**settings, **extra).fit(X, y)
        return time.perf_counter() - start

    seconds = rounds(
        {
            "scikit-learn": lambda: fit(ScikitSGD),
            "hogshare, n_jobs=1": lambda: fit(hogshare.SGDClassifier),
            "hogshare, n_jobs=2": lambda: fit(hogshare.SGDClassifier, n_jobs=2),
        },
        n,
    )
    nnz = getattr(X, "nnz", None) or X.size
    return {name: [s / EPOCHS / nnz * 1e9 for s in runs] for name, runs in seconds.items()}


def time_to_objective(X: Any, y: np.ndarray, n: int) -> dict[str, Any]:
    """Seconds of the shortest run whose model has 99.8 % of the gain that one worker makes.

    That is in `EPOCHS` epochs with alpha = 1 / n. (With the default alpha of 1e-4 text sets are
    done after about one epoch, and start-up decides.) Runs are of whole epochs and without a trace,
    which would not see what workers have not exchanged yet. A round has one seed for all.
    """
    problem = problems.linear(X, y, alpha=1.0 / X.shape[0])
    plans = {
        "one worker": {"runtime": "caller"},
        "two threads": {"runtime": "threads", "n_workers": 2},
        "two processes": {"runtime": "processes", "n_workers": 2},
        "two threads, exchange=None": {
            "runtime": "threads",
            "n_workers": 2,
            "plane": Shared(exchange=None),
        },
    }
    ends, starts = [], []
    for seed in range(3):
        report = solve(problem, stop=Stop(epochs=EPOCHS), trace=1, seed=seed, runtime="caller")
        starts.append(report.trace.objective[0])
        ends.append(report.trace.objective[-1])
    # 99.8 % of one worker's gain: late enough to matter, early enough not to be decided by noise
    goal = statistics.median(ends) + 0.002 * (statistics.median(starts) - statistics.median(ends))
    if goal >= statistics.median(starts):
        return {}  # so few epochs do not get below the model of zeros with these step sizes
    twin = problems.linear(X.copy(), y.copy(), alpha=1.0 / X.shape[0])

    def shortest(plan: dict[str, Any], seed: int) -> tuple[int, float]:
        for n_epochs in range(1, 2 * EPOCHS + 1):
            report = solve(problem, stop=Stop(epochs=n_epochs), seed=seed, **plan)
            if problem.objective(report.model.coef, report.model.intercept) <= goal:
                return n_epochs, report.seconds["run"]
        return 0, float("nan")

    def two_runs(seed: int) -> float:
        n_epochs, _ = shortest(plans["one worker"], seed)
        if not n_epochs:
            return float("nan")

        def run(problem: Any) -> float:
            settings = {"stop": Stop(epochs=n_epochs), "seed": seed}
            return solve(problem, runtime="caller", **settings).seconds["run"]

        with ThreadPoolExecutor(2) as pool:
            return statistics.fmean(pool.map(run, [problem, twin])) / 2

    def in_turn(run: Callable[[int], float]) -> Callable[[], float]:
        seeds = itertools.count()
        return lambda: run(next(seeds))

    contestants = {
        name: in_turn(lambda seed, plan=plan: shortest(plan, seed)[1])
        for name, plan in plans.items()
    }
    contestants[CEILING] = in_turn(two_runs)
    return rounds(contestants, n)


def summary(runs: dict[str, list[float]], against: str) -> dict[str, dict[str, float]]:
    """Median, spread, and the median of the ratios taken round by round; NaN counts nowhere."""
    lines: dict[str, dict[str, float]] = {}
    for name, times in runs.items():
        values = [value for value in times if math.isfinite(value)]
        pairs = zip(runs[against], times, strict=True)
        ratios = [a / b for a, b in pairs if math.isfinite(a / b)]
        if not ratios:
            continue
        lines[name] = {
            "rounds": len(values),
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
            f"times faster than {against}": statistics.median(ratios),
        }
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="zipf,imdb,a9a,covtype-20k")
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for name in options.data.split(","):
        X, y = datasets.load(name, data_home=options.data_home)
        X = X.astype(options.dtype)
        results[name] = {
            "ns per nonzero and epoch": summary(per_epoch(X, y, options.rounds), "scikit-learn"),
            "seconds to the same objective": summary(
                time_to_objective(X, y, options.rounds), "one worker"
            ),
        }
        print(name)
        for title, lines in results[name].items():
            print(f"  {title}")
            for line, numbers in lines.items():
                print(f"    {line:28s}", "  ".join(f"{k} {v:.4g}" for k, v in numbers.items()))
    if options.json:
        results["machine"], results["versions"] = outcome.machine(), outcome.versions()
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
