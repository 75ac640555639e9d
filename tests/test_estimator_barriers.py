"""`barrier` as a parameter of the estimators: it reaches the run, and nonsense is refused."""

import numpy as np
import pytest
from sklearn.base import clone

import hogshare
from hogshare import BSP, SSP, Throttled

CLASSIFIERS = ["LogisticRegression", "LogisticRegressionCV", "RidgeClassifier", "SGDClassifier"]
REGRESSORS = ["ElasticNet", "Lasso", "Ridge", "SGDRegressor"]
QUICK = {
    "ElasticNet": {"alpha": 0.1},
    "Lasso": {"alpha": 0.1},
    "Ridge": {"alpha": 100.0},
    "RidgeClassifier": {"alpha": 100.0},
    "LogisticRegressionCV": {"Cs": [0.1], "cv": 2, "l1_ratios": (0.0,)}
    | {"use_legacy_attributes": False, "scoring": "accuracy"},
}


def make(name, **settings):
    return getattr(hogshare, name)(**(QUICK.get(name, {}) | settings))


def rows(name, cancer):
    X, y = cancer
    return X, y if name in CLASSIFIERS else X[:, 0] - 2.0 * X[:, 1]


def reports_of(model):
    return model.report_ if isinstance(model.report_, list) else [model.report_]


@pytest.mark.parametrize("name", CLASSIFIERS + REGRESSORS)
def test_a_barrier_reaches_the_run(name, cancer):
    X, y = rows(name, cancer)
    settings = {"n_jobs": 2, "runtime": "threads", "random_state": 0}
    held = make(name, barrier=BSP(), **settings).fit(X, y)
    for report in reports_of(held):
        assert report.settings["barrier"] == "BSP()"
        assert max(worker["largest_lead"] for worker in report.workers) == 0
    free = make(name, **settings).fit(X, y)
    assert all(report.settings["barrier"] == "ASP()" for report in reports_of(free))
    np.testing.assert_allclose(held.score(X, y), free.score(X, y), atol=0.03)


@pytest.mark.parametrize("name", CLASSIFIERS + REGRESSORS)
def test_one_worker_fits_the_same_behind_any_barrier(name, cancer):
    X, y = rows(name, cancer)
    settings = {"n_jobs": 1, "runtime": "caller", "random_state": 0}
    free, held = (make(name, barrier=b, **settings).fit(X, y) for b in (None, Throttled(3)))
    np.testing.assert_array_equal(held.coef_, free.coef_)


@pytest.mark.parametrize("name", CLASSIFIERS + REGRESSORS)
@pytest.mark.parametrize("wrong", ["bsb", SSP, 3], ids=str)
def test_what_is_no_barrier_is_refused_by_fit(name, wrong, cancer):
    model = make(name, barrier=wrong)
    with pytest.raises(ValueError, match=f"'barrier' parameter of {name} must be a barrier such"):
        model.fit(*rows(name, cancer))


@pytest.mark.parametrize("name", CLASSIFIERS + REGRESSORS)
def test_a_barrier_is_cloned_and_set_like_any_parameter(name):
    def mine(table, me):
        return True

    model = make(name, barrier=SSP(4))
    assert clone(model).get_params()["barrier"] == SSP(4)
    assert clone(model.set_params(barrier=mine)).barrier.__name__ == "mine"
    assert "barrier=SSP(staleness=4)" in repr(clone(model).set_params(barrier=SSP(4)))


def test_a_function_of_the_users_is_asked(cancer):
    asked = []

    def always(table, me):
        asked.append(me)
        return True

    model = hogshare.SGDClassifier(barrier=always, n_jobs=2, runtime="threads", max_iter=5)
    model.set_params(tol=None).fit(*cancer)
    assert asked and set(asked) <= {0, 1}
    assert "always" in model.report_.settings["barrier"]
