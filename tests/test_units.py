"""No choice of units decides when a fit is done: columns times constants, and far from zero."""

import sys
import warnings

import cases
import naive
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge

import hogshare
from hogshare import ElasticNet, Lasso, LogisticRegression, Ridge, RidgeClassifier, problems
from hogshare.kernels.rows.moments import add_deviations
from hogshare.problems.linear import LinearProblem, units
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model

NEAR = 0.005  # of the closed form's share of what can be explained
FACTORS = [1e5, 1e-5]


def rows_of(shape, factor, form="dense", dtype=float, years=False, seed=0):
    """Standard normal rows with a target, whose third column is in other units."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    if form == "sparse":
        X *= rng.random(shape) < 0.3
    y = X[:, 0] - X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(shape[0])
    X[:, 2] *= factor
    if years:
        X[:, 5] = 1700.0 + 10.0 * rng.standard_normal(shape[0])
        y += 0.1 * (X[:, 5] - 1700.0)
    X = X.astype(dtype)
    return (sp.csr_matrix(X) if form == "sparse" else X), y


def explained(X, Y, alpha=1.0):
    """The closed form's R2: least squares of scaled columns, the penalty as rows of its own."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, float)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    size = np.sqrt(np.square(X).sum(axis=0) + alpha)
    rows = np.vstack([X / size, np.diag(np.sqrt(alpha) / size)])
    targets = np.concatenate([Y, np.zeros((X.shape[1], *Y.shape[1:]))])
    coef = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return 1.0 - np.square(Y - X / size @ coef).sum() / np.square(Y).sum()


def reached(model, X, Y):
    return 1.0 - np.square(Y - model.predict(X)).sum() / np.square(Y - Y.mean(axis=0)).sum()


RIDGE_ROWS = {
    "the issue's": ((600, 450), 1e5, "dense", float, "saga, cholesky"),
    "far larger": ((600, 450), 1e8, "dense", np.float32, "saga, cholesky"),
    "smaller": ((600, 450), 1e-5, "dense", float, "saga"),
    "sparse": ((600, 450), 1e5, "sparse", float, "saga, cg"),
    "sparse, smaller": ((600, 450), 1e-5, "sparse", np.float32, "saga"),
    "wide": ((410, 500), 1e5, "dense", np.float32, "sdca, cg"),
    "few wide rows": ((150, 300), 1e5, "dense", np.float32, "cg"),
    "few columns, sparse": ((500, 100), 1e5, "sparse", np.float32, "cg"),
}


@pytest.mark.parametrize("case", RIDGE_ROWS)
def test_ridge_is_near_the_closed_form(case):
    shape, factor, form, dtype, solver = RIDGE_ROWS[case]
    X, y = rows_of(shape, factor, form, dtype)
    model = Ridge().fit(X, y)  # a warning is an error
    assert reached(model, X, y) == pytest.approx(explained(X, y), abs=NEAR)
    assert model.solver_ == solver
    assert model.coef_.dtype == dtype


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_several_targets_and_classes(form):
    X, y = rows_of((600, 450), 1e5, form)
    Y = np.c_[y, 1e6 * (np.asarray(X[:, [3]].todense() if form == "sparse" else X[:, [3]])[:, 0])]
    model = Ridge().fit(X, Y)
    for target in range(2):
        got = reached(model, X, Y)
        assert got == pytest.approx(explained(X, Y), abs=NEAR)
        one = Ridge().fit(X, Y[:, target])
        assert reached(one, X, Y[:, target]) == pytest.approx(explained(X, Y[:, target]), abs=NEAR)
    classifier = RidgeClassifier().fit(X, y > 0.0)
    signs = np.where(y > 0.0, 1.0, -1.0)
    got = 1.0 - np.square(signs - classifier.decision_function(X)).sum() / (
        np.square(signs - signs.mean()).sum()
    )
    assert got == pytest.approx(explained(X, signs), abs=NEAR)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(600, 450), (500, 60)])
def test_columns_far_from_zero(form, shape):
    X, y = rows_of(shape, 1.0, form, years=True)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = Ridge().fit(X, 1e7 * y + 1e9)
    assert reached(model, X, 1e7 * y + 1e9) == pytest.approx(explained(X, y), abs=NEAR)
    near = Ridge(tol=1e-9).fit(X, y, sample_weight=weight)
    wanted = LinearRegression if shape[1] < 100 else None
    if wanted is not None:  # a penalty of one is next to nothing for as many rows
        exact = wanted().fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(near.predict(X), exact.predict(X), atol=0.02)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("kind", [Ridge, RidgeClassifier])
@pytest.mark.parametrize("how", [{"solver": "saga"}, {"solver": "sag"}, {"runtime": "threads"}])
def test_workers_that_were_asked_for_warn(form, kind, how):
    X, y = rows_of((300, 40), 1e5, form)
    with pytest.warns(ConvergenceWarning, match="largest component of the gradient is still at"):
        kind(max_iter=50, **how).fit(X, y > 0.0 if kind is RidgeClassifier else y)


