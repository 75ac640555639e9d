"""learning_rate="auto" gets to the optimum or says that it has not, whatever units columns have."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from hogshare import BSP, SAGA, SGD, SGDClassifier, SGDRegressor, Shared, Stop, problems, solve
from hogshare.problems.linear.column_units import ColumnUnits, suited


def one_value(X):
    X[7, 3] = 1e6


def year(X):
    X[:, 0] = 1700.0 + 10.0 * X[:, 0]


def large(X):
    X[:, 0] *= 1e5


def off_centre(X):
    X += 100.0


def all_large(X):
    X *= 1e4


def small(X):
    X[:, 2] *= 1e-3


SHAPES = [year, large, off_centre, all_large]


def plain(n=1000, p=10):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X @ rng.normal(size=p) + 0.5 * rng.normal(size=n)


def shaped(change):
    """Rows, and numbers to be told from them; whatever the shape, about as well."""
    X, y = plain()
    change(X)
    return X, y / y.std()


def auto(kind, **settings):
    return kind(learning_rate="auto", random_state=0, **settings)


@pytest.mark.parametrize("change", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error", "classes"])
def test_dense_rows_are_fitted_as_if_they_were_scaled(change, dtype, loss):
    X, y = shaped(change)
    kind = SGDRegressor if loss == "squared_error" else SGDClassifier
    if kind is SGDClassifier:
        y = np.digitize(y, [-0.5, 0.5] if loss == "classes" else [0.0])
    settings = {"loss": "log_loss" if loss == "classes" else loss}
    model = auto(kind, **settings).fit(X.astype(dtype), y)
    assert model.report_.converged
    assert model.n_iter_ < 30
    scaled = auto(kind, **settings).fit(scale(X), y)
    assert model.score(X, y) > scaled.score(scale(X), y) - 0.01
    assert model.coef_.dtype == dtype


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_large_row_that_need_not_be_told_by_its_value_hides_no_column(form, loss, side):
    """Once its class is certain it says nothing any more, least of all how large its column is."""
    X, y = plain()
    clean, labels = X.copy(), y > 0.0
    X[7, 3] = side * np.sign((y[7] > 0.0) - 0.5) * 1e6
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = auto(SGDClassifier, loss=loss).fit(form(X), labels)
    settings = {"loss": loss, "alpha": 1e-4}
    problem = problems.linear(X, labels, **settings)
    objective = problem.objective(model.coef_, model.intercept_)
    # without the row, and without the column, both are models of these rows
    best = []
    for change in (lambda Z: None, lambda Z: Z[:, 3].fill(0.0)):
        Z = clean.copy()
        change(Z)
        other = auto(SGDClassifier, loss=loss).fit(np.delete(Z, 7, 0), np.delete(labels, 7))
        best.append(problem.objective(other.coef_, other.intercept_))
    assert model.report_.converged == (not told)
    if model.report_.converged:
        assert objective < min(best) + 0.02
    else:
        assert objective > min(best) + 0.002
        assert all(issubclass(one.category, ConvergenceWarning) for one in told)


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", None])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_penalty_stays_the_one_that_was_asked_for(penalty, intercept):
    X, y = shaped(year)
    X[:, 5] *= 1e-3
    settings = {"penalty": penalty, "alpha": 0.03, "fit_intercept": intercept}
    X[:, 1] *= 1e3
    assert suited(problems.linear(X, y, loss="squared_error", **settings)).divisors is not None
    model = auto(SGDRegressor, tol=1e-9, max_iter=2000, **settings).fit(X, y)
    problem = problems.linear(X, y, loss="squared_error", **settings)
    least = problem.objective(model.coef_, model.intercept_)
    # no coefficient can be moved to anything better, by much or by little
    for j, size in enumerate(1.0 / X.std(axis=0)):
        for step in (1e-3, 1e-2, 0.1):
            for sign in (-1.0, 1.0):
                coef = model.coef_.copy()
                coef[j] += sign * step * size
                shift = sign * step * size * X[:, j].mean() if intercept else 0.0
                assert problem.objective(coef, model.intercept_ - shift) > least
    if penalty == "l1":
        assert (model.coef_ == 0.0).any()


@pytest.mark.parametrize("kind", [SGDClassifier, SGDRegressor])
def test_a_small_column_counts_if_the_penalty_lets_it(kind):
    X, y = shaped(small)
    y = y > 0.0 if kind is SGDClassifier else y
    model = auto(kind, alpha=1e-9).fit(X, y)
    assert model.report_.converged
    assert model.score(X, y) > auto(kind, alpha=1e-9).fit(scale(X), y).score(scale(X), y) - 0.01
    assert suited(problems.linear(X, y > 0.0, alpha=1e-4)) is None


def test_dense_rows_of_common_units_are_left_alone():
    X, y = plain()
    for rows in (X, X + 1.0, 100.0 * (X > 0.5), np.hstack([X, X > 2.5, 3.0 * X])):
        assert suited(problems.linear(rows, y > 0.0)) is None
    year(X)
    assert suited(problems.linear(X, y > 0.0)) is not None
    assert suited(problems.linear(sp.csr_array(X), y > 0.0)) is None
    # a penalty beside which they are short decides alone
    assert suited(problems.linear(X, y > 0.0, alpha=1e3)) is None


@pytest.mark.parametrize("change", [one_value, year, large])
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_error"])
def test_sparse_rows_that_are_not_fitted_warn(change, loss):
    X, y = shaped(change)
    kind = SGDRegressor if loss == "squared_error" else SGDClassifier
    y = y if kind is SGDRegressor else (y > 0.0).astype(int)
    with pytest.warns(ConvergenceWarning, match="has not converged after .* Scale the data"):
        model = auto(kind, loss=loss).fit(sp.csr_array(X), y)
    report = model.report_
    assert not report.converged
    assert "scaled steps would gain" in " ".join([report.stop_reason, *report.notes])
    assert all(look["gain"] > 0.05 for look in report.checks)
    if loss != "hinge":  # whose gains fall little by little
        assert model.n_iter_ < 100, "epochs that cannot do are not spent"
        assert report.checks[-1]["epoch"] == model.n_iter_


@pytest.mark.parametrize(
    ("workers", "goes_on"),
    [
        ({"n_jobs": 2, "runtime": "threads"}, True),
        ({"n_jobs": 2, "runtime": "processes"}, True),
        ({"n_jobs": 2, "runtime": "threads", "barrier": BSP()}, False),
    ],
    ids=["threads", "processes", "in order"],
)
def test_several_workers_go_on_unless_they_keep_an_order(workers, goes_on):
    X, y = shaped(year)
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        model = auto(SGDClassifier, loss="log_loss", **workers).fit(sp.csr_array(X), y > 0.0)
    assert not model.report_.converged
    assert len(model.report_.checks) == (3 if goes_on else 1)


@pytest.mark.parametrize("runtime", ["caller", "threads"])
def test_a_run_that_stopped_too_early_goes_on_until_it_is_there(runtime):
    X, y = load_wine(return_X_y=True)
    problem = problems.linear(scale(X), y, penalty="elasticnet", alpha=1e-6, l1_ratio=0.15)
    n_workers = 1 if runtime == "caller" else 2
    settings = {"rule": SAGA(sampling="importance"), "seed": 0, "n_workers": n_workers}
    once, sure = (
        solve(
            problem, runtime=runtime, stop=Stop(epochs=1000, tol=1e-3, confirm=confirm), **settings
        )
        for confirm in (False, True)
    )
    assert once.converged
    assert not once.checks
    assert sure.converged
    assert len(sure.checks) > 1
    assert sure.n_epochs == sure.checks[-1]["epoch"] == len(sure.epoch_losses) > once.n_epochs
    assert sure.checks[-1]["gain"] <= 0.015 < sure.checks[0]["gain"]
    least = problem.objective(sure.model.coef, sure.model.intercept)
    assert least == pytest.approx(sure.checks[-1]["objective"])
    assert least < 0.8 * problem.objective(once.model.coef, once.model.intercept)


def test_a_run_whose_epochs_are_over_says_what_its_last_look_found():
    X, y = shaped(year)
    with pytest.warns(ConvergenceWarning, match="scaled steps would gain"):
        model = auto(SGDClassifier, loss="log_loss", max_iter=12).fit(sp.csr_array(X), y > 0.0)
    assert model.n_iter_ == 12
    assert not model.report_.converged


def test_where_the_penalty_carries_the_run_no_look_is_taken():
    X, y = plain()
    model = auto(SGDClassifier, loss="log_loss", alpha=0.1).fit(X, y > 0.0)
    assert model.report_.converged
    assert model.report_.checks == []
    weak = auto(SGDClassifier, loss="log_loss").fit(X, y > 0.0)
    assert weak.report_.converged
    (look,) = weak.report_.checks
    assert look["gain"] < 1e-3


def test_a_start_and_callers_of_epochs_see_the_rows_as_they_came(capsys):
    X, y = shaped(year)
    X[:, 1] *= 1e5
    first = auto(SGDRegressor).fit(X, y)
    again = auto(SGDRegressor, max_iter=1, tol=None, verbose=1)
    again.fit(X, y, coef_init=first.coef_, intercept_init=first.intercept_)
    assert again.score(X, y) > first.score(X, y) - 0.05
    printed = capsys.readouterr().out
    assert f"Norm: {np.linalg.norm(again.coef_):.2f}" in printed
    assert f"Bias: {again.intercept_[0]:.6f}" in printed
    problem = problems.linear(X, y, loss="squared_error")
    assert f"Objective: {problem.objective(again.coef_, again.intercept_):f}" in printed


def test_what_cannot_be_confirmed_is_refused():
    X, y = plain()
    problem = problems.linear(X, y > 0.0)
    with pytest.raises(ValueError, match="give tol="):
        Stop(confirm=True)
    with pytest.raises(ValueError, match="leave validation= out"):
        Stop(tol=1e-3, confirm=True, validation=np.arange(len(y)) < 9)
    with pytest.raises(ValueError, match="SGD only hovers around"):
        solve(problem, rule=SGD(), stop=Stop(tol=1e-3, confirm=True))
    year(X)
    problem = problems.linear(X, y > 0.0)
    recast = suited(problem).recast(problem)
    units = np.ones(X.shape[1])
    with pytest.raises(ValueError, match="have been divided needs SAGA"):
        solve(ColumnUnits(np.zeros(10), units).recast(recast), rule=SGD())
    lock_free = {"rule": SAGA(), "plane": Shared(exchange=None)}
    with pytest.raises(ValueError, match="have been divided needs SAGA"):
        solve(ColumnUnits(np.zeros(10), units).recast(recast), **lock_free)


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_what_one_step_does_not_find_several_do(loss):
    """Columns with heavy tails, of which no scale is the right one."""
    X = np.random.default_rng(0).normal(size=(500, 10))
    y = X[:, 0] + X[:, 1] > 0
    with pytest.warns(ConvergenceWarning, match="scaled steps would gain"):
        auto(SGDClassifier, loss=loss).fit(sp.csr_array(np.exp(3.0 * X)), y)
