"""Replicas on a graph: whole reduces, the same bits everywhere, exact bytes, deaths, time-outs."""

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from hogshare import (
    BSP,
    PSSP,
    SGD,
    SSP,
    Replicas,
    SGDClassifier,
    Simulator,
    StepSize,
    Stop,
    problems,
    solve,
    stochastic_reduce,
    topology,
)
from hogshare.engine.arrays import windows_of_one_share
from hogshare.planes.replicas.reducer import Reducer
from hogshare.planes.replicas.reduces import BYTES, MESSAGE, MESSAGES
from hogshare.shm.mailbox import HEADER_BYTES
from hogshare.simulation import Churn, Constant, Link, LogNormal, Network

X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)
N, D = X.shape
RUNTIMES = ["threads", "processes", "simulator"]
CONSTANT = StepSize("constant", 0.01)


def linear(**settings):
    return problems.linear(X, Y, alpha=0.01, **settings)


def gradient(w, rows, out):
    x, s = X[rows], 2.0 * Y[rows] - 1.0
    margin = s * (x @ w)
    out += x.T @ (-s / (1.0 + np.exp(margin))) + len(rows) * 0.01 * w
    return np.logaddexp(0.0, -margin).sum() + 0.005 * len(rows) * (w @ w)


def vector(model):
    return np.append(model.coef, model.intercept) if hasattr(model, "coef") else model.params


PROBLEMS = {
    "linear": (linear, {"step": CONSTANT}),
    "average": (linear, {"rule": SGD(average=True)}),
    "float32": (lambda: problems.linear(X.astype(np.float32), Y, alpha=0.01), {"step": CONSTANT}),
    "momentum": (
        lambda: problems.user(gradient, N, D),
        {"rule": SGD(momentum=0.5), "step": StepSize("constant", 0.002), "block": 5},
    ),
}


# -- the same answer everywhere -------------------------------------------------------------------


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize(
    "plane",
    [
        Replicas("ring", every=20),
        Replicas("root", every=30, queue=2),
        Replicas("one-peer", every=25, send="change"),
        Replicas("star", every=25, weights="push-sum"),
        Replicas("all", every=40, send="change", fold="sum"),
    ],
    ids=lambda plane: f"{plane.graph}",
)
def test_the_same_bits_in_every_runtime(plane, kind):
    make, settings = PROBLEMS[kind]
    run = {"plane": plane, "n_workers": 4, "seed": 3, "stop": 3, **settings}
    reports = [solve(make(), runtime=runtime, **run) for runtime in RUNTIMES]
    slow = Simulator(block_time=LogNormal(1.0, 1.0), slowness=[1.0, 5.0, 1.0, 0.2], seed=1)
    reports.append(solve(make(), runtime=slow, **run))
    for other in reports[1:]:
        np.testing.assert_array_equal(vector(reports[0].model), vector(other.model))
        np.testing.assert_array_equal(reports[0].consistency, other.consistency)
    assert reports[0].reduces.whole_share == 1.0
    other = solve(make(), runtime="simulator", **{**run, "seed": 4})
    assert (vector(other.model) != vector(reports[0].model)).any()


def test_one_worker_is_alone():
    run = {"seed": 0, "stop": 3, "runtime": "caller"}
    known, report = solve(linear(), **run), solve(linear(), plane=Replicas(), **run)
    np.testing.assert_array_equal(known.model.coef, report.model.coef)
    assert report.reduces is None and report.consistency is None


def test_a_barrier_besides_changes_nothing():
    run = {"plane": Replicas("ring", every=20), "n_workers": 3, "seed": 0, "stop": 3}
    free = solve(linear(), runtime="threads", **run)
    held = solve(linear(), runtime="threads", barrier=SSP(1), **run)
    np.testing.assert_array_equal(free.model.coef, held.model.coef)