def test_conjugate_gradients_warn_too():
    X, y = rows_of((500, 100), 1e5, "sparse")
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        Ridge(max_iter=2).fit(X, y)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    "kind",
    [
        Lasso(alpha=0.01, max_iter=60, runtime="caller"),
        ElasticNet(alpha=0.01, max_iter=60, runtime="caller"),
        Lasso(alpha=0.01),
        LogisticRegression(runtime="caller"),
        LogisticRegression(C=np.inf, runtime="caller"),
        LogisticRegression(l1_ratio=0.5, solver="saga", runtime="caller"),
    ],
    ids=lambda kind: f"{type(kind).__name__}-{kind.runtime}-{getattr(kind, 'C', '')}",
)
def test_right_or_a_warning(kind, factor, form):
    """The objective is within a hundredth of that on even columns, or the fit says that it is not.

    Against the penalty on even columns: a column in larger units has less of it.
    """
    X, y = rows_of((300, 8), factor, form)
    even, _ = rows_of((300, 8), 1.0, form)
    classes = isinstance(kind, LogisticRegression)
    y = (y > 0.0).astype(float) if classes else y
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kind.fit(X, y)
    if any(issubclass(warning.category, ConvergenceWarning) for warning in told):
        return
    problem = problems.linear(even, y, loss="log_loss" if classes else "squared_error", alpha=0.0)
    coef = np.atleast_2d(kind.coef_) * np.where(np.arange(8) == 2, factor, 1.0)
    kind.coef_ = kind.coef_ * 1.0
    best = type(kind)(**{**kind.get_params(), "tol": 1e-8, "max_iter": 5000, "runtime": "auto"})
    if factor > 1.0:
        best.fit(even, y)
        limit = problem.objective(np.atleast_2d(best.coef_), np.atleast_1d(best.intercept_))
    else:  # of so small a column nothing is left by a penalty, and all without
        penalised = getattr(kind, "C", 1.0) != np.inf
        kept = np.delete(np.asarray(even.todense() if form == "sparse" else even), 2, axis=1)
        best.fit(kept if penalised else even, y)
        coef_of = np.atleast_2d(best.coef_)
        full = np.insert(coef_of, 2, 0.0, axis=1) if penalised else coef_of
        limit = problem.objective(full, np.atleast_1d(best.intercept_))
    got = problem.objective(coef, np.atleast_1d(kind.intercept_))
    assert got <= 1.01 * limit + 1e-6


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("penalty", [None, "l1"])
def test_a_column_times_a_constant(form, fit_intercept, penalty):
    """The gradient in the columns' units is the same; also of a column far from zero, moved."""
    rng = np.random.default_rng(0)
    X = 20.0 * rng.standard_normal((90, 6)) * (rng.random((90, 6)) < 0.5)
    X[:, 4] = 3.0 + rng.standard_normal(90)
    y = rng.random(90) < 0.5
    coef, factors = 0.1 * rng.standard_normal((1, 6)), np.array([1e-6, 1.0, 1e9, 1.0, 1.0, 1e3])
    found = []
    for factor, moved in ((np.ones(6), 0.0), (factors, 0.0), (factors, 1e7 * fit_intercept)):
        rows = X * factor
        rows[:, 4] += moved
        rows = sp.csr_matrix(rows) if form == "csr" else rows
        settings = {"penalty": penalty, "alpha": 0.0, "fit_intercept": fit_intercept}
        problem = problems.linear(rows, y, **settings)
        start = 0.3 * fit_intercept - moved * coef[0, 4]
        found.append(Optimality(problem, Model(coef / factor, np.array([start]))).gradient())
    np.testing.assert_allclose(found[1:], found[0], rtol=1e-6)
    assert found[0] > 0.01


