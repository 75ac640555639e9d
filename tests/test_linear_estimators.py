"""LogisticRegression, Ridge, Lasso and their kin as a scikit-learn user meets them."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn_conformance
from selection import long_but
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale
from sklearn.utils import get_tags
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

import hogshare
from hogshare import (
    ElasticNet,
    Lasso,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    Shared,
)

NAMES = ("LogisticRegression", "Ridge", "RidgeClassifier", "Lasso", "ElasticNet")
PAIRS = {getattr(hogshare, name): getattr(linear_model, name) for name in NAMES}
WORKERS = [("caller", 1), ("threads", 2), ("processes", 2)]
RUNS = pytest.mark.parametrize(("runtime", "n_jobs"), WORKERS)
FORMS = pytest.mark.parametrize("form", ["dense", "csr"])


def as_form(X, form):
    return sp.csr_array(X) if form == "csr" else X


def near(ours, theirs, atol=1e-6):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6, atol=atol)
    assert np.shape(ours.coef_) == np.shape(theirs.coef_)
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)


# -- scikit-learn's checks -----------------------------------------------------------------------


def expected_failures(estimator):
    """scikit-learn's own, and that weights and repeated rows agree to `tol` and no further."""
    theirs = dict(PER_ESTIMATOR_XFAIL_CHECKS.get(PAIRS[type(estimator)], {}))
    if estimator.runtime != "auto" or getattr(estimator, "solver", "") in ("sag", "saga"):
        for rows in ("dense", "sparse"):
            theirs[f"check_sample_weight_equivalence_on_{rows}_data"] = "agree to tol"
    return theirs


