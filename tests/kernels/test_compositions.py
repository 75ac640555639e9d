"""Compositions and data at random, by kernels as plain Python.

There an index beyond an array is an IndexError, and one below it is caught by a guard: compiled, it
would read or write something else. What is drawn is tiny; numbers are large and small enough for
models to become infinite and NaN.
"""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import (
    ASP,
    BSP,
    PBSP,
    PSSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Fraction,
    Master,
    Shared,
    Simulator,
    StepSize,
    Stop,
    Throttled,
    problems,
    solve,
)
from hogshare.engine.arrays import RunMemory
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.problems.linear import REGRESSION_LOSSES

SMOOTH = ("log_loss", "squared_hinge", "modified_huber", "squared_error", "huber")
LOSSES = (*SMOOTH, "hinge", "epsilon_insensitive", "multinomial")
RUNS_OF_A_PART = 50


class Guarded(np.ndarray):
    """An array that kernels must not ask for what lies before its beginning."""

    def __getitem__(self, key):
        self._check(key)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self._check(key)
        super().__setitem__(key, value)

    def _check(self, key):
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, (int, np.integer)) and part < 0:
                asking = sys._getframe(2).f_code.co_filename
                assert "kernels" not in asking, f"{key} of an array of shape {self.shape}"


@pytest.fixture(autouse=True)
def guards(monkeypatch):
    """Arrays of all runs are guarded."""
    real = RunMemory.arrays

    def guarded(room, assigned):
        return {name: array.view(Guarded) for name, array in real(room, assigned).items()}

    monkeypatch.setattr(RunMemory, "arrays", guarded)


def one_of(rng, *values):
    return values[rng.integers(len(values))]


def data(rng):
    """Rows of all shapes and sizes, and targets."""
    n, d = int(one_of(rng, 2, 5, 13, 40)), int(one_of(rng, 1, 3, 8))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    X *= one_of(rng, 1.0, 1.0, 1.0, 0.0, 1e18, 1e-30)
    if rng.random() < 0.2:
        X[:: int(rng.integers(1, 4))] = 0.0  # rows of nothing, all of them even
    X = X.astype(one_of(rng, np.float32, np.float64))
    loss = one_of(rng, *LOSSES)
    classes = None
    if loss in REGRESSION_LOSSES:
        y = rng.standard_normal(n) * one_of(rng, 1.0, 1.0, 0.0, 1e15)
    else:
        k = int(one_of(rng, 2, 3))
        classes, y = np.arange(k), rng.integers(0, k, n)
    weight = None if rng.random() < 0.7 else rng.random(n) * (rng.random(n) < 0.8) + 1e-3
    return (sp.csr_array(X) if rng.random() < 0.5 else X), y, loss, classes, weight


def composition(rng):
    """A problem, and how it is solved."""
    X, y, loss, classes, weight = data(rng)
    rule = one_of(rng, "sgd", "sgd", "sdca", "saga")
    penalty = one_of(rng, "l2", "l1", "elasticnet", None)
    if rule == "sdca":
        penalty = one_of(rng, "l2", "elasticnet")
        loss = "log_loss" if loss == "multinomial" else loss
    problem = problems.linear(
        X,
        y,
        loss=loss,
        penalty=penalty,
        alpha=one_of(rng, 1e-4, 0.1, 0.1, 1.0, 1e10),
        l1_ratio=one_of(rng, 0.0, 0.5, 0.5) if rule == "sdca" else one_of(rng, 0.0, 0.5, 1.0),
        fit_intercept=bool(rng.random() < 0.7),
        sample_weight=weight,
        classes=classes,
    )
    lock_free = Shared(exchange=None, adds=one_of(rng, "plain", "atomic"))
    master = Master(gradients=int(one_of(rng, 1, 2, 7)), damped=bool(rng.random() < 0.3))
    copies = Shared(exchange=one_of(rng, "auto", 1, 2, 10**6))
    run = {"rule": SDCA(), "plane": copies}
    if rule == "saga":
        sampling = one_of(rng, "uniform", "importance")
        run["rule"] = SAGA(sampling=sampling, replace=bool(rng.random() < 0.3))
        run["plane"] = one_of(rng, copies, copies, lock_free)
    elif rule == "sgd":
        coordinate = one_of(rng, None, None, None, "uniform", "support", "unbiased")
        run["plane"] = lock_free if coordinate else one_of(rng, copies, lock_free, master)
        batch = 1 if run["plane"] is copies else int(one_of(rng, 1, 2, 100))
        run["rule"] = SGD(average=int(one_of(rng, 0, 0, 1, 7)), batch=batch, coordinate=coordinate)
        kind = one_of(rng, "optimal", "constant", "invscaling", "adaptive")
        run["step"] = StepSize(kind, eta0=one_of(rng, 0.05, 1e10, 1e300))
    count, sample = int(rng.integers(1, 6)), int(rng.integers(0, 3))
    barriers = ASP(), ASP(), BSP(), SSP(2), PBSP(min(sample, count - 1)), Fraction(0.5, 1)
    barriers = *barriers, PSSP(min(sample, count - 1), 1), Throttled(count)
    if rng.random() < 0.5:
        count, runtime = 1, "caller"
    else:
        runtime = Simulator(write_seconds=one_of(rng, 0.0, 0.2))
    criteria = {}, {}, {"tol": 1e-3}, {"tol": 1e-3, "confirm": True}, {"gradient": 1e-3}
    criterion = one_of(rng, *criteria, {"gap": 1e-6} if penalty else {})
    return problem, {
        **run,
        "n_workers": count,
        "runtime": runtime,
        "barrier": one_of(rng, *barriers) if count > 1 else ASP(),
        "stop": Stop(epochs=int(one_of(rng, 1, 2, 5)), **criterion),
        "block": one_of(rng, None, 1, 3, 10),
        "trace": one_of(rng, None, None, 2),
        "seed": int(rng.integers(1000)),
    }


@pytest.mark.skipif(not JIT_DISABLED, reason="compiled, an index is not looked at")
@pytest.mark.parametrize("part", range(12))
def test_compositions_at_random(part):
    """A finite model, or a sentence that says why there is none."""
    solved = 0
    for k in range(RUNS_OF_A_PART):
        rng = np.random.default_rng([part, k])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                problem, run = composition(rng)
                report = solve(problem, **run)
            except ValueError:
                continue
        solved += 1
        assert report.model.is_finite(), (part, k)
    assert solved > RUNS_OF_A_PART // 3  # criteria refuse numbers that have no squares
