"""LogisticRegressionCV: scikit-learn's answers, by warm starts and folds side by side."""

from __future__ import annotations

import inspect
import os
import signal
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context, linear_model
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.preprocessing import scale
from sklearn.utils import get_tags
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

from hogshare import LogisticRegressionCV, Shared
from hogshare.estimators import logistic_cv
from hogshare.estimators.logistic import LogisticRegression
from hogshare.runtimes.pool import call_in_queue

THEIRS = linear_model.LogisticRegressionCV
NOW = {"l1_ratios": (0.0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
EXACT = {"tol": 1e-9, "max_iter": 20_000}


def expected_failures(estimator):
    """scikit-learn's own, and that weights and repeated rows agree to `tol` and no further."""
    theirs = dict(PER_ESTIMATOR_XFAIL_CHECKS.get(THEIRS, {}))
    if estimator.tol > 1e-9:
        for form in ("dense", "sparse"):
            theirs[f"check_sample_weight_equivalence_on_{form}_data"] = "agree to tol"
    return theirs


@parametrize_with_checks(
    [
        LogisticRegressionCV(Cs=[0.01, 0.03], cv=2, **NOW, tol=1e-10, max_iter=5000),
        LogisticRegressionCV(Cs=2, cv=3, **{**NOW, "use_legacy_attributes": True}, n_jobs=2),
    ],
    expected_failed_checks=expected_failures,
    xfail_strict=False,
)
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_parameters_are_scikit_learns_and_more():
    mine = inspect.signature(LogisticRegressionCV).parameters
    theirs = inspect.signature(THEIRS).parameters
    assert list(mine)[: len(theirs)] == list(theirs)
    assert all(mine[name].default == theirs[name].default for name in theirs)
    assert set(mine) - set(theirs) == {"plane", "barrier", "runtime"}
    assert get_tags(LogisticRegressionCV(n_jobs=2)).non_deterministic
    assert not get_tags(LogisticRegressionCV()).non_deterministic


def rows(classes):
    X, y = load_iris(return_X_y=True)
    X, y = (scale(X), y) if classes == 3 else (scale(X[y > 0]), y[y > 0])
    return X, np.array(["a", "b", "c"])[y]


def the_same(ours, theirs, atol=1e-5):
    np.testing.assert_array_equal(ours.Cs_, theirs.Cs_)
    np.testing.assert_array_equal(ours.l1_ratios_, theirs.l1_ratios_)
    np.testing.assert_allclose(ours.C_, theirs.C_)
    np.testing.assert_array_equal(ours.l1_ratio_, theirs.l1_ratio_)
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=atol)
        assert getattr(ours, name).shape == getattr(theirs, name).shape
    assert ours.n_iter_.shape == theirs.n_iter_.shape
    for name in ("coefs_paths_", "scores_"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert type(mine) is type(other)
        if isinstance(mine, dict):
            assert list(mine) == list(other)
            mine, other = (np.array(list(values.values())) for values in (mine, other))
        np.testing.assert_allclose(mine, other, atol=atol)


def pair(**settings):
    """Ours and scikit-learn's, each to its own precision; ours on the calling thread."""
    ours = LogisticRegressionCV(**{**EXACT, "runtime": "caller", **settings})
    solver = settings.get("solver", "newton-cholesky")
    return ours, THEIRS(**{"tol": 1e-12, "max_iter": 20_000, **settings, "solver": solver})


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_answers_are_scikit_learns(classes, refit, legacy):
    X, y = rows(classes)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    settings = {**NOW, "use_legacy_attributes": legacy, "refit": refit}
    ours, theirs = pair(**settings, Cs=[1.0, 0.01, 0.1], class_weight="balanced")
    the_same(ours.fit(X, y, weight), theirs.fit(X, y, weight))
    np.testing.assert_allclose(
        ours.score(X, y, sample_weight=weight), theirs.score(X, y, sample_weight=weight), atol=1e-6
    )
    assert (not ours.report_.workers, ours.solver_ == "none") == (not refit, not refit)


@pytest.mark.parametrize("ratios", [(0.0, 0.5, 1.0), (1.0,), None])
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.filterwarnings("ignore:'l1_ratios=None' was deprecated:FutureWarning")
def test_shares_of_l1(ratios, legacy):
    X, y = rows(2)
    settings = {**NOW, "l1_ratios": ratios, "use_legacy_attributes": legacy, "solver": "saga"}
    settings |= {"Cs": [0.05, 1.0], "cv": 3, "random_state": 0}
    # scikit-learn's averaging indexes what it was given
    settings["l1_ratios"] = None if ratios is None else np.array(ratios)
    ours, theirs = pair(**settings)
    the_same(ours.fit(X, y), theirs.fit(X, y))
    ours.set_params(refit=False).fit(X, y)
    theirs.set_params(refit=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["newton-cholesky", "liblinear"])
def test_without_an_intercept_and_with_a_penalised_one(solver, fit_intercept):
    X, y = rows(2)
    settings = {**NOW, "Cs": [0.05, 1.0], "cv": 3, "solver": solver, "random_state": 0}
    ours, theirs = pair(**settings, fit_intercept=fit_intercept)
    the_same(ours.fit(sp.csr_array(X), y), theirs.fit(X, y), atol=1e-4)


def test_a_fold_without_one_of_the_classes():
    X, y = rows(3)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    folds = [(np.arange(60), np.arange(60, 150)), (np.arange(40, 150), np.arange(40))]
    for scoring in ("neg_log_loss", "accuracy", None, "neg_brier_score"):
        settings = {**NOW, "scoring": scoring, "Cs": [0.01, 0.1], "cv": folds}
        # an intercept of a class that is not there has no finite optimum
        ours, theirs = pair(**settings, fit_intercept=False)
        the_same(ours.fit(X, y), theirs.fit(X, y))
        ours = LogisticRegressionCV(**settings).fit(X, y)  # so scikit-learn finishes it
        theirs = THEIRS(**settings).fit(X, y)
        assert ours.coefs_paths_.shape == theirs.coefs_paths_.shape
        # how far it has gone is what probabilities of such a fold tell, and no matter of labels
        assert np.isfinite(ours.scores_).all()
        if scoring in ("accuracy", None):
            np.testing.assert_array_equal(ours.scores_, theirs.scores_)


def test_no_penalty_at_all_and_many_values():
    X, y = rows(2)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.2, "b", y)
    ours, theirs = pair(**NOW, Cs=[np.inf, 0.1], cv=3)
    the_same(ours.fit(X, y), theirs.fit(X, y), atol=1e-3)
    assert LogisticRegressionCV(Cs=3, **NOW).fit(X, y).Cs_.tolist() == [1e-4, 1.0, 1e4]
    for Cs in ([], [-1.0], [[1.0]]):
        with pytest.raises(ValueError, match="Cs must be"):
            LogisticRegressionCV(Cs=Cs, **NOW).fit(X, y)


def test_warm_starts_take_fewer_epochs_and_remember_rows(monkeypatch):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    settings = {**NOW, "Cs": np.logspace(-3, 1, 5)[::-1], "cv": 2}
    model = LogisticRegressionCV(**settings, max_iter=5000, runtime="caller").fit(X, y)
    cold = 0
    for train, _ in StratifiedKFold(2).split(X, y):
        for C in settings["Cs"]:
            fit = LogisticRegression(C=C, max_iter=5000, runtime="caller")
            cold += int(fit.fit(X[train], y[train]).n_iter_[0])
    assert model.n_iter_.sum() < 0.9 * cold
    starts = []
    real = LogisticRegression._fit_rows

    def noting(self, X, y, weight, penalty, start=None):
        starts.append((self.C, None if start is None else start.memory is not None))
        return real(self, X, y, weight, penalty, start)

    monkeypatch.setattr(logistic_cv.LogisticRegression, "_fit_rows", noting)
    clone(model).fit(X, y)
    assert [C for C, _ in starts[:5]] == sorted(settings["Cs"])
    # the last one begins at the mean of the folds' models
    assert [kept for _, kept in starts] == [None, *[True] * 4] * 2 + [False]


def test_folds_side_by_side_give_the_same_models(cancer):
    X, y = cancer
    run = {**NOW, "Cs": [0.1, 1e-3, 0.01], "cv": 4, "max_iter": 500, "random_state": 3}
    alone = LogisticRegressionCV(**run).fit(X, y)
    beside = LogisticRegressionCV(**run, n_jobs=3).fit(X, y)
    for name in ("coefs_paths_", "scores_", "n_iter_"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(beside, name))
    seeded = [
        LogisticRegressionCV(**{**run, "random_state": np.random.RandomState(0)}, n_jobs=n)
        for n in (1, 3)
    ]
    paths = [model.fit(X, y).coefs_paths_ for model in seeded]
    np.testing.assert_array_equal(*paths)
    together = LogisticRegressionCV(**run, runtime="threads", n_jobs=2, plane=Shared()).fit(X, y)
    assert len(together.report_.workers) == 2
    np.testing.assert_allclose(together.scores_, alone.scores_, atol=1e-2)


def test_float32_is_kept():
    X, y = rows(2)
    model = LogisticRegressionCV(**NOW, Cs=2, cv=2).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == model.coefs_paths_.dtype == np.float32


def test_metadata_reaches_folds_and_scores_in_threads(cancer):
    X, y = cancer
    groups = np.arange(len(y)) % 5
    with config_context(enable_metadata_routing=True):
        cv = GroupKFold(2).set_split_request(groups=True)
        model = LogisticRegressionCV(**{**NOW, "scoring": None}, Cs=[1e-3, 0.1], cv=cv, n_jobs=2)
        model.set_fit_request(sample_weight=True).fit(X, y, groups=groups)
    assert model.scores_.shape == (2, 1, 2)
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        LogisticRegressionCV(**NOW).fit(X, y, groups=groups)


def test_what_changes_in_scikit_learn_is_warned_of():
    X, y = rows(2)
    for settings, words in (
        ({"l1_ratios": "warn"}, "default value for l1_ratios"),
        ({"scoring": "warn"}, "default value.*scoring"),
        ({"use_legacy_attributes": "warn"}, "will be simplified"),
        ({"penalty": "l2", "l1_ratios": None}, "'penalty' was deprecated"),
        ({"l1_ratios": None}, "'l1_ratios=None' was deprecated"),
    ):
        with pytest.warns(FutureWarning, match=words) as caught:
            LogisticRegressionCV(**{**NOW, **settings}, Cs=1, cv=2).fit(X, y)
        assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LogisticRegressionCV(**NOW, Cs=1, cv=2).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        LogisticRegressionCV(**NOW, Cs=1, cv=2, tol=1e-9, max_iter=2, runtime="caller").fit(X, y)
    with pytest.raises(ValueError, match="l1_ratios must be an array-like of numbers between"):
        LogisticRegressionCV(**{**NOW, "l1_ratios": (0.0, 2.0)}, solver="saga").fit(X, y)
    with pytest.raises(ValueError, match="class labels as keys"):
        LogisticRegressionCV(**NOW, class_weight={"z": 1.0}).fit(X, y)


# -- threads that take parts ---------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 3])
def test_parts_are_taken_in_turn(n_threads):
    assert call_in_queue(lambda part, _: 2 * part, range(7), n_threads) == list(range(0, 14, 2))


def test_a_part_that_fails_ends_the_others():
    begun = threading.Barrier(2, timeout=30)

    def work(part, is_over):
        begun.wait()
        if part == 0:
            raise KeyError("first")
        while not is_over():
            pass
        return part

    with pytest.raises(KeyError, match="first"):
        call_in_queue(work, range(9), 2)


def test_ctrl_c_ends_the_parts():
    """It arrives in the thread that waits; parts that have begun hear of it."""
    heard = []

    def work(part, is_over):
        os.kill(os.getpid(), signal.SIGINT)
        while not is_over():
            pass
        heard.append(part)

    with pytest.raises(KeyboardInterrupt):
        call_in_queue(work, range(9), 2)
    assert len(heard) <= 2


def test_no_epochs_at_all():
    X, y = rows(2)
    ours, theirs = pair(**{**NOW, "max_iter": 0, "Cs": 3, "cv": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours.fit(X, y)
        theirs.fit(X, y)
    assert not ours.report_.workers and not ours.coef_.any()
    assert ours.n_iter_.shape == theirs.n_iter_.shape and ours.n_iter_.dtype == np.int32
