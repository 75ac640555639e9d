"""A fit that no workers do says who did it, and why: `report_` is never None."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import hogshare
from hogshare import (
    ElasticNet,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    Report,
    Ridge,
    RidgeClassifier,
    SolverReport,
)

FACES = [
    "ElasticNet",
    "Lasso",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Ridge",
    "RidgeClassifier",
    "SGDClassifier",
    "SGDRegressor",
]
CV = {
    "Cs": [1.0],
    "cv": 2,
    "l1_ratios": (0,),
    "scoring": "accuracy",
    "use_legacy_attributes": False,
}


X = np.random.RandomState(0).randn(80, 6)
Y = (X @ [1.0, -2.0, 0.5, 0.0, 0.0, 1.0] > 0.0).astype(int)


@pytest.fixture
def rows():
    return X, Y


def sparse(X):
    return sp.csr_array(X * (np.abs(X) > 0.5))


def wide(X):
    """Fewer rows than features, of which one is in large units."""
    return np.hstack([X, X**2])[:10] * np.r_[1e9, np.ones(11)]


# estimator, what is done to the rows, who solved, why
PATHS = [
    *(
        (klass(**settings), change, by, why)
        for klass in (Ridge, RidgeClassifier)
        for settings, change, by, why in [
            ({}, None, "scikit-learn's 'cholesky'", "dense and have 6 features, at most 400"),
            ({"positive": True}, None, "scikit-learn's 'lbfgs'", "positive=True"),
            *(
                ({"solver": name}, None, f"scikit-learn's {name!r}", f"solver={name!r} asks for it")
                for name in ("svd", "cholesky", "lsqr", "sparse_cg")
            ),
            ({}, sparse, "conjugate gradients ('cg')", "the rows are sparse and have 6 features"),
            ({}, wide, "conjugate gradients ('cg')", "have one very large feature and are 10"),
        ]
    ),
    *(
        (klass(**settings), change, "scikit-learn's coordinate descent ('cd')", why)
        for klass in (Lasso, ElasticNet)
        for settings, change, why in [
            ({}, None, "dense rows"),
            ({}, sparse, "sparse rows of at most 1,000,000 values"),
            ({"positive": True, "runtime": "caller"}, None, "positive=True"),
            ({"precompute": X.T @ X, "fit_intercept": False}, None, "Gram matrix"),
        ]
    ),
    (LogisticRegression(max_iter=0), None, "", "max_iter=0"),
    (LogisticRegressionCV(refit=False, **CV), None, "", "refit=False"),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Linear regression models:UserWarning")
@pytest.mark.parametrize(("model", "change", "by", "why"), PATHS)
def test_who_solved_and_why(model, change, by, why, rows, tmp_path):
    X, y = rows
    X = X if change is None else change(X)
    model = clone(model).fit(X, y[: X.shape[0]])
    report = model.report_
    assert type(report) is SolverReport
    assert (report.solver, report.by) == (model.solver_, by)
    assert why in report.reason
    text = str(report)
    if by:
        assert text.startswith(f"solved by {by} in ") and f"because {report.reason}" in text
        assert 0.0 < report.run_seconds == report.seconds["run"] == report.seconds["total"]
    else:
        assert text == f"nothing was fitted to all rows, because {report.reason}"
    assert text in repr(report) and "\n" not in text
    # a Report's names, as far as they make sense
    assert (report.n_workers, report.runtime, report.n_epochs) == (1, "caller", 0)
    assert report.rule is report.plane is report.barrier is report.step is None
    assert report.workers == report.checks == []
    assert np.array_equal(report.model.coef.ravel(), np.ravel(model.coef_))
    assert np.array_equal(report.n_iter, model.n_iter_)
    told = json.loads(report.to_json(tmp_path / "report.json"))
    assert told == json.loads((tmp_path / "report.json").read_text())
    assert told["solver"] == model.solver_ and told["stop_reason"] == report.stop_reason
    assert {"seconds", "n_workers", "runtime", "versions"} <= set(told) & set(report.__dir__())
    back = pickle.loads(pickle.dumps(report))
    assert str(back) == text and np.array_equal(back.model.coef, report.model.coef)
    assert "<script>" not in report._repr_html_() and "<p><b>" in report._repr_html_()


def test_whether_it_converged(rows):
    X, y = rows
    assert Ridge().fit(X, y).report_.converged is True
    assert Ridge().fit(sparse(X), y).report_.converged is True
    assert Ridge(solver="lsqr").fit(X, y).report_.converged is None
    assert Lasso(alpha=0.01).fit(X, y).report_.converged is True
    with pytest.warns(ConvergenceWarning):
        assert Ridge(max_iter=1, tol=1e-12).fit(sparse(X), y).report_.converged is False
    with pytest.warns(ConvergenceWarning):
        assert Lasso(alpha=1e-4, max_iter=1, tol=1e-12).fit(X, y).report_.converged is None
    with pytest.warns(UserWarning):  # scikit-learn's, about alpha=0
        report = Lasso(alpha=0).fit(X, y).report_
    assert "alpha=0" in str(report)


def test_iterations_are_told(rows):
    report = Lasso(alpha=0.01).fit(*rows).report_
    assert f"after {report.n_iter} iteration" in str(report)
    assert "iteration" not in str(Ridge().fit(*rows).report_)


@pytest.mark.parametrize("name", FACES)
def test_a_report_there_is_whoever_fits(name, rows):
    model = getattr(hogshare, name)(**(CV if name.endswith("CV") else {})).fit(*rows)
    assert isinstance(model.report_, (Report, SolverReport))
    assert model.report_.n_workers == 1 and model.report_.runtime == "caller"
    assert model.report_.stop_reason and model.report_.run_seconds > 0.0


def test_what_is_refused_leaves_the_report_of_the_model_that_is_there(rows):
    X, y = rows
    for model in (Ridge(), Lasso(), LogisticRegression()):
        report = model.fit(X, y).report_
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.full_like(X, np.nan), y)
        assert model.report_ is report


@pytest.mark.parametrize("name", FACES)
def test_an_estimator_is_what_it_replaces(name, rows):
    ours, theirs = getattr(hogshare, name), getattr(linear_model, name)
    assert issubclass(ours, theirs)
    model = ours(**(CV if name.endswith("CV") else {}))
    assert isinstance(model, theirs) and isinstance(clone(model), theirs)
    assert set(theirs().get_params()) <= set(model.get_params())
    assert {"n_jobs", "plane", "barrier", "runtime"} <= set(model.get_params())
    # what is documented there is here after a fit, whoever did it
    model.fit(*rows)
    if not name.endswith("CV"):
        fitted = [part for part in vars(theirs().fit(*rows)) if not part.startswith("_")]
        assert [part for part in fitted if not hasattr(model, part)] == []


def test_a_lasso_has_what_scikit_learns_has(rows):
    X, y = rows
    assert issubclass(Lasso, ElasticNet), "as scikit-learn's is"
    for settings in ({}, {"runtime": "caller"}):
        model = Lasso(alpha=0.05, **settings).fit(X, y)
        theirs = linear_model.Lasso(alpha=0.05).fit(X, y)
        assert model.l1_ratio == 1.0 and "l1_ratio" not in model.get_params()
        assert isinstance(model.dual_gap_, float) and model.dual_gap_ >= 0.0
        assert np.array_equal(model.sparse_coef_.toarray()[0], model.coef_)
        assert model.coef_ == pytest.approx(theirs.coef_, abs=2e-3)
        with pytest.raises(ValueError, match="Invalid parameter"):
            model.set_params(l1_ratio=0.5)
    for ours, theirs in zip(Lasso.path(X, y), linear_model.Lasso.path(X, y), strict=True):
        assert np.array_equal(ours, theirs)
    tags = model.__sklearn_tags__()
    assert tags.estimator_type == "regressor" and tags.target_tags.required
    assert "Lasso" in model._repr_html_()
