"""What waiting for each other costs: runs behind barriers and with a master beside runs without.

Milliseconds of whole runs (`Report.seconds`), the same epochs for all, medians of rounds in which
the settings are taken in turn. Usage::

    python bench/waiting.py --data a9a --rounds 7 --json bench/results/waiting.json
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from summaries import store

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


def main() -> None:
    """Run the settings in turn, print a table, write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="zipf-small", help="sets, separated by commas")
    parser.add_argument("--workers", default="2,4", help="numbers of workers, by commas")
    parser.add_argument("--runtimes", default="threads,processes")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    workers = [int(n) for n in args.workers.split(",")]
    cases = [(runtime, n) for runtime in args.runtimes.split(",") for n in workers]
    found: dict[str, Any] = {}
    for data in args.data.split(","):
        X, y = datasets.load(data)
        problem = problems.linear(X.astype("float32"), y, alpha=1.0 / len(y))
        times: dict[tuple[str, str, int], list[float]] = {}
        for round_ in range(args.rounds + 1):
            for name, settings in SETTINGS.items():
                for runtime, n in cases:
                    more = {**settings, "runtime": runtime, "n_workers": n}
                    spent = run_ms(problem, args.epochs, round_, **more)
                    if round_:  # the first one loads kernels, and each process its own
                        times.setdefault((name, runtime, n), []).append(spent)
        print(f"{data}: milliseconds of {args.epochs} epochs, medians (fastest to slowest)")
        for key, values in times.items():
            spread = f"({min(values):.1f} to {max(values):.1f})"
            print(f"{key[0]:14} {key[1]:10}{key[2]:3} {statistics.median(values):9.1f} {spread}")
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
    if args.json:
        settings = {"epochs": args.epochs, "rounds": args.rounds, "dtype": "float32"}
        store(args.json, {**settings, "sets": found})


if __name__ == "__main__":
    main()
