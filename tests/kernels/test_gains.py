"""What one scaled step gains, against closed forms, and that no unit of a column changes it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from hogshare import problems
from hogshare.problems.linear.column_units import in_units, moments_of
from hogshare.problems.linear.gains import gain_of, share_of_tolerance
from hogshare.problems.model import Model

FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
SMOOTH = ["log_loss", "squared_hinge", "modified_huber", "multinomial"]
TARGETS = ["squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]


def rows(n=200, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 1.0
    return X, X @ rng.normal(size=p) + 0.1 * rng.normal(size=n)


def zeros(problem):
    shape = problem.n_columns, problem.n_features
    return Model(np.zeros(shape), np.zeros(shape[0]))


@FORMS
@pytest.mark.parametrize("intercept", [True, False])
def test_of_one_column_and_squares_it_is_all_that_is_to_be_gained(form, intercept):
    X, y = rows(p=1)
    weight = np.linspace(0.5, 1.5, len(y))
    problem = problems.linear(
        form(X), y, loss="squared_error", alpha=0.1, fit_intercept=intercept, sample_weight=weight
    )
    A = np.hstack([X, np.ones((len(y), int(intercept)))])
    H = A.T @ (A * weight[:, None]) / len(y) + np.diag([0.1, 0.0][: A.shape[1]])
    best = np.linalg.solve(H, A.T @ (weight * y) / len(y))
    least = problem.objective(best[:1], best[1:] if intercept else np.zeros(1))
    gain, objective = gain_of(problem, zeros(problem), 1e-9)
    assert objective == pytest.approx(problem.objective(np.zeros(1), np.zeros(1)))
    # lengths are doubled: a quadratic's best is met to a ninth
    assert 8.0 / 9.0 - 1e-9 <= gain / (objective - least) <= 1.0 + 1e-9


@FORMS
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", SMOOTH + TARGETS + ["hinge"])
def test_it_is_there_to_be_had_whatever_the_units_of_columns(form, loss, intercept):
    X, y = rows()
    if loss not in TARGETS:
        y = np.digitize(y, np.quantile(y, [0.3, 0.7] if loss == "multinomial" else [0.5]))
    settings = {"loss": loss, "alpha": 0.0, "fit_intercept": intercept}
    problem = problems.linear(form(X), y, **settings)
    gain, objective = gain_of(problem, zeros(problem), 1e-3)
    assert 0.1 * objective < gain < objective
    moved = X * [1e6, 1.0, 1e-3, 1.0] + ([1700.0, 0.0, 0.0, 0.0] if intercept else np.zeros(4))
    other = problems.linear(form(moved), y, **settings)
    assert gain_of(other, zeros(other), 1e-3)[0] == pytest.approx(gain, rel=1e-5)


@FORMS
@pytest.mark.parametrize("penalty", ["l1", "elasticnet", "l2"])
def test_with_a_penalty_it_is_of_the_whole_objective(form, penalty):
    X, y = rows()
    settings = {"loss": "squared_error", "penalty": penalty, "l1_ratio": 0.5}
    problem = problems.linear(form(X), y, alpha=0.1, **settings)
    gain, objective = gain_of(problem, zeros(problem), 1e-3)
    assert 0.1 * objective < gain < objective
    # of a penalty this strong zero is the optimum
    heavy = problems.linear(form(X), y - y.mean(), alpha=1e6, **settings)
    assert gain_of(heavy, zeros(heavy), 1e-3)[0] < 1e-2 * objective


@FORMS
def test_at_the_optimum_nothing_is_gained(form):
    X, y = rows()
    labels = y > np.median(y)
    fitted = LogisticRegression(C=1.0, tol=1e-10).fit(X, labels)
    problem = problems.linear(form(X), labels, alpha=1.0 / len(y))
    gain, _ = gain_of(problem, Model(fitted.coef_, fitted.intercept_), 1e-6)
    assert gain < 1e-8


def test_a_tolerance_goes_by_the_unit_of_small_targets():
    X, y = rows()
    y = (y - y.mean()) / y.std()
    shares = [
        share_of_tolerance(problems.linear(X, scale * y + 5.0, loss="squared_error"))
        for scale in (1e-3, 1.0, 1e3)
    ]
    np.testing.assert_allclose(shares, [1e-6, 1.0, 1.0])
    assert share_of_tolerance(problems.linear(X, y > 0.0)) == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [True, False])
def test_moments_and_units_of_columns(dtype, weighted):
    X = rows()[0].astype(dtype)
    weight = np.linspace(0.0, 2.0, len(X)) if weighted else np.ones(len(X))
    problem = problems.linear(X, np.arange(len(X)) % 2, sample_weight=weight)
    mean, variance, reach = moments_of(problem.rows)
    expected = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    np.testing.assert_allclose(
        variance, np.average((X - expected) ** 2, axis=0, weights=weight), rtol=1e-5
    )
    np.testing.assert_allclose(reach, np.abs(X - expected).max(axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        moments_of(problem.rows, 10).mean,
        np.average(X[::10], axis=0, weights=weight[::10]),
        rtol=1e-6,
    )
    units = np.array([1.0, 2.0, 4.0, 0.5])
    out = in_units(problem.rows.data, mean, units).reshape(X.shape)
    np.testing.assert_allclose(out, (X - mean) / units, rtol=1e-5, atol=1e-6)
    assert out.dtype == dtype
    assert not out.flags.writeable
