"""One changed import: whole fits at default settings against scikit-learn's class of that name.

These are the figures of the README's "Does it help?". Contestants alternate in one process, after a
fit of each that does not count; medians over the rounds. The objective of each model
(scikit-learn's own, in float64) is compared too: `excess` is hogshare's less scikit-learn's over
the smaller one. Usage::

    HOGSHARE_DATA=FOLDER python bench/drop_in.py --rounds 5 --json bench/results/drop_in.json
"""

from __future__ import annotations

import importlib
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import script
from sklearn.preprocessing import LabelEncoder

from hogshare import datasets
from hogshare.lab.harness.settings import Setting

Rows = tuple[Any, np.ndarray]


def text(stem: str) -> Callable[[], Rows]:
    """Word counts of the data folder as tf-idf, all classes."""

    def load() -> Rows:
        from sklearn.feature_extraction.text import TfidfTransformer

        from hogshare.io.matrices import read_npz

        counts, y = read_npz(Path(os.environ["HOGSHARE_DATA"]) / f"{stem}.npz")
        X = TfidfTransformer(sublinear_tf=True).fit_transform(counts).astype(np.float32)
        return X.tocsr(), LabelEncoder().fit_transform(y)

    return load


def named(name: str) -> Callable[[], Rows]:
    """A set of `hogshare.datasets`, float32."""
    return lambda: datasets.load(name, dtype="float32")


def dense(n_rows: int, n_features: int, target: str) -> Callable[[], Rows]:
    """Normal columns; classes with noise, or numbers."""

    def make() -> Rows:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
        z = X @ rng.standard_normal(n_features).astype(np.float32)
        z += z.std() * rng.standard_normal(n_rows).astype(np.float32)
        return X, (z > 0).astype(int) if target == "classes" else z

    return make


def with_numbers(load: Callable[[], Rows]) -> Callable[[], Rows]:
    """The same rows with a sparse linear target and noise."""

    def make() -> Rows:
        X, _ = load()
        rng = np.random.default_rng(0)
        w = rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < 0.01)
        z = X @ w
        return X, (z + 0.1 * z.std() * rng.standard_normal(X.shape[0])).astype(np.float32)

    return make


# rows, class of both libraries, parameters of both, scikit-learn's class where the name is another
CASES: dict[str, tuple[Callable[[], Rows], str, dict[str, Any], str | None, dict[str, Any]]] = {
    "20 newsgroups, 20 classes": (text("20news_train_counts"), "LogisticRegression", {}, None, {}),
    "IMDB": (text("imdb_train_counts"), "LogisticRegression", {}, None, {}),
    "Zipf": (named("zipf"), "LogisticRegression", {}, None, {}),
    "a9a": (named("a9a"), "LogisticRegression", {}, None, {}),
    "ijcnn1": (named("ijcnn1"), "LogisticRegression", {}, None, {}),
    "100,000 x 50 dense": (dense(100_000, 50, "classes"), "LogisticRegression", {}, None, {}),
    "covtype, 20,000 x 54 dense": (named("covtype-20k"), "LogisticRegression", {}, None, {}),
    "1,000 x 20 dense": (dense(1_000, 20, "classes"), "LogisticRegression", {}, None, {}),
    "IMDB, hinge": (
        text("imdb_train_counts"),
        "SGDClassifier",
        {"loss": "hinge", "learning_rate": "auto", "alpha": 1 / 25_000},
        "LinearSVC",
        {"loss": "hinge", "C": 1.0},
    ),
    "Zipf, numbers, ridge": (with_numbers(named("zipf")), "Ridge", {}, None, {}),
    "IMDB, numbers, lasso": (
        with_numbers(text("imdb_train_counts")),
        "Lasso",
        {"alpha": 1e-4},
        None,
        {"alpha": 1e-4},
    ),
    "100,000 x 50 dense, ridge": (dense(100_000, 50, "numbers"), "Ridge", {}, None, {}),
}


def places(name: str) -> str:
    """scikit-learn's module of a class."""
    return "sklearn.svm" if name == "LinearSVC" else "sklearn.linear_model"


def objective(model: Any, X: Any, y: np.ndarray, kind: str) -> float | None:
    """What `kind` of scikit-learn minimises, at a model; None where that is another problem."""
    w, b = np.asarray(model.coef_, float), np.asarray(model.intercept_, float)
    margins = np.asarray((X @ w.T if w.ndim > 1 else X @ w) + b, float)
    if kind == "LogisticRegression":
        if w.shape[0] == 1:
            loss = np.logaddexp(0.0, -np.where(y == y.max(), 1, -1) * margins.ravel()).sum()
        else:
            peak = margins.max(axis=1)
            total = peak + np.log(np.exp(margins - peak[:, None]).sum(axis=1))
            loss = (total - margins[np.arange(len(y)), y]).sum()
        return float(loss + 0.5 * np.square(w).sum())
    if kind == "Ridge":
        return float(np.square(y - margins).sum() + np.square(w).sum())
    if kind == "Lasso":
        return float(np.square(y - margins).mean() / 2 + 1e-4 * np.abs(w).sum())
    return None  # LinearSVC penalises the intercept


def race(case: str, rounds: int) -> dict[str, Any]:
    """Medians of both libraries' fits, ours with one worker and with all."""
    load, name, ours, other, theirs = CASES[case]
    X, y = load()
    there = getattr(importlib.import_module(places(other or name)), other or name)
    here = getattr(importlib.import_module("hogshare"), name)
    jobs = {"n_jobs=1": 1, "n_jobs=-1": -1}
    makers = {"scikit-learn": lambda: there(**theirs)}
    for label, n in jobs.items():
        makers[label] = lambda n=n: here(**ours, n_jobs=n)
    models = {}

    def fit(label: str) -> float:
        models[label] = makers[label]()
        return script.seconds(lambda: models[label].fit(X, y))

    seconds = script.in_rounds({n: lambda k, n=n: fit(n) for n in makers}, rounds)
    medians = {label: statistics.median(taken) for label, taken in seconds.items()}
    values = {label: objective(model, X, y, other or name) for label, model in models.items()}
    ours_and_theirs = values["n_jobs=-1"], values["scikit-learn"]
    excess = None
    if None not in ours_and_theirs:
        excess = (ours_and_theirs[0] - ours_and_theirs[1]) / min(ours_and_theirs)
    return {
        "case": case,
        "class": name,
        "rows": X.shape[0],
        "features": X.shape[1],
        "values": int(X.nnz) if sp.issparse(X) else X.size,
        "seconds": medians,
        "gain of one worker": medians["scikit-learn"] / medians["n_jobs=1"],
        "gain of all": medians["scikit-learn"] / medians["n_jobs=-1"],
        "excess": excess,
        "solver": getattr(models["n_jobs=-1"], "solver_", None),
        "workers": models["n_jobs=-1"].report_.n_workers,
    }


def measure(options: Any) -> dict[str, Any]:
    """Every case."""
    results = []
    for case in (case for case in CASES if options.only in case):
        found = race(case, options.rounds)
        results.append(found)
        gains = {key: found[key] for key in ("gain of one worker", "gain of all", "excess")}
        script.show([{**found["seconds"], **gains}], case)
    return {"results": results}


if __name__ == "__main__":
    only = Setting("only", "part of a case's name", "")
    script.run(__doc__, measure, only, rounds=5)
