"""`n_jobs=-1` against `n_jobs=1` against scikit-learn, from a thousand to 10^8 values.

Warm: alternating contestants in one process, medians of the ratios round by round. Cold: the first
fit of a fresh process, alternating too. Goal: n_jobs=-1 at most 1.10 times n_jobs=1, and n_jobs=1
at most 1.1 times scikit-learn plus 1 ms when warm. Usage::

    python bench/never_slower.py --largest 8 --json bench/results/never_slower.json
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
import script

EPOCHS = 5
SETTINGS = {"loss": "log_loss", "max_iter": EPOCHS, "tol": None, "random_state": 0}
CONTESTANTS = ("scikit-learn", "n_jobs=1", "n_jobs=-1")


def rows(n_values: int, form: str) -> tuple[Any, np.ndarray]:
    """Float32 rows of 50 values: sparse ones with Zipf frequencies, dense ones normal."""
    rng = np.random.default_rng(0)
    n_rows = max(20, n_values // 50)
    if form == "dense":
        X: Any = rng.standard_normal((n_rows, 50), dtype=np.float32)
    else:
        n_features = int(np.clip(n_rows // 2, 100, 100_000))
        frequency = np.cumsum(1.0 / np.arange(1, n_features + 1))
        draws = rng.random(n_rows * 50, dtype=np.float32) * frequency[-1]
        columns = np.minimum(np.searchsorted(frequency, draws), n_features - 1).astype(np.int32)
        columns = rng.permutation(n_features).astype(np.int32)[columns]
        indptr = np.arange(0, n_rows * 50 + 1, 50)
        values = np.full(n_rows * 50, 50**-0.5, np.float32)
        X = sp.csr_matrix((values, columns, indptr), shape=(n_rows, n_features))
        X.sum_duplicates()
    weights = rng.standard_normal(X.shape[1]).astype(np.float32)
    z = X @ weights
    return X, (z + z.std() * rng.standard_normal(n_rows) > 0).astype(int)


def fit(contestant: str, X: Any, y: np.ndarray) -> float:
    """Seconds of one fit."""
    if contestant == "scikit-learn":
        from sklearn.linear_model import SGDClassifier as Kind

        model = Kind(**SETTINGS)
    else:
        from hogshare import SGDClassifier

        model = SGDClassifier(**SETTINGS, n_jobs=int(contestant.split("=")[1]))
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def warm(X: Any, y: np.ndarray, rounds: int) -> dict[str, list[float]]:
    """Fits in one process, after one of each that does not count."""
    return script.in_rounds({n: lambda k, n=n: fit(n, X, y) for n in CONTESTANTS}, rounds)


def cold(n_values: int, form: str, rounds: int) -> dict[str, list[float]]:
    """First fits of fresh processes; importing is not counted, loading kernels is."""

    def first(name: str) -> float:
        command = [sys.executable, __file__, f"--first={name},{n_values},{form}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(answer.stdout)

    return script.in_rounds({n: lambda k, n=n: first(n) for n in CONTESTANTS}, rounds, warm=False)


def ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    """What is asked for, as medians over the rounds."""

    def against(a: str, b: str, spare: float) -> float:
        pairs = zip(seconds[a], seconds[b], strict=True)
        return statistics.median(max(0.0, x - spare) / y for x, y in pairs)

    return {
        **{f"{name}, ms": 1e3 * statistics.median(s) for name, s in seconds.items()},
        "n_jobs=-1 over n_jobs=1": against("n_jobs=-1", "n_jobs=1", 0.0),
        "(n_jobs=1 less 1 ms) over scikit-learn": against("n_jobs=1", "scikit-learn", 1e-3),
    }


def measure(options: Any) -> dict[str, Any] | None:
    """Every size and form, warm and cold."""
    if options.first:
        name, n_values, form = options.first.split(",")
        print(fit(name, *rows(int(n_values), form)))
        return None
    results = []
    for power, form in itertools.product(range(3, options.largest + 1), ("sparse", "dense")):
        X, y = rows(10**power, form)
        rounds = options.rounds if power < 8 else min(3, options.rounds)
        kinds = {"warm": warm(X, y, rounds)}
        if power <= 6:
            kinds["cold"] = cold(10**power, form, min(5, rounds))
        for start, seconds in kinds.items():
            results.append({"values": 10**power, "form": form, "start": start, **ratios(seconds)})
        script.show(results[-len(kinds) :], f"10^{power}")
    return {"results": results}


if __name__ == "__main__":
    script.run(__doc__, measure, largest=8, rounds=7, first="")
