"""Numbers and compositions at the edges: no index out of range, no hang, a sentence or a model."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hogshare import (
    ASP,
    BSP,
    SAGA,
    SGD,
    Checkpoint,
    Master,
    Model,
    Ridge,
    SGDClassifier,
    SGDRegressor,
    Shared,
    Simulator,
    Stop,
    problems,
    solve,
)
from hogshare.barriers import BarrierError
from hogshare.kernels.rules import penalties
from hogshare.stragglers import ControlledDelay

PATIENCE = 60.0


def rows(n=40, d=3, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X, (X[:, 0] > 0).astype(int)


# -- an elastic net that is one of its parts


def test_an_elastic_net_of_one_part_is_that_part():
    assert penalties.code_of("elasticnet", 0.0) == penalties.L2
    assert penalties.code_of("elasticnet", 1.0) == penalties.L1
    assert penalties.code_of("elasticnet", 0.5) == penalties.ELASTICNET
    assert penalties.code_of(None, 0.5) == penalties.NONE


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()])
@pytest.mark.parametrize("average", [0, 10])
@pytest.mark.parametrize(("ratio", "part"), [(0.0, "l2"), (1.0, "l1")])
def test_its_runs_are_that_parts_bit_for_bit(plane, average, ratio, part):
    """Without l1 nothing is allocated for what features have received of it."""
    X, y = rows(200, 6)
    run = {"rule": SGD(average=average), "plane": plane, "seed": 0}
    models = [
        solve(problems.linear(X, y, penalty=penalty, l1_ratio=ratio, alpha=0.01), **run).model
        for penalty in ("elasticnet", part)
    ]
    np.testing.assert_array_equal(models[0].coef, models[1].coef)
    if average:
        np.testing.assert_array_equal(models[0].average_coef, models[1].average_coef)


# -- who fails while a master serves


@pytest.mark.parametrize("bad", [0, 1])
def test_a_barrier_that_raises_ends_threads_with_a_master(bad):
    calls = []

    def barrier(table, me):
        calls.append(me)
        if me == bad and len(calls) > 3:
            raise RuntimeError("a mistake")
        return True

    raised = []

    def run():
        try:
            solve(
                problems.linear(*rows()),
                plane=Master(),
                barrier=barrier,
                runtime="threads",
                n_workers=2,
                block=2,
                stop=Stop(epochs=50),
                seed=0,
            )
        except BarrierError as error:
            raised.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive() and "a mistake" in raised[0]


@pytest.mark.parametrize("gradients", [1, 2, 4])
@pytest.mark.parametrize("write_seconds", [0.0, 0.1])
@pytest.mark.parametrize("barrier", [ASP(), BSP()])
def test_a_simulated_master_finishes_its_sum_before_a_look(
    tmp_path, gradients, write_seconds, barrier
):
    """All workers rest with a part of a sum gathered, and nothing more is mailed."""
    problem = problems.linear(*rows(30), alpha=0.1)
    run = {
        "plane": Master(gradients=gradients),
        "barrier": barrier,
        "runtime": Simulator(write_seconds=write_seconds),
        "n_workers": 2,
        "block": 2,
        "seed": 0,
    }
    looked = solve(problem, stop=Stop(epochs=9, gap=1e-9), **run)
    assert looked.n_epochs == 9 and len(looked.checks) > 1
    saved = tmp_path / "run.npz"
    assert solve(problem, stop=Stop(epochs=5), checkpoint=saved, **run).n_epochs == 5
    assert Checkpoint(saved).model().is_finite()


# -- numbers that are too large


def test_an_average_that_is_infinite_is_no_model():
    X = np.random.default_rng(0).standard_normal((8, 1)).astype(np.float32)
    settings = {
        "loss": "squared_hinge",
        "penalty": "l1",
        "alpha": 1e-300,
        "learning_rate": "adaptive",
        "eta0": 0.05,
        "fit_intercept": False,
        "average": 5,
        "class_weight": {0: 1e30},
        "random_state": 3,
    }
    refused = 0
    for seed in range(20):
        X = np.random.default_rng(seed).standard_normal((8, 1)).astype(np.float32)
        model = SGDClassifier(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                for _ in range(3):
                    model.partial_fit(X, np.arange(8) % 3, classes=[0, 1, 2])
            except ValueError:
                refused += 1
                continue
        assert np.isfinite(model.coef_).all()
    assert refused


@pytest.mark.parametrize(
    ("average", "words"),
    [
        ((np.full((1, 3), np.nan), np.zeros(1)), "NaN or infinity"),
        ((np.zeros((1, 3)), None), r"or neither"),
        ((np.zeros((1, 2)), np.zeros(1)), r"coef of shape \(1, 2\)"),
    ],
)
def test_a_start_with_an_average_that_does_not_fit(average, words):
    start = Model(np.zeros((1, 3)), np.zeros(1), 5.0, *average)
    with pytest.raises(ValueError, match=words):
        solve(problems.linear(*rows()), rule=SGD(average=1), start=start)


def test_a_start_has_a_number_of_steps():
    for t in (np.nan, -5.0):
        with pytest.raises(ValueError, match="t of the start model"):
            solve(problems.linear(*rows()), start=Model(np.zeros((1, 3)), np.zeros(1), t))


def test_a_start_that_the_rows_type_does_not_hold():
    X, y = rows()
    problem = problems.linear(X.astype(np.float32), y)
    with pytest.raises(ValueError, match="too large for float32"):
        solve(problem, start=Model(np.full((1, 3), 1e200), np.zeros(1)))


@pytest.mark.parametrize("model", [Ridge(solver="saga", runtime="threads"), SGDRegressor()])
def test_targets_that_the_rows_type_does_not_hold(model):
    X = rows()[0].astype(np.float32)
    y = np.ones(len(X))
    y[::2] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match="too large for float32"):
            model.fit(X, y)


def test_nothing_has_converged_whose_objective_is_no_number():
    X = np.array([[-1.2412330776601468e30], [0]], np.float32)
    problem = problems.linear(X, [0, 1], penalty="l1", alpha=0.01, sample_weight=[1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = solve(
            problem,
            rule=SAGA(),
            plane=Shared(exchange=None),
            stop=Stop(epochs=9, gradient=0.0),
            seed=0,
        )
    assert np.isfinite(report.checks[-1]["objective"]) or not report.converged


# -- a run that goes on, with workers that are slow on purpose


def test_stragglers_of_a_resumed_run_are_late_by_blocks_of_its_own(tmp_path):
    problem = problems.linear(*rows(300), alpha=0.1)
    run = {
        "runtime": "threads",
        "n_workers": 2,
        "block": 2,
        "stragglers": ControlledDelay(1.0),
        "seed": 0,
    }
    saved = tmp_path / "run.npz"
    solve(problem, stop=Stop(epochs=2), checkpoint=saved, **run)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        report = solve(
            problem, stop=Stop(epochs=4), resume=saved, on_epoch=lambda epoch, model: False, **run
        )
    assert report.n_epochs == 4


@pytest.mark.parametrize(
    "made",
    [
        lambda: Stop(epochs=2.5),
        lambda: Stop(epochs=2**70),
        lambda: Stop(patience=2**70),
        lambda: Stop(tol=np.nan),
        lambda: Stop(gap=np.inf),
        lambda: SGD(batch=1.5),
        lambda: SGD(batch=np.nan),
        lambda: SGD(average=2**63),
        lambda: Shared(exchange=2**63),
    ],
)
def test_settings_without_a_meaning(made):
    with pytest.raises(ValueError, match=r"must be|got"):
        made()
