"""Two threads over one right after another library's threaded call, whose threads spin.

A run of `--epochs` on Zipf after a pause, after a matrix product (OpenBLAS or MKL), and after
k-means has predicted (OpenMP): with one worker, with two while spinning threads are left alone, and
with two by default. Medians of alternating rounds. Usage::

    python bench/spinning.py --rounds 7 --epochs 12 --json spinning.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import script
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info

from hogshare import Stop, datasets, problems, solve

PAUSE = 0.25  # seconds, after which nobody spins any more


def measure(options: Any) -> dict[str, Any]:
    """Seconds of each run after each kind of work."""
    X, y = datasets.load(options.data, dtype="float32")
    problem = problems.linear(X, y, loss="log_loss", alpha=1e-6)
    matrix, points = np.random.default_rng(0).random((2, 20_000, 20))
    square = matrix.reshape(-1, 400)[:400]
    clusters = KMeans(8, n_init=1, max_iter=5).fit(points)
    works: dict[str, Callable[[], Any]] = {
        "a pause": lambda: None,
        "a matrix product": lambda: square @ square,
        "k-means": lambda: clusters.predict(points),
    }

    def seconds(workers: int) -> float:
        run = {"n_workers": workers, "runtime": "threads" if workers > 1 else "caller"}
        return script.seconds(lambda: solve(problem, stop=Stop(epochs=options.epochs), **run))

    def left_alone() -> float:
        with mock.patch("hogshare.runtimes.choice.end_spinning", lambda n_workers: []):
            return seconds(2)

    def after(work: Callable[[], Any], run: Callable[[], float]) -> Callable[[int], float]:
        def call(number: int) -> float:
            time.sleep(PAUSE)
            work()
            return run()

        return call

    runs = {"one": lambda: seconds(1), "left alone": left_alone, "two": lambda: seconds(2)}
    contestants = {(w, r): after(works[w], runs[r]) for w in works for r in runs}
    times = script.in_rounds(contestants, options.rounds)
    table = {w: {r: statistics.median(times[w, r]) for r in runs} for w in works}
    script.show(table, "seconds after")
    pools = [{k: v for k, v in pool.items() if k != "filepath"} for pool in threadpool_info()]
    return {"pools": pools, **table}


if __name__ == "__main__":
    script.run(__doc__, measure, data="zipf", epochs=12, rounds=7)
