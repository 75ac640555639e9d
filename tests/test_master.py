"""The master plane in whole runs."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hogshare import (
    BSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Master,
    Shared,
    StepSize,
    Stop,
    Throttled,
    problems,
    solve,
)

RUNTIMES = ["threads", "processes"]


def run(data, runtime="threads", n_workers=2, **settings):
    settings = {
        "rule": SGD(batch=8),
        "plane": Master(),
        "step": StepSize("constant", 0.01),
        "stop": Stop(epochs=5),
        "seed": 0,
    } | settings
    problem = problems.linear(*data, alpha=0.01)
    return solve(problem, runtime=runtime, n_workers=n_workers, **settings)


def value(data, report):
    problem = problems.linear(*data, alpha=0.01)
    return problem.objective(report.model.coef, report.model.intercept)


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("gradients", [1, 4])
def test_one_worker_is_the_same_in_every_runtime(cancer, batch, gradients):
    settings = {"rule": SGD(batch=batch), "plane": Master(gradients), "n_workers": 1}
    first = run(cancer, "caller", **settings)
    for runtime in RUNTIMES:
        again = run(cancer, runtime, **settings)
        assert again.model.coef.tobytes() == first.model.coef.tobytes()
        assert again.model.intercept.tobytes() == first.model.intercept.tobytes()
    assert first.workers[0]["blocks"] == 5 * -(-569 // (batch if batch > 1 else 64))


@pytest.mark.parametrize("batch", [1, 8])
def test_one_worker_takes_the_steps_of_the_shared_vector(cancer, batch):
    """With M = 1 a message is applied before the next snapshot: Hogwild! with one worker."""
    mastered = run(cancer, "caller", 1, rule=SGD(batch=batch), block=8)
    direct = run(cancer, "caller", 1, rule=SGD(batch=batch), plane=Shared(exchange=None), block=8)
    np.testing.assert_allclose(mastered.model.coef, direct.model.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mastered.model.intercept, direct.model.intercept, rtol=1e-9)
    assert mastered.staleness[0] == mastered.staleness.sum() == mastered.workers[0]["pushes"]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("plane", [Master(), Master(3), Master(2, cutoff=6), Master(damped=True)])
def test_many_workers_reach_what_one_does(cancer, runtime, plane):
    one = run(cancer, "caller", 1, stop=Stop(epochs=30))
    many = run(cancer, runtime, 3, plane=plane, stop=Stop(epochs=30))
    assert value(cancer, many) <= 1.05 * value(cancer, one)
    sent = sum(w["blocks"] for w in many.workers)
    taken = sum(w["pushes"] + w["dropped"] for w in many.workers)
    assert sent == taken == many.staleness.sum() == 30 * 72
    assert many.settings["plane"]["name"] == "Master"


@pytest.mark.parametrize("gradients", [1, 2, 5])
@pytest.mark.parametrize("n_workers", [2, 3])
def test_bsp_repeats_bit_for_bit(cancer, gradients, n_workers):
    settings = {"plane": Master(gradients), "barrier": BSP(), "n_workers": n_workers}
    settings["stop"] = Stop(epochs=2)
    first = run(cancer, **settings)
    for runtime in RUNTIMES:
        again = run(cancer, runtime, **settings)
        assert again.model.coef.tobytes() == first.model.coef.tobytes()
    lead = [w["largest_lead"] for w in first.workers]
    assert lead == [0] * n_workers


@pytest.mark.parametrize("barrier", [SSP(1), Throttled(2)], ids=str)
def test_behind_a_barrier(cancer, barrier):
    report = run(cancer, n_workers=3, barrier=barrier)
    assert report.n_epochs == 5
    if barrier == SSP(1):
        assert max(w["largest_lead"] for w in report.workers) <= 1
        # each waits until its own change is in, so at most one of every other's is missing
        assert len(report.staleness) <= 3 * 3


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": SGD(average=True)},
        {"stop": Stop(epochs=30, tol=1e-3, patience=2)},
        {"step": StepSize("optimal")},
    ],
    ids=["average", "criterion", "schedule"],
)
def test_what_else_a_run_can_ask_for(cancer, settings):
    one = run(cancer, "caller", 1, **settings)
    two = run(cancer, "threads", 2, **settings)
    assert value(cancer, two) <= 1.2 * value(cancer, one)
    assert (two.model.average_coef is None) == (one.model.average_coef is None)


def test_classes_and_l1():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    y = np.argmax(X[:, :3] + 0.1 * rng.standard_normal((300, 3)), axis=1)
    problem = problems.linear(X, y, penalty="l1", alpha=0.02)
    settings = {"rule": SGD(batch=4), "step": StepSize("constant", 0.05), "stop": Stop(epochs=40)}
    one = solve(problem, plane=Shared(exchange=None), n_workers=1, seed=0, **settings)
    two = solve(problem, plane=Master(2), runtime="threads", n_workers=2, seed=0, **settings)
    objectives = [problem.objective(r.model.coef, r.model.intercept) for r in (one, two)]
    assert objectives[1] <= 1.05 * objectives[0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"rule": SDCA(), "step": None}, "SDCA needs a shared vector"),
        ({"rule": SAGA(), "step": None}, "SAGA needs a shared vector"),
        ({"rule": SGD(average=True), "plane": Master(cutoff=3)}, "drops some"),
    ],
)
def test_what_a_master_cannot_do_is_refused(cancer, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        run(cancer, **settings)


@pytest.mark.parametrize("wrong", [{"gradients": 0}, {"gradients": 1.5}, {"cutoff": -1}])
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="must be a whole number"):
        Master(**wrong)


def test_a_diverging_run_says_so(diabetes):
    """Least squares, and nothing that shrinks: whoever pushes when, the model only grows."""
    problem = problems.linear(*diabetes, loss="squared_error", penalty=None)
    step = StepSize("constant", 1e4)
    with pytest.warns(ConvergenceWarning, match="has diverged"):
        solve(problem, plane=Master(), runtime="threads", n_workers=2, step=step, seed=0)
