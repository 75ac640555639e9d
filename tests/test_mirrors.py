"""Mirrored centres: what is sent and what stays adds up, whoever dies; and what a run comes to."""

import functools
import math
import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from centre_rig import N_PARAMS, Rig
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from hogshare import (
    SGD,
    Master,
    Mirrors,
    MLPClassifier,
    Replicas,
    SGDClassifier,
    Shared,
    Simulator,
    Stop,
    Throttled,
    gaia,
    problems,
    solve,
    topology,
)
from hogshare.kernels import layout
from hogshare.kernels.exchange import centre_exchange
from hogshare.planes.mirrors.centre import Centre
from hogshare.planes.mirrors.groups import groups_of
from hogshare.planes.mirrors.significance import Filter
from hogshare.planes.protocol import PlaneError
from hogshare.runtimes.processes import WorkerDied
from hogshare.simulation import Churn, Constant, Link, Network
from hogshare.stragglers import ControlledDelay

RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 12))
Y = np.where(X @ RNG.standard_normal(12) + 0.3 * RNG.standard_normal(600) > 0.0, 1, -1)
PROBLEM = problems.linear(X, Y, alpha=0.01)
SPARSE = sp.random(900, 400, 0.01, "csr", np.float64, random_state=0)
TEXT = problems.linear(SPARSE, np.where(SPARSE.sum(axis=1).A1 > 2.0, 1, -1), alpha=0.001)
SLOW = [[Link(0.1, 100.0)] * 2, [Link(0.1, 1e9)] * 2]  # from the first centre
WHERE = ["threads", "processes", "simulator"]


def whole_numbers(rng):
    return rng.integers(-9, 10, N_PARAMS).astype(float) * (rng.random(N_PARAMS) < 0.6)


@pytest.mark.parametrize("inside", [Shared(), Shared(exchange=None)], ids=repr)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("queue", [2, 3])
@pytest.mark.parametrize(
    ("fold", "graph"), [("sum", "all"), ("sum", "star"), ("weighted", "all"), ("momentum", "all")]
)
def test_what_is_sent_and_what_stays_adds_up(seed, queue, inside, fold, graph):
    rng = np.random.default_rng(seed)
    run = {"clock_difference": math.inf, "queue": queue, "delay": 0.0, "every": 1}
    rig = Rig(Mirrors(3, inside=inside, fold=fold, threshold=0.4, graph=graph, **run), 5)
    stayed, same = 0, np.testing.assert_array_equal
    if fold != "sum":  # of whole numbers sums are exact
        same = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    for _ in range(120):
        stayed += int(rig.arrays["residual"].any())
        rig.live[rng.integers(3)] += whole_numbers(rng)  # of somebody's who is in a block
        me = int(rng.integers(5))
        if me not in rig.steps:
            rig.now += 1.0
            rig.block(me, whole_numbers(rng))
        rig.all_go_on()
        rig.check(same)
    if inside.exchange is None:
        for me in set(range(5)) - set(rig.steps):
            rig.block(me, np.zeros(N_PARAMS))
        for me in set(range(5)) - set(rig.steps):
            same(rig.homes[me].vector, rig.mirror_of(me))
    assert (
        stayed > 20 < rig.arrays["sent"][:, centre_exchange.UPDATE, centre_exchange.MESSAGES].sum()
    )


def test_a_selective_barrier_names_values_and_their_coming_lifts_it():
    plane = Mirrors(
        2, threshold=0.0, fold="sum", clock_difference=math.inf, queue=2, delay=1.0, every=1
    )
    rig = Rig(plane, 2)
    rig.block(0, np.ones(N_PARAMS))  # the one place for values is taken
    change = np.zeros(N_PARAMS)
    change[3] = 2.0
    rig.block(0, change)  # no room: it is noted since when
    rig.now = 2.0
    rig.block(0, change)  # for too long: a short message names the place
    assert rig.arrays["sent"][0, :, centre_exchange.MESSAGES].tolist() == [1, 1, 0]
    rig.block(1, np.zeros(N_PARAMS))
    assert 1 in rig.steps, "it reads what is to come"
    assert rig.arrays["blocked"][0].tolist() == [0, 0, 0, 1, 0, 0, 0]
    rig.now = 3.0
    rig.block(0, np.zeros(N_PARAMS))  # there is room again: the values that were named go
    rig.all_go_on()
    assert 1 not in rig.steps and not rig.arrays["blocked"].any()
    assert rig.homes[1].vector[3] == 5.0
    rig.check()