def test_messages_that_take_time_change_nothing():
    run = {"plane": Replicas("root", every=20), "n_workers": 5, "seed": 0, "stop": 3}
    links = Network(Link(latency=0.3, bandwidth=100.0), edges={(0, 1): Link(latency=9.0)})
    slow = Simulator(block_time=Constant(1.0), network=links)
    far, near = (solve(linear(), runtime=one, **run) for one in (slow, "threads"))
    np.testing.assert_array_equal(far.model.coef, near.model.coef)
    assert far.seconds["virtual"] > 9.0
    assert far.traffic == {**far.reduces.traffic, "control": far.traffic["control"]}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "plane",
    [Replicas("root", every=20), Replicas("star", every=25, weights="push-sum")],
    ids=lambda plane: plane.graph,
)
def test_a_run_that_is_resumed_is_the_run(plane, runtime, tmp_path):
    """Checkpoints have all replicas, of one round, and push-sum's masses."""
    run = {"plane": plane, "n_workers": 4, "runtime": runtime, "seed": 1}
    file = tmp_path / "run.npz"
    solve(linear(), stop=2, checkpoint=file, **run)
    resumed = solve(linear(), stop=5, resume=file, **run)
    through = solve(linear(), stop=5, **run)
    np.testing.assert_array_equal(resumed.model.coef, through.model.coef)
    other = {**run, "n_workers": 3}  # begins at the model that four have made
    assert solve(linear(), stop=5, resume=file, **other).n_epochs == 5


# -- what is averaged ------------------------------------------------------------------------------


def homes_of(plane, n_workers, **run):
    """All workers' models at the end, one by one: what `final` says does not change the run."""
    found = []
    for k in range(n_workers):
        one = Replicas(**{**vars(plane), "final": k})
        report = solve(linear(), plane=one, n_workers=n_workers, runtime="simulator", **run)
        found.append(vector(report.model))
    return np.array(found)


@pytest.mark.parametrize("plane", [Replicas("ring", every=50), Replicas("all", every=50)])
@pytest.mark.quick
def test_the_mean_is_preserved_and_all_to_all_agree(plane):
    """After one block the average over workers is that of their own steps, whatever the graph."""
    run = {"seed": 0, "stop": 1, "step": CONSTANT, "shuffle": False}
    whole = Replicas(**{**vars(plane), "every": N})
    ours, alone = homes_of(whole, 3, **run), []
    for k in range(3):
        rows = np.arange(k, N, 3)
        problem = problems.linear(X[rows], Y[rows], alpha=0.01)
        mine = solve(problem, runtime="caller", seed=0, stop=1, step=CONSTANT, shuffle=False)
        alone.append(vector(mine.model))
    np.testing.assert_allclose(ours.mean(axis=0), np.mean(alone, axis=0), rtol=1e-12)
    weights = topology.mixing_weights(topology.graphs_of(plane.graph, 3)[0])
    np.testing.assert_allclose(ours, weights @ np.array(alone), rtol=1e-12)


def test_the_final_model_is_the_mean_or_one():
    run = {"seed": 0, "stop": 3, "step": CONSTANT}
    plane = Replicas("ring", every=30)
    mean = solve(linear(), plane=plane, n_workers=3, runtime="simulator", **run).model
    homes = homes_of(plane, 3, **run)
    np.testing.assert_allclose(vector(mean), homes.mean(axis=0), rtol=1e-12)
    assert (homes[0] != homes[1]).any()


@pytest.mark.parametrize("graph", ["root", "one-peer"])
def test_models_put_together_from_changes_are_the_models(graph):
    """Residual identity: what receivers have and what is not sent yet is the sender's model."""
    run = {"seed": 0, "stop": 4, "n_workers": 4, "runtime": "simulator", "step": CONSTANT}
    models = solve(linear(), plane=Replicas(graph, every=20), **run).model
    changes = solve(linear(), plane=Replicas(graph, every=20, send="change"), **run).model
    np.testing.assert_allclose(vector(changes), vector(models), rtol=1e-9)


def test_disagreement_dies_out_and_is_told():
    run = {"n_workers": 8, "runtime": "simulator", "seed": 0, "stop": 10, "trace": 1}
    away = {}
    for graph in ("ring", "all"):
        report = solve(linear(), plane=Replicas(graph, every=9), **run)
        away[graph] = report.trace.disagreement
        assert away[graph][-1] < away[graph].max() and away[graph][0] == 0.0
        assert "disagreement" in report.to_dict()["trace"]
    assert away["all"][-1] < away["ring"][-1]


# -- everybody counts the same ---------------------------------------------------------------------

