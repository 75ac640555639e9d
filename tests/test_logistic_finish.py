"""LogisticRegression where the workers do not get there: who goes on, how far, and what is said."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from hogshare import LogisticRegression, LogisticRegressionCV, Model, Stop, problems
from hogshare.optimum.full_batch import METHODS, finish
from hogshare.problems.linear.curvature import Curvature
from hogshare.problems.linear.optimality import Optimality

TOL, GAP = 1e-4, 0.05


def objective(model, X, y, C, l1_ratio=0.0):
    """scikit-learn's, over C and the number of rows, in NumPy alone."""
    X = X.toarray() if sp.issparse(X) else X
    coef = np.asarray(model.coef_, float)
    z = np.asarray(X, float) @ coef.T + np.asarray(model.intercept_, float)
    z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
    losses = -log_softmax(z, axis=1)[np.arange(len(y)), y]
    penalty = l1_ratio * np.abs(coef).sum() + (1 - l1_ratio) / 2 * np.square(coef).sum()
    return losses.mean() + penalty / (C * len(y))


def least(X, y, C, **settings):
    """The optimum, by a hundredfold tighter tolerance of Newton's method from zero."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, float)
    problem = problems.linear(X, y, loss="multinomial", alpha=1.0 / (C * len(y)), **settings)
    zeros = Model(np.zeros((problem.n_columns, X.shape[1])), np.zeros(problem.n_columns))
    found = finish(problem, zeros, Stop(relative_gap=1e-6), "newton-cholesky", 500)
    assert found.converged  # so by duality nothing is lower by more than a millionth
    return found.found["objective"]


@pytest.mark.parametrize("C", [1e4, 1e5, 1e6])
def test_weak_penalties_end_at_the_optimum_that_was_asked_for(cancer, C):
    X, y = cancer
    model = LogisticRegression(C=C, max_iter=10_000).fit(X, y)
    assert objective(model, X, y, C) <= (1.0 + GAP) * least(X, y, C)
    last = model.report_.checks[-1]
    assert last["gradient"] <= TOL and last["relative_gap"] <= GAP and model.report_.converged
    assert last["objective"] == pytest.approx(objective(model, X, y, C), rel=1e-9)
    assert "is still at" not in model.report_.stop_reason


SETTINGS = {
    "float32": {"dtype": np.float32},
    "csr": {"form": sp.csr_array},
    "no intercept": {"fit_intercept": False},
    "newton-cg": {"solver": "newton-cg"},
    "default": {},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_so_do_other_rows_and_solvers_within_the_default_iterations(cancer, name):
    settings = {"dtype": float, "form": np.asarray, **SETTINGS[name]}
    X, y = cancer
    X = settings.pop("form")(X.astype(settings.pop("dtype")))
    model = LogisticRegression(C=1e5, **settings).fit(X, y)
    intercept = settings.get("fit_intercept", True)
    assert objective(model, X, y, 1e5) <= (1 + GAP) * least(X, y, 1e5, fit_intercept=intercept)
    assert model.n_iter_[0] <= 100 and model.coef_.dtype == X.dtype
    assert model.n_iter_[0] > model.report_.n_epochs  # it was finished


@pytest.mark.parametrize(("form", "C"), [(scale, 1e4), (np.asarray, 1.0)])
def test_many_classes(form, C):
    X, y = load_wine(return_X_y=True)
    X = form(X)
    model = LogisticRegression(C=C).fit(X, y)
    assert objective(model, X, y, C) <= (1.0 + GAP) * least(X, y, C)
    assert model.solver_ == "saga, newton-cholesky" and model.n_iter_[0] <= 100
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-12 * np.abs(model.coef_).max())


def test_more_features_than_steps_by_factors_are_for():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    model = LogisticRegression(C=100.0).fit(X, y)
    assert model.solver_ == "saga, newton-cg" and model.report_.converged
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-10)


@pytest.mark.parametrize("scaled", [True, False])
def test_l1_as_liblinear_has_it(scaled):
    X, y = load_breast_cancer(return_X_y=True)
    X, C = (scale(X), 1e4) if scaled else (X, 1.0)
    model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear").fit(X, y)
    problem = problems.linear(
        np.column_stack([X, np.ones(len(X))]),
        y,
        penalty="l1",
        alpha=1.0 / (C * len(y)),
        fit_intercept=False,
    )
    coef = np.append(model.coef_, model.intercept_)[None]
    look = Optimality(problem, Model(coef, np.zeros(1)))
    assert look.relative_gap() <= GAP and look.gradient() <= TOL
    assert model.solver_ == "saga, newton-cholesky" and (model.coef_ == 0.0).any()


@pytest.mark.parametrize("method", ["newton-cg", "newton-cholesky"])
def test_both_of_newtons_methods_know_elastic_nets(cancer, method):
    X, y = cancer
    problem = problems.linear(X, y, penalty="elasticnet", alpha=1e-3, l1_ratio=0.7)
    zeros = Model(np.zeros((1, X.shape[1])), np.zeros(1))
    found = finish(problem, zeros, Stop(relative_gap=1e-8), method, 200)
    assert found.converged and found.found["relative_gap"] <= 1e-8
    assert 0 < np.count_nonzero(found.model.coef) < X.shape[1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_methods_count_their_iterations_and_tell_what_the_model_has(cancer, method, dtype):
    X, y = cancer[0].astype(dtype), cancer[1]
    problem = problems.linear(X, y, alpha=1e-3)
    zeros = Model(np.zeros((1, X.shape[1]), dtype), np.zeros(1, dtype))
    stop = Stop(gradient=1e-5, relative_gap=1e-3)
    short = finish(problem, zeros, stop, method, 2)
    assert short.iterations == {method: 2} and not short.converged
    assert "is still at" in short.sentence
    found = finish(problem, zeros, stop, method, 200)
    assert found.converged and list(found.iterations) == [method]
    look = Optimality(problem, found.model)
    assert look.gradient() <= 1e-5 and look.relative_gap() <= 1e-3
    assert found.found["gradient"] == pytest.approx(look.gradient(), rel=1e-9)
    assert found.found["relative_gap"] == pytest.approx(look.relative_gap(), rel=1e-9)


@pytest.mark.parametrize("max_iter", [1, 5, 10, 40])
def test_n_iter_is_never_above_max_iter_and_who_falls_short_says_so(max_iter):
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(max_iter=max_iter)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert 0 < model.n_iter_[0] <= max_iter
    assert model.report_.converged == (not heard) == (max_iter == 40)
    for warning in heard:
        assert warning.category is ConvergenceWarning and warning.filename == __file__
        text = str(warning.message)
        assert "max_iter was reached" in text and "is still at" in text
        assert "Increase max_iter, or scale the data" in text


def test_what_rounding_forbids_is_told_apart_from_too_few_iterations():
    X, y = load_breast_cancer(return_X_y=True)
    # of float32 numbers the luckiest leave a gradient of 5e-10, and the way there may be long
    model = LogisticRegression(tol=1e-12, max_iter=1000)
    with pytest.warns(ConvergenceWarning, match=r"No step improves the model in float32.*float64"):
        model.fit(X.astype(np.float32), y)
    assert model.n_iter_[0] < 1000


def test_no_iterations_warn_unless_the_model_is_good(cancer):
    model = LogisticRegression(max_iter=0, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="after 0 epochs the largest component"):
        model.fit(*cancer)
    model.set_params(max_iter=100).fit(*cancer)
    model.set_params(max_iter=0, tol=2e-4).fit(*cancer)  # a warning would be an error
    assert model.n_iter_[0] == 0 and model.coef_.any()


@pytest.mark.parametrize("labels", [2, 3])
def test_separable_classes_without_a_penalty_end_with_a_warning(labels):
    X, y = load_wine(return_X_y=True)
    X, y = scale(X)[y < labels], y[y < labels]
    with pytest.warns(ConvergenceWarning, match="separates the classes and there is no penalty"):
        model = LogisticRegression(C=np.inf).fit(X, y)
    assert model.score(X, y) == 1.0 and model.n_iter_[0] <= 100 and np.isfinite(model.coef_).all()


def test_every_fit_of_a_cross_validation_is_finished(cancer):
    X, y = cancer
    settings = {"l1_ratios": (0.0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
    model = LogisticRegressionCV(Cs=[1e3, 1e6], cv=2, **settings).fit(X, y)
    assert (model.n_iter_ <= 100).all() and model.report_.converged
    with pytest.warns(ConvergenceWarning) as heard:
        LogisticRegressionCV(Cs=[1e6], cv=2, max_iter=3, **settings).fit(X, y)
    assert len(heard) == 3  # two folds and all rows


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
def test_second_derivatives_are_differences_of_gradients(form, classes):
    rng = np.random.default_rng(0)
    y = np.arange(60) % classes
    X = form(rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.7))
    weight = rng.uniform(0.0, 2.0, 60) * (rng.random(60) < 0.9)
    problem = problems.linear(X, y, loss="multinomial", alpha=0.1, sample_weight=weight)
    columns = problem.n_columns
    x = rng.normal(size=(columns, 5))

    def look(x):
        return Optimality(problem, Model(x[:, :4], x[:, 4]))

    def gradient(x):
        coef, intercept = look(x).slopes_of()
        return np.column_stack([coef, intercept])

    curvature = Curvature(look(x))
    step = 1e-6 * np.eye(x.size).reshape(x.size, *x.shape)
    told = np.array([(gradient(x + s) - gradient(x - s)).ravel() / 2e-6 for s in step])
    np.testing.assert_allclose(curvature.matrix(), told, atol=1e-8)
    np.testing.assert_allclose(curvature.diagonal().ravel(), told.diagonal(), atol=1e-8)
    v = rng.normal(size=x.shape)
    np.testing.assert_allclose(curvature.product(v).ravel(), told @ v.ravel(), atol=1e-7)
