"""What stragglers cost behind barriers: the experiments of ASYNC, with workers that sleep.

Asked, after Soori et al. 2019: with one of 8 workers late by 0, 30, 60 and 100 % the time to a
target stays within 10 % without a barrier and with throttled release, and grows behind BSP; with
the stragglers of a production cluster among 32 workers both are at least three times as fast as
BSP. Each block sleeps 30 ms, so that two cores are enough. Medians of rounds, barriers in turn. The
target is the same for all delays. Usage::

    python bench/stragglers.py --rounds 5 --json bench/results/stragglers.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hogshare import datasets
from hogshare.cli import barriers
from hogshare.stragglers import parse

DELAYS = ("0", "0.3", "0.6", "1")
SETTINGS = {
    "data": "dense",
    "loss": "log_loss",
    "penalty": "l2",
    "alpha": 1e-4,
    "l1_ratio": 0.0,
    "dtype": "float64",
    "exchange": "auto",
    "adds": "plain",
    "step": None,
    "block": None,
    "target": None,
    "points": 64,
    "seed": 0,
}


def controlled(X: Any, y: Any, rounds: int, base_ms: float) -> list[dict[str, Any]]:
    """One of 8 workers late by more and more; the first result's target holds for all."""
    results: list[dict[str, Any]] = []
    for delay in DELAYS:
        names = ["asp", "throttled:7", "bsp", "ssp:4"]
        settings = SETTINGS | {"workers": 8, "barriers": names, "epochs": 2, "rounds": rounds}
        settings |= {"stragglers": f"cds:{delay}", "base_ms": base_ms}
        settings["target"] = results[0]["target"] if results else None
        results.append(measured(X, y, settings))
    return results


def production(X: Any, y: Any, rounds: int, base_ms: float) -> list[dict[str, Any]]:
    """A quarter of 32 workers late by 1.5 to 10 blocks."""
    settings = SETTINGS | {"workers": 32, "epochs": 1, "rounds": rounds, "base_ms": base_ms}
    settings |= {"barriers": ["asp", "throttled:22", "bsp"], "stragglers": "pcs"}
    return [measured(X, y, settings)]


def measured(X: Any, y: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """One result without its traces, with what throughput alone would give."""
    result = barriers.measure(X, y, settings)
    barriers.show(result)
    law, workers = parse(settings["stragglers"], seed=settings["seed"]), settings["workers"]
    late = [1.0 + law.lateness(k, 0, workers, 1.0) for k in range(workers)]
    cores = result["machine"]["usable_cores"]
    result["load"] = max(run["cpu_seconds"] / run["seconds"] for run in result["runs"]) / cores
    result["ceiling"] = sum(1.0 / x for x in late) * max(late) / workers
    for run in result["runs"]:
        del run["trace"]
    return result


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--base-ms", type=float, default=30.0)
    parser.add_argument("--only", choices=("controlled", "production"), default=None)
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    X, y = datasets.dense(n_samples=8000, n_features=100, seed=0)
    found: dict[str, Any] = {}
    for name, experiment in (("controlled", controlled), ("production", production)):
        if args.only in (None, name):
            found[name] = experiment(X, y, args.rounds, args.base_ms)
    for name, results in found.items():
        for result in results:
            seconds = {row["barrier"]: row["seconds"] for row in result["table"]}
            over = seconds["bsp"] / seconds["asp"] if seconds["bsp"] and seconds["asp"] else None
            print(name, result["settings"]["stragglers"], seconds, "bsp over asp", over)
            print("  throughput alone", result["ceiling"], "load", result["load"])
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