ONE_WAY = np.eye(5, k=1, dtype=bool)  # to the next, and from all back to the first
ONE_WAY[1:, 0] = True


def pulls(n_workers, heavy=0, per_worker=100):
    """Each row pulls to a number of its worker's: to n of the heavy one's, else to 0; mean 1."""
    goals = np.where(np.arange(n_workers * per_worker) % n_workers == heavy, float(n_workers), 0.0)

    def pull(w, rows, out):
        out += len(rows) * w[0] - goals[rows].sum()
        return 0.5 * float(np.square(w[0] - goals[rows]).sum())

    return problems.user(pull, len(goals), 1)


def found_by(graph, weights, n_workers, heavy, rate=0.002, runtime="simulator", **settings):
    run = {"block": 10, "step": StepSize("constant", rate), "stop": 60, "seed": 0} | settings
    plane = Replicas(graph, weights=weights)
    problem = pulls(n_workers, heavy)
    return solve(problem, plane=plane, n_workers=n_workers, runtime=runtime, **run)


@pytest.mark.parametrize("runtime", ["threads", "simulator"])
@pytest.mark.parametrize(("graph", "heavy"), [("star", 0), ("star", 3), (ONE_WAY, 4)])
def test_push_sum_is_subgradient_push(graph, heavy, runtime):
    """Nedic and Olshevsky 2015, (4) and (5): steps are taken on x, gradients at z = x / y."""
    n, rounds = 5, 10 * 7
    report = found_by(graph, "push-sum", n, heavy, runtime=runtime, stop=7)
    q = topology.mixing_weights(topology.graphs_of(graph, n)[0], "push-sum")
    goals, x, y = np.where(np.arange(n) == heavy, n, 0.0), np.zeros(n), np.ones(n)
    for _ in range(rounds):
        x, y = q @ (x - 0.002 * 10 * (x / y - goals)), q @ y
    assert report.model.params[0] == pytest.approx(x.sum() / n, rel=1e-11)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize(("graph", "heavy"), [("star", 0), ("star", 3), (ONE_WAY, 0), (ONE_WAY, 4)])
@pytest.mark.sample(1)
def test_a_heavy_share_counts_as_every_other(graph, heavy, momentum):
    """Uniform weights find up to 2.25 and as little as 0.34 for 1, whose steps count unlike."""
    rule = {"rule": SGD(momentum=momentum)}
    fair = found_by(graph, "auto", 5, heavy, 0.008, stop=10, **rule).model.params[0]
    assert fair == pytest.approx(1.0, abs=1e-3)
    off = []
    for rate, epochs in ((0.008, 10), (0.002, 40)):
        report = found_by(graph, "push-sum", 5, heavy, rate, stop=epochs, **rule)
        off.append(abs(report.model.params[0] - 1.0))
    assert off[1] < 0.1 and off[1] < 0.5 * off[0]


class SaysItsMasses(Replicas):
    def account(self, arrays, n_workers):
        return super().account(arrays, n_workers), arrays["mass"].copy()


class Weighs(Reducer):
    """Counts messages, and their masses, that go out and that are averaged."""

    went: ClassVar[list[float]] = []
    came: ClassVar[list[float]] = []

    def _send(self, edge, values, places, now):
        Weighs.went.append(float(values[-1]))
        super()._send(edge, values, places, now)

    def _average_by_mass(self, own, come):
        Weighs.came += [float(values[-1]) for values in come]
        return super()._average_by_mass(own, come)


@pytest.mark.parametrize("seed", range(4))
def test_masses_of_who_is_late_are_not_lost(seed, monkeypatch):
    monkeypatch.setattr("hogshare.planes.replicas.plane.Reducer", Weighs)
    monkeypatch.setattr(Replicas, "least_patience", 0.5)
    monkeypatch.setattr(Weighs, "went", [])
    monkeypatch.setattr(Weighs, "came", [])
    slow = Simulator(block_time=LogNormal(1.0, 2.0), slowness=[1, 1, 40, 1, 1], seed=seed)
    plane = SaysItsMasses("root", weights="push-sum", patience=0.05)
    settings = {"block": 10, "step": StepSize("constant", 0.001), "stop": 20, "seed": 0}
    report = solve(pulls(5), plane=plane, n_workers=5, runtime=slow, **settings)
    reduces, masses = report.reduces
    assert reduces.late.sum() > 0 and reduces.unsent.sum() > 0
    assert np.isfinite(report.model.params).all() and (masses > 0.0).all()
    under_way = sum(Weighs.went) - sum(Weighs.came)
    assert masses.sum() + under_way == pytest.approx(5.0)
    assert len(Weighs.went) - len(Weighs.came) <= len(reduces.edges)  # one each, at the end


