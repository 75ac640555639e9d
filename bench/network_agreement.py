"""Networks: 2, 4 and 8 workers against one at the same epochs, on every plane, with barriers.

Digits (1,797 rows, 32 hidden units, batches of 32, 20 passes) and MNIST (the first 12,000 rows, 100
hidden units, batches of 50, 4 passes); relu, softmax, float32. Plain steps, momentum of 0.9 and
Adam, whose steps fall with the root of the passes so that the last ones add no noise. Each cell has
the median over seeds (each with its own start and order, the same for all workers) of two numbers:
the ratio of the training objective after the last pass to one worker's, and the ratio of its
decrease from the start to one worker's decrease. One worker's objectives are printed too, with
their differences between seeds. Goal: within 1 %.

Workers are threads, usually more than there are cores: a thread without a core delays its step by
an arbitrary number of the others' steps. With `--runtime simulator` they alternate instead. Usage::

    HOGSHARE_DATA=FOLDER python bench/network_agreement.py --json FILE
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import script
from sklearn.datasets import load_digits

from hogshare import ASP, BSP, SGD, SSP, Adam, Master, Shared, StepSize, datasets, problems, solve
from hogshare.problems import Params

MNIST_ROWS = 12_000
BATCH = {"digits": 32, "mnist": 50}
PASSES = {"digits": 20, "mnist": 4}
RULES: dict[str, tuple[Any, dict[str, Any], float]] = {
    "plain": (SGD, {}, 0.05),
    "momentum": (SGD, {"momentum": 0.9}, 0.005),
    "adam": (Adam, {}, 0.001),
}
PLANES = {"copies": Shared(), "one vector": Shared(exchange=None), "master": Master()}
BARRIERS = {"BSP": BSP(), "SSP 4": SSP(4), "ASP": ASP()}
WORKERS = (2, 4, 8)


def stated(data: str) -> Any:
    """The network on a set."""
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        return problems.network((X / 16.0).astype(np.float32), y, (32,))
    X, y = datasets.load("mnist-digits", dtype="float32")
    X = np.ascontiguousarray(X[:MNIST_ROWS] / np.float32(X.max()))
    return problems.network(X, y[:MNIST_ROWS], (100,))


def objective(problem: Any, data: str, rule: str, seed: int, **run: Any) -> float:
    """Where a run ends."""
    kind, settings, eta = RULES[rule]
    n = float(problem.n_rows)
    report = solve(
        problem,
        rule=kind(batch=BATCH[data], **settings),
        step=StepSize("invscaling", eta * n**0.5, 0.5),
        start=Params(problem.start(seed), n),  # rows before it, by which the first step is eta
        stop=PASSES[data],
        seed=seed,
        **run,
    )
    return float(problem.objective(report.model.params))


def compared(problem: Any, data: str, rule: str, seeds: int, runtime: str) -> list[dict[str, Any]]:
    """Cells of a set and a rule."""

    def ended(**run: Any) -> np.ndarray:
        return np.array([objective(problem, data, rule, seed, **run) for seed in range(seeds)])

    starts = np.array([problem.objective(problem.start(seed)) for seed in range(seeds)])
    alone = ended(runtime="caller")
    low, middle, high = np.quantile(alone, (0.0, 0.5, 1.0))
    one = {"start": float(np.median(starts)), "one worker": middle, "of seeds": [low, high]}
    table = []
    for plane, barrier, n in itertools.product(PLANES, BARRIERS, WORKERS):
        choices = {"plane": PLANES[plane], "barrier": BARRIERS[barrier]}
        reached = ended(runtime=runtime, n_workers=n, **choices)
        cell = {"data": data, "rule": rule, "plane": plane, "barrier": barrier, "workers": n}
        cell["objective ratio"] = float(np.median(reached / alone))
        cell["decline ratio"] = float(np.median((starts - reached) / (starts - alone)))
        table.append(cell)
    script.show(table, f"{data}, {rule}: {one}")
    return [{"data": data, "rule": rule, **one}, *table]


def measure(options: Any) -> dict[str, Any]:
    """Every set and rule."""
    results: list[dict[str, Any]] = []
    for data in options.data:
        problem = stated(data)
        for rule in options.rules:
            results += compared(problem, data, rule, options.seeds, options.runtime)
    settings = {"runtime": options.runtime, "seeds": options.seeds, "passes": PASSES}
    return {"settings": {**settings, "batch": BATCH}, "results": results}


if __name__ == "__main__":
    script.run(__doc__, measure, data=tuple(BATCH), rules=tuple(RULES), runtime="threads", seeds=5)
