"""`LogisticRegression` on a Dask cluster to a millionth of the optimum, against dask-ml's solvers.

Two worker processes of one thread have the partitions. All minimise the same objective, whose
optimum is a fit of hogshare to a tolerance of 1e-10. Each solver of dask-ml gets more and more
iterations until its objective is within a relative millionth of that, and hogshare smaller and
smaller tolerances; the first fit that is near enough counts. dask-ml refuses constant columns,
which are left out for all, and CSR blocks in every way. "covtype-20k:30" is the set's rows 30
times. Usage::

    python bench/dask_logistic.py --data-home FOLDER --json bench/results/dask_logistic.json
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import script
from dask_estimators import cluster, collections, load, write

from hogshare import LogisticRegression, problems

SOLVERS = ("newton", "lbfgs", "proximal_grad")
ITERATIONS = (3, 10, 30, 100)
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7)
NEAR = 1e-6
MOST_SECONDS = 60.0  # of a fit, after which a solver is given no more iterations


def rows_of(name: str, home: str | None) -> tuple[Any, np.ndarray]:
    """Rows and labels 0 and 1, without constant columns."""
    base, _, times = name.partition(":")
    X, y, *_ = load(name if base == "zipf" else base, home)
    if base != "zipf" and times:
        X, y = np.tile(X, (int(times), 1)), np.tile(y, int(times))
    if not sp.issparse(X):
        X = np.ascontiguousarray(X[:, X.std(axis=0) > 0.0], np.float64)
    return X, (y == np.unique(y)[1]).astype(np.float64)


def first(
    fit: Callable[[Any], Any],
    settings: tuple[Any, ...],
    objective: Callable[[Any], float],
    best: float,
) -> Any:
    """Seconds, setting and distance of the first fit that is near; None if none is."""
    for setting in settings:
        began = time.perf_counter()
        try:
            model = fit(setting)
        except Exception as error:
            return {"refused": f"{type(error).__name__}: {error}"[:100]}
        seconds = time.perf_counter() - began
        distance = (objective(model) - best) / best
        if distance <= NEAR or seconds > MOST_SECONDS:
            break
    near = seconds if distance <= NEAR else None
    found = {"seconds": near, "seconds of the last": seconds}
    return found | {"iterations or tol": setting, "distance": distance}


def of_set(name: str, options: Any) -> dict[str, Any]:
    """Seconds of all contestants."""
    from dask_ml.linear_model import LogisticRegression as Theirs
    from distributed import Client

    X, y = rows_of(name, options.data_home)
    settings = {"C": 1.0, "fit_intercept": not sp.issparse(X)}
    problem = problems.linear(
        X, y, penalty="l2", alpha=1.0 / len(y), fit_intercept=settings["fit_intercept"]
    )

    def objective(model: Any) -> float:
        return problem.objective(np.ravel(model.coef_), np.ravel(model.intercept_))

    found: dict[str, Any] = {"rows": X.shape[0], "features": X.shape[1]}
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), X, y)
        with cluster(2) as own, Client(own):
            held = collections(files, X, y)
            exact = LogisticRegression(tol=1e-10, max_iter=1000, **settings).fit(*held)
            best = objective(exact)

            def ours(tol: float) -> Any:
                return LogisticRegression(tol=tol, max_iter=1000, **settings).fit(*held)

            runs = [first(ours, TOLERANCES, objective, best) for _ in range(options.rounds)]
            found["hogshare"] = sorted(runs, key=lambda one: one["seconds"])[len(runs) // 2]
            found["hogshare"] |= {"solver": exact.solver_}
            print(name, found, flush=True)
            for solver in SOLVERS:

                def fit(iterations: int, solver: str = solver) -> Any:
                    how = {"solver": solver, "max_iter": iterations, "tol": 0.0, **settings}
                    return Theirs(**how).fit(*held)

                found[f"dask-ml {solver}"] = first(fit, ITERATIONS, objective, best)
                print(name, solver, found[f"dask-ml {solver}"], flush=True)
    return found


def measure(options: Any) -> dict[str, Any]:
    """Every set."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    return {name: of_set(name, options) for name in options.data}


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        script.HOME,
        data=("covtype-20k", "covtype-20k:30", "imdb", "zipf"),
        rounds=3,
    )