def test_waits_in_vain_do_not_make_later_waits_longer():
    plane = Replicas("all", sync="bsp")
    home = SimpleNamespace(me=0, boxes=(), links=(), arrays={"waits": np.zeros((1, 3))})
    reducer = Reducer(home, plane._settings(2))
    limits, seconds = [], 0.0
    home.now = lambda: seconds
    for k in range(30):
        seconds += 0.1
        if k >= 10:
            waits = reducer._wait(lambda: False, MESSAGE)
            limits.append(next(waits).seconds)
            seconds += limits[-1]
            with pytest.raises(StopIteration, match="False"):
                waits.send(False)
        reducer._note_end(seconds)
    np.testing.assert_allclose(limits, 20 * 0.1)  # twenty rounds, of which no wait is a part
    assert home.arrays["waits"][0, MESSAGE] == pytest.approx(sum(limits))


@pytest.mark.parametrize("weights", ["push-sum", "auto"])
def test_who_dies_or_joins_leaves_the_others_counting_the_same(weights):
    churn = Churn(deaths={2: 15.5}, joins={3: 12.5})
    simulator = Simulator(block_time=Constant(1.0), churn=churn)
    report = found_by("star", weights, 5, 1, 0.001, runtime=simulator, stop=60)
    assert [w["state"] for w in report.workers] == ["done", "done", "dead", "done", "done"]
    assert report.model.params[0] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("weights", ["metropolis", "auto", "uniform", "push-sum"])
def test_a_star_whose_hub_dies_goes_on_as_a_ring(weights):
    simulator = Simulator(block_time=Constant(1.0), churn=Churn(deaths={0: 15.5}))
    report = found_by("star", weights, 10, 1, 0.0005, runtime=simulator, stop=4)
    assert report.workers[0]["state"] == "dead" and report.n_epochs == 4
    edges = np.array(report.reduces.edges)
    assert set(edges[edges[:, 0] > 0][:, 0]) == set(range(1, 10))


# -- bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "degree"), [("ring", 1), ("root", 2), ("all", 5)])
def test_bytes_are_degree_times_rounds_times_message(graph, degree):
    run = {"n_workers": 6, "runtime": "threads", "seed": 0, "stop": 4}
    report = solve(linear(), plane=Replicas(graph, every=20), **run)
    told, message = report.reduces, 8 * (D + 1) + HEADER_BYTES
    rounds = 4 * 5  # 94 rows each, by 20
    assert told.rounds.tolist() == [rounds] * 6
    assert told.bytes == 6 * degree * rounds * message
    assert told.sent[:, 0, MESSAGES].tolist() == [rounds] * 6 * degree
    assert sum(told.bytes_by_edge()["0->1"].values()) == rounds * message
    assert "messages, bytes" in str(report) and report.to_dict()["reduces"]["bytes"] == told.bytes


def test_a_message_is_sparse_where_that_is_shorter():
    rows = sp.random_array(
        (400, 300), density=0.01, format="csr", random_state=np.random.default_rng(0)
    )
    problem = problems.linear(rows, np.arange(400) % 2, alpha=1e-3)
    run = {"n_workers": 4, "runtime": "threads", "seed": 0, "stop": 2}
    whole, sparse = solve(problem, plane=Replicas("ring", every=5), **run).reduces.sent.sum(axis=0)
    assert sparse[MESSAGES] > 0 and whole[MESSAGES] > 0
    assert sparse[BYTES] / sparse[MESSAGES] < whole[BYTES] / whole[MESSAGES]
    assert whole[BYTES] == whole[MESSAGES] * (8 * 301 + HEADER_BYTES)


