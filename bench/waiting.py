"""The cost of waiting: runs with barriers and with a master against runs without.

Milliseconds of whole runs (`Report.seconds`), the same epochs for all, medians of rounds with
alternating settings. Usage::

    python bench/waiting.py --data a9a --rounds 7 --json bench/results/waiting.json
"""

from __future__ import annotations

import functools
import itertools
import statistics
from typing import Any

import script

from hogshare import BSP, PSSP, SAGA, SSP, Master, Stop, Throttled, datasets, problems, solve

SETTINGS: dict[str, dict[str, Any]] = {
    "no barrier": {},
    "BSP": {"barrier": BSP()},
    "BSP, SAGA": {"barrier": BSP(), "rule": SAGA()},
    "SSP(1)": {"barrier": SSP(1)},
    "PSSP(1, 1)": {"barrier": PSSP(1, 1)},
    "Throttled(2)": {"barrier": Throttled(2)},
    "Master()": {"plane": Master()},
    "Master(), BSP": {"plane": Master(), "barrier": BSP()},
}


def run_ms(problem: Any, epochs: int, seed: int, **settings: Any) -> float:
    """Milliseconds of one run."""
    stop = Stop(epochs=epochs, tol=None)
    return 1e3 * float(solve(problem, stop=stop, seed=seed, **settings).seconds["run"])


def measure(options: Any) -> dict[str, Any]:
    """Every setting, runtime and number of workers."""
    found: dict[str, Any] = {}
    for data in options.data:
        X, y = datasets.load(data)
        problem = problems.linear(X.astype("float32"), y, alpha=1.0 / len(y))
        cases = itertools.product(SETTINGS, options.runtimes, options.workers)
        times = script.in_rounds(
            {
                (name, runtime, n): functools.partial(
                    run_ms, problem, options.epochs, runtime=runtime, n_workers=n, **SETTINGS[name]
                )
                for name, runtime, n in cases
            },
            options.rounds,
        )
        found[data] = [
            {
                "setting": name,
                "runtime": runtime,
                "workers": n,
                "milliseconds": statistics.median(values),
                "fastest": min(values),
                "slowest": max(values),
            }
            for (name, runtime, n), values in times.items()
        ]
        script.show(found[data], f"{data}, {options.epochs} epochs")
    settings = {"epochs": options.epochs, "rounds": options.rounds, "dtype": "float32"}
    return {**settings, "sets": found}


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        data=("zipf-small",),
        workers=(2, 4),
        runtimes=("threads", "processes"),
        epochs=5,
        rounds=7,
    )