def test_who_reads_none_of_the_values_goes_on():
    plane = Mirrors(
        2, threshold=0.0, fold="sum", clock_difference=math.inf, queue=2, delay=0.0, every=1
    )
    rig = Rig(plane, 2)
    rig.homes[1].reads = np.array([0, 1])
    for _ in range(3):
        rig.now += 1.0
        rig.block(0, np.eye(N_PARAMS)[3])
    rig.block(1, np.zeros(N_PARAMS))
    assert 1 not in rig.steps and rig.arrays["passes"][1] == 1
    rig.homes[1].reads = np.array([3])
    rig.now += 1.0
    rig.block(0, np.eye(N_PARAMS)[3])  # into the room there is: it lifts the first
    rig.check()


def test_who_has_done_its_rows_waits_for_room_while_others_may_come_to_read():
    rig = Rig(
        Mirrors(2, threshold=0.0, clock_difference=5, queue=2, every=1, fold="sum"), 2, (0, 2)
    )
    for done in (1, 2):
        rig.table[0, layout.T_SHARE] = done
        rig.block(0, np.ones(N_PARAMS))
    assert (
        set(rig.steps) == {0}
        and rig.parts[0].at[centre_exchange.A_WHY] == centre_exchange.FOR_CAPACITY
    )
    rig.table[1, layout.T_SHARE] = 1
    rig.block(1, np.ones(N_PARAMS))  # reads, and there is room
    rig.all_go_on()
    assert not rig.steps and rig.arrays["notified"][0] == 2
    rig.check()


def test_what_is_under_way_on_a_slow_link_is_waited_for():
    plane = Mirrors(2, threshold=0.0, clock_difference=2, queue=2, links=SLOW, every=30)
    run = {"n_workers": 2, "runtime": Simulator(block_time=Constant(0.1)), "stop": 3, "seed": 0}
    report = solve(TEXT, plane=plane, **run)
    assert report.run_seconds > 30.0  # longer than all may wait where nothing is under way


def test_the_mirror_clock_holds_who_is_ahead():
    rig = Rig(Mirrors(3, threshold=0.0, fold="sum", clock_difference=2, every=1), 4)
    for k in range(2):
        rig.block(0, np.ones(N_PARAMS))
        rig.block(1, np.ones(N_PARAMS))
        assert not rig.steps, k
    for me in (0, 1):
        rig.block(me, np.ones(N_PARAMS))
    assert set(rig.steps) == {1}, "the centre's clock is its slower worker's"
    rig.block(2, np.ones(N_PARAMS))
    rig.all_go_on()
    assert set(rig.steps) == {1}, "one of two others is still behind"
    rig.block(3, np.ones(N_PARAMS))
    rig.all_go_on()
    assert not rig.steps


def test_who_waits_is_not_called_for_a_centre_that_has_ended():
    """There is room on its edge, and nobody who would read."""
    rig = Rig(Mirrors(3, threshold=0.0, fold="sum", clock_difference=0, every=1), 3)
    rig.table[1, layout.T_STATE] = layout.DONE
    rig.block(0, np.ones(N_PARAMS))
    assert set(rig.steps) == {0} and not rig.parts[0].has_news()
    rig.block(2, np.ones(N_PARAMS))
    rig.all_go_on()
    assert not rig.steps


# -- the filter


@pytest.mark.parametrize(
    ("kind", "threshold", "decay", "t", "sent"),
    [
        ("relative", 0.1, None, 100, [0, 1, 1, 0, 1]),
        ("relative", 0.1, "sqrt", 100, [1, 1, 1, 0, 1]),
        ("absolute", 0.1, None, 1, [0, 0, 1, 0, 1]),
        ("relative", 0.0, "sqrt", 1, [1, 1, 1, 0, 1]),
        ("relative", math.inf, "sqrt", 9, [0, 0, 0, 0, 0]),
        ("relative", 1.0, lambda t: 1.0 / t, 25, [1, 1, 1, 0, 1]),
        (lambda r, w, t: r > t * 0.04, 0.0, None, 2, [0, 0, 1, 0, 1]),
    ],
)
def test_which_changes_are_significant(kind, threshold, decay, t, sent):
    residual = np.array([0.05, 0.06, 0.2, 0.0, 3.0])
    value = np.array([1.0, 0.0, -1.0, 0.0, 2.0])
    found = Filter(kind, threshold, decay, None).mask(residual, value, t, 0.0)
    assert found.astype(int).tolist() == sent


