"""Dual coordinate ascent as a user meets it: it reaches the optimum, alone and with others."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import hogshare
from hogshare import SDCA, SGDClassifier, SGDRegressor, Shared, StepSize, Stop, problems, solve

RUNTIMES = [("caller", 1), ("threads", 2), ("threads", 4), ("processes", 2)]
EXACT = Stop(epochs=5000, gradient=1e-12)  # at rest, whoever was preempted before


def optimum(X, y, alpha):
    """Coefficients and intercept by Newton's method."""
    theirs = LogisticRegression(C=1.0 / (alpha * len(y)), solver="newton-cholesky", tol=1e-12)
    theirs.fit(X, y)
    return theirs.coef_, theirs.intercept_


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
def test_logistic_regression_to_the_optimum(cancer, runtime, n_workers, sparse):
    X, y = cancer
    problem = problems.linear(sp.csr_matrix(X) if sparse else X, y, alpha=0.05)
    report = solve(
        problem,
        rule=SDCA(),
        runtime=runtime,
        n_workers=n_workers,
        stop=EXACT,
        seed=0,
    )
    coef, intercept = optimum(X, y, 0.05)
    np.testing.assert_allclose(report.model.coef, coef, atol=1e-7)
    np.testing.assert_allclose(report.model.intercept, intercept, atol=1e-7)


def test_float32_to_its_own_precision(cancer):
    X, y = cancer
    problem = problems.linear(X.astype(np.float32), y, alpha=0.05)
    model = solve(problem, rule=SDCA(), stop=Stop(epochs=100), seed=0).model
    assert model.coef.dtype == np.float32
    np.testing.assert_allclose(model.coef, optimum(X, y, 0.05)[0], atol=2e-5)


def test_hinge_reaches_the_support_vector_machine(cancer):
    X, y = cancer
    alpha = 0.1
    theirs = LinearSVC(
        loss="hinge",
        C=1.0 / (alpha * len(y)),
        fit_intercept=False,
        tol=1e-10,
        max_iter=1_000_000,
        random_state=0,
    ).fit(X, y)
    problem = problems.linear(X, y, loss="hinge", alpha=alpha, fit_intercept=False)
    report = solve(problem, rule=SDCA(), stop=Stop(epochs=500), seed=0)
    best = problem.objective(theirs.coef_, np.zeros(1))
    ours = problem.objective(report.model.coef, report.model.intercept)
    assert ours == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
@pytest.mark.quick
def test_elastic_net_with_the_same_zeros(diabetes, runtime, n_workers):
    X, y = diabetes
    theirs = ElasticNet(alpha=0.2, l1_ratio=0.6, tol=1e-12, max_iter=100_000).fit(X, y)
    problem = problems.linear(
        X, y, loss="squared_error", penalty="elasticnet", alpha=0.2, l1_ratio=0.6
    )
    report = solve(
        problem,
        rule=SDCA(),
        runtime=runtime,
        n_workers=n_workers,
        stop=EXACT,
        seed=0,
    )
    coef = report.model.coef[0]
    np.testing.assert_allclose(coef, theirs.coef_, atol=1e-7)
    assert (theirs.coef_ == 0.0).any()
    np.testing.assert_array_equal(coef == 0.0, theirs.coef_ == 0.0)


def test_many_classes_are_one_against_the_rest():
    X, y = load_digits(return_X_y=True)
    X = X[:600] / 16.0
    y = y[:600]
    ours = SGDClassifier(
        "log_loss", alpha=0.01, learning_rate="auto", max_iter=100, tol=None, random_state=0
    ).fit(X, y)
    for k in (0, 7):
        coef, intercept = optimum(X, (y == k).astype(int), 0.01)
        np.testing.assert_allclose(ours.coef_[k], coef[0], atol=1e-5)
        np.testing.assert_allclose(ours.intercept_[k], intercept[0], atol=1e-5)


def test_weights_count_as_repeated_rows(cancer):
    X, y = cancer
    times = np.random.default_rng(0).integers(1, 4, len(y))
    n = len(y)
    once = problems.linear(X, y, alpha=0.05, sample_weight=times.astype(float))
    # the objective divides by the number of rows, not of weights
    often = problems.linear(
        np.repeat(X, times, axis=0), np.repeat(y, times), alpha=0.05 * n / times.sum()
    )
    first, second = (
        solve(p, rule=SDCA(), stop=Stop(epochs=300), seed=0).model for p in (once, often)
    )
    np.testing.assert_allclose(first.coef, second.coef, atol=1e-7)
    np.testing.assert_allclose(first.intercept, second.intercept, atol=1e-7)


