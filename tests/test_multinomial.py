"""The softmax over all classes as a user meets it: the same optimum as scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from hogshare import SAGA, SDCA, SGD, Shared, StepSize, Stop, problems, solve
from hogshare.rules.automatic_rule import automatic_rule

RUNTIMES = [("caller", 1), ("threads", 2), ("threads", 4), ("processes", 2)]
ALPHA = 0.02


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[y < 4][:400, 2:40] / 16.0, y[y < 4][:400]


def optimum(X, y, alpha=ALPHA, weight=None, **settings):
    settings |= {"solver": "newton-cholesky", "tol": 1e-12}
    return LogisticRegression(C=1.0 / (alpha * len(y)), **settings).fit(X, y, weight)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("runtime", "n_workers"), RUNTIMES)
def test_saga_reaches_the_optimum(digits, runtime, n_workers, sparse):
    X, y = digits
    theirs = optimum(X, y)
    X = sp.csr_matrix(X) if sparse else X
    problem = problems.linear(X, y, loss="multinomial", alpha=ALPHA)
    run = {"runtime": runtime, "n_workers": n_workers, "stop": Stop(epochs=600), "seed": 0}
    model = solve(problem, rule=SAGA(), **run).model
    np.testing.assert_allclose(model.coef, theirs.coef_, atol=1e-6)
    # a constant added to all intercepts changes nothing
    centred = model.intercept - model.intercept.mean()
    np.testing.assert_allclose(centred, theirs.intercept_ - theirs.intercept_.mean(), atol=1e-6)


def test_weights_of_classes_and_rows_are_scikit_learns(digits):
    X, y = digits
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    of_classes = np.array([1.0, 3.0, 0.5, 2.0])
    theirs = optimum(X, y, weight=weight, class_weight=dict(enumerate(of_classes)))
    problem = problems.linear(
        X, y, loss="multinomial", alpha=ALPHA, sample_weight=weight, class_weight=of_classes
    )
    model = solve(problem, rule=SAGA(), stop=Stop(epochs=1500), seed=0).model
    np.testing.assert_allclose(model.coef, theirs.coef_, atol=1e-6)


@pytest.mark.parametrize(
    "plane", [Shared(), Shared(exchange=None), Shared(exchange=None, adds="atomic")]
)
@pytest.mark.parametrize("n_workers", [1, 2])
def test_sgd_comes_near(digits, plane, n_workers):
    """Of plain adds none is lost where iterates are averaged, or the average would be far off."""
    X, y = digits
    problem = problems.linear(X, y, loss="multinomial", alpha=ALPHA)
    theirs = optimum(X, y)
    best = problem.objective(theirs.coef_, theirs.intercept_)
    # its objective is the loss as it is counted once per row, without the penalty
    unpenalised = problems.linear(X, y, loss="multinomial", penalty=None)
    report = solve(
        problem,
        rule=SGD(average=400 * 20),
        plane=plane,
        runtime="threads",
        n_workers=n_workers,
        step=StepSize("constant", eta0=0.02),
        stop=Stop(epochs=60, tol=-np.inf),
        seed=0,
    )
    model = report.model
    whole = unpenalised.objective(model.coef, model.intercept)
    assert report.epoch_losses[-1] == pytest.approx(whole, rel=0.1)
    assert problem.objective(model.average_coef, model.average_intercept) <= best * 1.01


def test_the_objective_is_scikit_learns_loss(digits):
    X, y = digits
    theirs = optimum(X, y)
    problem = problems.linear(X, y, loss="multinomial", penalty=None)
    likelihood = theirs.predict_log_proba(X)[np.arange(len(y)), y].mean()
    assert problem.objective(theirs.coef_, theirs.intercept_) == pytest.approx(-likelihood)


def test_columns_stop_together(digits):
    problem = problems.linear(*digits, loss="multinomial", alpha=ALPHA)
    report = solve(problem, rule=SAGA(), stop=Stop(epochs=500, tol=1e-4), seed=0)
    assert report.converged and report.n_epochs < 500
    held_out = np.arange(400) % 5 == 0
    stop = Stop(epochs=500, tol=1e-4, validation=held_out)
    assert solve(problem, rule=SAGA(), stop=stop, seed=0).converged


def test_two_classes_are_the_log_loss(cancer):
    problem = problems.linear(*cancer, loss="multinomial", alpha=0.05)
    assert (problem.loss, problem.n_columns) == ("log_loss", 1)
    other = problems.linear(*cancer, alpha=0.05)
    models = [solve(p, rule=SAGA(), seed=0).model for p in (problem, other)]
    np.testing.assert_array_equal(models[0].coef, models[1].coef)


def test_what_cannot_be_done_is_refused(digits):
    problem = problems.linear(*digits, loss="multinomial")
    with pytest.raises(
        ValueError, match=r"couples them; use SAGA\(\) or SGD\(\), or loss='log_loss'"
    ):
        solve(problem, rule=SDCA())
    assert isinstance(automatic_rule(problem), SAGA)
    with pytest.raises(ValueError, match="needs classes"):
        problems.linear(*digits, loss="multinomial", task="regression")
    with pytest.raises(ValueError, match="works with loss='hinge' only"):
        solve(problem, step=StepSize("pa1"))