def test_parts_of_a_model_have_their_own_thresholds():
    found = Filter("absolute", np.array([1.0, 0.0, 9.0]), None, None)
    assert found.mask(np.full(3, 2.0), np.ones(3), 1, 0.0).tolist() == [True, True, False]
    with pytest.raises(ValueError, match="threshold has 5 entries, but the model 13 parameters"):
        solve(PROBLEM, plane=Mirrors(2, threshold=np.ones(5)), n_workers=2, runtime="threads")


def test_the_course_tells_of_every_update():
    run = {"n_workers": 3, "runtime": "simulator", "stop": 4, "seed": 0}
    told = solve(PROBLEM, plane=Mirrors(3, threshold=1.0, every=20), **run).exchanges
    course = told.course
    assert (np.diff(course["clock"]) > 0).all() and course["clock"][0] == 1
    assert course["clock"][-1] <= told.clocks.max()
    updates = told.traffic["update"]["bytes"] + told.traffic["clock"]["bytes"]
    assert course["bytes"].sum() == updates
    assert (course["bytes"] <= course["dense_bytes"]).all()
    assert course["share"][-1] > course["share"][0]  # the threshold falls
    pytest.importorskip("matplotlib")
    assert len(told.plot_filter().get_lines()) == 2


def test_a_soft_threshold_lets_more_through():
    soft = Filter("absolute", 1.0, None, 0.1)
    assert [soft.mask(np.array([0.5]), np.ones(1), 1, ease)[0] for ease in (0.0, 1.0)] == [0, 1]
    run = {"n_workers": 3, "runtime": "simulator", "stop": 4, "seed": 0}
    planes = [Mirrors(3, threshold=0.5, soft=soft) for soft in (None, 0.0)]
    hard, eased = (solve(PROBLEM, plane=p, **run).exchanges.significant_share for p in planes)
    assert eased > 1.2 * hard


# -- runs


@pytest.mark.parametrize("runtime", WHERE)
@pytest.mark.quick
def test_in_step_and_with_all_changes_it_is_replicas_that_sum(runtime):
    run = {"n_workers": 3, "runtime": runtime, "stop": 3, "seed": 0}
    mirrors = solve(PROBLEM, plane=Mirrors(3, fold="sum", threshold=0.0, every=10), **run)
    other = Replicas("all", send="change", fold="sum", every=10)
    assert np.array_equal(mirrors.model.coef, solve(PROBLEM, plane=other, **run).model.coef)
    assert mirrors.exchanges.significant_share == 1.0
    assert mirrors.exchanges.disagreement < 1e-12


def test_one_worker_in_one_centre_is_the_serial_run():
    run = {"stop": 3, "seed": 0, "n_workers": 1}
    found = solve(PROBLEM, plane=Mirrors(1), runtime="threads", **run)
    assert np.array_equal(found.model.coef, solve(PROBLEM, runtime="caller", **run).model.coef)
    assert found.exchanges is None


@pytest.mark.parametrize("inside", [Shared(), Shared(exchange=None, adds="atomic")], ids=repr)
@pytest.mark.parametrize("centres", [1, [0, 0]])
def test_one_centre_is_the_plane_inside(inside, centres):
    run = {"stop": 3, "seed": 0, "n_workers": 2, "runtime": "simulator"}
    found = solve(PROBLEM, plane=Mirrors(centres, inside=inside), **run)
    assert np.array_equal(found.model.coef, solve(PROBLEM, plane=inside, **run).model.coef)


@pytest.mark.parametrize("inside", [Shared(exchange=None), Shared(exchange=7)], ids=repr)
@pytest.mark.parametrize("runtime", WHERE)
def test_centres_share_their_mirror_in_other_ways(monkeypatch, runtime, inside):
    told, account = {}, Mirrors.account

    def tell(self, arrays, n_workers):
        told.update({name: array.copy() for name, array in arrays.items()})
        return account(self, arrays, n_workers)

    monkeypatch.setattr(Mirrors, "account", tell)
    plane = Mirrors(2, inside=inside, threshold=0.3)
    report = solve(TEXT, plane=plane, n_workers=4, runtime=runtime, stop=4, seed=0, trace=1)
    one = solve(TEXT, n_workers=1, runtime="caller", stop=4, seed=0, trace=1)
    assert report.objective < 1.1 * one.objective
    for centre in range(2):
        edge = plane._edges_of_centres(4).index((1 - centre, centre))
        made = told["first"] + told["total"][centre] + told["got"][edge]
        np.testing.assert_allclose(told["mirror"][centre], made, atol=1e-12)
    assert all(worker["rows"] == 900 for worker in report.workers)


