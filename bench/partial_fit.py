"""A call of `partial_fit` against scikit-learn's: milliseconds by features, classes and rows.

Rows are hashed text (80 values each, columns at random) or dense. Both libraries learn from the
same batches with one worker, alternating; of each the median of several calls counts, after one
that does not count. Goal: no call slower than scikit-learn's. Usage::

    python bench/partial_fit.py --json bench/results/partial_fit.json
    python bench/partial_fit.py --features 18,20 --classes 20 --rows 500 --average True
"""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
import script
from sklearn import linear_model

import hogshare
from hogshare.lab.harness.settings import Setting

VALUES = 80  # of a row of hashed text
LARGEST_DENSE = 2**24  # values of a batch
LARGEST_MODEL = 2**32  # bytes
KINDS = {
    "hogshare": (hogshare.SGDClassifier, hogshare.SGDRegressor),
    "scikit-learn": (linear_model.SGDClassifier, linear_model.SGDRegressor),
}


def batch(case: dict[str, Any], rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """One call's rows and targets."""
    n_rows, n_features, dtype = case["rows"], case["features"], case["dtype"]
    if case["form"] == "dense":
        X: Any = rng.standard_normal((n_rows, n_features)).astype(dtype)
    else:
        columns = rng.integers(0, n_features, n_rows * VALUES, dtype=np.int32)
        values = np.full(columns.size, VALUES**-0.5, dtype)
        indptr = np.arange(0, columns.size + 1, VALUES, dtype=np.int32)
        X = sp.csr_matrix((values, columns, indptr), shape=(n_rows, n_features))
        X.sum_duplicates()
    if case["classes"] == 1:
        return X, rng.standard_normal(n_rows)
    return X, rng.integers(0, case["classes"], n_rows)


def seconds(case: dict[str, Any], calls: int) -> dict[str, list[float]]:
    """Of each library's calls but the first; the other's come in between."""
    rng = np.random.default_rng(0)
    regression = case["classes"] == 1
    settings = {
        "loss": "squared_error" if regression else case["loss"],
        "penalty": case["penalty"],
        "average": case["average"],
        "random_state": 0,
    }
    models = {name: kinds[regression](**settings) for name, kinds in KINDS.items()}
    more = {} if regression else {"classes": np.arange(case["classes"])}
    took: dict[str, list[float]] = {name: [] for name in models}
    for k in range(calls + 1):
        X, y = batch(case, rng)
        for name in list(models)[:: 1 if k % 2 else -1]:
            start = time.perf_counter()
            models[name].partial_fit(X, y, **more)
            if k:
                took[name].append(time.perf_counter() - start)
    return took


def measure(options: Any) -> dict[str, Any]:
    """Every case that fits in memory."""
    results = []
    for form, dtype, average, penalty, loss, power, classes, rows in itertools.product(
        *(options.form, options.dtype, options.average, options.penalty, options.loss),
        *(options.features, options.classes, options.rows),
    ):
        columns = classes if classes > 2 else 1
        model_bytes = 2**power * columns * np.dtype(dtype).itemsize
        if model_bytes > LARGEST_MODEL or (form == "dense" and rows << power > LARGEST_DENSE):
            continue
        case = {
            "form": form,
            "dtype": dtype,
            "average": average == "True",
            "penalty": None if penalty == "None" else penalty,
            "loss": loss,
            "features": 2**power,
            "classes": classes,
            "rows": rows,
        }
        calls = options.calls if model_bytes < 2**28 and rows * columns < 2e5 else 3
        took = seconds(case, calls)
        ms = {f"{name}, ms": 1e3 * statistics.median(times) for name, times in took.items()}
        results.append({**case, **ms, "ratio": script.median_ratio(*took.values())})
        script.show(results[-1:], "SLOWER" if results[-1]["ratio"] > 1.0 else "")
    worst = max(results, key=lambda line: line["ratio"])
    slower = sum(line["ratio"] > 1.0 for line in results)
    print(f"{len(results)} settings, slower in {slower}; the worst: {worst}")
    return {"results": results}


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        Setting("features", "logarithms", (10, 14, 18, 20, 22), script.commas(int)),
        Setting("classes", "1: a regression", (1, 2, 20, 100), script.commas(int)),
        rows=(1, 100, 1000, 10_000),
        penalty=("l2",),
        average=("False",),
        dtype=("float64",),
        form=("sparse",),
        loss=("hinge",),
        calls=7,
    )