def test_one_worker_with_a_seed_is_reproducible_bit_for_bit(cancer):
    problem = problems.linear(*cancer, alpha=0.01)
    models = [solve(problem, rule=SDCA(), stop=Stop(epochs=3), seed=3).model for _ in range(2)]
    np.testing.assert_array_equal(models[0].coef, models[1].coef)


def test_the_trace_and_the_report(cancer):
    problem = problems.linear(*cancer, penalty="elasticnet", alpha=0.05)
    report = solve(problem, rule=SDCA(), stop=Stop(epochs=20), trace=2, seed=0)
    assert report.trace.objective[-1] < report.trace.objective[0]
    assert report.trace.objective[-1] == pytest.approx(
        problem.objective(report.model.coef, report.model.intercept), rel=1e-3
    )
    assert report.settings["rule"] == {"name": "SDCA"}
    assert report.settings["step"] is None
    report.to_json()


# -- the estimators' learning_rate="auto" --------------------------------------------------------


@pytest.mark.parametrize("runtime", ["auto", "threads"])
def test_the_classifier(cancer, runtime):
    X, y = cancer
    ours = SGDClassifier(
        "log_loss",
        alpha=0.05,
        learning_rate="auto",
        max_iter=300,
        tol=None,
        random_state=0,
        n_jobs=2,
        runtime=runtime,
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, optimum(X, y, 0.05)[0], atol=1e-7)
    assert ours.report_.settings["rule"]["name"] == "SDCA"
    assert ours.n_iter_ == 300


def test_the_regressor(diabetes):
    X, y = diabetes
    ours = SGDRegressor(alpha=1e-6, learning_rate="auto", max_iter=5000, tol=None, random_state=0)
    # nearly without a penalty the dual's steps are long; the optimum is that of least squares
    ours.set_params(alpha=1e-2).fit(X, y)
    design = np.vstack([X, np.sqrt(1e-2 * len(y)) * np.eye(X.shape[1])])
    target = np.concatenate([y, np.zeros(X.shape[1])])
    theirs = LinearRegression(fit_intercept=False).fit(design, target)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


def test_it_stops_when_the_objective_no_longer_falls(cancer):
    ours = SGDClassifier("log_loss", alpha=0.05, learning_rate="auto", random_state=0)
    ours.fit(*cancer)
    assert ours.report_.converged
    assert ours.n_iter_ < 100


def test_early_stopping(cancer):
    ours = SGDClassifier(
        "log_loss", alpha=0.05, learning_rate="auto", early_stopping=True, random_state=0
    ).fit(*cancer)
    assert ours.score(*cancer) > 0.97


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"average": True}, "average=False"),
        ({"warm_start": True}, "warm_start=False"),
        ({"plane": Shared(exchange=None)}, "private copies"),
    ],
)
def test_what_cannot_be_done_is_refused(cancer, settings, message):
    with pytest.raises(ValueError, match=message):
        SGDClassifier(learning_rate="auto", alpha=2.0, **settings).fit(*cancer)


def test_going_on_is_refused(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match="cannot continue"):
        SGDClassifier(learning_rate="auto").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="cannot continue"):
        SGDClassifier(learning_rate="auto").fit(X, y).partial_fit(X, y)


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_from_a_model_that_remembers_nothing_it_is_the_other_rule(cancer, loss):
    """Which can begin anywhere; both come to the same optimum."""
    X, y = cancer
    settings = {"loss": loss, "alpha": 2.0, "learning_rate": "auto", "tol": 1e-7, "random_state": 0}
    plain = SGDClassifier(**settings).fit(X, y)
    moved = SGDClassifier(**settings).fit(X, y, coef_init=np.full((1, X.shape[1]), 0.1))
    rules = [m.report_.settings["rule"]["name"] for m in (plain, moved)]
    assert rules == ["SDCA", "SAGA"]
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=0.01)
    problem = problems.linear(X, y, loss=loss, alpha=2.0)
    found, known = (problem.objective(m.coef_, m.intercept_) for m in (moved, plain))
    assert found == pytest.approx(known, rel=1e-3)


def test_solve_refuses_what_the_rule_cannot_do(cancer):
    problem = problems.linear(*cancer)
    start = hogshare.Model(np.ones((1, 30)), np.zeros(1))
    with pytest.raises(ValueError, match="schedule of step sizes"):
        solve(problem, rule=SDCA(), step=StepSize())
    with pytest.raises(ValueError, match="starts from zero"):
        solve(problem, rule=SDCA(), start=start)
    with pytest.raises(ValueError, match="l2 part"):
        solve(problems.linear(*cancer, penalty="l1"), rule=SDCA())
    with pytest.raises(ValueError, match="private copies"):
        solve(problem, rule=SDCA(), plane=Shared(exchange=None))
