"""No fit writes to what it is given, so that all take arrays which cannot be written."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import hogshare
from hogshare import SGD, problems, solve

rng = np.random.default_rng(0)
DENSE = rng.standard_normal((120, 5)) * (rng.random((120, 5)) < 0.6)
DENSE[:, 2] += 100.0  # which centring would change
NUMBERS = DENSE @ [1.0, 0.0, -1.0, 2.0, 0.5]
LABELS = np.digitize(NUMBERS, np.quantile(NUMBERS, [0.3, 0.6]))
WEIGHT = rng.random(120)
CLASSIFIERS = {
    "SGDClassifier": [{}, {"learning_rate": "auto"}, {"early_stopping": True}, {"average": True}],
    "LogisticRegression": [{}, {"solver": "newton-cg", "max_iter": 5}],
    "RidgeClassifier": [{}, {"runtime": "caller"}, {"solver": "lsqr"}],
    "MLPClassifier": [{"max_iter": 2}, {"max_iter": 2, "solver": "lbfgs"}],
}
REGRESSORS = {
    "SGDRegressor": [{}],
    "Ridge": [{}, {"runtime": "caller"}, {"solver": "sparse_cg"}, {"positive": True}],
    "Lasso": [{}, {"precompute": True}, {"runtime": "caller"}],
    "ElasticNet": [{"copy_X": False}],
    "MLPRegressor": [{"max_iter": 2, "early_stopping": True}, {"max_iter": 2, "solver": "lbfgs"}],
}
CASES = [(n, s) for n, settings in (CLASSIFIERS | REGRESSORS).items() for s in settings]


def unsorted(X):
    """Each row's entries from the last to the first."""
    ends = np.repeat(X.indptr[1:] + X.indptr[:-1] - 1, np.diff(X.indptr))
    order = ends - np.arange(X.nnz)
    return sp.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def in_halves(X):
    """Each entry stored as two."""
    parts = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return type(X)(parts, shape=X.shape)


FORMS = {
    "C": np.array(DENSE),
    "F": np.asfortranarray(DENSE),
    "float32": DENSE.astype(np.float32),
    "integers": DENSE.astype(np.int64),
    "csr": sp.csr_array(DENSE),
    "csc": sp.csc_matrix(DENSE),
    "coo": sp.coo_array(DENSE),
    "bsr": sp.bsr_array(DENSE),
    "unsorted": unsorted(sp.csr_array(DENSE)),
    "csr in halves": in_halves(sp.csr_array(DENSE)),
    "csc in halves": in_halves(sp.csc_array(DENSE)),
}


def arrays_of(X):
    if not sp.issparse(X):
        return [X]
    return [X.data, *(X.coords if X.format == "coo" else (X.indices, X.indptr))]


@pytest.fixture(params=FORMS)
def rows(request):
    """Rows that cannot be written; fails where their matrix has got other arrays."""
    X = FORMS[request.param].copy()
    if request.param == "unsorted":
        X.has_sorted_indices = False
    parts = arrays_of(X)
    for part in (*parts, NUMBERS, LABELS, WEIGHT):
        part.setflags(write=False)
    yield X
    assert all(now is was for now, was in zip(arrays_of(X), parts, strict=True))
    was = FORMS[request.param]
    for now, before in zip(arrays_of(X), arrays_of(was), strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.filterwarnings("ignore::hogshare.estimators.column_scales.UnlikeColumns")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_no_estimator_changes_its_input(name, settings, rows):
    model = getattr(hogshare, name)(**settings)
    y = LABELS if name in CLASSIFIERS else NUMBERS
    for weight in (None, WEIGHT):
        model.fit(rows, y, sample_weight=weight).score(rows, y, sample_weight=weight)
        if hasattr(model, "partial_fit") and settings.keys() <= {"max_iter", "average"}:
            model.partial_fit(rows, y, sample_weight=weight)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_no_problem_does(rows, n_workers):
    for make in (problems.linear, problems.network):
        problem = make(rows, LABELS, sample_weight=WEIGHT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # long steps
            solve(problem, rule=SGD(), step=1e-6, stop=2, n_workers=n_workers, runtime="threads")
