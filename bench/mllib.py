"""SGD in rounds against Spark's MLlib, as in figure 2 of ASYNC: error and seconds by rounds.

Least squares, two workers, two partitions, a tenth of the rows in a round, steps of
``step / sqrt(round)``: the same method, with separate draws. Each is run for few and for many
rounds, one after another; the difference is the time of a round, without the start of a run.
"numpy" is a plain loop in one process. Needs pyspark, and Java on the PATH. Usage::

    python bench/mllib.py --json bench/results/mllib.json
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import script

from hogshare import problems, sgd_rounds
from hogshare.lab.claims import spark_rounds

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


def measure(options: Any) -> dict[str, Any]:
    """Milliseconds of a round, and the error, on both shapes."""
    results: dict[str, Any] = {}
    for name, make in {"dense 4,000 x 200": dense, "sparse 20,000 x 10,000": sparse}.items():
        rng = np.random.default_rng(0)
        X, step = make(rng)
        y = X @ rng.standard_normal(X.shape[1])
        runs = {
            "numpy": by_numpy(X, y, step),
            "threads": by_tasks(X, y, step, "threads"),
            "processes": by_tasks(X, y, step, "processes"),
            "MLlib": spark_rounds.least_squares(X, y, step, RATE, WORKERS),
        }

        def timed(run: Callable[[int], np.ndarray], X: Any = X, y: Any = y) -> dict[str, float]:
            short = script.seconds(lambda: run(ROUNDS[0]))
            began = time.perf_counter()
            w = run(ROUNDS[1])
            a_round = (time.perf_counter() - began - short) / (ROUNDS[1] - ROUNDS[0])
            return {"ms a round": 1e3 * a_round, f"error after {ROUNDS[1]} rounds": error(X, y, w)}

        contestants = {one: lambda k, run=run, timed=timed: timed(run) for one, run in runs.items()}
        found = script.in_rounds(contestants, options.rounds)
        results[name] = {one: script.medians(rows) for one, rows in found.items()}
        script.show(results[name], name)
    return results


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=5)
