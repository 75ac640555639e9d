"""The master plane in whole runs."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hogshare import (
    ASP,
    BSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Fraction,
    Master,
    Shared,
    StepSize,
    Stop,
    Throttled,
    datasets,
    problems,
    solve,
)
from hogshare.engine.participants import MasterService
from hogshare.kernels import layout
from hogshare.planes.master import FOLDS
from hogshare.simulation import MODEL, Churn, Constant, Exponential, Link, Network, Simulator

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
    rows = first.settings["block_rows"]
    assert rows == batch or (batch == 1 and rows == 72)  # an eighth of the rows
    assert first.workers[0]["blocks"] == 5 * -(-569 // rows)


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
@pytest.mark.quick
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


def blocks_in(events, version):
    """How many blocks of each worker a version of a master that sums one message holds."""
    return np.bincount(events[:version, layout.E_WORKER], minlength=6)


@pytest.mark.parametrize("barrier", [SSP(1), SSP(3), Fraction(0.6, 1), "near"], ids=str)
def test_a_block_behind_ssp_has_read_what_it_waits_for(cancer, barrier):
    """At clock c: all that others have pushed at clocks up to c - r - 1 (Ho et al. 2013)."""
    share, r = getattr(barrier, "share", 1.0), getattr(barrier, "staleness", 1)
    network = Network(Link(latency=0.4), edges={(2, MODEL): Link(latency=2.0)})
    law = {"block_time": Exponential(1.0), "slowness": [1.0, 1.0, 1.2, 1.5, 2.0, 3.0]}
    simulator = Simulator(network=network, write_seconds=0.3, poll=0.1, **law)
    report = run(
        cancer,
        simulator,
        6,
        barrier=near if barrier == "near" else barrier,
        stop=Stop(epochs=3),
        record=True,
    )
    events = report.recording.events
    for i, (worker, _, version) in enumerate(events):
        clock = np.count_nonzero(events[:i, layout.E_WORKER] == worker)
        seen = np.delete(blocks_in(events, version), worker)
        assert np.mean(seen >= clock - r) >= share
    assert len(events) == 3 * 72


@pytest.mark.parametrize("runtime", ["threads", "simulator"])
@pytest.mark.parametrize("plane", [Master(), Master(3), Master(cutoff=3), Master(2, cutoff=1)])
def test_ages_and_staleness_are_those_of_the_recording(cancer, plane, runtime):
    if runtime == "simulator":
        runtime = Simulator(block_time=Exponential(1.0), write_seconds=0.1)
    report = run(cancer, runtime, 4, plane=plane, record=True)
    events = report.recording.events
    holds, summed = [[]], []  # for each version whose messages are in it; those in the sum
    ages, staleness = np.zeros((2, layout.HISTOGRAM), int)
    for worker, _, version in events[events[:, layout.E_WORKER] >= 0]:
        age = len(holds) - 1 - version
        missing = sum(map(np.size, holds[version + 1 :])) + len(summed)
        own = sum(np.count_nonzero(np.equal(one, worker)) for one in holds[version + 1 :])
        ages[min(age, layout.HISTOGRAM - 1)] += 1
        others = missing - own - summed.count(worker)
        staleness[min(others, layout.HISTOGRAM - 1)] += 1
        if plane.cutoff is None or age <= plane.cutoff:
            summed.append(worker)
        if len(summed) == plane.gradients:
            holds.append(summed)
            summed = []
    np.testing.assert_array_equal(report.ages, ages[: len(report.ages)])
    np.testing.assert_array_equal(report.staleness, staleness[: len(report.staleness)])
    assert report.ages.sum() == report.staleness.sum() == 5 * 72
    assert report.to_dict()["ages"] == report.ages.tolist()
    shared = run(cancer, "threads", 2, plane=Shared(exchange=None))
    assert shared.ages is None and "ages" not in shared.to_dict()


def near(table, me):
    others = table.in_run.copy()
    others[me] = False
    return bool((table.clock[others] >= table.clock[me] - 1).all())


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_who_passes_reads_all_that_the_table_has_told_it_of(cancer, runtime, tmp_path):
    told = str(tmp_path / "told")

    def telling(table, me):
        seen = table.blocks.tolist()
        others = table.in_run.copy()
        others[me] = False
        passes = bool((table.clock[others] >= table.clock[me] - 1).all())
        if passes:
            with open(told, "a") as file:
                file.write(f"{me} {' '.join(map(str, seen))}\n")
        return passes

    report = run(cancer, runtime, 3, barrier=telling, record=True)
    events = report.recording.events
    passes = np.loadtxt(told, dtype=int)
    assert len(passes) > len(events) / 2
    for me, *seen in passes:
        mine = events[events[:, layout.E_WORKER] == me]
        if seen[me] < len(mine):  # else there was nothing left to claim
            version = mine[seen[me], layout.E_VERSION]
            assert (blocks_in(events, version)[:3] >= seen).all()


def test_who_leaves_behind_a_barrier_does_so_when_its_block_is_in(cancer):
    """A worker of a simulation that is to leave: others go on, and it begins no block."""
    churn = Churn(leaves={1: 2.5})
    simulator = Simulator(block_time=Constant(1.0), write_seconds=0.2, churn=churn)
    report = run(cancer, simulator, 3, barrier=SSP(1), stop=Stop(epochs=1))
    assert report.workers[1]["blocks"] == 2
    assert sum(worker["pushes"] for worker in report.workers) == 72


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
    ("plane", "barrier"),
    [(Master(), ASP()), (Master(), BSP()), (Master(2, damped=True), ASP())],
    ids=["weighted", "in rounds", "sums, damped"],
)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"penalty": "l1"},
        {"penalty": "elasticnet", "l1_ratio": 0.5},
        {"penalty": None},
        {"loss": "hinge"},
        {"sample_weight": np.linspace(0.1, 1.9, 569)},
    ],
    ids=str,
)
def test_messages_of_many_rows_are_weighed(cancer, settings, plane, barrier):
    """A sixteenth of the rows: weighed, they end where one worker does."""
    problem = problems.linear(*cancer, **{"alpha": 0.01} | settings)
    common = {"stop": 30, "step": StepSize("invscaling", 0.5, 0.5), "seed": 0}

    def objective(n_workers, plane, **more):
        model = solve(problem, plane=plane, n_workers=n_workers, **common, **more).model
        return problem.objective(model.coef, model.intercept)

    one = objective(1, Shared())
    assert objective(1, plane) <= 1.15 * one + 0.005
    assert objective(2, plane, runtime="threads", barrier=barrier) <= 1.15 * one + 0.005


def test_sums_of_long_messages_overshoot_and_weighed_ones_do_not(cancer):
    settings = {"rule": SGD(), "stop": Stop(epochs=10), "step": StepSize("constant", 0.1)}
    one = value(cancer, run(cancer, "caller", 1, plane=Shared(), **settings))
    settings |= {"n_workers": 4, "block": 142, "barrier": BSP()}
    values = {
        fold: value(cancer, run(cancer, plane=Master(fold=fold), **settings)) for fold in FOLDS
    }
    assert values["weighted"] <= 1.1 * one
    assert values["mean"] <= 1.1 * one
    assert values["sum"] > 2.0 * one


def test_a_message_is_as_long_as_it_is_worth():
    """Rows for which reading, sending and adding a whole vector costs a quarter of their time."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((4000, 10)), rng.integers(0, 2, 4000)
    sparse = datasets.zipf_classification(4000, 20_000, nnz_per_row=20, seed=0)
    for data, plane, n_workers, rows in (
        (dense, Master(), 2, 250),  # eight messages of each worker
        (dense, Master(), 1, 500),
        (dense, Master(fold="sum"), 2, 64),
        (sparse, Master(), 2, None),
    ):
        run = {"runtime": "threads" if n_workers > 1 else "caller", "n_workers": n_workers}
        report = solve(problems.linear(*data), plane=plane, stop=1, seed=0, **run)
        if rows is None:
            assert report.settings["block_rows"] > 500
        else:
            assert report.settings["block_rows"] == rows
    named = solve(problems.linear(*dense), plane=Master(), stop=1, block=17, seed=0)
    assert named.settings["block_rows"] == 17


