"""Time per epoch against scikit-learn, and two workers against one in time to the same objective.

Both are measured in one run, with alternating contestants: for the former medians and spread over
the rounds; for the latter, which has five times as many, medians and percentiles of their ratio.
Compiling and a warm-up run are excluded. Usage::

    python bench/throughput.py --data-home FOLDER --json bench/results/throughput.json
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import script
from sklearn.linear_model import SGDClassifier as ScikitSGD

import hogshare
from hogshare import Shared, Stop, datasets, problems, solve
from hogshare.runtimes import machine_probe
from hogshare.runtimes.choice import usable_workers

EPOCHS = 10
# What two cores give two runs that have nothing to do with each other, time per run: two workers
# of one run share the same caches and memory, and cannot be expected to do better.
CEILING = "two runs at once, each halved"
ONE = "one worker"
GOAL = 0.002  # of one worker's gain: late enough to matter, early enough not to be noise
RESAMPLES = 500

Run = tuple[float, float]  # what is missing of one worker's gain, and seconds


def per_epoch(X: Any, y: np.ndarray, n: int) -> dict[str, Any]:
    """Whole fits of both estimators, per nonzero and epoch."""
    settings = {"loss": "log_loss", "max_iter": EPOCHS, "tol": None, "random_state": 0}

    def fit(kind: Any, **extra: Any) -> Callable[[int], float]:
        return lambda number: script.seconds(lambda: kind(**settings, **extra).fit(X, y))

    contestants = {
        "scikit-learn": fit(ScikitSGD),
        "hogshare, n_jobs=1": fit(hogshare.SGDClassifier),
        "hogshare, n_jobs=2": fit(hogshare.SGDClassifier, n_jobs=2),
    }
    seconds = script.in_rounds(contestants, n)
    nnz = getattr(X, "nnz", None) or X.size
    return {name: [s / EPOCHS / nnz * 1e9 for s in runs] for name, runs in seconds.items()}


def time_to_objective(X: Any, y: np.ndarray, n: int) -> dict[str, dict[str, float]]:
    """Seconds after which the median model has 99.8 % of the gain that one worker makes.

    That is in `EPOCHS` epochs with alpha = 1 / n. (With the default alpha of 1e-4 text sets are
    done after about one epoch, and start-up decides.) Every round has runs of one epoch, two and so
    on, whole and without a trace, which would not see what workers have not exchanged yet. A single
    run is late or early by an epoch, by its last rows: so medians over the rounds, then between
    whole epochs by the logarithm of what is missing.
    """
    problem = problems.linear(X, y, alpha=1.0 / X.shape[0])
    twin = problems.linear(X.copy(), y.copy(), alpha=1.0 / X.shape[0])
    plans: dict[str, dict[str, Any]] = {
        ONE: {"runtime": "caller"},
        "two threads": {"runtime": "threads", "n_workers": 2},
        "two processes": {"runtime": "processes", "n_workers": 2},
        "two threads, exchange=None": {
            "runtime": "threads",
            "n_workers": 2,
            "plane": Shared(exchange=None),
        },
    }
    ends = []
    for seed in range(3):
        report = solve(problem, stop=Stop(epochs=EPOCHS), trace=1, seed=seed, runtime="caller")
        ends.append((report.trace.objective[0], report.trace.objective[-1]))
    start, end = (statistics.median(values) for values in zip(*ends, strict=True))
    if end >= start:
        return {}  # so few epochs do not get below the model of zeros with these step sizes

    def missing(model: Any) -> float:
        """Share of one worker's gain."""
        objective = problem.objective(model.coef, model.intercept)
        return (objective - end) / (start - end) if math.isfinite(objective) else math.inf

    def run(plan: dict[str, Any], n_epochs: int, seed: int) -> Run:
        report = solve(problem, stop=Stop(epochs=n_epochs), seed=seed, **plan)
        return missing(report.model), report.seconds["run"]

    def two_runs(n_epochs: int, seed: int) -> Run:
        run = {"stop": Stop(epochs=n_epochs), "seed": seed, "runtime": "caller"}
        both = script.at_once(lambda one: solve(one, **run), [problem, twin])
        return missing(both[0].model), statistics.fmean(r.seconds["run"] for r in both) / 2

    contestants: dict[str, Callable[[int, int], Run]] = {
        name: functools.partial(run, plan) for name, plan in plans.items()
    }
    contestants[CEILING] = two_runs
    most = dict.fromkeys(contestants, 0)
    for name, contestant in contestants.items():  # this warms them up, too
        left = 1.0
        while left > 0.5 * GOAL and most[name] < 2 * EPOCHS:
            most[name] += 1
            left = statistics.median(contestant(most[name], n + 1 + k)[0] for k in range(5))
        most[name] += 2  # five seeds may be lucky
    found = {name: np.empty((n, most[name], 2)) for name in contestants}
    for seed in range(n):
        for k in range(max(most.values())):
            for name, contestant in contestants.items():
                if k < most[name]:
                    found[name][seed, k] = contestant(k + 1, seed)
    if not math.isfinite(crossing(found[ONE])[1]):
        return {}
    lines = {name: to_goal(runs, found[ONE]) for name, runs in found.items()}
    return {name: line for name, line in lines.items() if math.isfinite(line["seconds"])}