def test_units_equal_the_twin():
    for form, dtype in (("dense", "float32"), ("csr", "float64")):
        problem, X, _, weight = cases.problem(form, dtype, weighted=True, alpha=0.3)
        origin, size = naive.units(X, weight, 0.25, problem.l2, True)
        np.testing.assert_allclose(problem.units.origin, origin, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(problem.units.size, size, rtol=1e-6)


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_a_sample_of_the_rows_will_do_where_it_tells(form, monkeypatch):
    """A feature that few rows have is looked at in all of them, if it may decide; else not."""
    for name in ("NORM_ROWS", "UNIT_ROWS"):
        monkeypatch.setattr(sys.modules[LinearProblem.__module__], name, 20)
    rng = np.random.default_rng(0)
    X = np.hstack([rng.standard_normal((800, 4)), np.zeros((800, 1))])
    X[[3, 5], 4] = 1e-7, 2e-7
    y = (X[:, 0] + rng.standard_normal(800) > 0.0).astype(float)
    passes = []

    def counted(rows, every, *others):
        passes.append(every)
        return add_deviations(rows, every, *others)

    monkeypatch.setattr(units, "add_deviations", counted)
    rows = sp.csr_matrix(X) if form == "csr" else X
    at = Model(np.zeros((1, 5)), np.zeros(1))
    for alpha, wanted in ((0.0, [40, 1]), (1.0, [40])):
        passes.clear()
        problem = problems.linear(rows, y, alpha=alpha)
        assert Optimality(problem, at).gradient() > 0.1
        assert passes == wanted
    # with nothing left of the others' slopes, the rare one's is what there is
    alone = problems.linear(rows[:, 4:], y, alpha=0.0)
    slope = np.abs(X[[3, 5], 4] @ (0.5 - y[[3, 5]])) / 800
    size = np.sqrt(np.square(X[[3, 5], 4]).mean()) / 0.05
    found = Optimality(
        alone, Model(np.zeros((1, 1)), np.array([np.log(y.mean() / (1 - y.mean()))]))
    )
    assert found.gradient() >= 0.5 * slope / size


def test_sparse_frames_of_pandas():
    pd = pytest.importorskip("pandas")
    X, y = rows_of((60, 8), 1.0, "sparse")
    frame = pd.DataFrame.sparse.from_spmatrix(X)
    for kind in (RidgeClassifier(), RidgeClassifier(runtime="caller")):
        got = kind.fit(frame, y > 0.0).coef_
        np.testing.assert_allclose(got, kind.fit(X, y > 0.0).coef_, rtol=1e-9)
    for kind in (Ridge(), Ridge(runtime="caller"), Lasso(runtime="caller")):
        got = kind.fit(frame, y).coef_
        np.testing.assert_allclose(got, kind.fit(X, y).coef_, rtol=1e-9)


@pytest.mark.parametrize("how", [{}, {"runtime": "caller", "tol": 1e-8, "max_iter": 20000}])
@pytest.mark.parametrize("labels", [2, 3, "several"])
def test_balanced_goes_by_the_weights(how, labels):
    """A row of weight two is one that comes twice."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = rng.integers(0, 2, (60, 2)) if labels == "several" else rng.integers(0, labels, 60)
    times = rng.integers(0, 4, 60)
    kind = RidgeClassifier(class_weight="balanced", **how)
    weighted = kind.fit(X, y, sample_weight=times.astype(float)).decision_function(X)
    again = np.repeat(np.arange(60), times)
    repeated = kind.fit(X[again], y[again]).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("kind", [Ridge, Lasso, ElasticNet, RidgeClassifier, LogisticRegression])
def test_numbers_that_have_no_squares_are_refused(kind, form):
    X, y = rows_of((60, 8), 1.0, form)
    labels = kind in (RidgeClassifier, LogisticRegression)
    with pytest.raises(ValueError, match=r"Rows are too large: .* Scale the input"):
        kind(runtime="caller").fit(X * 1e200, y > 0.0 if labels else y)
    if not labels:
        with pytest.raises(ValueError, match=r"Targets are too large: .* Scale them"):
            kind(runtime="caller").fit(X, y * 1e200)


def test_a_constant_column_counts_for_nothing():
    """It is the intercept once more; nor does one that is zero everywhere."""
    X, y = rows_of((200, 6), 1.0)
    X[:, 3], X[:, 4] = 1e8 / 3.0, 0.0
    problem = problems.linear(X, y > 0.0, penalty=None)
    assert (problem.units.size[3:5] == 0.0).all() and (problem.units.size[:3] > 0.5).all()
    report = hogshare.solve(
        problems.linear(np.delete(X, 3, axis=1), y > 0.0, penalty=None),
        rule=hogshare.SAGA(),
        stop=hogshare.Stop(epochs=200, gradient=1e-6),
        seed=0,
    )
    assert report.converged
    at = Model(np.insert(report.model.coef, 3, 0.0, axis=1), report.model.intercept)
    assert Optimality(problem, at).gradient() < 2e-6


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("rows", "weight"), [(60, 1e4), (60, 1e5), (10, 1e6)])
def test_a_few_heavy_rows_do_not_end_a_fit(form, rows, weight):
    """The gradient at zero is theirs, and small as soon as they are fitted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 450))
    y = X[:, 0] - X[:, 1] + X[:, 2]
    weights = np.where(np.arange(600) < rows, weight, 1.0)
    model = Ridge().fit(form(X), y, sample_weight=weights)
    assert model.score(X, y) > 0.999
    exact = SklearnRidge(solver="svd").fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_few_large_rows_do_not_end_a_fit(form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 450))
    y = X[:, 0] - X[:, 1] + X[:, 2]
    X[:10] *= 1e6
    exact = SklearnRidge(solver="svd").fit(X, y).score(X, y)
    assert Ridge().fit(form(X), y).score(X, y) > exact - 0.005
