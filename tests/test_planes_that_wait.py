"""Planes of one's own that wait for other workers: rounds, time-outs, deaths, and how waits end."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from hogshare import BSP, SGD, SSP, Plane, Simulator, StepSize, Until, problems, solve
from hogshare.engine.participants import Worker
from hogshare.kernels import layout
from hogshare.planes import PlaneError
from hogshare.simulation import Churn, Constant, LogNormal, SimulationError

X, Y = load_breast_cancer(return_X_y=True)
X = scale(X)
RUNTIMES = ["threads", "processes", "simulator"]


def written_plane():
    """The plane that the page about planes writes in its part on waiting."""
    text = (Path(__file__).parent.parent / "docs" / "write_a_plane.md").read_text(encoding="utf-8")
    known = {"__name__": "written_ring"}  # which no process can import: its code travels
    part = text.split("## Waiting for others", 1)[1]
    exec(part.split("```python\n", 1)[1].split("```\n", 1)[0], known)
    return known["Ring"]


Ring = written_plane()


class Seen(Ring):
    """A ring that counts the rounds in which both neighbours were there."""

    def arrays(self, n_params, n_workers):
        return {**super().arrays(n_params, n_workers), "whole": ((n_workers,), "int64")}

    def after_block(self, home):
        yield from super().after_block(home)
        around = [(home.me + k) % home.n_workers for k in (-1, 0, 1)]
        rounds, now = home.arrays["rounds"], home.clock
        home.arrays["whole"][home.me] += (rounds[now % 2, around] == now).all()

    def model(self, homes, arrays):
        self.whole = arrays["whole"].copy()
        return homes.mean(axis=0)


def linear(**settings):
    return problems.linear(X, Y, alpha=0.01, **settings)


def gradient(w, rows, out):
    x, s = X[rows], 2.0 * Y[rows] - 1.0
    margin = s * (x @ w)
    out += x.T @ (-s / (1.0 + np.exp(margin))) + len(rows) * 0.01 * w
    return np.logaddexp(0.0, -margin).sum() + 0.005 * len(rows) * (w @ w)


def by_gradient():
    return problems.user(gradient, *X.shape)


PROBLEMS = {
    "linear": (linear, {"step": StepSize("optimal"), "block": 20}),
    "gradient": (by_gradient, {"step": StepSize("invscaling", 0.02, 0.25), "rule": SGD(batch=16)}),
}


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("n_workers", [1, 2, 4])
@pytest.mark.sample(2)
def test_a_ring_in_rounds(kind, runtime, n_workers):
    """Every round is whole, but the first of who comes late, and the last."""
    make, run = PROBLEMS[kind]
    known = solve(make(), stop=20, trace=1, seed=0, **run)
    plane, settings = Seen(), {"runtime": runtime, "n_workers": n_workers, **run}
    report = solve(make(), plane=plane, stop=20 * n_workers, trace=1, **settings)
    way = 0.5 * (report.trace.objective[0] + known.objective)  # how they meet decides the rest
    assert report.objective < way
    blocks = np.array([worker["blocks"] for worker in report.workers])
    assert np.ptp(blocks) <= 2 * n_workers  # who comes late begins at the others' clock
    assert (plane.whole >= blocks - 2).all()


@pytest.mark.parametrize("barrier", [BSP(), SSP(1)], ids=repr)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_ring_behind_barriers(barrier, runtime):
    run = {"n_workers": 3, "barrier": barrier, "stop": 5, "block": 20, "runtime": runtime}
    report = solve(linear(), plane=Ring(), **run)
    assert report.n_epochs == 5
    lead = 0 if isinstance(barrier, BSP) else 1
    assert all(w["largest_lead"] <= lead for w in report.workers)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_more_workers_than_cores(runtime):
    report = solve(linear(), plane=Ring(), n_workers=8, runtime=runtime, stop=10, block=10)
    assert report.n_epochs == 10


def test_waiting_is_counted():
    """On a virtual clock: a slow worker computes all the while, and the others wait for it."""
    slow = Simulator(block_time=Constant(1.0), slowness=[1.0, 1.0, 3.0])
    report = solve(linear(), plane=Ring(), n_workers=3, runtime=slow, stop=4, block=20)
    for worker in report.workers[:2]:
        waited = worker["waiting_for_plane_seconds"]
        assert waited == pytest.approx(2.0 * worker["blocks"], abs=3.0)
        assert waited <= worker["waiting_seconds"]
    assert report.workers[2]["waiting_for_plane_seconds"] == pytest.approx(0.0, abs=1.0)


def test_a_virtual_clock_repeats():
    """And time passes while somebody waits, not otherwise."""

    def run(seed):
        simulator = Simulator(block_time=LogNormal(1.0, 0.5), seed=seed)
        settings = {"n_workers": 5, "runtime": simulator, "stop": 4, "block": 20, "seed": 0}
        return solve(linear(), plane=Ring(), **settings)

    first, second, other = run(1), run(1), run(2)
    np.testing.assert_array_equal(first.model.coef, second.model.coef)
    assert first.seconds["virtual"] == second.seconds["virtual"] != other.seconds["virtual"]


class Pairwise(Ring):
    """Waits twice: for what both neighbours have posted, and for them to have taken it."""

    def arrays(self, n_params, n_workers):
        own = {"taken": ((n_workers,), "int64"), "slot": ((n_workers, n_params), "float64")}
        return {"posted": ((n_workers,), "int64"), **own}

    def after_block(self, home):
        posted, taken, slot = (home.arrays[name] for name in ("posted", "taken", "slot"))
        now, others = home.clock, [(home.me + k) % home.n_workers for k in (-1, 1)]
        taken[home.me] = now - 1  # nobody takes an old round any more
        yield Until(lambda: (home.table.gone | (taken >= posted[home.me]))[others].all())
        slot[home.me] = home.read()
        posted[home.me] = now
        yield Until(lambda: (home.table.gone | (posted >= now))[others].all())
        there = [home.me, *(k for k in others if posted[k] >= now)]
        home.write(slot[there].mean(axis=0))
        taken[home.me] = now


def vector(model):
    return np.append(model.coef, model.intercept) if hasattr(model, "coef") else model.params


@pytest.mark.parametrize("plane", [Ring, Pairwise])
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("n_workers", [2, 3])
@pytest.mark.sample(2)
def test_bsp_repeats_in_every_runtime(plane, kind, n_workers, tmp_path):
    """Whatever is looked at on the way, and with a last round that not everybody has."""
    make, run = PROBLEMS[kind]
    settings = {**run, "plane": plane(), "barrier": BSP(), "n_workers": n_workers, "seed": 3}
    known = solve(make(), runtime="simulator", stop=4, trace=2, **settings)
    traces, models = [known.trace.objective], [vector(known.model)]
    for runtime in ["threads", "processes", "threads"]:
        report = solve(make(), runtime=runtime, stop=4, trace=2, **settings)
        traces.append(report.trace.objective)
        models.append(vector(report.model))
    rests = {"checkpoint": tmp_path / "run.npz", "on_epoch": lambda epoch, snapshot: False}
    for runtime in ["threads", "processes", "threads", "simulator"]:
        models.append(vector(solve(make(), runtime=runtime, stop=4, **rests, **settings).model))
    for other in models[1:4]:
        np.testing.assert_array_equal(other, models[0])
    for other in models[5:]:
        np.testing.assert_array_equal(other, models[4])
    for other in traces[1:]:
        np.testing.assert_array_equal(other[:-1], traces[0][:-1])


class Patient(Plane):
    """Waits for what never comes, for a while."""

    def __init__(self, seconds):
        self.seconds = seconds

    def arrays(self, n_params, n_workers):
        return {"came": ((n_workers,), "int64"), "asked": ((n_workers,), "int64")}

    def after_block(self, home):
        came = yield Until(lambda: False, seconds=self.seconds)
        home.arrays["came"][home.me] += came
        came = yield Until(lambda: True, seconds=self.seconds)
        home.arrays["came"][home.me] += came
        home.arrays["asked"][home.me] += 1

    def model(self, homes, arrays):
        self.counts = int(arrays["came"].sum()), int(arrays["asked"].sum())
        return homes.mean(axis=0)


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_a_time_out(runtime):
    n_workers, plane = 1 if runtime == "caller" else 2, Patient(0.01)
    report = solve(linear(), plane=plane, n_workers=n_workers, runtime=runtime, stop=2, block=100)
    blocks = sum(worker["blocks"] for worker in report.workers)
    assert plane.counts == (blocks, blocks)
    waited = sum(worker["waiting_for_plane_seconds"] for worker in report.workers)
    assert waited >= 0.005 * blocks  # the time to ask is none of it
    if runtime == "simulator":
        assert waited == pytest.approx(0.01 * blocks)


# -- who goes ------------------------------------------------------------------------------------


class Mortal(Ring):
    """A ring of which one worker is killed amid the run, in its own process."""

    def after_block(self, home):
        if home.me == 1 and home.blocks == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().after_block(home)


def test_a_killed_worker_is_not_waited_for():
    run = {"n_workers": 3, "runtime": "processes", "stop": 6, "block": 20}
    with pytest.warns(RuntimeWarning, match="worker 1"):
        report = solve(linear(), plane=Mortal(), **run)
    assert report.n_epochs == 6 and report.workers[1]["state"] == "dead"


def test_who_dies_leaves_or_comes_late_on_a_virtual_clock():
    churn = Churn(leaves={1: 3.5}, deaths={2: 5.5}, joins={3: 2.5})
    simulator = Simulator(block_time=Constant(1.0), churn=churn)
    report = solve(linear(), plane=Ring(), n_workers=4, runtime=simulator, stop=6, block=20)
    assert report.n_epochs == 6
    assert [w["state"] for w in report.workers] == ["done", "done", "dead", "done"]


class Stubborn(Plane):
    """Waits for workers that are done, too."""

    def arrays(self, n_params, n_workers):
        return {"posted": ((n_workers,), "int64")}

    def after_block(self, home):
        posted, now = home.arrays["posted"], home.blocks
        posted[home.me] = now
        yield Until(lambda: bool((posted > now).all()))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_wait_that_nobody_can_end(runtime, seams):
    seams.clock.until_stuck_ns = 300_000_000
    run = {"n_workers": 2, "runtime": runtime, "stop": 2, "block": 20}
    errors = SimulationError if runtime == "simulator" else (PlaneError, RuntimeError)
    with pytest.raises(errors, match=r"plane Stubborn has .*wait for"):
        solve(linear(), plane=Stubborn(), **run)
    assert solve(linear(), plane=Ring(), **run).n_epochs == 2


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_ctrl_c_ends_a_wait(runtime):
    """Soon, though nobody would ever go on."""
    run = {"n_workers": 2, "runtime": runtime, "stop": 2, "block": 20}
    main = threading.main_thread().ident
    threading.Timer(1.0, signal.pthread_kill, (main, signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        solve(linear(), plane=Stubborn(), **run)
    assert time.monotonic() - began < 5.0
    assert solve(linear(), plane=Ring(), **run).n_epochs == 2


@pytest.mark.parametrize("runtime", ["caller", "threads"])
def test_the_calling_thread_is_interrupted_where_it_waits(runtime):
    n_workers = 1 if runtime == "caller" else 2
    run = {"n_workers": n_workers, "runtime": runtime, "stop": 2, "block": 20}
    main = threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        solve(linear(), plane=Patient(20.0), **run)


class Faulty(Ring):
    """One worker raises amid the run, where others wait for it."""

    def after_block(self, home):
        if home.me == 1 and home.blocks == 3:
            raise KeyError("no such edge")
        yield from super().after_block(home)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_error_of_another_ends_a_wait(runtime):
    run = {"n_workers": 2, "runtime": runtime, "stop": 5, "block": 20}
    with pytest.raises((PlaneError, RuntimeError), match="Faulty raised in after_block: KeyError"):
        solve(linear(), plane=Faulty(), **run)
    assert solve(linear(), plane=Ring(), **run).n_epochs == 5


def test_divergence_ends_a_wait():
    run = {"n_workers": 3, "runtime": "threads", "stop": 20, "step": StepSize("constant", 1e300)}
    with pytest.raises(ValueError, match="too large"):
        solve(linear(loss="squared_error"), plane=Ring(), block=20, **run)


def test_a_callback_that_stops_the_run_ends_waits():
    run = {"n_workers": 3, "runtime": "threads", "stop": 50, "block": 20}
    report = solve(linear(), plane=Ring(), on_epoch=lambda epoch, snapshot: epoch == 3, **run)
    assert report.n_epochs < 50


def test_checkpoints_and_looks_at_rest(tmp_path):
    """Who rests is not waited for, and all go on."""
    path, run = tmp_path / "run.npz", {"n_workers": 3, "runtime": "threads", "block": 20}
    solve(linear(), plane=Ring(), stop=5, checkpoint=path, **run)
    assert solve(linear(), plane=Ring(), stop=9, resume=path, **run).n_epochs == 9


# -- bad answers -----------------------------------------------------------------------------------


class YieldsNumbers(Plane):
    def after_block(self, home):
        yield 0.5


class Returns(Plane):
    def after_block(self, home):
        return home.read()


class HoldsNothing(Plane):
    def after_block(self, home):
        yield Until(lambda: None)


class HoldsWrong(Plane):
    def after_block(self, home):
        yield Until(lambda: home.arrays["nothing"].all())


class NoFunction(Plane):
    def after_block(self, home):
        yield Until(home.blocks > 2)


class NoTime(Plane):
    def after_block(self, home):
        yield Until(lambda: True, seconds=-1.0)


class RaisesInTheMiddle(Plane):
    def after_block(self, home):
        yield Until(lambda: True)
        raise ValueError("in the middle")


class NeverEnds(Plane):
    def after_block(self, home):
        while True:
            yield Until(lambda: True)


BAD = {
    YieldsNumbers: r"yielded 0\.5 \(float\) in after_block; it has to yield Until",
    Returns: r"returned ndarray of shape \(31,\) in after_block; it has to return nothing",
    HoldsNothing: r"that returned None \(NoneType\) in after_block; it has to return True",
    HoldsWrong: r"HoldsWrong raised in after_block: KeyError: 'nothing'",
    NoFunction: r"raised in after_block: TypeError: Until\(holds=\) must be a function",
    NoTime: r"raised in after_block: ValueError: seconds must be",
    RaisesInTheMiddle: r"RaisesInTheMiddle raised in after_block: ValueError: in the middle",
    NeverEnds: r"NeverEnds has yielded 100,000 times after one block: its after_block has to come",
}


@pytest.mark.parametrize("plane", BAD, ids=lambda plane: plane.__name__)
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_bad_answers_are_named(plane, runtime):
    run = {"runtime": runtime, "n_workers": 1 if runtime == "caller" else 2, "stop": 5}
    with pytest.raises((PlaneError, RuntimeError), match=BAD[plane]):
        solve(linear(), plane=plane(), block=20, **run)


def test_a_plane_that_is_broken_off_knows():
    closed = []

    class Breaks(Ring):
        def after_block(self, home):
            if home.me == 1 and home.blocks == 3:  # of the round `now`: it may have come late
                rounds, now = home.arrays["rounds"], home.clock
                yield Until(lambda: (rounds.max(axis=0)[[0, 2]] >= now).all())
                raise KeyError("broken")
            try:
                yield from super().after_block(home)
            except GeneratorExit:
                closed.append(home.me)
                raise

    with pytest.raises(PlaneError, match="broken"):
        solve(linear(), plane=Breaks(), n_workers=3, runtime="threads", stop=1000, block=20)
    assert sorted(closed) == [0, 2]


def test_who_comes_too_late_for_an_epoch_rests_on(monkeypatch, tmp_path):
    """Worker 1 sleeps while the others do all that the limit was raised for, and wait for it."""
    pause_again, slept = Worker.pause_again, []

    def late(self):
        if self.me == 1 and self.session.word(layout.LIMIT) == 1 and not slept:
            deadline = time.monotonic() + 20.0
            while self.session.word(layout.EPOCHS) < 2 and time.monotonic() < deadline:
                time.sleep(0.001)
            slept.append(self.session.word(layout.EPOCHS))
        pause_again(self)

    monkeypatch.setattr(Worker, "pause_again", late)
    run = {"plane": Ring(), "n_workers": 3, "runtime": "threads", "stop": 4, "block": 300}
    report = solve(linear(), checkpoint=tmp_path / "run.npz", seed=0, **run)
    assert report.n_epochs == 4 and slept == [2]
