"""From one worker to all cores: time, epochs and ns per nonzero, and the machine's ceiling.

Log loss, l2, alpha = 1/n, no intercept; alternating contestants, medians over rounds. The ceiling
is the same number of one-worker runs at once, each on its own rows: the speed of the cores for
independent runs, which still share memory and clock. Usage::

    python bench/scaling.py --data zipf,imdb --workers 2,4,8,16 --json bench/results/scaling.json
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import psutil
import script
from sklearn.preprocessing import StandardScaler

from hogshare import SAGA, SDCA, SGD, Shared, Stop, datasets, problems, solve
from hogshare.lab.harness.settings import Setting
from hogshare.rules.automatic_rule import automatic_rule
from hogshare.runtimes import machine_probe
from hogshare.solvers import outcome

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of runs, in epochs
CEILING = "runs at once"
KINDS: dict[str, dict[str, Any]] = {
    "threads": {"runtime": "threads"},
    "processes": {"runtime": "processes"},
    "exchange=None": {"runtime": "threads", "plane": Shared(exchange=None)},
}


def load(name: str, data_home: str | None) -> tuple[Any, np.ndarray]:
    """A set by its name; those of more rows are made here."""
    if name == "zipf-large":
        return datasets.zipf_classification(n_samples=500_000, dtype=np.float32)
    if name == "dense":
        return datasets.dense(n_samples=500_000, n_features=100, dtype=np.float32)
    X, y = datasets.load(name, data_home=data_home)
    return (X, y) if hasattr(X, "indptr") else (StandardScaler().fit_transform(X), y)


class Race:
    """One set, one rule, any number of workers.

    Parameters
    ----------
    X, y : rows and labels
    rule : {"auto", "sgd"}
    targets : list of float
        Relative sub-optimality, falling.
    most : int
        Workers that look for the optimum.
    """

    def __init__(self, X: Any, y: np.ndarray, rule: str, targets: list[float], most: int) -> None:
        self._settings = {"alpha": 1.0 / X.shape[0], "fit_intercept": False}
        self._rows = X, y
        self._problems = [problems.linear(X, y, **self._settings)]
        self.rule = automatic_rule(self._problems[0]) if rule == "auto" else SGD()
        self._targets = targets
        precise = problems.linear(X.astype(np.float64), y, **self._settings)
        stop = Stop(epochs=300, gradient=0.01 * targets[-1])
        best = automatic_rule(precise)
        model = solve(precise, rule=best, stop=stop, seed=0, n_workers=most).model
        self._best = precise.objective(model.coef, model.intercept)

    def runs(self, kind: str, workers: int, rounds: int) -> list[list[tuple[float, float]]]:
        """Seconds and excess of whole runs, by length and round.

        Lengths end where the median run is at the last target.
        """
        self._run(kind, workers, 1, 0)  # warms up
        found: list[list[tuple[float, float]]] = []
        for n_epochs in LENGTHS:
            found.append([self._run(kind, workers, n_epochs, seed) for seed in range(rounds)])
            if statistics.median(excess for _, excess in found[-1]) <= self._targets[-1]:
                break
        return found

    def line(self, found: list[list[tuple[float, float]]]) -> dict[str, float]:
        """Milliseconds and epochs to each target, and ns per value and epoch of the longest."""
        seconds, excess = np.median(np.array(found), axis=1).T
        numbers: dict[str, float] = {}
        for target in self._targets:
            reached = np.flatnonzero(excess <= target)
            if reached.size:
                epochs, needed = between(int(reached[0]), seconds, excess, target)
                numbers |= {f"ms to {target:g}": 1e3 * needed, f"epochs to {target:g}": epochs}
        values = LENGTHS[len(found) - 1] * self._problems[0].nnz
        return {**numbers, "ns per value": 1e9 * float(seconds[-1]) / values}

    def _run(self, kind: str, workers: int, n_epochs: int, seed: int) -> tuple[float, float]:
        if kind != CEILING:
            plan = KINDS[kind] if workers > 1 else {"runtime": "caller"}
            return self._solve(self._problems[0], n_epochs, seed, n_workers=workers, **plan)
        X, y = self._rows
        while len(self._problems) < workers:
            self._problems.append(problems.linear(X.copy(), y.copy(), **self._settings))
        ends = script.at_once(
            lambda problem: self._solve(problem, n_epochs, seed, runtime="caller"),
            self._problems[:workers],
        )
        return statistics.fmean(seconds for seconds, _ in ends) / workers, ends[0][1]

    def _solve(self, problem: Any, n_epochs: int, seed: int, **plan: Any) -> tuple[float, float]:
        dual = isinstance(self.rule, SDCA) and "plane" in plan
        rule = SAGA() if dual else self.rule  # the dual needs private copies
        report = solve(problem, rule=rule, stop=Stop(epochs=n_epochs), seed=seed, **plan)
        objective = self._problems[0].objective(report.model.coef, report.model.intercept)
        excess = objective / self._best - 1.0
        return report.seconds["run"], excess if math.isfinite(excess) else math.inf


def between(k: int, seconds: np.ndarray, excess: np.ndarray, target: float) -> tuple[float, float]:
    """Epochs and seconds between two lengths, by the logarithm of the excess."""
    if k == 0:
        return 1.0, float(seconds[0])  # what less than an epoch gives is not looked at
    share = script.share_of_way(excess[k - 1], excess[k], target)
    epochs = LENGTHS[k - 1] + share * (LENGTHS[k] - LENGTHS[k - 1])
    return epochs, float(seconds[k - 1] + share * (seconds[k] - seconds[k - 1]))


def compare(
    race: Race, kinds: Sequence[str], workers: Sequence[int], rounds: int
) -> dict[str, Any]:
    """One worker first, then every kind with each number of workers."""
    lines = {"one worker": race.line(race.runs("threads", 1, rounds))}
    for n in workers:
        for kind in kinds:
            lines[f"{n} {kind}"] = race.line(race.runs(kind, n, rounds))
    one = lines["one worker"]
    for numbers in lines.values():
        for name in [name for name in numbers if name in one and not name.startswith("epochs")]:
            numbers["times: " + name] = one[name] / numbers[name]
    return lines


def measure(options: Any) -> dict[str, Any]:
    """Every set, with what the machine gives."""
    targets = sorted(options.targets, reverse=True)
    results: dict[str, Any] = {
        "machine": outcome.machine() | {"physical cores": psutil.cpu_count(logical=False)},
        "versions": outcome.versions(),
        "probe": asdict(machine_probe.probe()),
    }
    print(results, flush=True)
    for name in options.data:
        X, y = load(name, options.data_home)
        race = Race(X.astype(options.dtype), y, options.rule, targets, max(options.workers))
        lines = compare(race, options.kinds, options.workers, options.rounds)
        results[name] = {"rule": str(race.rule), **lines}
        script.show(lines, f"{name}, {race.rule}")
    return results


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        script.HOME,
        Setting("rule", "", "auto", choices=("auto", "sgd")),
        data=("zipf", "imdb", "a9a", "ijcnn1"),
        dtype="float32",
        targets=(1e-1, 1e-2, 1e-3),
        workers=(2, 4, 8, 16),
        kinds=(*KINDS, CEILING),
        rounds=5,
    )