@parametrize_with_checks(
    [
        LogisticRegression(),
        LogisticRegression(solver="saga", l1_ratio=0.5, runtime="caller", tol=1e-3),
        Ridge(),
        Ridge(solver="saga"),
        Ridge(runtime="caller"),
        RidgeClassifier(),
        RidgeClassifier(solver="saga"),
        Lasso(),
        ElasticNet(),
        ElasticNet(runtime="caller", tol=1e-3),
    ],
    expected_failed_checks=lambda est: expected_failures(est),
    xfail_strict=False,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


LONG_MODULES = ("test_logistic", "test_ridge", "test_mlp")
# most of this module is about classes that there is no drop-in for; two tests that bear their names
# compare with those that there is one for
SELECTED = {
    "test_coordinate_descent": "not (cv or multitask or path) or grid_search or not_set_precompute"
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "module",
    long_but(LONG_MODULES, [m for m in sklearn_conformance.MODULES if m != "test_sgd"]),
)
def test_scikit_learns_own_tests_pass(module, request):
    select = "" if request.config.option.long else SELECTED.get(module, "")
    rows = sklearn_conformance.run(None, "auto", select, timeout=500, module=module)
    known = sklearn_conformance.known_failures(1, module)
    found = sklearn_conformance.judge(rows, known)
    assert not found["unexpected"]
    assert len(found["passed"]) > 15


@pytest.mark.parametrize("ours", PAIRS, ids=lambda k: k.__name__)
@pytest.mark.quick
def test_parameters_are_scikit_learns_and_more(ours):
    mine = inspect.signature(ours).parameters
    theirs = inspect.signature(PAIRS[ours]).parameters
    assert list(mine)[: len(theirs)] == list(theirs)
    assert all(mine[name].default == theirs[name].default for name in theirs)
    assert [mine[name].kind for name in theirs] == [p.kind for p in theirs.values()]
    assert set(mine) - set(theirs) <= {"n_jobs", "plane", "barrier", "runtime"}
    assert get_tags(ours(n_jobs=2)).non_deterministic
    assert not get_tags(ours()).non_deterministic


# -- the optimum, by an independent solver -------------------------------------------------------


def logistic_optimum(X, y, C, **settings):
    # half squares and a Hessian: nothing in common with how ours is found
    return linear_model.LogisticRegression(
        C=C, solver="newton-cholesky", tol=1e-12, max_iter=200, **settings
    ).fit(X, y)


@FORMS
@RUNS
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.quick
def test_two_classes(cancer, runtime, n_jobs, form, fit_intercept):
    X, y = cancer
    for alpha in (0.1, 1e-3):
        C = 1.0 / (alpha * len(y))
        ours = LogisticRegression(
            C=C,
            tol=1e-9,
            max_iter=20_000,
            fit_intercept=fit_intercept,
            runtime=runtime,
            n_jobs=n_jobs,
            random_state=0,
        ).fit(as_form(X, form), y)
        near(ours, logistic_optimum(X, y, C, fit_intercept=fit_intercept))
        assert ours.report_.converged and len(ours.report_.workers) == n_jobs
        assert ours.report_.checks[-1]["gradient"] <= 1e-9


@RUNS
def test_many_classes_are_multinomial(runtime, n_jobs):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    C = 1.0 / (0.01 * len(y))
    ours = LogisticRegression(
        C=C, tol=1e-9, max_iter=20_000, runtime=runtime, n_jobs=n_jobs, random_state=0
    ).fit(X, y)
    theirs = logistic_optimum(X, y, C)
    near(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert abs(ours.intercept_.sum()) < 1e-12
    assert ours.solver_ == "saga"


def test_many_classes_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    run = {"tol": 1e-9, "max_iter": 20_000, "runtime": "caller"}
    ours = OneVsRestClassifier(LogisticRegression(**run)).fit(X, y)
    for k, binary in enumerate(ours.estimators_):
        near(binary, logistic_optimum(X, (y == k).astype(int), 1.0))
    with pytest.raises(ValueError, match="does not support multiclass"):
        LogisticRegression(solver="liblinear").fit(X, y)


@FORMS
def test_weights_of_rows_and_classes(cancer, form):
    X, y = cancer
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    for class_weight in (None, "balanced", {0: 0.3, 1: 2.0}):
        settings = {"class_weight": class_weight, "C": 0.1}
        ours = LogisticRegression(**settings, tol=1e-9, max_iter=20_000, runtime="caller")
        theirs = linear_model.LogisticRegression(**settings, solver="newton-cholesky", tol=1e-12)
        near(ours.fit(as_form(X, form), y, weight), theirs.fit(X, y, weight))
    X3, y3 = load_iris(return_X_y=True)
    ours = LogisticRegression(class_weight={0: 0.5, 1: 3.0, 2: 1.0}, C=0.1, tol=1e-9, **LONG)
    theirs = clone_of(ours, linear_model.LogisticRegression)
    near(ours.fit(scale(X3), y3, weight[:150]), theirs.fit(scale(X3), y3, weight[:150]), 1e-5)


LONG = {"max_iter": 20_000, "runtime": "caller"}


def clone_of(ours, klass):
    """scikit-learn's estimator with the same parameters, by its best solver."""
    params = {
        k: v for k, v in ours.get_params().items() if k in inspect.signature(klass).parameters
    }
    return klass(**{**params, "solver": "newton-cholesky", "tol": 1e-12, "max_iter": 200})


@RUNS
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_l1_sets_the_same_coefficients_to_zero(cancer, runtime, n_jobs, l1_ratio):
    X, y = cancer
    settings = {"C": 0.05, "l1_ratio": l1_ratio}
    ours = LogisticRegression(
        **settings,
        solver="saga",
        tol=1e-9,
        max_iter=20_000,
        runtime=runtime,
        n_jobs=n_jobs,
        random_state=0,
    ).fit(X, y)
    theirs = linear_model.LogisticRegression(
        **settings, solver="saga", tol=1e-12, max_iter=100_000, random_state=0
    ).fit(X, y)
    near(ours, theirs)
    assert 5 < (theirs.coef_ == 0.0).sum() < 28
    np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    sparse = clone(ours).fit(X, y).sparsify()
    assert sp.issparse(sparse.coef_)
    np.testing.assert_array_equal(sparse.predict(X), ours.predict(X))


def test_liblinears_problem_has_a_penalised_intercept(cancer):
    X, y = cancer
    for form in ("dense", "csr"):
        for settings in ({}, {"l1_ratio": 1.0}, {"intercept_scaling": 5.0}, {"dual": True}):
            settings = {"C": 0.05, "solver": "liblinear", **settings}
            ours = LogisticRegression(**settings, tol=1e-9, **LONG).fit(as_form(X, form), y)
            theirs = linear_model.LogisticRegression(**settings, tol=1e-10, max_iter=100_000)
            near(ours, theirs.fit(X, y), atol=1e-5)


def test_no_penalty(cancer):
    X, y = cancer
    X = X[:, :3]
    ours = LogisticRegression(C=np.inf, tol=1e-10, max_iter=200_000, runtime="caller").fit(X, y)
    near(ours, logistic_optimum(X, y, np.inf), atol=1e-5)
    assert ours.report_.settings["problem"]["penalty"] is None


@pytest.mark.parametrize("l1_ratio", [0.2, 0.9])
def test_the_share_of_l1_is_scikit_learns(diabetes, l1_ratio):
    X, y = diabetes
    given = {"alpha": 0.05, "l1_ratio": l1_ratio}
    theirs = linear_model.ElasticNet(tol=1e-10, **given).fit(X, y)
    ours = ElasticNet(runtime="caller", tol=1e-8, **given).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_float32_to_its_own_precision(cancer):
    X, y = cancer
    ours = LogisticRegression(C=0.1, tol=1e-6, **LONG).fit(X.astype(np.float32), y)
    assert ours.coef_.dtype == ours.intercept_.dtype == np.float32
    np.testing.assert_allclose(ours.coef_, logistic_optimum(X, y, 0.1).coef_, atol=3e-5)
    X, y = load_diabetes(return_X_y=True)
    ours = ElasticNet(alpha=0.1, runtime="caller").fit(scale(X).astype(np.float32), y)
    theirs = linear_model.ElasticNet(alpha=0.1, tol=1e-10).fit(scale(X), y)
    assert ours.coef_.dtype == np.float32
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=0.05)


@pytest.fixture(scope="module")
def wide():
    X, y = make_regression(900, 450, n_informative=20, noise=3.0, random_state=0)
    return X, y / y.std()


@FORMS
@RUNS
def test_ridge(wide, runtime, n_jobs, form):
    X, y = wide
    run = {"runtime": runtime, "n_jobs": n_jobs, "random_state": 0, "tol": 1e-9, "max_iter": 9000}
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    ours = Ridge(alpha=30.0, **run).fit(as_form(X, form), y + 7.0, weight)
    near(ours, linear_model.Ridge(alpha=30.0).fit(X, y + 7.0, weight))
    assert ours.n_iter_.shape == (1,) and ours.solver_ in ("sdca", "saga")


def test_ridge_of_several_targets_with_a_penalty_each(wide):
    X, y = wide
    Y = np.column_stack([y, -2.0 * y + X[:, 0], X[:, 1]])
    run = {"alpha": [30.0, 60.0, 90.0]}
    ours = Ridge(**run, tol=1e-9, runtime="caller", max_iter=9000).fit(X, Y)
    near(ours, linear_model.Ridge(**run).fit(X, Y))
    assert [report.converged for report in ours.report_] == [True] * 3
    with pytest.raises(ValueError, match="Number of targets and number of penalties"):
        Ridge(alpha=[1.0, 2.0], runtime="caller").fit(X, Y)


@pytest.mark.quick
def test_few_features_are_solved_exactly(diabetes):
    X, y = diabetes
    ours = Ridge(n_jobs=2).fit(X, y)
    theirs = linear_model.Ridge().fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    assert (ours.solver_, ours.report_.solver, ours.n_iter_) == ("cholesky", "cholesky", None)
    # a runtime named is an order, and so is a solver of scikit-learn's
    assert Ridge(runtime="caller").fit(X, y).report_.workers
    assert Ridge(solver="svd", runtime="caller").fit(X, y).solver_ == "svd"
    assert (Ridge(positive=True).fit(X, y).coef_ >= 0.0).all()


def test_ridge_classifier():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16.0, y[:500]
    settings = {"alpha": 5.0, "class_weight": "balanced"}
    ours = RidgeClassifier(**settings, runtime="caller", tol=1e-8, max_iter=9000).fit(X, y)
    theirs = linear_model.RidgeClassifier(**settings).fit(X, y)
    near(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    binary = y > 4
    ours = RidgeClassifier(runtime="caller", tol=1e-9, max_iter=9000).fit(X, binary)
    near(ours, linear_model.RidgeClassifier().fit(X, binary), atol=1e-5)


@FORMS
@RUNS
@pytest.mark.parametrize("klass", [Lasso, ElasticNet], ids=lambda k: k.__name__)
def test_lasso_and_elastic_net_with_the_same_zeros(diabetes, klass, runtime, n_jobs, form):
    X, y = diabetes
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    run = {"runtime": runtime, "n_jobs": n_jobs, "random_state": 0, "max_iter": 20_000}
    for alpha in (0.1, 0.01):
        ours = klass(alpha, tol=1e-11, **run).fit(as_form(X, form), y + 3.0, weight)
        theirs = PAIRS[klass](alpha, tol=1e-14, max_iter=100_000).fit(X, y + 3.0, weight)
        near(ours, theirs)
        np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
        assert ours.dual_gap_ == ours.report_.checks[-1]["gap"] <= 1e-11
        assert ours.report_.converged and ours.n_iter_ == ours.report_.n_epochs


def test_features_far_from_zero_do_not_slow_it_down(diabetes):
    X, y = diabetes
    run = {"alpha": 0.05, "runtime": "caller", "random_state": 0}
    near_zero, far = ElasticNet(**run).fit(X, y), ElasticNet(**run).fit(X + 1000.0, y)
    assert far.n_iter_ <= near_zero.n_iter_ + 1
    np.testing.assert_allclose(far.coef_, near_zero.coef_, atol=1e-4)
    theirs = linear_model.ElasticNet(alpha=0.05, tol=1e-10).fit(X + 1000.0, y)
    np.testing.assert_allclose(far.predict(X + 1000.0), theirs.predict(X + 1000.0), atol=1e-2)


def test_several_targets_and_coordinate_descent(diabetes):
    X, y = diabetes
    Y = np.column_stack([y, X[:, 2] - y])
    ours = Lasso(0.05, tol=1e-9, runtime="caller", max_iter=20_000).fit(X, Y)
    near(ours, linear_model.Lasso(0.05, tol=1e-12).fit(X, Y))
    assert ours.dual_gap_.shape == (2,) and len(ours.n_iter_) == 2 == len(ours.report_)
    positive = Lasso(0.05, positive=True).fit(X, y)
    assert (positive.coef_ >= 0.0).all() and positive.solver_ == "cd"
    gram = Lasso(0.05, precompute=X.T @ X, fit_intercept=False).fit(X, y)
    assert gram.solver_ == "cd" and not gram.report_.workers


# -- when it does not converge, and other ends ---------------------------------------------------


def test_max_iter_is_warned_of(cancer, diabetes):
    for model, data in (
        (LogisticRegression(max_iter=2, tol=1e-9, runtime="caller"), cancer),
        (LogisticRegression(max_iter=2, tol=1e-9, solver="saga"), cancer),
        (Ridge(max_iter=2, tol=1e-9, runtime="caller"), diabetes),
        (Lasso(0.01, max_iter=2, tol=1e-9, runtime="caller"), diabetes),
    ):
        with pytest.warns(ConvergenceWarning, match="max_iter was reached .* is still at"):
            model.fit(*data)
        assert np.max(model.n_iter_) == 2 and not model.report_.converged


def test_others_finish_what_would_take_too_long(diabetes, monkeypatch):
    X, y = load_iris(return_X_y=True)
    X = X[y > 0]
    X, y = X * [1.0, 1.0, 30.0, 0.01], y[y > 0]
    model = LogisticRegression(C=100.0, solver="newton-cholesky").fit(X, y)
    assert model.solver_ == "saga, newton-cholesky"
    assert model.report_.n_epochs < model.n_iter_[0] < 100
    assert "finished by 'newton-cholesky'" in model.report_.notes[-1]
    near(model, logistic_optimum(X, y, 100.0), atol=0.05)
    X, y = diabetes
    X = np.column_stack([X, X[:, 0] + 0.03 * X[:, 1]])
    monkeypatch.setattr("hogshare.estimators.lasso.SPARSE_VALUES", 0)
    with pytest.warns(ConvergenceWarning, match="Objective did not converge"):  # theirs neither
        model = Lasso(1e-3, max_iter=50, tol=1e-6).fit(sp.csr_array(X), y)
    assert model.solver_ == "saga, cd" and model.n_iter_ > model.report_.n_epochs


@pytest.mark.parametrize("kind", [Lasso, ElasticNet])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok"])
@pytest.mark.parametrize("runtime", ["auto", "caller"])
def test_indices_of_64_bits_are_as_good(diabetes, kind, form, runtime):
    X, y = diabetes
    X = np.where(X > 0.02, X, 0.0)
    rows = sp.csr_array(X)
    wide = getattr(sp, f"{form}_array")(rows)
    for name in ("indices", "indptr"):
        if hasattr(wide, name):
            setattr(wide, name, getattr(wide, name).astype(np.int64))
    if form == "coo":
        wide.coords = tuple(part.astype(np.int64) for part in wide.coords)
    settings = {"alpha": 0.01, "runtime": runtime, "tol": 1e-6, "max_iter": 2000}
    want = kind(**settings).fit(rows, y)
    np.testing.assert_allclose(kind(**settings).fit(wide, y).coef_, want.coef_, rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (Ridge(solver="cholesky", fit_intercept=False), sp.eye_array(70_000, format="csr")),
        (RidgeClassifier(solver="cholesky", fit_intercept=False), sp.eye_array(70_000).tocsr()),
        (Lasso(precompute=True), np.zeros((2, 70_000), np.float32)),
        (ElasticNet(precompute=True), np.zeros((2, 70_000), np.float32)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_who_would_make_a_matrix_too_large_says_so(model, rows, seams):
    seams.memory.free = lambda **_: 4 << 30
    with pytest.raises(MemoryError, match=r"a dense matrix of 70,000 rows and columns.* 4\.00 GiB"):
        model.fit(rows, np.arange(rows.shape[0]) % 2)


def test_warm_start_goes_on(cancer, diabetes):
    for model, (X, y) in (
        (LogisticRegression(warm_start=True, tol=1e-5, C=0.1, **LONG), cancer),
        (Lasso(0.05, warm_start=True, tol=1e-6, **LONG), diabetes),
    ):
        first = int(np.max(model.fit(X, y).n_iter_))
        coef = model.coef_
        assert first > 10 and np.max(model.fit(X, y).n_iter_) == 0  # it was good enough
        np.testing.assert_array_equal(model.coef_, coef)
    X, y = cancer
    model = LogisticRegression(warm_start=True, tol=1e-5, solver="saga", C=0.1, **LONG).fit(X, y)
    near(model.set_params(C=0.2, tol=1e-9).fit(X, y), logistic_optimum(X, y, 0.2))
    with pytest.raises(ValueError, match="Initialization coef is of shape"):
        LogisticRegression(warm_start=True).fit(*cancer).fit(cancer[0][:, :4], cancer[1])


def test_fits_are_repeatable_pickled_and_cloned(cancer, diabetes):
    for klass in PAIRS:
        X, y = cancer if klass in (LogisticRegression, RidgeClassifier) else diabetes
        model = klass(runtime="caller").fit(X, y)
        again = clone(model).fit(X, y)
        np.testing.assert_array_equal(model.coef_, again.coef_)
        back = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_no_epochs_and_callbacks(cancer):
    heard = []

    class Counter:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            heard.append(context.parent is not None)
            return sum(heard) == 4

    with pytest.warns(ConvergenceWarning, match="max_iter was reached .* after 0 epochs"):
        model = LogisticRegression(max_iter=0).fit(*cancer)
    assert not model.coef_.any() and model.solver_ == "none" and model.n_iter_[0] == 0
    model = LogisticRegression(tol=1e-12).set_callbacks(Counter())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # who asks to stop is not warned of it
        model.fit(*cancer)
    assert model.n_iter_[0] == 4


def test_rows_with_64_bit_indices_are_finished_too():
    rng = np.random.default_rng(0)
    X = sp.random(300, 40, 0.2, format="csr", random_state=0)
    y = (X @ rng.normal(size=40) > 0).astype(int)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    model = LogisticRegression(C=1e6, tol=1e-8).fit(X, y)
    assert model.solver_.endswith("newton-cholesky") and model.report_.converged


def test_a_warm_start_with_other_features_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 6))
    model = Lasso(alpha=0.01, warm_start=True, runtime="caller").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="features and targets must be"):
        model.fit(X[:, :3], X[:, 0])


# -- what cannot be fitted, and what there is nothing to fit in ----------------------------------


@pytest.mark.parametrize(("runtime", "n_jobs"), WORKERS)
@pytest.mark.parametrize("klass", PAIRS, ids=lambda k: k.__name__)
def test_rows_whose_norms_overflow_are_refused(cancer, klass, runtime, n_jobs):
    X, y = cancer
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the sentence is all that is told
        with pytest.raises(ValueError, match=r"squared norms leave .* Scale the input"):
            klass(runtime=runtime, n_jobs=n_jobs).fit(X * 1e160, y)


def test_weights_of_classes_that_leave_nothing_are_refused(cancer):
    X, y = cancer
    for weight, words in (
        ({0: 0.0, 1: 0.0}, "weights of all rows are zero"),
        ({0: 1.0, 1: -1.0}, "class_weight must contain a number, at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            LogisticRegression(class_weight=weight).fit(X, y)
    rows = (y == 0).astype(float)
    with pytest.raises(ValueError, match="weights of all rows are zero"):
        LogisticRegression(class_weight={0: 0.0}).fit(X, y, rows)
    for klass in PAIRS:
        with pytest.raises(ValueError, match="Negative values"):
            klass(runtime="caller").fit(X, y, -rows)


@pytest.mark.parametrize("runtime", ["auto", "caller"])
@pytest.mark.parametrize("klass", [Ridge, Lasso, ElasticNet, RidgeClassifier])
def test_sparse_targets_are_refused_in_scikit_learns_words(klass, runtime):
    for y in (sp.csr_matrix(np.eye(8)[:, :1]), sp.csc_array(np.eye(8)[:, :2])):
        if klass is RidgeClassifier and y.shape[1] > 1:
            continue  # columns of labels, which it takes
        with pytest.raises(TypeError, match=r"Sparse data was passed.* dense data is required"):
            klass(runtime=runtime).fit(np.eye(8), y)


def test_a_fit_of_no_epochs_has_no_workers(cancer):
    model = LogisticRegression(runtime="caller").fit(*cancer)
    assert model.report_.workers
    with pytest.warns(ConvergenceWarning, match="after 0 epochs"):
        assert not model.set_params(max_iter=0).fit(*cancer).report_.workers


@FORMS
@pytest.mark.parametrize("klass", [Ridge, ElasticNet, Lasso], ids=lambda k: k.__name__)
def test_nothing_to_explain_is_the_mean_at_once(diabetes, klass, form):
    X, y = diabetes
    for rows, target in ((0.0 * X, y + 3.0), (X, np.full(len(y), 3.3)), (X, np.zeros(len(y)))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = klass(runtime="caller", max_iter=20).fit(as_form(rows, form), target)
        np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
        atol = 1e-12 if klass is Ridge else 2e-3  # a gap of 1e-6 of the target's mean square
        np.testing.assert_allclose(model.intercept_, target.mean(), atol=atol)
        assert np.max(model.n_iter_) <= 20
    model = klass(runtime="caller", fit_intercept=False).fit(as_form(0.0 * X, form), y)
    assert not model.coef_.any() and np.max(model.n_iter_) <= 5


@pytest.mark.parametrize("klass", [Ridge, RidgeClassifier], ids=lambda k: k.__name__)
def test_ridge_with_64_bit_indices_is_finished(klass):
    rng = np.random.default_rng(0)
    X = sp.random(900, 450, 0.05, format="csr", random_state=0)
    y = X @ rng.normal(size=450) + rng.normal(size=900)
    y = y > 0 if klass is RidgeClassifier else y
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    model = klass(alpha=1e-6, max_iter=100, tol=1e-11).fit(wide, y)
    assert model.solver_.endswith(", cg")
    near(model, PAIRS[klass](alpha=1e-6, solver="sparse_cg", tol=1e-13).fit(X, y), atol=1e-3)
    assert wide.indices.dtype == np.int64, "the caller's matrix is as it was"


@pytest.mark.parametrize("kind", [*PAIRS, hogshare.LogisticRegressionCV])
@pytest.mark.parametrize("runtime", ["auto", "threads"])
def test_workers_that_cannot_be_are_refused_whoever_fits(kind, runtime):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="n_jobs == 0 has no meaning"):
        kind(n_jobs=0, runtime=runtime).fit(X, y)
    for plane in (Shared(exchange=None), hogshare.Master()):
        with pytest.raises(ValueError, match=f"{kind.__name__} needs private copies"):
            kind(plane=plane, runtime=runtime).fit(X, y)


def test_a_penalty_that_nothing_comes_up_to():
    X, y = load_diabetes(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Lasso(alpha=1e10, runtime="threads", n_jobs=2).fit(scale(X), y)
    assert not model.coef_.any() and model.intercept_ == pytest.approx(y.mean())
