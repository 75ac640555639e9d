"""Recorded runs, done again on one core."""

import warnings

import numpy as np
import pytest

from hogshare import (
    SAGA,
    SGD,
    SSP,
    Master,
    Shared,
    StepSize,
    Stop,
    problems,
    replay,
    solve,
)
from hogshare.kernels import layout
from hogshare.simulation import Constant, Simulator
from hogshare.solvers.replays import ApproximateReplay


def run(problem, runtime="threads", n_workers=3, **settings):
    settings = {
        "rule": SGD(batch=8),
        "plane": Master(),
        "step": StepSize("constant", 0.01),
        "stop": Stop(epochs=5),
        "record": True,
    } | settings
    return solve(problem, runtime=runtime, n_workers=n_workers, **settings)


@pytest.fixture(scope="module")
def problem(cancer):
    return problems.linear(*cancer, alpha=0.01)


SETTINGS = {
    "one by one": {},
    "sums": {"plane": Master(2)},
    "more than there are workers": {"plane": Master(5)},
    "dropped": {"plane": Master(cutoff=1)},
    "dropped and damped": {"plane": Master(2, cutoff=1, damped=True)},
    "row by row": {"rule": SGD(), "block": 20},
    "average": {"rule": SGD(batch=4, average=True)},
    "behind a barrier": {"barrier": SSP(1)},
    "looks": {"plane": Master(3), "stop": Stop(epochs=12, gradient=1e-9)},
    "a schedule": {"step": StepSize("invscaling", 0.1)},
}


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("case", SETTINGS)
def test_a_replay_is_the_run_bit_for_bit(problem, case, runtime):
    prints = set()
    for seed in (0, 0, 1):
        report = run(problem, runtime, seed=seed, **SETTINGS[case])
        again = replay(problem, report)
        assert again.coef.tobytes() == report.model.coef.tobytes()
        assert again.intercept.tobytes() == report.model.intercept.tobytes()
        if report.model.average_coef is not None:
            assert again.average_coef.tobytes() == report.model.average_coef.tobytes()
        prints.add(again.coef.tobytes())
        events = report.recording.events
        blocks = events[events[:, 0] >= 0]
        assert len(set(map(int, blocks[:, 1]))) == len(blocks)  # every block once
        assert report.recording.exact
    assert len(prints) > 1
    assert "recording" not in report.to_dict()


@pytest.mark.parametrize("plane", [Master(cutoff=2), Master(2, cutoff=1, damped=True)], ids=str)
def test_a_message_that_was_dropped_fills_no_version(problem, plane):
    """On a clock of its own the same messages are dropped each time."""
    law = {"block_time": Constant(1.0), "slowness": [1.0, 1.3, 1.7, 2.9, 4.1, 6.2]}
    report = run(problem, Simulator(write_seconds=0.4, **law), 6, plane=plane, stop=Stop(epochs=2))
    assert sum(worker["dropped"] for worker in report.workers) >= 20
    assert replay(problem, report).coef.tobytes() == report.model.coef.tobytes()


def test_a_message_that_is_taken_two_epochs_later_has_its_own_epochs_rows(problem):
    """One is posted late: it was computed when its epoch ended, but others were taken before."""
    plane = Master(10_000)  # all are computed at the first version, so that their order is free
    report = run(problem, plane=plane, stop=Stop(epochs=4), block=285, seed=0)
    events = report.recording.events
    assert (events[:, layout.E_VERSION] == 0).all() and len(events) == 8 + 1
    events[:8, layout.E_WORKER] = 1, 1, 1, 1, 1, 1, 1, 0
    events[:8, layout.E_TICKET] = 1, 2, 3, 4, 5, 6, 7, 0
    again = replay(problem, report)
    np.testing.assert_allclose(again.coef, report.model.coef, rtol=1e-9, atol=1e-12)


def test_sparse_rows_and_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30)) * (rng.random((200, 30)) < 0.2)
    y = rng.integers(3, size=200)
    from scipy.sparse import csr_matrix

    problem = problems.linear(csr_matrix(X), y, penalty="elasticnet", alpha=0.01)
    report = run(problem, seed=0)
    assert replay(problem, report).coef.tobytes() == report.model.coef.tobytes()


def test_a_start_and_a_recording_that_does_not_match(problem):
    first = run(problem, seed=0, record=False)
    assert first.recording is None
    report = run(problem, seed=1, start=first.model)
    assert replay(problem, report).coef.tobytes() == report.model.coef.tobytes()
    report.recording.events[:, 2] = 0  # every message from the first version: another run
    assert replay(problem, report).coef.tobytes() != report.model.coef.tobytes()


@pytest.mark.parametrize("rule", [SGD(batch=4), SAGA()], ids=["sgd", "saga"])
def test_without_versions_a_replay_is_near(problem, rule):
    settings = {"rule": rule, "plane": Shared(exchange=None)}
    if isinstance(rule, SAGA):
        settings["step"] = None
    report = run(problem, n_workers=2, seed=0, **settings)
    assert not report.recording.exact
    with pytest.warns(ApproximateReplay, match="approximately the run's"):
        again = replay(problem, report)
    objectives = [problem.objective(m.coef, m.intercept) for m in (again, report.model)]
    assert objectives[0] == pytest.approx(objectives[1], rel=0.05)


def test_one_worker_without_locks_is_replayed_exactly(problem):
    report = run(problem, "caller", 1, plane=Shared(exchange=None), seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximateReplay)
        assert replay(problem, report).coef.tobytes() == report.model.coef.tobytes()


def test_steps_that_fall_from_epoch_to_epoch_do_so_in_a_replay(cancer):
    """To the last bits, as each kernel adds up a row's squares in its own order."""
    problem = problems.linear(*cancer, loss="hinge", alpha=0.01)
    settings = {"rule": SAGA(), "step": None, "stop": Stop(epochs=10), "seed": 0}
    report = run(problem, "caller", 1, plane=Shared(exchange=None), **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximateReplay)
        again = replay(problem, report)
    np.testing.assert_allclose(again.coef, report.model.coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"plane": Shared(), "rule": SGD()}, "needs a plane with versions"),
        ({"step": StepSize("adaptive", 0.1)}, "not 'adaptive'"),
        ({"stop": Stop(epochs=10**7)}, "would take more than 2 GiB"),
    ],
)
def test_what_cannot_be_recorded_is_refused(problem, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(problem, **settings)


def test_what_cannot_be_replayed_is_refused(problem, diabetes):
    with pytest.raises(ValueError, match="no recording"):
        replay(problem, run(problem, record=False))
    with pytest.raises(TypeError, match="replay\\(problem, report\\); got Recording"):
        replay(problem, run(problem).recording)
    other = problems.linear(*diabetes, loss="squared_error")
    with pytest.raises(ValueError, match="The run was on"):
        replay(other, run(problem))
