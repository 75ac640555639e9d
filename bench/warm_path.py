"""The gain of warm starts along a path of penalties, and of folds in parallel.

Ten values of C from 1e-4 to 1e4 and five folds at default settings: every fit from zero
(`LogisticRegression`), `LogisticRegressionCV` with one and with two workers (folds in parallel, or
``runtime="threads"``, which uses both workers for every fit), and scikit-learn's. Medians of
alternating rounds; a small fit before them loads the kernels, and is not counted. Usage::

    python bench/warm_path.py --data dense,digits,a9a --rounds 3
    python bench/warm_path.py --data zipf-small --rounds 1
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import script
from sklearn import linear_model
from sklearn.model_selection import StratifiedKFold

from hogshare import LogisticRegression, LogisticRegressionCV, datasets
from hogshare.lab.harness.settings import Setting

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


def cold(X: Any, y: np.ndarray) -> dict[str, float]:
    """Every fit on a fold from zero: seconds, and the sum of epochs."""
    began, total = time.perf_counter(), 0
    for train, _ in StratifiedKFold(CHOICE["cv"]).split(X, y):
        for C in np.logspace(-4, 4, CHOICE["Cs"]):
            total += int(LogisticRegression(C=C).fit(X[train], y[train]).n_iter_[0])
    return {"iterations": total, "seconds": time.perf_counter() - began}


def along_path(X: Any, y: np.ndarray, name: str) -> dict[str, float]:
    """Seconds and iterations of a contestant."""
    kind, settings = CONTESTANTS[name]
    model = kind(**CHOICE, **settings)
    return {
        "seconds": script.seconds(lambda: model.fit(X, y)),
        "iterations": int(model.n_iter_.sum()),
        "C": float(model.C_),
        "score": float(model.scores_.mean(axis=0).max()),
    }


def compare(X: Any, y: np.ndarray, only: Sequence[str], rounds: int) -> dict[str, Any]:
    """Medians of those whose names have a part of `only`."""
    calls: dict[str, Callable[[int], dict[str, float]]] = {"from zero": lambda k: cold(X, y)}
    for name in CONTESTANTS:
        calls[name] = lambda k, name=name: along_path(X, y, name)
    wanted = {n: call for n, call in calls.items() if any(part in n for part in only)}
    LogisticRegressionCV(**{**CHOICE, "Cs": 1, "cv": 2}, max_iter=1).fit(X[:500], y[:500])
    runs = script.in_rounds(wanted, rounds, warm=False)
    return {name: script.medians(found) for name, found in runs.items()}


def measure(options: Any) -> dict[str, Any]:
    """Every set."""
    result = {}
    for data in options.data:
        result[data] = compare(*load(data), options.only, options.rounds)
        script.show(result[data], data)
    return result


if __name__ == "__main__":
    only = Setting("only", "parts of contestants' names", ("",), script.commas(str))
    script.run(__doc__, measure, only, data=("zipf-small",), rounds=3)