def test_a_network_whose_workers_write_their_centres_vector():
    net = MLPClassifier((5,), plane=Mirrors(2, inside=Shared(exchange=None)), n_jobs=4)
    net.set_params(solver="sgd", learning_rate_init=0.05, batch_size=20, max_iter=20)
    net.set_params(random_state=0, runtime="threads")
    with pytest.warns(ConvergenceWarning):
        assert net.fit(X, Y).score(X, Y) > 0.85


def test_averages_need_copies():
    plane = Mirrors(2, inside=Shared(exchange=None))
    with pytest.raises(ValueError, match="average"):
        solve(PROBLEM, plane=plane, n_workers=2, rule=SGD(average=True))


def test_with_an_infinite_threshold_centres_train_alone():
    run = {"n_workers": 2, "runtime": "simulator", "stop": 3, "seed": 0}
    report = solve(PROBLEM, plane=Mirrors(2, threshold=math.inf, flush=False), **run)
    traffic = report.exchanges.traffic
    assert traffic["update"]["messages"] == 0 < traffic["clock"]["messages"]
    assert report.exchanges.disagreement > 0.01


@pytest.mark.parametrize("runtime", WHERE)
@pytest.mark.parametrize("n_workers", [3, 5])
def test_a_run_comes_near_one_workers_objective(runtime, n_workers):
    problem = problems.linear(np.tile(X, (4, 1)), np.tile(Y, 4), alpha=0.01)
    one = solve(problem, stop=6, seed=0, trace=1).objective
    run = {"n_workers": n_workers, "runtime": runtime, "stop": 6, "seed": 0, "barrier": "ssp:2"}
    report = solve(problem, plane="mirrors", **run)
    assert problem.objective(report.model.coef, report.model.intercept) < 1.1 * one
    told = report.exchanges
    assert told.clocks.min() > 0 and 0.0 < told.significant_share < 1.0
    assert told.to_dict()["traffic"]["update"]["bytes"] < 12 * told.significant.sum() + 9e6


def test_flushed_mirrors_are_one_and_the_others_differ():
    run = {"n_workers": 3, "runtime": "simulator", "stop": 4, "seed": 0}
    both = [solve(PROBLEM, plane=Mirrors(3, threshold=0.5, flush=f), **run) for f in (True, False)]
    assert both[0].exchanges.disagreement == both[1].exchanges.disagreement > 0.0
    assert not np.array_equal(both[0].model.coef, both[1].model.coef)


@pytest.mark.parametrize("runtime", ["threads", "simulator"])
@pytest.mark.parametrize("difference", [0, 2])
def test_no_worker_passes_a_clock_that_others_are_too_far_from(monkeypatch, runtime, difference):
    passed, go = [], Centre._go

    def seen(self):
        why = go(self)
        if why == centre_exchange.GO_ON:
            into, table = self.map.into, self.home.table
            heard = self.arrays["heard"][into]
            gone = [table.gone[self.members[self.map.senders[e]]].all() for e in into]
            now = self.arrays["clock"][self.number]
            passed.append(all(now - h <= difference or g for h, g in zip(heard, gone, strict=True)))
        return why

    monkeypatch.setattr(Centre, "_go", seen)
    slow = ControlledDelay(base=1e-4, delay=3.0)
    plane = Mirrors(3, every=40, clock_difference=difference)
    # one in each centre: a mate could move the clock between the kernel's check and the test's
    solve(PROBLEM, plane=plane, n_workers=3, runtime=runtime, stop=3, seed=0, stragglers=slow)
    assert len(passed) > 20 and all(passed)


@pytest.mark.parametrize(
    ("centres", "groups"),
    [(3, [0, 0, 0, 1, 1, 2, 2]), (1, [0] * 7), (7, list(range(7))), ([1, 0, 0, 1, 1, 0, 2], None)],
)
def test_a_number_of_centres_gets_neighbours_together(centres, groups):
    assert groups_of(centres, 7).tolist() == (centres if groups is None else groups)


