"""Matrices with repeated entries, which count by their sum: every estimator, every hand-over."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import hogshare
from hogshare.estimators.validation import for_scikit_learn
from hogshare.problems.linear.row_arrays import RepeatedEntries

RNG = np.random.default_rng(0)
ROWS = sp.csr_array(RNG.normal(size=(120, 5)) * (RNG.random((120, 5)) < 0.5))
NUMBERS = ROWS @ np.array([1.0, -2.0, 0.0, 3.0, 0.5]) + 1.0
LABELS = (NUMBERS > 0.0).astype(int)
SETTINGS = [
    *(
        (name, {"alpha": 0.01, **kwargs})
        for name in ("Lasso", "ElasticNet")
        for kwargs in (
            {},
            {"runtime": "caller"},
            {"positive": True},
            {"precompute": True},
            {"warm_start": True},
        )
    ),
    *(("Ridge", {"solver": solver}) for solver in ("auto", "lsqr", "sparse_cg")),
    ("Ridge", {"solver": "sag", "random_state": 0}),
    ("Ridge", {"solver": "cholesky", "fit_intercept": False}),
    ("Ridge", {"solver": "lbfgs", "positive": True}),
    ("Ridge", {"runtime": "caller"}),
    ("RidgeClassifier", {}),
    ("RidgeClassifier", {"solver": "lsqr"}),
    ("LogisticRegression", {}),
    ("LogisticRegression", {"solver": "liblinear", "random_state": 0}),
    ("SGDClassifier", {"random_state": 0}),
    ("SGDRegressor", {"random_state": 0, "learning_rate": "auto"}),
    ("MLPRegressor", {"random_state": 0, "max_iter": 3}),
    ("MLPRegressor", {"random_state": 0, "max_iter": 3, "solver": "lbfgs"}),
]


def repeated(form, kind):
    """The rows, each entry in three parts, in arrays that nobody may write."""
    once = ROWS.asformat(form)
    parts = np.repeat(np.arange(once.nnz), 3)
    data = once.data[parts] * np.tile([5.0, -3.0, -1.0], once.nnz)
    arrays = data, once.indices[parts].astype(kind), (3 * once.indptr).astype(kind)
    for one in arrays:
        one.flags.writeable = False
    return type(once)(arrays, shape=once.shape)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize(("name", "kwargs"), SETTINGS)
def test_they_count_by_their_sum(name, kwargs, form, kind):
    X = repeated(form, kind)
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    y = LABELS if "Class" in name or "Logistic" in name else NUMBERS
    model = getattr(hogshare, name)(**kwargs).fit(X, y)
    other = getattr(hogshare, name)(**kwargs).fit(ROWS.asformat(form), y)
    found, expected = (m.coefs_[0] if "MLP" in name else m.coef_ for m in (model, other))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    for old, new in zip(before, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_rows_that_are_only_unsorted_are_handed_over_as_they_are(form):
    X = sp.random(50, 40, 0.2, form, random_state=0)
    X.indices = np.concatenate([line[::-1] for line in np.split(X.indices, X.indptr[1:-1])])
    X.data = np.concatenate([line[::-1] for line in np.split(X.data, X.indptr[1:-1])])
    X.has_sorted_indices = X.has_canonical_format = False
    assert for_scikit_learn(X) is X
    wide = sp.hstack([X, type(X)((50, 40_000))], format=form)
    narrow = sp.vstack([wide, wide], format=form)
    assert for_scikit_learn(narrow).nnz == 2 * X.nnz


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["SGDClassifier", "LogisticRegression", "MLPClassifier", "Ridge"])
def test_who_has_repeats_is_warned_of_transformers_that_do_not_add_them_up(name):
    X = repeated("csr", np.int32)
    settings = {"max_iter": 3} if name == "MLPClassifier" else {}
    with pytest.warns(RepeatedEntries, match=r"Call X\.sum_duplicates\(\) before"):
        getattr(hogshare, name)(random_state=0, **settings).fit(X, LABELS)
    once = X.copy()
    once.sum_duplicates()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedEntries)
        getattr(hogshare, name)(random_state=0, **settings).fit(once, LABELS)
