"""`SGDClassifier` on a Dask cluster: its quality compared with one machine's, and its time.

Rows are in files, one for each partition, which workers load. Two questions:

- Four worker processes of one thread: the ratio of the objective to that of one machine's fit of as
  many epochs, and the test accuracy compared with scikit-learn's.
- Two such workers: seconds until the test accuracy is within 0.3 points of scikit-learn's final
  one. The rivals are dask-ml's `Incremental` of scikit-learn's SGDClassifier, if it imports, and
  the same without it: the model goes from partition to partition by `partial_fit`, as a chain of
  tasks that is submitted as a whole.

Fits of 1, 2, 3, 5 and 10 epochs alternate, round by round; the fastest that reaches the accuracy
counts. Partitions are loaded and persisted before. "zipf:800000" takes longer than Dask's
distribution of tasks; an epoch of the others is some milliseconds of computing. Usage::

    python bench/dask_estimators.py --data-home FOLDER --json bench/results/dask_estimators.json
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import script
from agreement import load as load_set
from sklearn.linear_model import SGDClassifier as ScikitSGD

from hogshare import SGDClassifier, datasets, problems

EPOCHS = (1, 2, 3, 5, 10)
PARTITIONS = 8
POINTS = 0.003  # of accuracy
SETTINGS: dict[str, Any] = {"alpha": 1e-4, "tol": None}


def load(name: str, home: str | None) -> tuple[Any, ...]:
    """Training and test rows; of "zipf:800000" so many of the generator's, and a tenth besides."""
    _, _, rows = name.partition(":")
    if not rows:
        return load_set(name, home)
    X, y = datasets.zipf_classification(int(rows) * 11 // 10, seed=0)
    n = int(rows)
    return X[:n], y[:n], X[n:], y[n:]


def write(folder: Path, X: Any, y: np.ndarray) -> list[tuple[str, int]]:
    """Write partitions as files; their names and rows."""
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    cuts = np.linspace(0, len(y), PARTITIONS + 1).astype(int)
    files = []
    for k, (a, b) in enumerate(itertools.pairwise(cuts)):
        place = str(folder / f"part-{k}.npz")
        if sp.issparse(X):
            part = sp.csr_matrix(X[a:b])
            np.savez(
                place,
                data=part.data,
                indices=part.indices,
                indptr=part.indptr,
                shape=part.shape,
                y=y[a:b],
            )
        else:
            np.savez(place, rows=X[a:b], y=y[a:b])
        files.append((place, int(b - a)))
    return files


def read(place: str) -> Any:
    """Rows of a file, on a worker."""
    with np.load(place) as held:
        if "rows" in held:
            return held["rows"]
        return sp.csr_matrix(
            (held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"])
        )


def read_labels(place: str) -> np.ndarray:
    """Labels of a file, on a worker."""
    with np.load(place) as held:
        return held["y"]


def collections(files: list[tuple[str, int]], X: Any, y: np.ndarray) -> tuple[Any, Any]:
    """The files as Dask arrays that are kept by the workers."""
    import dask
    import dask.array as da
    from distributed import wait

    rows, labels = [], []
    for place, n in files:
        block = dask.delayed(read)(place)
        rows.append(da.from_delayed(block, (n, X.shape[1]), X.dtype, meta=X[:0]))
        labels.append(da.from_delayed(dask.delayed(read_labels)(place), (n,), y.dtype))
    kept = dask.persist(da.concatenate(rows), da.concatenate(labels))
    wait(kept)
    return kept


def ours(loss: str, epochs: int, seed: int) -> Callable[..., Any]:
    """Our fit."""

    def fit(X: Any, y: Any, classes: np.ndarray) -> Any:
        model = SGDClassifier(loss=loss, max_iter=epochs, random_state=seed, **SETTINGS)
        return model.fit(X, y)

    return fit


def step(model: Any, X: Any, y: Any, classes: np.ndarray) -> Any:
    """A pass over a partition, by a copy of the model: a task may be run again."""
    import copy

    return copy.deepcopy(model).partial_fit(X, y, classes=classes)


def chain(loss: str, epochs: int, seed: int) -> Callable[..., Any]:
    """The model goes from partition to partition."""

    def fit(X: Any, y: Any, classes: np.ndarray) -> Any:
        from distributed import get_client

        client = get_client()
        blocks = client.compute(list(X.to_delayed().ravel()), sync=False)
        labels = client.compute(list(y.to_delayed().ravel()), sync=False)
        model: Any = ScikitSGD(loss=loss, random_state=seed, **SETTINGS)
        tasks = []  # kept until the end: a chain whose middle is let go of cannot be made again
        for _ in range(epochs):
            for rows, targets in zip(blocks, labels, strict=True):
                model = client.submit(step, model, rows, targets, classes, pure=False)
                tasks.append(model)
        return tasks[-1].result()

    return fit


def incremental(loss: str, epochs: int, seed: int) -> Callable[..., Any]:
    """dask-ml's, with one call of `partial_fit` for each further epoch."""

    def fit(X: Any, y: Any, classes: np.ndarray) -> Any:
        from dask_ml.wrappers import Incremental

        model = Incremental(ScikitSGD(loss=loss, random_state=seed, **SETTINGS))
        model.fit(X, y, classes=classes)
        for _ in range(epochs - 1):
            model.partial_fit(X, y, classes=classes)
        return model.estimator_

    return fit


def contestants() -> dict[str, Callable[..., Any]]:
    """Who takes part."""
    found = {"hogshare": ours, "partial_fit, chained": chain}
    try:
        from dask_ml.wrappers import Incremental  # noqa: F401

        found["dask-ml Incremental"] = incremental
    except Exception as error:
        print(f"without dask-ml: {type(error).__name__}: {error}", flush=True)
    return found


def cluster(n_workers: int) -> Any:
    """Worker processes of one thread each."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


def quality(case: tuple[Any, ...], held: Any, loss: str, seeds: int) -> dict[str, float]:
    """Objective and accuracy after ten epochs, medians over seeds."""
    X, y, X_test, y_test = case
    problem = problems.linear(X, y, loss=loss, alpha=SETTINGS["alpha"])
    ratios, mine, theirs = [], [], []
    for seed in range(seeds):
        settings = {"loss": loss, "max_iter": EPOCHS[-1], "random_state": seed, **SETTINGS}
        there, here = SGDClassifier(**settings).fit(*held), SGDClassifier(**settings).fit(X, y)
        values = [problem.objective(model.coef_, model.intercept_) for model in (there, here)]
        ratios.append(values[0] / values[1])
        mine.append(there.score(X_test, y_test))
        theirs.append(ScikitSGD(**settings).fit(X, y).score(X_test, y_test))
    return {
        "objective ratio, median": float(np.median(ratios)),
        "objective ratio, smallest": min(ratios),
        "objective ratio, largest": max(ratios),
        "accuracy, Dask": float(np.median(mine)),
        "accuracy, scikit-learn": float(np.median(theirs)),
    }


def race(
    case: tuple[Any, ...], held: Any, loss: str, target: float, rounds: int
) -> dict[str, dict[str, Any]]:
    """Seconds to the target accuracy."""
    _, y, X_test, y_test = case
    classes, who = np.unique(y), contestants()

    def timed(name: str, epochs: int, seed: int) -> dict[str, float]:
        began = time.perf_counter()
        model = who[name](loss, epochs, seed)(*held, classes)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "accuracy": model.score(X_test, y_test)}

    for name in who:  # warms up
        timed(name, EPOCHS[0], 0)
    runs = script.in_rounds(
        {(n, k): lambda seed, n=n, k=k: timed(n, k, seed) for k in EPOCHS for n in who},
        rounds,
        warm=False,
    )
    found = {}
    for name in who:
        line = {k: script.medians(runs[name, k]) for k in EPOCHS}
        good = [one["seconds"] for one in line.values() if one["accuracy"] >= target]
        numbers = {
            what: {str(k): one[what] for k, one in line.items()} for what in ("seconds", "accuracy")
        }
        found[name] = {**numbers, "seconds to the target": min(good, default=None)}
    return found


def of_set(name: str, options: Any) -> dict[str, Any]:
    """All figures of one set."""
    from distributed import Client

    X, y, X_test, y_test = load(name, options.data_home)
    case = X.astype(np.float64), y, X_test.astype(np.float64), y_test
    lines: dict[str, Any] = {"rows": X.shape[0], "features": X.shape[1]}
    with tempfile.TemporaryDirectory() as folder:
        files = write(Path(folder), *case[:2])
        with cluster(4) as own, Client(own):
            held = collections(files, *case[:2])
            lines["four workers"] = {
                loss: quality(case, held, loss, options.seeds) for loss in options.loss
            }
            del held
        print(name, lines["four workers"], flush=True)
        lines["two workers"] = {}
        with cluster(2) as own, Client(own):
            held = collections(files, *case[:2])
            for loss in options.loss:
                target = lines["four workers"][loss]["accuracy, scikit-learn"] - POINTS
                told = race(case, held, loss, target, options.rounds)
                lines["two workers"][loss] = told
                print(name, loss, target, told, flush=True)
            del held
    return lines


def measure(options: Any) -> dict[str, Any]:
    """Every set."""
    return {name: of_set(name, options) for name in options.data}


if __name__ == "__main__":
    script.run(
        __doc__,
        measure,
        script.HOME,
        data=("zipf", "covtype-20k", "imdb", "zipf:800000"),
        loss=("log_loss", "hinge"),
        seeds=3,
        rounds=3,
    )