@pytest.mark.parametrize("runtime", ["threads", "simulator"])
@pytest.mark.parametrize("barrier", ["bsp", "user"])
def test_a_barrier_holds_among_the_workers_of_a_centre(monkeypatch, runtime, barrier):
    """One worker is slow: its centre stays together, and the other goes on."""
    seen, asked, go = [], set(), Centre._go

    def noted(self):
        seen.append(self.home.table.clock.copy())
        return go(self)

    def together(table, me):
        asked.add((len(table), me))
        return bool(table.clock[me] <= table.clock[table.in_run].min())

    monkeypatch.setattr(Centre, "_go", noted)
    slow = ControlledDelay(base=2e-3, delay=4.0)
    plane = Mirrors([0, 1, 0, 1], every=30, clock_difference=math.inf)
    run = {"n_workers": 4, "runtime": runtime, "stop": 2, "seed": 0, "stragglers": slow}
    if runtime == "simulator":
        slowness = [5.0, 1.0, 1.0, 1.0]
        run |= {
            "runtime": Simulator(block_time=Constant(1.0), slowness=slowness),
            "stragglers": None,
        }
    solve(PROBLEM, plane=plane, barrier=together if barrier == "user" else barrier, **run)
    clocks = np.array(seen)
    assert np.abs(clocks[:, 0] - clocks[:, 2]).max() <= 1
    assert np.abs(clocks[:, 1] - clocks[:, 3]).max() <= 1
    assert (clocks[:, 1] - clocks[:, 0]).max() > 3
    assert barrier != "user" or asked == {(2, 0), (2, 1)}


def test_a_slow_link_names_values_before_they_come():
    slow = Simulator(block_time=Constant(1.0), network=Network(link=Link(0.1, 300.0)))
    plane = Mirrors(3, threshold=0.0, clock_difference=20, queue=2, delay=1.0, every=30)
    report = solve(TEXT, plane=plane, n_workers=3, runtime=slow, stop=3, seed=0)
    told = report.exchanges
    assert told.traffic["barrier"]["messages"] > 0
    assert told.holds[:, centre_exchange.FOR_VALUES].sum() + told.passes.sum() > 0


def test_no_value_is_read_while_it_is_named(monkeypatch):
    read, go = [], Centre._go

    def seen(self):
        why = go(self)
        if why == centre_exchange.GO_ON:
            gone = self.home.table.gone
            blocked = [
                e for e in self.map.into if not gone[self.members[self.map.senders[e]]].all()
            ]
            places = slice(None) if self.home.reads is None else self.home.reads
            read.append(any(self.arrays["blocked"][e, places].any() for e in blocked))
        return why

    monkeypatch.setattr(Centre, "_go", seen)
    slow = Simulator(block_time=Constant(1.0), network=Network(link=Link(0.1, 300.0)))
    plane = Mirrors(3, threshold=0.0, clock_difference=20, queue=2, delay=1.0, every=30)
    solve(TEXT, plane=plane, n_workers=3, runtime=slow, stop=3, seed=0)
    assert len(read) > 20 and not any(read)


def test_a_simulated_run_has_its_bits_again():
    run = {"n_workers": 6, "stop": 3, "seed": 0, "barrier": "ssp:1"}
    simulator = Simulator(network=Network(link=Link(1e-3, 1e6)))
    plane = Mirrors(3, threshold=0.1, clock_difference=2)
    first, second = (solve(PROBLEM, plane=plane, runtime=simulator, **run) for _ in range(2))
    assert np.array_equal(first.model.coef, second.model.coef)
    assert first.exchanges.to_dict() == second.exchanges.to_dict()


