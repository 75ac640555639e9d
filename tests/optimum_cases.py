"""Linear models that have one optimum: in memory, on ranks and on a Dask cluster it is the same.

Read by `estimator_checks.py` on ranks that share no memory, and by `test_dask_estimators.py`.
"""

import numpy as np
import scipy.sparse as sp

from hogshare import ElasticNet, Lasso, LogisticRegression, Ridge

ROWS, FEATURES = 240, 12
EXACT = {"tol": 1e-12, "max_iter": 100_000}
CLOSE = 1e-8
MODELS = {
    "Ridge": lambda: Ridge(0.5, **EXACT),
    "Ridge without an intercept": lambda: Ridge(0.5, fit_intercept=False, **EXACT),
    "Lasso": lambda: Lasso(0.05, **EXACT),
    "ElasticNet": lambda: ElasticNet(0.05, l1_ratio=0.3, **EXACT),
    "LogisticRegression": lambda: LogisticRegression(C=0.5, **EXACT),
    "LogisticRegression without an intercept": lambda: LogisticRegression(
        C=0.5, fit_intercept=False, **EXACT
    ),
    "LogisticRegression, weighted classes": lambda: LogisticRegression(
        C=0.5, class_weight="balanced", **EXACT
    ),
    "LogisticRegression, l1": lambda: LogisticRegression(
        C=0.5, l1_ratio=1.0, solver="saga", **EXACT
    ),
    "LogisticRegression, elastic net": lambda: LogisticRegression(
        C=0.5, l1_ratio=0.4, solver="saga", **EXACT
    ),
}
NAMES = tuple(MODELS)


def rows_of(name, kind):
    """Rows in unlike units and far from zero, targets, and weights some of which are zero."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((ROWS, FEATURES)) * np.logspace(-0.5, 0.5, FEATURES)
    X += np.linspace(-1.0, 1.0, FEATURES)
    scores = X @ rng.standard_normal((FEATURES, 3)) + rng.standard_normal((ROWS, 3))
    y = scores.argmax(axis=1) if name.startswith("Logistic") else scores[:, 0]
    weight = rng.integers(0, 3, ROWS).astype(float)
    return (sp.csr_array(np.where(X > 0.0, X, 0.0)) if kind == "sparse" else X), y, weight


def require_one_optimum(name, fit):
    """Have ``fit(model, X, y, weight)`` fit elsewhere what is fitted here, and compare."""
    for kind in ("dense", "sparse"):
        X, y, weight = rows_of(name, kind)
        here = MODELS[name]().fit(X, y, sample_weight=weight)
        there = fit(MODELS[name](), X, y, weight)
        np.testing.assert_allclose(there.coef_, here.coef_, rtol=CLOSE, atol=CLOSE, err_msg=kind)
        np.testing.assert_allclose(there.intercept_, here.intercept_, rtol=CLOSE, atol=CLOSE)
