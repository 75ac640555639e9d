"""Seconds and epochs to a relative sub-optimality of 1e-6: two threads against one worker.

The automatic rule, log loss, l2, alpha = 1/n, float64, contestants in turn, medians. Beside them
what two runs at once that have nothing to do with each other take, each halved: two workers of one
run share the same caches and memory. Usage::

    python bench/high_precision.py --data-home FOLDER --json bench/results/high_precision.json
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
from halfway import share_of_way
from summaries import store

from hogshare import Stop, datasets, problems, solve
from hogshare.rules.automatic import automatic_rule

RUNS: dict[str, dict[str, Any]] = {
    "one worker": {"runtime": "caller"},
    "two threads": {"runtime": "threads", "n_workers": 2},
}
CEILING = "two runs at once, each halved"
MOST_EPOCHS = 500


def reach(
    problem: Any,
    best: float,
    target: float,
    seed: int,
    first: int,
    beside: Barrier | None = None,
    **run: Any,
) -> tuple[float, float]:
    """Seconds and epochs of a run to a relative excess of `target` over the objective `best`.

    Between those of the shortest run that reaches it and those of the one before, by the logarithm
    of the excess. Runs are whole and without a trace, which would not see what workers have not
    exchanged yet. `first` is the first length that is tried, in epochs; nothing, of no length, is
    before one. With `beside` each run begins together with one of somebody else's.

    Raises
    ------
    RuntimeError
        If it is not reached, or by the first run already and that is longer than an epoch.
    """
    rule = automatic_rule(problem)
    nothing = problem.objective(np.zeros((problem.n_columns, problem.n_features)), np.zeros(1))
    before, before_seconds = nothing / best - 1.0, 0.0
    for n_epochs in range(first, MOST_EPOCHS):
        if beside is not None:
            beside.wait(600.0)
        report = solve(problem, rule=rule, stop=Stop(epochs=n_epochs), seed=seed, **run)
        excess = problem.objective(report.model.coef, report.model.intercept) / best - 1.0
        seconds = report.seconds["run"]
        if excess <= target and n_epochs == first > 1:
            break
        if excess <= target:
            share = share_of_way(before, excess, target)
            return before_seconds + share * (seconds - before_seconds), n_epochs - 1 + share
        before, before_seconds = excess, seconds
    raise RuntimeError(
        f"an excess of {target} is not first reached in {first} to {MOST_EPOCHS} epochs"
    )


def race(X: Any, y: np.ndarray, target: float, rounds: int, intercept: bool) -> dict[str, Any]:
    """Medians, and the medians of the ratios taken round by round."""
    settings = {"alpha": 1.0 / X.shape[0], "fit_intercept": intercept}
    problem = problems.linear(X, y, **settings)
    twin = problems.linear(X.copy(), y.copy(), **settings)
    rule = automatic_rule(problem)
    long = solve(problem, rule=rule, stop=Stop(epochs=500, gradient=1e-11), seed=0)
    best = problem.objective(long.model.coef, long.model.intercept)
    _, needed = reach(problem, best, target, 0, 1, runtime="caller")
    first = max(1, int(0.6 * needed))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*RUNS, CEILING)}
    for seed in range(rounds):
        for name, run in RUNS.items():
            found[name].append(reach(problem, best, target, seed, first, **run))
        together = Barrier(2)
        with ThreadPoolExecutor(2) as pool:
            both = list(
                pool.map(
                    lambda p, *a: reach(p, best, target, *a, runtime="caller"),
                    (problem, twin),
                    *([value] * 2 for value in (seed, first, together)),
                )
            )
        found[CEILING].append((statistics.fmean(s for s, _ in both) / 2, both[0][1]))
    return {
        "rule": str(rule),
        **{name: medians(found["one worker"], found[name]) for name in found},
    }


def medians(one: list[tuple[float, float]], runs: list[tuple[float, float]]) -> dict[str, float]:
    """Of a contestant, and of its ratios to one worker's seconds."""
    ratios = [a / b for (a, _), (b, _) in zip(one, runs, strict=True)]
    return {
        "seconds": statistics.median(seconds for seconds, _ in runs),
        "epochs": statistics.median(epochs for _, epochs in runs),
        "times faster": statistics.median(ratios),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="zipf,imdb,a9a,ijcnn1")
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--target", type=float, default=1e-6)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--intercept", action="store_true")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for name in options.data.split(","):
        X, y = datasets.load(name, data_home=options.data_home)
        X = X.astype(np.float64)
        results[name] = race(X, y, options.target, options.rounds, options.intercept)
        print(name, results[name].pop("rule"))
        for line, numbers in results[name].items():
            print(
                f"    {line:30s}", "  ".join(f"{k} {v:.4g}" for k, v in numbers.items()), flush=True
            )
    if options.json:
        store(options.json, results)


if __name__ == "__main__":
    main()
