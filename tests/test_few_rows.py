"""Few rows are left to scikit-learn's own solvers: whose model that is, and when it is not so."""

import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as theirs
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

import hogshare
from hogshare import BSP, Shared
from hogshare.cli import warm
from hogshare.cli.main import main
from hogshare.estimators import few_rows
from hogshare.report import Report

SETTINGS = [
    {},
    {"loss": "log_loss", "penalty": "l1", "alpha": 1e-3},
    {"loss": "modified_huber", "class_weight": "balanced", "penalty": "elasticnet"},
    {"loss": "hinge", "learning_rate": "pa1", "eta0": 0.5, "fit_intercept": False},
    {"loss": "squared_hinge", "learning_rate": "adaptive", "shuffle": False, "max_iter": 30},
    {"learning_rate": "invscaling", "power_t": 0.3, "tol": None, "max_iter": 7},
]


pytestmark = pytest.mark.usefixtures("few_rows_are_left")


def was_left(model):
    return not isinstance(model.report_, Report)


def same(model, other):
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.intercept_, other.intercept_)
    assert model.n_iter_ == other.n_iter_ and model.t_ == other.t_


@pytest.mark.filterwarnings("ignore:Maximum number of iteration")
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_classifier_is_scikit_learns_bit_for_bit(settings, cancer):
    X, y = cancer
    weight = np.linspace(0.5, 2.0, len(y))
    ours = hogshare.SGDClassifier(random_state=3, n_jobs=2, **settings)
    other = theirs.SGDClassifier(random_state=3, **settings).fit(X, y, sample_weight=weight)
    same(ours.fit(X, y, sample_weight=weight), other)
    assert was_left(ours) and ours.report_.n_iter == other.n_iter_
    np.testing.assert_array_equal(ours.classes_, other.classes_)


@pytest.mark.parametrize("form", ["list", "float32", "csr", "csc", "repeated", "integers"])
def test_rows_in_other_forms(form):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    rows = {
        "list": X.tolist(),
        "float32": X.astype(np.float32),
        "csr": sp.csr_array(X),
        "csc": sp.csc_matrix(X),
        "repeated": sp.csr_array(
            (np.repeat(X.ravel() / 2, 2), np.tile([0, 0, 1, 1, 2, 2, 3, 3], 150), range(0, 1201, 8))
        ),
        "integers": (10 * X).astype(int),
    }[form]
    before = rows.copy() if form == "repeated" else None
    ours = hogshare.SGDClassifier(random_state=0).fit(rows, labels)
    plain = X if form == "repeated" else rows
    plain = sp.csr_array(plain) if form == "repeated" else plain
    same(ours, theirs.SGDClassifier(random_state=0).fit(plain, labels))
    assert was_left(ours) and ours.score(rows, labels) > 0.6
    if before is not None:
        assert rows.nnz == before.nnz  # the caller's matrix is as it was


def test_a_regressor_and_its_random_state(diabetes):
    X, y = diabetes
    one, other = np.random.RandomState(5), np.random.RandomState(5)
    for _ in range(2):  # each fit draws from it, and leaves it where scikit-learn does
        ours = hogshare.SGDRegressor(random_state=one).fit(X, y)
        same(ours, theirs.SGDRegressor(random_state=other).fit(X, y))
    assert was_left(ours)


def test_partial_fit_goes_on_from_it(cancer):
    X, y = cancer
    ours = hogshare.SGDClassifier(random_state=0, loss="log_loss", learning_rate="constant")
    other = theirs.SGDClassifier(random_state=0, loss="log_loss", learning_rate="constant")
    first = other.fit(X[:300], y[:300]).coef_.copy()
    kept = ours.fit(X[:300], y[:300]).report_.model.coef
    np.testing.assert_allclose(
        ours.partial_fit(X[300:], y[300:]).coef_, other.partial_fit(X[300:], y[300:]).coef_
    )
    assert not was_left(ours) and ours.t_ == other.t_
    np.testing.assert_array_equal(kept, first)  # a report that somebody has is not written to


def test_a_fit_goes_on_from_a_model(cancer):
    X, y = cancer
    ours = hogshare.SGDClassifier(random_state=0, warm_start=True).fit(X, y)
    other = theirs.SGDClassifier(random_state=0, warm_start=True).fit(X, y)
    same(ours.fit(X, y), other.fit(X, y))
    start = np.ones((1, X.shape[1])), np.ones(1)
    cold = hogshare.SGDClassifier(random_state=0, max_iter=2, tol=None)
    same(
        cold.fit(X, y, *start),
        theirs.SGDClassifier(random_state=0, max_iter=2, tol=None).fit(X, y, *copy.deepcopy(start)),
    )
    assert (start[0] == 1.0).all() and (start[1] == 1.0).all()  # the caller's
    # with a start it is a start, which scikit-learn passes over in one that is warm
    before = ours.coef_
    assert (ours.fit(X, y, *start).coef_ != before).any()
    assert was_left(ours) and was_left(cold)


@pytest.mark.parametrize(
    "settings",
    [
        {"runtime": "caller"},
        {"barrier": BSP()},
        {"plane": Shared(exchange=None)},
        {"early_stopping": True},
        {"average": True},
        {"learning_rate": "auto"},
        {"max_iter": 100_000},
    ],
    ids=str,
)
def test_workers_fit_where_they_are_asked_for(settings, cancer):
    assert not was_left(hogshare.SGDClassifier(random_state=0, **settings).fit(*cancer))


def test_workers_fit_more_rows(cancer, seams):
    X, y = cancer
    seams.sizes.few = X.size
    assert not was_left(hogshare.SGDClassifier().fit(X, y))
    seams.sizes.few = X.size + len(X)
    assert was_left(hogshare.SGDClassifier().fit(X, y))


