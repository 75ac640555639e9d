"""The cost of a worker that is killed in the middle of a run of replicas.

Eight processes on the root graph, about 200 rounds of averaging, log-normal blocks of 5 ms: whole
runs against runs in which one worker is killed, medians of rounds. Usage::

    python bench/killed_replica.py --json bench/results/killed_replica.json
"""

from __future__ import annotations

import statistics
import threading
import time
import warnings
from typing import Any

import psutil
import script
from sklearn.datasets import load_digits

from hogshare import Replicas, StepSize, problems, solve, stragglers


def measure(options: Any) -> dict[str, Any]:
    """A run of 200 rounds of which a process is killed in the middle, beside one without."""
    X, y = load_digits(return_X_y=True)
    problem = problems.linear(X / 16.0, y >= 5, alpha=1e-3)
    law = stragglers.parse("lognormal:0.2", 5e-3, 0)
    plane = Replicas("root", every=1 + len(y) // (8 * 20))
    run = {"plane": plane, "n_workers": 8, "runtime": "processes", "stop": 10, "seed": 0}
    run |= {"stragglers": law, "step": StepSize("constant", 0.05)}
    solve(problem, **{**run, "stop": 1})
    whole, hit = [], []

    def kill(after: float) -> None:
        time.sleep(after)
        workers = [c for c in psutil.Process().children(recursive=True) if c.num_threads() > 1]
        workers[-1].kill()

    for _ in range(options.rounds):
        whole.append(solve(problem, **run))
        killer = threading.Thread(target=kill, args=(0.5 * whole[-1].run_seconds,))
        killer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hit.append(solve(problem, **run))
        killer.join()
    reduces = [int(one.reduces.rounds.max()) for one in (*whole, *hit)]
    shares = []
    for one, other in zip(whole, hit, strict=True):
        most = [max(w["blocks"] for w in report.workers) for report in (one, other)]
        shares.append(other.run_seconds / (one.run_seconds * most[1] / most[0]) - 1.0)
    found = {
        "rounds": reduces,
        "seconds without": statistics.median(one.run_seconds for one in whole),
        "seconds with": statistics.median(one.run_seconds for one in hit),
        "costs, beside the rows that others take over": statistics.median(shares),
        "dead": [sum(w["state"] == "dead" for w in one.workers) for one in hit],
    }
    print(found)
    return found


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=3)
