"""What warm starts along a path of penalties save, and what folds side by side do.

Ten values of C from 1e-4 to 1e4 and five folds at default settings: every fit from zero
(`LogisticRegression`), `LogisticRegressionCV` with one and with two workers (folds side by side, or
``runtime="threads"``, which has both workers on every fit), and scikit-learn's. Medians of rounds
taken in turn; a small fit before them loads the kernels, and is not counted. Usage::

    python bench/warm_path.py --data dense,digits,a9a --rounds 3
    python bench/warm_path.py --data zipf-small --rounds 1
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from summaries import store

from hogshare import LogisticRegression, LogisticRegressionCV, datasets

CHOICE: dict[str, Any] = {
    "Cs": 10,
    "cv": 5,
    "l1_ratios": (0,),
    "scoring": "neg_log_loss",
    "use_legacy_attributes": False,
}
CONTESTANTS: dict[str, Any] = {
    "one worker": (LogisticRegressionCV, {}),
    "two workers": (LogisticRegressionCV, {"n_jobs": 2}),
    "two workers on every fit": (LogisticRegressionCV, {"n_jobs": 2, "runtime": "threads"}),
    "scikit-learn": (linear_model.LogisticRegressionCV, {}),
    "scikit-learn, two processes": (linear_model.LogisticRegressionCV, {"n_jobs": 2}),
}


def load(name: str) -> tuple[Any, np.ndarray]:
    """Rows and labels: a name of `hogshare.datasets`, or dense rows that are made up."""
    if name != "dense":
        return datasets.load(name)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 100))
    noise = 10.0 * rng.standard_normal(len(X))
    return X, (X @ rng.standard_normal(100) + noise > 0.0).astype(int)


def cold(X: Any, y: np.ndarray) -> int:
    """Every fit on a fold from zero; returns the sum of epochs."""
    total = 0
    for train, _ in StratifiedKFold(CHOICE["cv"]).split(X, y):
        rows, labels = X[train], y[train]
        for C in np.logspace(-4, 4, CHOICE["Cs"]):
            total += int(LogisticRegression(C=C).fit(rows, labels).n_iter_[0])
    return total


def measure(X: Any, y: np.ndarray, wanted: list[str]) -> dict[str, dict[str, float]]:
    """Seconds and iterations of each contestant."""
    found: dict[str, dict[str, float]] = {}
    began = time.perf_counter()
    if "from zero" in wanted:
        found["from zero"] = {"iterations": cold(X, y), "seconds": time.perf_counter() - began}
    for name in (name for name in CONTESTANTS if name in wanted):
        kind, settings = CONTESTANTS[name]
        began = time.perf_counter()
        model = kind(**CHOICE, **settings).fit(X, y)
        found[name] = {
            "seconds": time.perf_counter() - began,
            "iterations": int(model.n_iter_.sum()),
            "C": float(model.C_),
            "score": float(model.scores_.mean(axis=0).max()),
        }
    return found


def main() -> None:
    """Measure, print, and store what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="zipf-small", help="names with commas between, or dense")
    parser.add_argument("--only", default="", help="parts of contestants' names, commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file to write")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names = ["from zero", *CONTESTANTS]
    wanted = [n for n in names if any(part in n for part in options.only.split(","))]
    result = {}
    for data in options.data.split(","):
        X, y = load(data)
        LogisticRegressionCV(**{**CHOICE, "Cs": 1, "cv": 2}, max_iter=1).fit(X[:500], y[:500])
        rounds = [measure(X, y, wanted) for _ in range(options.rounds)]
        result[data] = {
            name: {key: float(np.median([r[name][key] for r in rounds])) for key in rounds[0][name]}
            for name in rounds[0]
        }
        for name, row in result[data].items():
            print(data, f"{name:28s}", {key: round(value, 4) for key, value in row.items()})
    if options.json:
        store(options.json, result)


if __name__ == "__main__":
    main()
