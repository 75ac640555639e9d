"""Two workers against one at the same epochs, and test accuracy against scikit-learn.

For each data set, loss, penalty and precision: the ratio of the objectives (with penalty) after 10
epochs, median over paired seeds, and the difference in test accuracy to scikit-learn's class with
the same parameters (alpha 1e-4, its default schedule). Usage::

    python bench/agreement.py --data-home FOLDER --json bench/results/agreement.json
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import script
from sklearn.linear_model import SGDClassifier as ScikitSGD
from sklearn.model_selection import train_test_split

from hogshare import Stop, datasets, problems, solve

DATA = ("a9a", "a9a:dense", "imdb", "covtype-20k", "zipf")
EPOCHS = 10
TESTS = {"a9a": "a9a-test", "imdb": "imdb-test"}


def load(name: str, home: str | None) -> tuple[Any, ...]:
    """Training and test rows; a fifth is held out where a set has no test part."""
    base, _, form = name.partition(":")
    X, y = datasets.load(base, data_home=home)
    if base in TESTS:
        X_test, y_test = datasets.load(TESTS[base], data_home=home)
    else:
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    if form == "dense":
        X, X_test = X.toarray(), X_test.toarray()
    return X, y, X_test, y_test


def accuracy(report: Any, problem: Any, X: Any, y: np.ndarray) -> float:
    """Share of rows on the right side."""
    scores = np.asarray(X @ report.model.coef[0]) + report.model.intercept[0]
    return float(np.mean(problem.classes[(scores > 0).astype(int)] == y))


def compare(case: tuple[Any, ...], loss: str, penalty: str, seeds: int) -> dict[str, float]:
    """One line of the table."""
    X, y, X_test, y_test = case
    problem = problems.linear(X, y, loss=loss, penalty=penalty)
    ratios, ours, theirs = [], [], []
    for seed in range(seeds):
        values = []
        for plan in ({"runtime": "caller"}, {"runtime": "threads", "n_workers": 2}):
            report = solve(problem, stop=Stop(epochs=EPOCHS), seed=seed, **plan)
            values.append(problem.objective(report.model.coef, report.model.intercept))
        ratios.append(values[1] / values[0])
        ours.append(accuracy(report, problem, X_test, y_test))
        model = ScikitSGD(
            loss=loss, penalty=penalty, max_iter=EPOCHS, tol=None, random_state=seed
        ).fit(X, y)
        theirs.append(float(model.score(X_test, y_test)))
    return {
        "objective ratio, median": float(np.median(ratios)),
        "objective ratio, smallest": min(ratios),
        "objective ratio, largest": max(ratios),
        "accuracy, two workers": float(np.median(ours)),
        "accuracy, scikit-learn": float(np.median(theirs)),
    }


def measure(options: Any) -> dict[str, Any]:
    """Every set, precision, loss and penalty."""
    results: dict[str, Any] = {}
    for name in options.data:
        X, y, X_test, y_test = load(name, options.data_home)
        for kind, loss, penalty in itertools.product(
            ("float32", "float64"), ("log_loss", "hinge"), ("l2", "elasticnet")
        ):
            case = (X.astype(kind), y, X_test.astype(kind), y_test)
            key = f"{name} {kind} {loss} {penalty}"
            results[key] = compare(case, loss, penalty, options.seeds)
            script.show([results[key]], key)
    return results


if __name__ == "__main__":
    script.run(__doc__, measure, script.HOME, data=DATA, seeds=10)
