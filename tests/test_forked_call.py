"""Calls that are made in a fork, since no signal comes between: what is seen of them."""

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import Ridge as TheirRidge

from hogshare import Ridge, RidgeClassifier
from hogshare.estimators import ridge
from hogshare.runtimes import forked_call
from hogshare.runtimes.forked_call import forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone")

DRAWS = np.random.default_rng(0)
X = DRAWS.standard_normal((60, 8)) + 1.0
Y = X @ DRAWS.standard_normal((8, 2)) + DRAWS.standard_normal((60, 2))


@pytest.fixture
def always(monkeypatch):
    """Every exact solution counts as a long one; the processes that they were made in."""
    monkeypatch.setattr(ridge, "LONG_WORK", 0.0)
    found = []
    monkeypatch.setattr(
        forked_call,
        "forked",
        lambda call: found.append(forked(lambda: os.getpid())) or forked(call),
    )
    return found


def test_a_call_is_made_in_another_process_of_which_nothing_is_left():
    here = []
    pid, rows = forked(lambda: here.append(1) or (os.getpid(), 2.0 * X))
    assert pid != os.getpid() and not here and not Path(f"/proc/{pid}").exists()
    np.testing.assert_array_equal(rows, 2.0 * X)


def test_in_another_thread_to_which_no_signals_come_it_is_a_plain_call():
    found = []
    thread = threading.Thread(target=lambda: found.append(forked(os.getpid)))
    thread.start()
    thread.join()
    assert found == [os.getpid()]


def test_where_nothing_can_be_forked_it_is_a_plain_call(monkeypatch):
    def failing():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", failing)
    assert forked(os.getpid) == os.getpid()
    assert len(os.listdir("/proc/self/fd")) == before


def test_errors_and_warnings_are_the_callers():
    def warned():
        warnings.warn("few digits", LinAlgWarning, stacklevel=1)
        return 3

    with pytest.warns(LinAlgWarning, match="few digits"):
        assert forked(warned) == 3
    with pytest.raises(ZeroDivisionError):
        forked(lambda: 1 // 0)
    with pytest.raises(RuntimeError, match="cannot be sent"):
        forked(lambda: contextlib.nullcontext(threading.Lock()))


def test_who_is_killed_ran_out_of_memory():
    with pytest.raises(MemoryError, match="was killed"):
        forked(lambda: os.kill(os.getpid(), signal.SIGKILL))


@pytest.mark.parametrize("solver", ["auto", "cholesky", "svd"])
@pytest.mark.parametrize("y", [Y, Y[:, 0]], ids=["targets", "target"])
def test_a_fit_has_the_bits_of_a_plain_one(always, solver, y):
    wanted = TheirRidge(solver=solver).fit(X, y)
    found = Ridge(solver=solver).fit(X, y)
    assert len(always) == 1 and always[0] != os.getpid()
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    np.testing.assert_array_equal(found.intercept_, wanted.intercept_)
    assert found.solver_ == wanted.solver_ and found.report_.converged


def test_names_of_features_come_and_go(always):
    model = Ridge(solver="svd").fit(pd.DataFrame(X).add_prefix("c"), Y)
    assert model.feature_names_in_[1] == "c1"
    assert not hasattr(model.fit(X, Y), "feature_names_in_")
    labels = RidgeClassifier(solver="cholesky").fit(X, np.where(Y[:, 0] > 0.0, "up", "down"))
    assert labels.classes_.tolist() == ["down", "up"] and len(always) == 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize("estimator", [Ridge(solver="cholesky"), RidgeClassifier(solver="svd")])
def test_ctrl_c_ends_a_solution_and_its_process(always, monkeypatch, tmp_path, estimator):
    """As LAPACK does, the solver answers no signal."""

    def endless(*args, **others):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        Path(tmp_path, "making").write_text(str(os.getpid()))
        os.replace(tmp_path / "making", tmp_path / "pid")
        time.sleep(3600.0)

    def send():
        while not Path(tmp_path, "pid").exists() and not over.is_set():
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    over = threading.Event()
    monkeypatch.setattr(ridge.LeastSquares, "_hand_over", endless)
    sender = threading.Thread(target=send)
    before = X.copy()
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(X, Y[:, 0] > 0.0)
    finally:
        over.set()
        sender.join()
    assert not Path("/proc", Path(tmp_path, "pid").read_text()).exists()
    assert not hasattr(estimator, "coef_")
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("layer, other", [("pthreads", True), ("openmp", False), ("gnu", False)])
def test_nothing_is_forked_where_blas_would_wait_for_threads_that_are_gone(
    layer, other, monkeypatch
):
    info = [{"user_api": "openmp"}, {"user_api": "blas", "threading_layer": layer}]
    monkeypatch.setattr("hogshare.runtimes.forked_call.threadpool_info", lambda: info)
    assert (forked(os.getpid) != os.getpid()) is other


def test_an_array_that_a_fit_writes_in_its_place_comes_back():
    class Estimator:
        def fit(self):
            self.coef_[:] = 2.0
            self._other = 3
            del self.names_

    one = Estimator()
    one.coef_, one.names_ = np.zeros(3), ["a"]
    forked_call.changed_by_fork(one, one.fit)
    assert one.coef_.tolist() == [2.0] * 3 and one._other == 3 and not hasattr(one, "names_")