def test_what_is_refused_leaves_the_model_as_it_is(cancer):
    X, y = cancer
    model = hogshare.SGDClassifier(random_state=0).fit(X, y)
    coef = model.coef_.copy()
    damaged = sp.csr_array(X)
    damaged.indices[3] = 10_000
    with pytest.raises(ValueError, match="damaged"):
        model.fit(damaged, y)
    with pytest.raises(ValueError, match="sample_weight must contain"):
        model.fit(X, y, sample_weight=np.full(len(y), -1.0))
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        model.fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="labels are missing"):
        model.fit(X, [None, *y[1:]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[1:])
    np.testing.assert_array_equal(model.coef_, coef)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("which", ["iris", "cancer"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_logistic_regression_is_at_the_optimum(C, which, dtype, cancer):
    X, y = cancer if which == "cancer" else load_iris(return_X_y=True)
    X = X.astype(dtype)
    weight = np.linspace(0.5, 2.0, len(y))
    model = hogshare.LogisticRegression(C=C, class_weight="balanced").fit(X, y, weight)
    assert was_left(model) and model.solver_ == "newton-cholesky" and model.report_.converged
    best = theirs.LogisticRegression(
        C=C, class_weight="balanced", solver="newton-cholesky", tol=1e-12
    ).fit(X.astype(np.float64), y, weight)
    assert model.coef_.dtype == dtype
    largest = abs(best.coef_).max()
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=0, atol=1e-3 * largest)
    np.testing.assert_allclose(model.predict_proba(X), best.predict_proba(X), atol=1e-3)


@pytest.mark.filterwarnings("ignore:The model separates")
@pytest.mark.filterwarnings("ignore:The max_iter was reached")
def test_where_newtons_method_fails_workers_go_on():
    X, y = load_iris(return_X_y=True)
    model = hogshare.LogisticRegression(C=np.inf).fit(X[:100], y[:100])  # these two separate
    assert not was_left(model) and model.score(X[:100], y[:100]) == 1.0


def test_other_problems_are_the_workers(cancer):
    X, y = cancer
    for settings in (
        {"l1_ratio": 1.0, "solver": "saga", "tol": 1e-3},
        {"solver": "saga", "tol": 1e-3},
        {"runtime": "threads", "tol": 1e-3},
    ):
        assert not was_left(hogshare.LogisticRegression(**settings).fit(X, y))
    assert not was_left(hogshare.LogisticRegression(tol=1e-3).fit(sp.csr_array(X), y))


def test_a_frame_and_its_names(cancer):
    pd = pytest.importorskip("pandas")
    X, y = cancer
    frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
    for model in (hogshare.SGDClassifier(random_state=0), hogshare.LogisticRegression()):
        train, test, of_train, of_test = train_test_split(frame, y, random_state=0)
        assert model.fit(train, of_train).score(test, of_test) > 0.8 and was_left(model)
        assert list(model.feature_names_in_) == list("abcd") and model.n_features_in_ == 4
        model.fit(X[:, :4], y)  # without names
        assert not hasattr(model, "feature_names_in_")


def test_a_first_fit_compiles_no_rule(tmp_path):
    """The kernels of a rule take ten seconds; that of two kinds of labels a tenth of one."""
    script = """
import warnings
from sklearn.datasets import load_breast_cancer
from hogshare import LogisticRegression, SGDClassifier, SGDRegressor
from hogshare.kernels.jit import decorators
X, y = load_breast_cancer(return_X_y=True)
for model in (LogisticRegression(n_jobs=-1), SGDClassifier(), SGDRegressor()):
    model.fit(X, y)
print(sorted(name.split("-")[0] for name in decorators.cached_files()))
"""
    env = {**os.environ, "HOGSHARE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['row_checks.two_kinds']", done.stderr


def test_a_warm_up_has_workers_fit(monkeypatch, cancer):
    """It fits few rows for the kernels that more rows need."""
    reports = []

    def fits(args):
        model = hogshare.SGDClassifier(max_iter=5, tol=None)
        return [("a fit", lambda: reports.append(model.fit(*cancer).report_))]

    monkeypatch.setattr(warm, "fits", fits)
    monkeypatch.setattr(warm, "all_done", set)
    monkeypatch.setattr(warm, "write_down", lambda done: None)
    assert main(["warm", "SGDClassifier"]) == 0
    assert isinstance(reports[0], Report)
    assert was_left(hogshare.SGDClassifier(max_iter=5, tol=None).fit(*cancer))


def test_beside_other_threads_nobodys_filters_of_warnings_are_touched(monkeypatch):
    X, y = load_iris(return_X_y=True)
    ignored = few_rows._ignored
    entered = []
    monkeypatch.setattr(few_rows, "_ignored", lambda: entered.append(True) or ignored())
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        assert was_left(hogshare.LogisticRegression().fit(X, y)) and not entered
    finally:
        over.set()
        other.join()


@pytest.mark.filterwarnings("ignore:The max_iter was reached")
@pytest.mark.parametrize("settings", [{}, {"runtime": "caller"}], ids=["left", "workers"])
def test_classes_that_are_refused_leave_the_model_as_it_is(settings):
    X, y = load_iris(return_X_y=True)
    X, y = X[:100, :2], np.tile([0, 1], 50)
    model = hogshare.LogisticRegression(**settings).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, np.array(list("abc"))[np.arange(100) % 3], sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit(X, np.full(100, 7))
    np.testing.assert_array_equal(model.predict(X), before)
