"""Two threads over one right after somebody else's threaded call, whose threads spin.

A run of `--epochs` on Zipf after a pause, after a matrix product (OpenBLAS or MKL), and after
k-means has predicted (OpenMP): with one worker, with two while spinning threads are left alone, and
with two as it is. Medians of rounds taken in turn. Usage::

    python bench/spinning.py --rounds 7 --epochs 12 --json spinning.json
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sklearn.cluster import KMeans
from summaries import store
from threadpoolctl import threadpool_info

from hogshare import Stop, datasets, problems, solve

PAUSE = 0.25  # seconds, after which nobody spins any more


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="zipf")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    X, y = datasets.load(args.data, dtype="float32")
    problem = problems.linear(X, y, loss="log_loss", alpha=1e-6)
    matrix, points = np.random.default_rng(0).random((2, 20_000, 20))
    square = matrix.reshape(-1, 400)[:400]
    clusters = KMeans(8, n_init=1, max_iter=5).fit(points)
    before: dict[str, Any] = {
        "a pause": lambda: None,
        "a matrix product": lambda: square @ square,
        "k-means": lambda: clusters.predict(points),
    }

    def seconds(workers: int) -> float:
        runtime = "threads" if workers > 1 else "caller"
        began = time.perf_counter()
        solve(problem, n_workers=workers, runtime=runtime, stop=Stop(epochs=args.epochs), seed=0)
        return time.perf_counter() - began

    def left_alone() -> float:
        with mock.patch("hogshare.runtimes.choice.end_spinning", lambda n_workers: []):
            return seconds(2)

    runs = {"one": lambda: seconds(1), "left alone": left_alone, "two": lambda: seconds(2)}
    warnings.simplefilter("ignore")
    for run in runs.values():
        run()
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(args.rounds):
        for when, work in before.items():
            for name, run in runs.items():
                time.sleep(PAUSE)
                work()
                times[when, name].append(run())
    found: dict[str, Any] = {"pools": threadpool_info()}
    for when in before:
        one, alone, two = (statistics.median(times[when, name]) for name in runs)
        found[when] = {"one": one, "left alone": alone, "two": two}
        print(
            f"after {when:16}  one {1e3 * one:6.1f} ms   "
            f"two over one {one / two:.2f}, {one / alone:.2f} with spinning threads left alone"
        )
    if args.json:
        for pool in found["pools"]:
            del pool["filepath"]
        store(args.json, found)


if __name__ == "__main__":
    main()