# -- without acknowledgements ------------------------------------------------------------------


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("sync", ["bsp", "async"])
def test_without_acknowledgements(sync, runtime):
    plane = Replicas("root", every=10, sync=sync)
    run = {"n_workers": 4, "runtime": runtime, "seed": 0, "stop": 10, "trace": 1}
    report = solve(linear(), plane=plane, **run)
    told, reduces = report.reduces, report.consistency.sum(axis=1)
    assert report.objective < 0.3
    used = (report.consistency * np.arange(report.consistency.shape[1])).sum(axis=1)
    np.testing.assert_array_equal(used + told.torn + told.missing, told.in_degree * reduces)
    assert (told.waits[:, :2] == 0.0).all() and (told.waits[:, 2] > 0.0).any() == (sync == "bsp")


# -- who goes, and who is late -----------------------------------------------------------------


@pytest.mark.parametrize("sync", ["notify-ack", "bsp", "async"])
def test_who_dies_or_comes_late_on_a_virtual_clock(sync):
    churn = Churn(deaths={2: 5.5}, joins={3: 2.5})
    simulator = Simulator(block_time=Constant(1.0), churn=churn)
    run = {"n_workers": 5, "runtime": simulator, "stop": 6, "trace": 1, "seed": 0}
    report = solve(linear(), plane=Replicas("ring", every=20, sync=sync), **run)
    assert report.n_epochs == 6 and report.objective < 0.3
    assert [w["state"] for w in report.workers] == ["done", "done", "dead", "done", "done"]
    assert (1, 3) in report.reduces.edges  # the ring without 2


# -- behind BSP, where rows are claimed ----------------------------------------------------------


