"""More workers than cores, and a worker that is slowed ten times: what they cost in throughput.

Asked: a loss in proportion to the cores lost. So 4 or 8 workers on 2 cores should be as fast as 2,
and with one of two workers stopped nine milliseconds of ten the run should keep 1.1 of 2 cores'
speed. Times are of the run (`Report.seconds`), medians of rounds taken in turn. Usage::

    python bench/oversubscribed.py --data zipf --rounds 7 --json bench/results/oversubscribed.json
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from typing import Any

import numpy as np
import psutil
from summaries import store

from hogshare import Stop, datasets, problems, solve

STOPPED_SECONDS = 0.009
RUNNING_SECONDS = 0.001
WORKERS = (1, 2, 4, 8)


class Slowed:
    """Stops all processes of the crew nine milliseconds of ten while the block runs."""

    def __init__(self) -> None:
        started = psutil.Process().children(recursive=True)
        self.processes = [p.pid for p in started if p.name() == "hogshare-member"]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        while not self._over.is_set():
            self._send(signal.SIGSTOP)
            self._over.wait(STOPPED_SECONDS)
            self._send(signal.SIGCONT)
            self._over.wait(RUNNING_SECONDS)

    def _send(self, number: int) -> None:
        for process in self.processes:
            os.kill(process, number)

    def __enter__(self) -> Slowed:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._thread.join()


def run(problem: Any, runtime: str, workers: int, epochs: int, seed: int) -> Any:
    """One solve with a runtime named."""
    plan = {"runtime": runtime if workers > 1 else "caller", "n_workers": workers}
    return solve(problem, stop=Stop(epochs=epochs), seed=seed, **plan)


def facts(problem: Any, report: Any) -> tuple[float, float]:
    """Milliseconds per epoch, and the objective."""
    objective = problem.objective(report.model.coef, report.model.intercept)
    return 1e3 * report.seconds["run"] / report.n_epochs, objective


def compare(problem: Any, runtime: str, rounds: int, epochs: int) -> dict[str, dict[str, float]]:
    """Every number of workers, and two with one slowed, in turn."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(-1, rounds):  # the first round warms up
        for workers in WORKERS:
            report = run(problem, runtime, workers, epochs, max(seed, 0))
            found.setdefault(f"{workers}", []).append(facts(problem, report))
            if workers == 2 and runtime == "processes":
                with Slowed():
                    report = run(problem, runtime, 2, epochs, max(seed, 0))
                found.setdefault("2, one slowed", []).append(facts(problem, report))
    middle = {name: np.median(values[1:], axis=0) for name, values in found.items()}
    return {
        name: {
            "ms per epoch": float(values[0]),
            "speed over two workers": float(middle["2"][0] / values[0]),
            "objective over one worker": float(values[1] / middle["1"][1]),
        }
        for name, values in middle.items()
    }


def main() -> None:
    """Run every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="zipf")
    parser.add_argument("--data-home", default=None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    result: dict[str, Any] = {}
    for name in args.data.split(","):
        X, y = datasets.load(name, data_home=args.data_home)
        problem = problems.linear(X.astype(np.float32), y)
        for runtime in ("threads", "processes"):
            table = compare(problem, runtime, args.rounds, args.epochs)
            result[f"{name}, {runtime}"] = table
            for workers, values in table.items():
                numbers = (f"{value:8.3f}" for value in values.values())
                print(f"{name:8} {runtime:10} {workers:14}", *numbers)
    if args.json:
        store(args.json, result)


if __name__ == "__main__":
    main()