def test_more_workers_than_rows():
    X, y = np.eye(5), np.array([0, 1, 0, 1, 1])
    for runtime in ("threads", "simulator"):
        run = {"runtime": runtime, "n_workers": 8, "stop": 20, "seed": 0}
        report = solve(problems.linear(X, y, alpha=0.01), plane=Master(), **run)
        assert np.isfinite(report.model.coef).all() and report.n_epochs == 20


def test_workers_do_the_masters_work_where_it_has_not_come(cancer, monkeypatch):
    """A thread that never gets a core; all messages are taken, and counted with their time."""
    serve = MasterService.serve

    def held(side):
        states = side.session.schedule.table[:, layout.T_STATE]
        return 0 if (states < layout.DONE).any() else serve(side)

    monkeypatch.setattr(MasterService, "serve", held)
    report = run(cancer, "threads", 2, plane=Master(), rule=SGD(), stop=Stop(epochs=5))
    blocks = sum(worker["blocks"] for worker in report.workers)
    assert report.mail["messages"] == report.ages.sum() == blocks
    assert report.mail["seconds"] > 0.0


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


@pytest.mark.parametrize("wrong", ["add", None, 1, ["sum"]])
def test_an_unknown_fold_is_refused(wrong):
    with pytest.raises(ValueError, match="fold must be one of 'weighted', 'sum', 'mean'; got"):
        Master(fold=wrong)


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