def crossing(runs: np.ndarray) -> tuple[float, float]:
    """Epochs and seconds to the goal of the median model; infinite if it is not reached.

    runs : float64 array, shape (n_rounds, n_epochs, 2), what is missing and seconds
    """
    left, seconds = np.median(runs, axis=0).T
    left, seconds = np.append(1.0, left), np.append(0.0, seconds)
    reached = np.flatnonzero(left <= GOAL)
    if not reached.size:
        return math.inf, math.inf
    k = int(reached[0])
    # one worker passes it by chance
    share = script.share_of_way(left[k - 1], left[k], GOAL, least=0.05)
    return k - 1 + share, seconds[k - 1] + share * (seconds[k] - seconds[k - 1])


def to_goal(runs: np.ndarray, one: np.ndarray) -> dict[str, float]:
    """Epochs, seconds and the ratio to one worker's; its 10th and 90th percentile by bootstrap."""
    epochs, seconds = crossing(runs)
    rng = np.random.default_rng(0)
    ratios = []
    while len(ratios) < RESAMPLES:
        again = rng.integers(len(runs), size=len(runs))
        needed = crossing(one[again])[1]
        if math.isfinite(needed):  # or there is nothing to compare with
            ratios.append(needed / crossing(runs[again])[1])
    low, high = np.percentile(ratios, [10, 90])
    return {
        "rounds": len(runs),
        "epochs": epochs,
        "seconds": seconds,
        f"times faster than {ONE}": crossing(one)[1] / seconds,
        "10 %": float(low),
        "90 %": float(high),
    }


def summary(runs: dict[str, list[float]], against: str) -> dict[str, dict[str, float]]:
    """Median, spread, and the median of the ratios taken round by round."""
    return {
        name: {
            "rounds": len(times),
            "median": statistics.median(times),
            "min": min(times),
            "max": max(times),
            f"times faster than {against}": script.median_ratio(runs[against], times),
        }
        for name, times in runs.items()
    }


def measure(options: Any) -> dict[str, Any]:
    """Both questions of every set."""
    measured, cores = machine_probe.probe(), usable_workers(-1)
    floor = {f"{n} thread{'s' * (n > 1)}": measured.floor_ns(n) for n in sorted({1, cores})}
    results: dict[str, Any] = {"floor of sparse float32 rows, ns per nonzero": floor}
    print("floor", floor)
    for name in options.data:
        X, y = datasets.load(name, data_home=options.data_home)
        X = X.astype(options.dtype)
        results[name] = {
            "ns per nonzero and epoch": summary(per_epoch(X, y, options.rounds), "scikit-learn"),
            "seconds to the same objective": time_to_objective(X, y, 5 * options.rounds),
        }
        for title, lines in results[name].items():
            script.show(lines, f"{name}: {title}")
    return results


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        script.HOME,
        data=("zipf", "imdb", "a9a", "covtype-20k"),
        dtype="float32",
        rounds=7,
    )