def test_a_problem_by_a_gradient_and_estimators():
    problem = problems.network(X, (Y > 0).astype(int), (5,))
    run = {"n_workers": 4, "runtime": "threads", "seed": 0, "step": 0.01}
    report = solve(problem, plane=Mirrors(2, every=64), stop=Stop(epochs=10), trace=1, **run)
    assert report.trace.objective[-1] < 0.9 * report.trace.objective[0]
    model = SGDClassifier(plane=Mirrors(2), n_jobs=4, runtime="threads", random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.85 and model.report_.exchanges.n_centres == 2
    with pytest.raises(
        ValueError, match=r"centres=3 needs at least a worker for each centre; .* n_workers=2"
    ):
        MLPClassifier((3,), plane=Mirrors(3), n_jobs=2, runtime="threads").fit(X, Y)


def test_a_checkpoint_has_all_mirrors(tmp_path):
    plane, path = Mirrors(3, threshold=0.2), tmp_path / "run.npz"
    run = {"n_workers": 3, "runtime": "threads", "seed": 0}
    solve(PROBLEM, plane=plane, stop=2, checkpoint=path, **run)
    resumed = solve(PROBLEM, plane=plane, stop=5, resume=path, **run)
    whole = solve(PROBLEM, plane=plane, stop=5, **run)
    assert resumed.n_epochs == 5
    values = [PROBLEM.objective(r.model.coef, r.model.intercept) for r in (resumed, whole)]
    assert values[0] == pytest.approx(values[1], rel=0.02)


@pytest.mark.parametrize("inside", [Shared(), Shared(exchange=None)], ids=repr)
def test_a_worker_that_is_killed_with_the_lock_in_its_hand_is_survived(tmp_path, inside):
    problem = problems.linear(np.tile(X, (8, 1)), np.tile(Y, 8), alpha=0.01)
    mark, caller = str(tmp_path / "killed"), os.getpid()

    def kill(residual, value, t):
        if t >= 6 and os.getpid() != caller:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return np.abs(residual) > 0.01 * np.abs(value)

    plane = Mirrors([0, 0, 1, 1], inside, every=50, significance=kill)
    run = {"n_workers": 4, "runtime": "processes", "stop": 5, "seed": 0}
    with pytest.warns(WorkerDied, match="goes on without it"):
        report = solve(problem, plane=plane, **run)
    assert [worker["state"] for worker in report.workers].count("dead") == 1, report.notes
    one = solve(problem, stop=5, seed=0, trace=1).objective
    assert problem.objective(report.model.coef, report.model.intercept) < 1.2 * one
    assert report.exchanges.clocks.min() > 10


# -- what is refused


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"inside": Master()}, r"inside must be Shared\(\)"),
        ({"inside": "shared"}, r"inside must be Shared\(\)"),
        ({"centres": 0}, "centres must be at least 1"),
        ({"centres": "three"}, "centres must be the number of centres"),
        ({"centres": [0, 2]}, "centre 1 has no worker"),
        ({"every": 0}, "every"),
        ({"every": 1.5}, "every must be 'auto' or a number"),
        ({"significance": "big"}, "significance must be"),
        ({"threshold": -1.0}, "threshold must be"),
        ({"threshold": math.nan}, "threshold must be"),
        ({"threshold": "x"}, "threshold must be"),
        ({"decay": "exp"}, "decay must be"),
        ({"threshold": math.inf}, "threshold=inf sends nothing"),
        ({"threshold": math.inf, "soft": 0.1, "flush": False}, "needs a finite threshold"),
        ({"threshold": np.array([0.1, math.inf])}, "or flush=False"),
        ({"soft": 0.5}, "soft must be at most threshold"),
        ({"clock_difference": 0.5}, "whole number of clocks"),
        ({"clock_difference": -1}, "clock_difference"),
        ({"delay": -1.0}, "delay"),
        ({"queue": 1}, "queue"),
        ({"flush": 2}, "flush"),
        ({"rows": "mine"}, "rows must be"),
    ],
)
def test_bad_settings_are_told_at_once(settings, told):
    with pytest.raises((ValueError, TypeError), match=told):
        Mirrors(**settings)


@pytest.mark.parametrize(
    ("plane", "extra", "told"),
    [
        (
            Mirrors(4),
            {},
            "centres=4 needs at least a worker for each centre; the run has n_workers=3",
        ),
        (Mirrors([0, 1]), {}, "names the centre of 2 workers, but the run has 3"),
        (Mirrors(3, graph=np.diag([1, 0], 1)), {}, "not connected"),
        (Mirrors(3, graph=["all", "all"]), {}, "one graph"),
        (Mirrors(3), {"barrier": Throttled(2)}, "throttled release"),
    ],
)
def test_what_does_not_fit_the_run_is_told_before_it(plane, extra, told):
    before = threading.active_count()
    with pytest.raises(ValueError, match=told):
        solve(PROBLEM, plane=plane, n_workers=3, runtime="threads", **extra)
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda r, w, t: 1 / 0, "raised ZeroDivisionError"),
        (lambda r, w, t: np.full(len(r), np.nan), "13 bools"),
        (lambda r, w, t: np.ones(3, bool), "13 bools"),
    ],
)
def test_a_bad_significance_function_ends_the_run_with_a_sentence(runtime, function, told):
    began = time.monotonic()
    # of a worker process an error comes as what its run tells of it, of the caller's worker itself
    errors = PlaneError if runtime == "threads" else (PlaneError, RuntimeError)
    with pytest.raises(errors, match=told):
        solve(PROBLEM, plane=Mirrors(2, significance=function), n_workers=2, runtime=runtime)
    assert time.monotonic() - began < 30.0


@pytest.mark.parametrize("runtime", ["threads", "processes", "simulator"])
@pytest.mark.parametrize("answer", [math.nan, -1.0, math.inf, None, "1"])
@pytest.mark.parametrize("first", [1, 3])
def test_a_decay_that_answers_no_number_ends_the_run_with_a_sentence(runtime, answer, first):
    def decay(t):
        return answer if t >= first else 1.0

    errors = (PlaneError, RuntimeError) if runtime == "processes" else PlaneError
    with pytest.raises(errors, match=r"finite number of at least 0.*at clock .* it returned"):
        solve(PROBLEM, plane=Mirrors(2, decay=decay), n_workers=2, runtime=runtime, seed=0)


