"""More workers than cores, and a worker that is slowed ten times: the loss of throughput.

Goal: a loss in proportion to the lost cores. So 4 or 8 workers on 2 cores should be as fast as 2,
and with one of two workers stopped nine milliseconds of ten the run should have the speed of 1.1 of
2 cores. Times are of the run (`Report.seconds`), medians of alternating rounds. Usage::

    python bench/oversubscribed.py --data zipf --rounds 7 --json bench/results/oversubscribed.json
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import script

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


def facts(problem: Any, report: Any) -> dict[str, float]:
    """Milliseconds per epoch, and the objective."""
    objective = problem.objective(report.model.coef, report.model.intercept)
    return {"ms": 1e3 * report.seconds["run"] / report.n_epochs, "objective": objective}


def compare(problem: Any, runtime: str, rounds: int, epochs: int) -> dict[str, dict[str, float]]:
    """Every number of workers, and two with one slowed."""

    def run(workers: int, seed: int) -> dict[str, float]:
        plan = {"runtime": runtime if workers > 1 else "caller", "n_workers": workers}
        return facts(problem, solve(problem, stop=Stop(epochs=epochs), seed=seed, **plan))

    def slowed(seed: int) -> dict[str, float]:
        with Slowed():
            return run(2, seed)

    contestants: dict[str, Callable[[int], dict[str, float]]] = {
        f"{workers}": functools.partial(run, workers) for workers in WORKERS
    }
    if runtime == "processes":
        contestants["2, one slowed"] = slowed
    runs = script.in_rounds(contestants, rounds)
    middle = {name: script.medians(found) for name, found in runs.items()}
    return {
        name: {
            "ms per epoch": values["ms"],
            "speed over two workers": middle["2"]["ms"] / values["ms"],
            "objective over one worker": values["objective"] / middle["1"]["objective"],
        }
        for name, values in middle.items()
    }


def measure(options: Any) -> dict[str, Any]:
    """Every set and runtime."""
    result: dict[str, Any] = {}
    for name in options.data:
        X, y = datasets.load(name, data_home=options.data_home)
        problem = problems.linear(X.astype(np.float32), y)
        for runtime in ("threads", "processes"):
            key = f"{name}, {runtime}"
            result[key] = compare(problem, runtime, options.rounds, options.epochs)
            script.show(result[key], key)
    return result


if __name__ == "__main__":
    script.run(__doc__, measure, script.HOME, data=("zipf",), rounds=7, epochs=20)