@pytest.mark.parametrize(("n_workers", "every"), [(5, 100), (3, 87)])
def test_a_round_with_fewer_blocks_than_workers_is_made_up_for(n_workers, every):
    """An epoch's last round has fewer; then all pause, and begin again with worker 0."""
    plane = Replicas("root", rows="claimed", every=every)
    stop = Stop(epochs=6, gradient=1e-12)
    run = {"plane": plane, "barrier": BSP(), "n_workers": n_workers, "seed": 0, "stop": stop}
    reports = [solve(linear(), runtime=runtime, **run) for runtime in ("threads", "processes")]
    np.testing.assert_array_equal(reports[0].model.coef, reports[1].model.coef)
    for report in reports:
        last = 6 * (-(-N // every) % n_workers != 0)
        assert report.reduces.left_out == []
        # in an epoch's last round some have no mail
        assert 0 < report.reduces.missing.sum() <= last * (n_workers - 1)


def test_an_epoch_with_too_few_blocks_is_refused():
    run = {"n_workers": 5, "seed": 0, "stop": 3, "runtime": "threads"}
    plane = Replicas(rows="claimed", every=N)
    with pytest.raises(ValueError, match=r"1 of 569 rows for 5 workers. Set .* at most 113 "):
        solve(linear(), plane=plane, barrier=BSP(), **run)
    assert solve(linear(), plane=plane, barrier=SSP(1), **run).n_epochs == 3
    at_once = Replicas(rows="claimed", every=N, sync="async")
    assert solve(linear(), plane=at_once, barrier=BSP(), **run).n_epochs == 3


# -- by one line -------------------------------------------------------------------------------


def test_stochastic_reduce_is_solve_on_replicas():
    run = {"n_workers": 6, "runtime": "simulator", "seed": 0, "trace": 1}
    report = stochastic_reduce(linear(), graph="ring", every=16, epochs=4, **run)
    known = solve(linear(), plane=Replicas("ring", every=16), stop=4, **run)
    np.testing.assert_array_equal(report.model.coef, known.model.coef)
    weights = topology.mixing_weights(topology.ring(6))
    assert report.theory["gap"] == pytest.approx(topology.spectral_gap(weights))
    assert report.theory["degree"] == 1 and report.theory["rounds"] == 4 * 6
    assert "all workers count equally" in report.theory["sentence"]
    assert report.theory["sentence"] in str(report)


@pytest.mark.parametrize("barrier", [BSP(), PSSP(2, 1), "ssp:2"])
def test_a_barrier_instead_of_acknowledgements(barrier):
    run = {"n_workers": 4, "runtime": "threads", "seed": 0, "trace": 1}
    report = stochastic_reduce(
        linear(), sync="async", every=10, barrier=barrier, weights="uniform", final=1, **run
    )
    assert report.objective < 0.3
    if report.reduces.whole_share < 1.0:
        assert "had every input" in report.theory["sentence"]


def test_one_worker_promises_nothing():
    assert stochastic_reduce(linear(), n_workers=1, seed=0).theory is None


@pytest.mark.parametrize("rule", ["saga", "sdca"])
def test_rules_whose_sums_are_of_all_rows_are_refused(rule):
    with pytest.raises(ValueError, match="needs a shared vector"):
        stochastic_reduce(linear(), rule=rule, n_workers=3, runtime="threads")


def test_factors_are_averaged_too():
    draw = np.random.default_rng(0)
    users, items = draw.integers(0, 40, 1500), draw.integers(0, 25, 1500)
    ratings = np.sin(users / 7.0) * np.cos(items / 5.0)
    problem = problems.factorisation(users, items, ratings)
    run = {"n_workers": 3, "runtime": "threads", "seed": 0, "trace": 1}
    report = stochastic_reduce(problem, graph="all", epochs=20, **run)
    assert report.trace.objective[-1] < 0.8 * report.trace.objective[0]
    assert report.reduces.whole_share == 1.0


# -- estimators, words, refusals ---------------------------------------------------------------


def test_estimators_take_it():
    made = SGDClassifier(n_jobs=3, runtime="threads", plane=Replicas("ring"), random_state=0)
    assert made.fit(X, Y).score(X, Y) > 0.9
    # a worker may have begun one more round when the others leave at the criterion
    assert made.report_.reduces.whole_share > 0.99
    assert SGDClassifier(n_jobs=2, plane="replicas", runtime="threads").fit(X, Y).score(X, Y) > 0.9


LONELY = np.zeros((4, 4), bool)
LONELY[0, 1] = LONELY[1, 0] = LONELY[2, 3] = LONELY[3, 2] = True


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"graph": LONELY}, "not connected: its 2 parts"),
        ({"graph": topology.ring(3)}, "has 3 workers, and the run has 4"),
        ({"graph": "rign"}, "Did you mean 'ring'"),
        ({"queue": 0}, "queue"),
        ({"weights": np.full((4, 4), 0.3), "graph": "all"}, "sums to 1.2"),
        ({"weights": np.full((4, 4), 0.25), "graph": "ring"}, "no edge from"),
        ({"weights": np.full((3, 3), 0.25)}, "shape"),
        ({"weights": "metropolis", "graph": "ring"}, "undirected"),
        ({"sync": "acks"}, "sync must be one of"),
        ({"every": 0}, "every"),
        ({"every": "always"}, "every must be 'auto'"),
        ({"fold": "sum"}, "send='change'"),
        ({"send": "change", "sync": "bsp"}, "lost change is never sent again"),
        ({"weights": "push-sum", "sync": "async"}, "none may be lost"),
        ({"patience": 0.0}, "patience"),
        ({"final": 4}, "names no worker"),
        ({"final": "best"}, "final must be"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else None,
)
def test_what_makes_no_sense_is_refused(settings, word):
    with pytest.raises(ValueError, match=word):
        solve(linear(), plane=Replicas(**settings), n_workers=4, runtime="threads", stop=1)


def test_more_workers_than_rows():
    problem = problems.linear(X[:3], [0, 1, 0])
    with pytest.raises(ValueError, match="cannot share 3 rows"):
        solve(problem, plane=Replicas(), n_workers=4, runtime="threads")
    assert solve(problem, plane=Replicas(rows="claimed"), n_workers=4, runtime="threads", stop=2)


@pytest.mark.parametrize(("n_rows", "window"), [(100, 16), (96, 16), (7, 2)])
def test_the_only_share_of_a_machine_has_room_for_its_windows(n_rows, window):
    """A share is shuffled in `permutation`: its rows, and after them its windows."""
    problem = problems.linear(np.arange(2.0 * n_rows).reshape(n_rows, 2), np.arange(n_rows) % 2)
    plan = {"shares": 1, "window": window}
    assert windows_of_one_share(problem, plan) >= -(-n_rows // window)
    assert windows_of_one_share(problem, plan | {"shares": 2}) == 0