def test_a_decay_that_raises_is_reported_before_the_run():
    with pytest.raises(PlaneError, match="decay function raised ZeroDivisionError"):
        solve(PROBLEM, plane=Mirrors(2, decay=lambda t: 1 / 0), n_workers=2, runtime="threads")


def test_a_sum_of_trainings_that_never_heard_of_each_other_is_warned_of():
    run = {"n_workers": 2, "runtime": "simulator", "seed": 0, "stop": 2}
    with pytest.warns(ConvergenceWarning, match="No change was significant.*flush=False"):
        report = solve(PROBLEM, plane=Mirrors(2, threshold=1e12), **run)
    assert any("No change was significant" in note for note in report.notes)
    solve(PROBLEM, plane=Mirrors(2, threshold=math.inf, flush=False), **run)  # a mean: no warning


def test_graphs_that_say_all_are_taken():
    run = {"n_workers": 2, "runtime": "simulator", "seed": 0, "stop": 2}
    whole = solve(PROBLEM, plane=Mirrors(2), **run)
    for graph in ("ring", np.ones((2, 2)), topology.all_to_all):
        found = solve(PROBLEM, plane=Mirrors(2, graph=graph), **run)
        assert np.array_equal(found.model.coef, whole.model.coef)


# -- gaia


def test_gaia_is_the_plane_with_its_defaults_and_tells_of_its_theory():
    run = {"n_workers": 3, "runtime": "simulator", "seed": 0}
    report = gaia(PROBLEM, centres=3, epochs=4, **run)
    other = solve(PROBLEM, plane=Mirrors(3), barrier="ssp:0", stop=4, **run)
    assert np.array_equal(report.model.coef, other.model.coef)
    assert "root of T" in report.theory["sentence"]


# -- a centre that dies


DIES = Churn(deaths={3: 2.5})
ALONE = pytest.mark.filterwarnings("ignore:No change was significant")


@ALONE
@pytest.mark.parametrize("inside", [Shared(), Shared(exchange=None)], ids=repr)
@pytest.mark.parametrize("flush", [True, False])
def test_a_centre_that_dies_is_left_out_with_what_it_had_not_sent(inside, flush):
    """It has gone a long way from the start, and nobody else from there."""
    plane = Mirrors([0, 0, 1, 2], inside, threshold=1e30, flush=flush, every=20)
    simulator = Simulator(block_time=Constant(1.0), churn=DIES)
    run = {"n_workers": 4, "stop": 10, "seed": 0}
    report = solve(PROBLEM, plane=plane, runtime=simulator, trace=1, **run)
    assert report.exchanges.lost == [2] and "centres that have died" in str(report)
    one = solve(PROBLEM, n_workers=1, runtime="caller", stop=10, seed=0, trace=1)
    assert report.trace.objective[-1] < (1.2 if not flush else 3.0) * one.objective


def test_a_run_may_end_with_a_centre_and_be_resumed(tmp_path):
    file = tmp_path / "run.npz"
    plane = Mirrors(4, threshold=0.1, when_lost="end", every=20)
    run = {"n_workers": 4, "plane": plane, "seed": 0, "stop": 10}
    dying = Simulator(block_time=Constant(1.0), churn=Churn(deaths={3: 30.5}))
    with pytest.raises(PlaneError, match="Centre 3 has died"):
        solve(PROBLEM, runtime=dying, checkpoint=file, **run)
    report = solve(PROBLEM, runtime=Simulator(block_time=Constant(1.0)), resume=file, **run)
    assert report.n_epochs == 10 and report.exchanges.lost == []


@ALONE
def test_who_goes_on_from_where_a_centre_had_died_begins_with_the_others_model(tmp_path):
    file = tmp_path / "run.npz"
    plane = Mirrors(4, threshold=1e30, every=20)
    run = {"n_workers": 4, "plane": plane, "seed": 0}
    dying = Simulator(block_time=Constant(1.0), churn=Churn(deaths={3: 3.5}))
    solve(PROBLEM, runtime=dying, stop=5, checkpoint=file, **run)
    again = solve(PROBLEM, runtime="threads", stop=10, resume=file, **run)
    one = solve(PROBLEM, n_workers=1, runtime="caller", stop=10, seed=0, trace=1)
    found = PROBLEM.objective(again.model.coef, again.model.intercept)
    assert found < 3.0 * one.objective


