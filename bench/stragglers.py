"""The cost of stragglers with barriers: the experiments of ASYNC, with workers that sleep.

Goal, after Soori et al. 2019: with one of 8 workers late by 0, 30, 60 and 100 % the time to a
target stays within 10 % without a barrier and with throttled release, and grows with BSP; with the
stragglers of a production cluster among 32 workers both are at least three times as fast as BSP.
Each block sleeps 30 ms, so two cores are enough. Medians of rounds with alternating barriers. The
target is the same for all delays. Cases that the file already has are not changed unless named.
Usage::

    python bench/stragglers.py --rounds 5 --json bench/results/stragglers.json
    python bench/stragglers.py --cases cds:0.6,pcs --json bench/results/stragglers.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import script

from hogshare import datasets
from hogshare.lab.experiments import common_options
from hogshare.lab.experiments.barriers import BARRIERS
from hogshare.stragglers import parse

CASES = ("cds:0", "cds:0.3", "cds:0.6", "cds:1", "pcs")
SETTINGS = BARRIERS.defaults(data="dense", base_ms=30.0, points=64)
CONTROLLED = {"workers": 8, "epochs": 2, "barriers": ["asp", "throttled:7", "bsp", "ssp:4"]}
PRODUCTION = {"workers": 32, "epochs": 1, "barriers": ["asp", "throttled:22", "bsp"]}


def measured(X: Any, y: Any, case: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One case without its traces, with what throughput alone would give BSP to lose."""
    settings = SETTINGS | (PRODUCTION if case == "pcs" else CONTROLLED) | settings
    settings |= {"stragglers": case, "step": settings["step"] or common_options.default_step(X)}
    problem = common_options.stated(X, y, settings)
    result = BARRIERS.measure(problem, BARRIERS.settle(problem, settings))
    BARRIERS.show(result)
    law, workers = parse(case, seed=settings["seed"]), settings["workers"]
    late = [1.0 + law.lateness(k, 0, workers, 1.0) for k in range(workers)]
    cores = result["machine"]["usable_cores"]
    result["load"] = max(run["cpu_seconds"] / run["seconds"] for run in result["runs"]) / cores
    result["ceiling"] = sum(1.0 / x for x in late) * max(late) / workers
    return result


def measure(options: Any) -> Iterator[dict[str, Any]]:
    """Every case; what the file has besides stays."""
    X, y = datasets.dense(n_samples=8000, n_features=100, seed=0)
    found = script.before(options)
    for case in options.cases:
        settings = {"rounds": options.rounds, "step": options.step or None}
        if options.epochs:
            settings["epochs"] = options.epochs
        if case not in ("cds:0", "pcs") and "cds:0" in found:
            settings["target"] = found["cds:0"]["target"]
        result = found[case] = measured(X, y, case, settings)
        print(f"{case}: throughput alone {result['ceiling']}, load {result['load']}")
        yield found


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=5, step=0.0, epochs=0, cases=CASES)
