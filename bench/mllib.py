"""SGD in rounds beside that of Spark's MLlib, as in figure 2 of ASYNC: error and seconds by rounds.

Least squares, two workers, two partitions, a tenth of the rows in a round, steps of ``step /
sqrt(round)``: the same method, with draws of each one's own. Each is run for few and for many
rounds, in turn; the difference is what a round takes, so that starting a run is left out. "numpy"
is a plain loop in one process. Needs pyspark, and Java on the PATH. Usage::

    python bench/mllib.py --json bench/results/mllib.json
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from summaries import store

from hogshare import problems, sgd_rounds

RATE, WORKERS = 0.1, 2
ROUNDS = (20, 120)  # of a short and of a long run


def dense(rng: np.random.Generator) -> tuple[Any, float]:
    """The shape of RESULTS' stand-in for epsilon, and a step."""
    return rng.standard_normal((4000, 200)), 0.5


def sparse(rng: np.random.Generator) -> tuple[Any, float]:
    """Rows of 75 entries of norm 1, and a step."""
    n, d, k = 20_000, 10_000, 75
    places = rng.integers(0, d, n * k)
    values = rng.standard_normal(n * k) / np.sqrt(k)
    return sp.csr_matrix((values, (np.repeat(np.arange(n), k), places)), (n, d)), 20.0


def error(X: Any, y: np.ndarray, w: np.ndarray) -> float:
    """Mean of the squares over that of a model of zeros."""
    return float(np.square(X @ w - y).mean() / np.square(y).mean())


def by_numpy(X: Any, y: np.ndarray, step: float) -> Callable[[int], np.ndarray]:
    """A plain loop."""

    def run(rounds: int) -> np.ndarray:
        rng, w = np.random.default_rng(0), np.zeros(X.shape[1])
        for k in range(rounds):
            rows = np.flatnonzero(rng.random(len(y)) < RATE)
            part = X[rows]
            w -= step / np.sqrt(k + 1.0) * np.asarray(part.T @ (part @ w - y[rows])) / len(rows)
        return w

    return run


def by_tasks(X: Any, y: np.ndarray, step: float, workers: str) -> Callable[[int], np.ndarray]:
    """`sgd_rounds` on a problem of ours."""
    problem = problems.linear(X, y, loss="squared_error", alpha=0.0, fit_intercept=False)

    def run(rounds: int) -> np.ndarray:
        run = {"workers": workers, "n_workers": WORKERS, "rate": RATE, "step": step}
        report = sgd_rounds(problem, epochs=RATE * (rounds - 0.5), seed=0, **run)
        return report.model.coef[0]

    return run


def by_spark(X: Any, y: np.ndarray, step: float) -> Callable[[int], np.ndarray]:
    """MLlib's LinearRegressionWithSGD."""
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.regression import LabeledPoint, LinearRegressionWithSGD

    if sp.issparse(X):
        X.sum_duplicates()
        cut = zip(X.indptr, X.indptr[1:], strict=False)
        rows = [Vectors.sparse(X.shape[1], X.indices[a:b], X.data[a:b]) for a, b in cut]
    else:
        rows = list(X)
    points = [LabeledPoint(label, row) for label, row in zip(y, rows, strict=True)]
    data = spark().parallelize(points, WORKERS).cache()
    data.count()

    def run(rounds: int) -> np.ndarray:
        how = {"step": step, "miniBatchFraction": RATE, "convergenceTol": 0.0}
        model = LinearRegressionWithSGD.train(data, iterations=rounds, **how)
        return np.asarray(model.weights.toArray())

    return run


def spark() -> Any:
    """The context of this process."""
    from pyspark import SparkConf, SparkContext

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    conf = SparkConf().setMaster(f"local[{WORKERS}]").setAll(list(settings.items()))
    context = SparkContext.getOrCreate(conf)
    context.setLogLevel("OFF")
    return context


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    results: dict[str, Any] = {}
    for name, make in {"dense 4,000 x 200": dense, "sparse 20,000 x 10,000": sparse}.items():
        rng = np.random.default_rng(0)
        X, step = make(rng)
        y = X @ rng.standard_normal(X.shape[1])
        contestants = {
            "numpy": by_numpy(X, y, step),
            "threads": by_tasks(X, y, step, "threads"),
            "processes": by_tasks(X, y, step, "processes"),
            "MLlib": by_spark(X, y, step),
        }
        found: dict[str, list[list[float]]] = {one: [] for one in contestants}
        for turn in range(options.rounds + 1):
            for one, run in contestants.items():
                took = []
                for rounds in ROUNDS:
                    began = time.perf_counter()
                    w = run(rounds)
                    took.append(time.perf_counter() - began)
                if turn:  # the first warms up
                    a_round = (took[1] - took[0]) / (ROUNDS[1] - ROUNDS[0])
                    found[one].append([1e3 * a_round, error(X, y, w)])
        results[name] = {
            one: {
                "ms a round": statistics.median(ms for ms, _ in rows),
                f"error after {ROUNDS[1]} rounds": statistics.median(e for _, e in rows),
            }
            for one, rows in found.items()
        }
        print(name, results[name], flush=True)
    if options.json:
        store(options.json, results)


if __name__ == "__main__":
    main()
