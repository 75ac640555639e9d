"""scikit-learn's coordinate descent in slices: what it comes to, and that it can be interrupted."""

import os
import signal
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet as TheirElasticNet

from hogshare import ElasticNet, Lasso
from hogshare.estimators import coordinate_descent
from hogshare.runtimes import forked_call

DRAWS = np.random.default_rng(0)
X = DRAWS.standard_normal((300, 40)) + 0.5 * DRAWS.standard_normal((300, 1)) + 1.0
Y = X @ DRAWS.standard_normal((40, 2)) + DRAWS.standard_normal((300, 2))
SETTINGS = {"alpha": 1e-3, "l1_ratio": 0.7, "tol": 1e-12, "max_iter": 5_000}
ROWS = {"dense": X, "Fortran": np.asfortranarray(X), "sparse": sp.csr_array(X * (abs(X) > 1.0))}


@pytest.fixture
def in_slices(monkeypatch):
    """As where nothing can be forked."""
    monkeypatch.setattr(coordinate_descent, "may_fork", lambda: False)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("targets", [Y[:, 0], Y])
def test_slices_come_to_what_one_call_does(rows, targets, weighted, in_slices, monkeypatch):
    weight = DRAWS.random(300) + 0.1 if weighted else None
    wanted = TheirElasticNet(**SETTINGS).fit(ROWS[rows], targets, weight)
    assert np.min(wanted.n_iter_) > 20
    calls = []
    once = TheirElasticNet.fit
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-9)  # one pass in each
    monkeypatch.setattr(TheirElasticNet, "fit", lambda *a, **k: calls.append(1) or once(*a, **k))
    before = ROWS[rows].copy()
    found = ElasticNet(**SETTINGS, copy_X=False, runtime="auto").fit(ROWS[rows], targets, weight)
    assert len(calls) > 20
    assert abs(before - ROWS[rows]).max() == 0.0
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.intercept_, wanted.intercept_, rtol=1e-8)
    assert np.shape(found.n_iter_) == np.shape(wanted.n_iter_)
    assert np.all(np.abs(np.subtract(found.n_iter_, wanted.n_iter_)) <= 12)


def test_who_does_not_converge_is_warned_of_once(in_slices, monkeypatch):
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-9)
    with pytest.warns(ConvergenceWarning) as said:
        model = Lasso(alpha=1e-4, tol=1e-14, max_iter=7).fit(X, Y[:, 0])
    assert len(said) == 1 and model.n_iter_ == 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Lasso(alpha=1e-2, max_iter=1_000).fit(X, Y[:, 0]).n_iter_ < 1_000


def test_a_fit_before_leaves_no_names():
    model = Lasso(alpha=0.1).fit(pd.DataFrame(X).add_prefix("c"), Y[:, 0])
    assert model.feature_names_in_[1] == "c1"
    assert not hasattr(model.fit(X, Y[:, 0]), "feature_names_in_")


def test_a_descent_can_be_interrupted(in_slices, monkeypatch):
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-2)
    model = Lasso(alpha=1e-9, tol=0.0, max_iter=10**9)  # which has no end
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y[:, 0])
    assert not hasattr(model, "coef_")


def test_passes_are_heard_of(monkeypatch):
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-9)
    heard = []
    model = Lasso(alpha=1e-2)
    model._on_epoch = lambda epoch, snapshot: heard.append(epoch)
    model.fit(X, Y[:, 0])
    assert heard == list(range(model.n_iter_)) and len(heard) > 3


def test_no_number_of_passes_is_the_default_one():
    none, default = (
        Lasso(alpha=1e-2, **given).fit(X, Y[:, 0]) for given in ({"max_iter": None}, {})
    )
    assert none.coef_.tobytes() == default.coef_.tobytes() and none.max_iter is None


def test_a_long_gram_matrix_is_not_made_in_every_slice(in_slices, monkeypatch):
    wanted = TheirElasticNet(**SETTINGS, precompute=True).fit(X, Y)
    asked = []
    once = TheirElasticNet.fit
    monkeypatch.setattr(coordinate_descent, "LONG_GRAM", 0.0)
    monkeypatch.setattr(
        TheirElasticNet,
        "fit",
        lambda self, *a, **k: asked.append(self.precompute) or once(self, *a, **k),
    )
    found = ElasticNet(**SETTINGS, precompute=True).fit(X, Y)
    assert not any(asked) and found.precompute is True
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
@pytest.mark.parametrize("few", [1, 1_000], ids=["the rest", "all"])
@pytest.mark.parametrize("targets", [Y[:, 0], Y])
def test_a_fork_comes_to_what_one_call_does(targets, few, monkeypatch):
    """Of which all is the same to the bit, if nothing was done before."""
    wanted = TheirElasticNet(**SETTINGS).fit(X, targets)
    monkeypatch.setattr(coordinate_descent, "FEW_PASSES", few)
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-3)
    pids, before = [], X.copy()
    make = forked_call.forked
    monkeypatch.setattr(
        forked_call, "forked", lambda call: pids.append(make(os.getpid)) or make(call)
    )
    found = ElasticNet(**SETTINGS, copy_X=False).fit(X, targets)
    assert len(pids) == 1 and pids[0] != os.getpid()
    tolerance = 0.0 if few > 1 else 1e-8
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.dual_gap_, wanted.dual_gap_, rtol=tolerance, atol=1e-6)
    assert np.shape(found.n_iter_) == np.shape(wanted.n_iter_)
    np.testing.assert_array_equal(X, before)


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")
def test_a_fork_of_a_descent_can_be_interrupted_and_warns_as_it_would(monkeypatch):
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-9)
    model = Lasso(alpha=1e-9, tol=0.0, max_iter=10**9)  # which has no end
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y[:, 0])
    assert not hasattr(model, "coef_")
    with pytest.warns(ConvergenceWarning) as said:
        model = Lasso(alpha=1e-4, tol=1e-14, max_iter=7).fit(X, Y[:, 0])
    assert len(said) == 1 and model.n_iter_ == 7


def test_a_generator_of_the_callers_moves_on(monkeypatch):
    monkeypatch.setattr(coordinate_descent, "SLICE_SECONDS", 1e-9)
    draws = np.random.RandomState(0)
    Lasso(alpha=1e-2, selection="random", random_state=draws).fit(X, Y[:, 0])
    assert draws.randint(10**9) != np.random.RandomState(0).randint(10**9)