@ALONE
def test_a_killed_centre_is_left_out():
    caller = os.getpid()

    def kill(residual, value, t):
        if os.getpid() != caller and t == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(len(residual), bool)

    run = {"n_workers": 2, "runtime": "processes", "stop": 5, "seed": 0}
    with pytest.warns(WorkerDied, match="goes on without it"):
        report = solve(PROBLEM, plane=Mirrors(2, every=50, significance=kill), **run)
    one = solve(PROBLEM, stop=5, seed=0, trace=1).objective
    assert report.exchanges.lost == [1]
    assert PROBLEM.objective(report.model.coef, report.model.intercept) < 1.2 * one


def test_centres_have_their_workers_though_fewer_would_pay():
    model = SGDClassifier(plane=Mirrors(3), n_jobs=3, max_iter=2, tol=None).fit(X, Y)
    assert model.report_.n_workers == 3 and model.report_.exchanges.n_centres == 3


# -- steps by a gradient


DIGITS, OF_DIGITS = load_digits(return_X_y=True)


def of_network(plane, epochs=4, n_workers=3, **run):
    problem = problems.network(DIGITS / 16.0, OF_DIGITS, (20,))
    run = {"runtime": "simulator", "rule": SGD(batch=10), "step": 0.2, "seed": 0, **run}
    return solve(problem, plane=plane, n_workers=n_workers, stop=epochs, **{"trace": 1, **run})


def test_clocks_of_many_steps_cost_a_network_nothing():
    ends = {
        fold: of_network(Mirrors(3, every=200, fold=fold)).objective
        for fold in ("weighted", "mean", "momentum")
    }
    one = of_network(Shared(), n_workers=1, runtime="caller").objective
    assert ends["weighted"] == ends["momentum"] < 1.15 * one
    assert ends["mean"] > 1.5 * one


def test_a_clock_that_is_one_step_is_added():
    found = [of_network(Mirrors(3, fold=fold)).objective for fold in ("weighted", "sum")]
    assert found[0] == found[1] != of_network(Mirrors(3, fold="momentum")).objective


def test_over_links_a_clock_by_a_gradient_is_half_an_epoch_at_most():
    problem = problems.network(DIGITS / 16.0, OF_DIGITS, (20,))
    run = {"rule": SGD(batch=10), "step": 0.2, "seed": 0, "stop": 4, "trace": 1, "n_workers": 3}
    report = solve(problem, plane=Mirrors(3, links="15x:20ms"), runtime="threads", **run)
    assert report.exchanges.clocks.tolist() == [8, 8, 8]
    assert report.objective < 1.2 * of_network(Shared(), n_workers=1, runtime="caller").objective


def test_a_run_goes_on_with_its_momentum(tmp_path):
    plane = Mirrors(3, every=200, threshold=0.1)
    whole = of_network(plane, 4)
    of_network(plane, 2, checkpoint=tmp_path / "half.npz")
    rest = of_network(plane, 4, resume=tmp_path / "half.npz", trace=None)
    np.testing.assert_allclose(rest.model.params, whole.model.params, rtol=1e-9, atol=1e-12)


def test_where_some_hear_of_others_through_a_hub_nobody_has_momentum():
    ends = {
        fold: of_network(Mirrors(3, every=200, fold=fold, graph="star")).model.params
        for fold in ("momentum", "mean")
    }
    np.testing.assert_allclose(ends["momentum"], ends["mean"], rtol=1e-12)


@pytest.mark.parametrize(("batch", "more"), [(10, {"inside": Shared(exchange=100)}), (1, {})])
def test_a_clock_has_many_steps_or_one(batch, more):
    rule = {"rule": SGD(batch=batch), "n_workers": 4, "epochs": 1}
    plain, other = (
        of_network(Mirrors([0, 0, 1, 1], fold=fold, **more), **rule).model.params
        for fold in ("weighted", "momentum")
    )
    assert np.array_equal(plain, other) == (batch == 10)


def test_a_checkpoint_of_other_centres_is_gone_on_from_as_a_model(tmp_path):
    run = {"n_workers": 4, "runtime": "simulator", "seed": 0, "trace": 1}
    path = tmp_path / "two.npz"
    half = solve(PROBLEM, plane=Mirrors(2, threshold=0.3), stop=10, checkpoint=path, **run)
    run.pop("trace")
    four = solve(PROBLEM, plane=Mirrors(4, threshold=0.3), stop=11, resume=path, **run)
    assert PROBLEM.objective(four.model.coef, four.model.intercept) < 1.1 * half.objective
