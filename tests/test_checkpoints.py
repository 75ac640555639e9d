"""A run that was saved goes on as if nothing had happened, and the file is always whole."""

import contextlib
import dataclasses
import errno
import json
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from crews import members

from hogshare import (
    ASP,
    BSP,
    SAGA,
    SDCA,
    SGD,
    Adam,
    Checkpoint,
    Mirrors,
    Model,
    Shared,
    StepSize,
    Stop,
    problems,
    solve,
)
from hogshare.engine import checkpoint_session, checkpoints
from hogshare.engine.checkpoint_session import CheckpointFailed
from hogshare.io import archives
from hogshare.kernels import layout
from hogshare.problems import fingerprints
from hogshare.solvers.solver import OrderSeed
from hogshare.system import files

ROOT = Path(__file__).parent.parent
PATIENCE = 60  # seconds after which something that should have happened has not


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


def rows(n=120, m=9, form="dense", dtype="float64", classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.6)
    signal = X @ rng.standard_normal((m, classes)) + 0.3 * rng.standard_normal((n, classes))
    X = X.astype(dtype)
    y = signal.argmax(axis=1) if classes > 2 else (signal[:, 0] > 0).astype(int)
    return (sp.csr_array(X) if form == "csr" else X), y


def state_of(file):
    saved = checkpoints.load(file)
    return saved.arrays, (saved.epochs, saved.ready, saved.checks, saved.first_t, saved.form)


def assert_same_state(one, other):
    """Two files hold the same state, every bit of it."""
    (a, numbers), (b, others) = state_of(one), state_of(other)
    assert numbers == others
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_same_model(one, other):
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=field.name)


def assert_same_report(one, other):
    assert_same_model(one.model, other.model)
    assert (one.n_epochs, one.converged) == (other.n_epochs, other.converged)
    np.testing.assert_array_equal(one.epoch_losses, other.epoch_losses)
    assert one.checks == other.checks


RULES = {
    "sgd": {"step": StepSize("invscaling", eta0=0.5), "rule": SGD(average=3000)},
    "lock-free": {
        "plane": Shared(exchange=None),
        "step": StepSize("invscaling", eta0=0.5),
        "rule": SGD(average=3000),
    },
    "sdca": {"rule": SDCA()},
    "saga": {"rule": SAGA()},
}
WORKERS = {"caller": ("caller", 1), "threads": ("threads", 2), "processes": ("processes", 2)}


# -- one worker: bit for bit

STEP = {"step": StepSize("constant", eta0=0.01)}
MASK = np.arange(120) % 5 == 0
CASES = {
    "l2": ({"alpha": 0.01}, {}),
    "l2-sparse-float32": ({"alpha": 0.01, "form": "csr", "dtype": "float32"}, {}),
    "l1": ({"alpha": 0.01, "penalty": "l1", "form": "csr"}, STEP),
    "elasticnet-average": (
        {"alpha": 0.01, "penalty": "elasticnet", "l1_ratio": 0.4},
        {**STEP, "rule": SGD(average=150)},
    ),
    "average-sparse-float32": (
        {"alpha": 0.01, "form": "csr", "dtype": "float32"},
        {**STEP, "rule": SGD(average=True)},
    ),
    "tol": ({"alpha": 0.01}, {**STEP, "stop": {"tol": 1e-4, "patience": 2}}),
    "converges": ({"alpha": 0.1}, {**STEP, "stop": {"tol": 0.05, "patience": 3}}),
    "adaptive": (
        {"alpha": 0.01, "classes": 3},
        {"step": StepSize("adaptive", eta0=0.05), "stop": {"tol": 0.02, "patience": 1}},
    ),
    "validation": (
        {"alpha": 0.01},
        {**STEP, "stop": {"tol": 1e-3, "patience": 6, "validation": MASK}},
    ),
    "in-order": ({"alpha": 0.01}, {"shuffle": False}),
    "many-blocks": ({"alpha": 0.01}, {"trace": 4}),
    "lock-free": (
        {"alpha": 0.01},
        {**STEP, "plane": Shared(exchange=None), "rule": SGD(average=True)},
    ),
    "sdca": ({"alpha": 0.01}, {"rule": SDCA()}),
    "sdca-elasticnet": (
        {"alpha": 0.01, "penalty": "elasticnet", "l1_ratio": 0.4, "form": "csr"},
        {"rule": SDCA()},
    ),
    "saga": ({"alpha": 0.01, "classes": 3}, {"rule": SAGA()}),
    "saga-l1-importance": (
        {"alpha": 0.01, "penalty": "l1", "form": "csr"},
        {"rule": SAGA(sampling="importance")},
    ),
    "saga-replace": ({"alpha": 0.01}, {"rule": SAGA(replace=True)}),
    "looks": ({"alpha": 0.01}, {"rule": SAGA(), "stop": {"gradient": 1e-14}}),
    "looks-that-end-it": ({"alpha": 0.1}, {"rule": SDCA(), "stop": {"relative_gap": 1e-3}}),
}


def case(name):
    settings, run = (dict(part) for part in CASES[name])
    shape = {key: settings.pop(key) for key in ("form", "dtype", "classes") if key in settings}
    stop = run.pop("stop", {})
    problem = problems.linear(*rows(**shape), **settings)
    return problem, run, lambda epochs: Stop(epochs=epochs, **stop)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.quick
def test_one_worker_goes_on_bit_for_bit(tmp_path, name):
    problem, run, stop = case(name)
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    plain = solve(problem, stop=stop(10), seed=3, **run)
    whole = solve(problem, stop=stop(10), seed=3, checkpoint=one, **run)
    assert_same_report(whole, plain)  # saving changes nothing
    solve(problem, stop=stop(4), seed=3, checkpoint=other, **run)
    resumed = solve(problem, stop=stop(10), resume=other, checkpoint=other, **run)
    assert_same_report(resumed, plain)
    assert_same_state(one, other)
    assert any(note.startswith("resumed after") for note in resumed.notes)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("elasticnet-average", "w local lag received order permutation"),
        ("tol", "columns history"),
        ("sdca", "dual"),
        ("saga", "gradients average"),
        ("lock-free", "intercept"),
    ],
)
def test_every_part_of_the_state_counts(path, name, parts):
    """Or the test above would not see that one is missing."""
    problem, run, stop = case(name)
    run["trace"] = 4  # many blocks: before an epoch ends, the next one's order is there
    plain = solve(problem, stop=stop(10), seed=3, **run)
    ended = {"on_epoch": lambda epoch, snapshot: epoch == 4}
    solve(problem, stop=stop(10), seed=3, checkpoint=path, **ended, **run)
    assert checkpoints.load(path).ready == 5
    whole = path.read_bytes()
    for part in parts.split():
        path.write_bytes(whole)
        array = checkpoints.load(path).arrays[f"state_{part}"]
        wrong = array[..., ::-1] if part in checkpoint_session.ORDERS else 0.5 * array
        rewritten(path, **{f"state_{part}": wrong.astype(array.dtype)})
        resumed = solve(problem, stop=stop(10), resume=path, **run)
        with pytest.raises(AssertionError):
            assert_same_report(resumed, plain)


def test_some_of_these_runs_end_early():
    """Or the cases above would not see what the stop criteria remember."""
    ends = {}
    for name in ("converges", "looks-that-end-it", "adaptive", "validation"):
        problem, run, stop = case(name)
        ends[name] = solve(problem, stop=stop(10), seed=3, **run)
    assert 4 < ends["converges"].n_epochs < 10
    assert ends["looks-that-end-it"].converged
    assert ends["validation"].n_epochs > 4


@pytest.mark.parametrize("rule", [SGD(), SDCA()], ids=lambda rule: type(rule).__name__)
def test_orders_by_windows(path, seams, rule):
    """Large rows are read in windows of neighbours, whose order the seed and the epoch tell."""
    seams.sizes.cached = 0
    problem = problems.linear(*rows(), alpha=0.01)
    plain = solve(problem, rule=rule, seed=3)
    solve(problem, rule=rule, stop=Stop(epochs=3), seed=3, checkpoint=path)
    assert "state_order" not in checkpoints.load(path).arrays
    assert_same_report(solve(problem, rule=rule, resume=path), plain)


def test_orders_by_windows_of_other_workers(path, seams):
    """Four workers of SDCA read more windows in turn than one; every epoch has all rows."""
    seams.sizes.cached = 0
    problem = problems.linear(*rows(), alpha=0.01)
    best = solve(problem, rule=SDCA(), stop=Stop(epochs=60), seed=0).model
    many = {"runtime": "threads", "n_workers": 4}
    solve(problem, rule=SDCA(), stop=Stop(epochs=3), seed=3, checkpoint=path)
    solve(problem, rule=SDCA(), stop=Stop(epochs=6), resume=path, checkpoint=path, **many)
    report = solve(problem, rule=SDCA(), stop=Stop(epochs=30), resume=path)
    assert report.n_epochs == 30
    least = problem.objective(best.coef, best.intercept)
    assert problem.objective(report.model.coef, report.model.intercept) < least * (1.0 + 1e-6)


def test_a_run_from_a_start_with_an_average(path):
    problem = problems.linear(*rows(), alpha=0.01)
    run = {**STEP, "rule": SGD(average=True), "seed": 3}
    start = solve(problem, stop=Stop(epochs=2), **run).model
    plain = solve(problem, start=start, **run)
    solve(problem, start=start, stop=Stop(epochs=3), checkpoint=path, **run)
    resumed = solve(problem, resume=path, **run)
    assert_same_report(resumed, plain)
    assert resumed.model.t == start.t + 10 * problem.n_rows


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("epochs", [2, 9])
def test_a_run_from_a_start_whose_steps_do_not_fall(path, epochs, remembers):
    problem = problems.linear(*rows(), alpha=0.01, loss="hinge")
    run = {"rule": SAGA(), "n_workers": 1, "seed": 3}
    start = solve(problem, stop=Stop(epochs=2), **run).model
    start = start if remembers else Model(start.coef, start.intercept)
    plain = solve(problem, start=start, stop=Stop(epochs=12), **run)
    solve(problem, start=start, stop=Stop(epochs=epochs), checkpoint=path, **run)
    resumed = solve(problem, resume=path, stop=Stop(epochs=12), **run)
    assert_same_report(resumed, plain)
    assert resumed.settings["step"]["kind"] == "constant"
    begun = solve(problem, stop=Stop(epochs=epochs), checkpoint=path, **run)
    resumed = solve(problem, resume=path, stop=Stop(epochs=12), **run)
    assert_same_report(resumed, solve(problem, stop=Stop(epochs=12), **run))
    assert resumed.settings["step"] == begun.settings["step"]
    assert resumed.settings["step"]["kind"] == "falls"


@pytest.mark.parametrize("rule", [SDCA(), SAGA()], ids=["sdca", "saga"])
def test_a_look_that_an_epochs_end_asks_for_is_not_lost(tmp_path, rule):
    """Whichever epoch the file is of: the one that asked, the one before, or one after."""
    problem = problems.linear(*rows(), alpha=0.01)
    stop = {"gradient": 1e-6}
    plain = solve(problem, rule=rule, seed=3, stop=Stop(epochs=1000, **stop))
    second = plain.checks[1]["epoch"]
    assert plain.converged and second > 6  # by the looks' own rate it would be 5
    for epochs in (second - 1, second, second + 1):
        path = tmp_path / f"{epochs}.npz"
        solve(problem, rule=rule, seed=3, checkpoint=path, stop=Stop(epochs=epochs, **stop))
        again = solve(problem, rule=rule, resume=path, stop=Stop(epochs=1000, **stop))
        assert_same_report(again, plain)


@pytest.mark.parametrize(
    ("n_workers", "barrier"), [(1, ASP()), (2, BSP())], ids=["one", "in order"]
)
@pytest.mark.parametrize("rule", [SDCA(), SAGA()], ids=["sdca", "saga"])
def test_a_slow_disk_loses_no_look(tmp_path, seams, cancer, rule, n_workers, barrier):
    """While a file is written workers go on, and an epoch's end may ask for a look."""
    problem = problems.linear(*cancer, alpha=0.01)
    run = {"rule": rule, "n_workers": n_workers, "barrier": barrier, "runtime": "threads"}
    run |= {"seed": 3, "stop": Stop(epochs=1000, gradient=1e-5)}
    every = Checkpoint(tmp_path / "a.npz", epochs=4)
    fast = solve(problem, checkpoint=every, **run)
    save = seams.loop.save

    def slowly(saved, path):
        time.sleep(0.03)
        save(saved, path)

    seams.loop.save = slowly
    slow = solve(problem, checkpoint=every, **run)
    assert_same_model(slow.model, fast.model)
    assert [(look["epoch"], look["gradient"]) for look in slow.checks] == [
        (look["epoch"], look["gradient"]) for look in fast.checks
    ]
    assert fast.converged and len(fast.checks) > 1


def test_a_failing_disk_is_told_though_the_run_is_interrupted(tmp_path, seams, cancer):
    def full(saved, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupted(epoch, snapshot):
        if epoch == 7:
            raise KeyboardInterrupt
        return False

    seams.loop.save = full
    run = {"n_workers": 2, "barrier": BSP(), "runtime": "threads", "on_epoch": interrupted}
    every = Checkpoint(tmp_path / "a.npz", epochs=4)
    problem = problems.linear(*cancer, alpha=0.01)
    with pytest.warns(CheckpointFailed, match="No space"), pytest.raises(KeyboardInterrupt):
        solve(problem, stop=Stop(epochs=8), checkpoint=every, **run)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_nobody_waits_for_the_disk(tmp_path, seams, cancer, runtime):
    """Not even the worker that is the caller's: behind BSP all would wait for it."""
    save, gone_on, waited = seams.loop.save, threading.Event(), []

    def stuck(saved, path):
        if not waited:
            waited.append(gone_on.wait(30.0))
        save(saved, path)

    def watched(worker, n_blocks):
        answer = turn(worker, n_blocks)
        if worker.session.word(layout.EPOCHS) >= 6:
            gone_on.set()
        return answer

    turn = seams.loop.quantum
    seams.loop.quantum = watched
    seams.loop.save = stuck
    every = Checkpoint(tmp_path / "a.npz", epochs=4)
    run = {"n_workers": 2, "barrier": BSP(), "runtime": runtime}
    solve(problems.linear(*cancer, alpha=0.01), stop=Stop(epochs=8), checkpoint=every, **run)
    assert waited == [True] and checkpoints.load(tmp_path / "a.npz").epochs == 8


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("name", ["average-sparse-float32", "sdca", "looks"])
def test_one_worker_elsewhere_goes_on_as_the_run_with_the_same_checkpoints(tmp_path, name, runtime):
    problem, run, stop = case(name)
    run |= {"runtime": runtime, "n_workers": 1}
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    whole = solve(problem, stop=stop(10), seed=3, checkpoint=one, **run)
    solve(problem, stop=stop(4), seed=3, checkpoint=other, **run)
    resumed = solve(problem, stop=stop(10), resume=other, checkpoint=other, **run)
    assert_same_report(resumed, whole)
    assert_same_state(one, other)


@pytest.mark.parametrize("how", ["asked", "interrupted"])
def test_wherever_it_is_stopped(path, how):
    """By `on_epoch` or by Ctrl-C: the last finished epoch is in the file."""
    problem = problems.linear(*rows(), alpha=0.01)
    many_blocks = {"trace": 4}  # before an epoch ends, the next one's order is there
    plain = solve(problem, seed=3, **many_blocks)
    heard = []

    def stop_at_five(epoch, snapshot):
        if epoch == 5 and how == "interrupted":
            raise KeyboardInterrupt
        return epoch == 5

    def listen(epoch, snapshot):
        heard.append(epoch)
        return False

    ended = contextlib.nullcontext() if how == "asked" else pytest.raises(KeyboardInterrupt)
    with ended:
        solve(problem, seed=3, checkpoint=path, on_epoch=stop_at_five, **many_blocks)
    done = 5 if how == "asked" else 4  # Ctrl-C came before the fifth was saved
    saved = checkpoints.load(path)
    assert (saved.epochs, saved.ready) == (done, done + 1)
    resumed = solve(problem, resume=path, on_epoch=listen, **many_blocks)
    assert_same_report(resumed, plain)
    assert heard == list(range(done + 1, 11))


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS.values())
def test_ctrl_c_inside_of_a_write(path, monkeypatch, runtime, n_workers):
    """It comes through, and the file is the one before."""
    problem = problems.linear(*rows(), alpha=0.01)
    real, calls = os.fsync, []

    def interrupted(descriptor):
        calls.append(descriptor)
        if len(calls) == 5:  # two calls a checkpoint
            raise KeyboardInterrupt
        real(descriptor)

    monkeypatch.setattr(os, "fsync", interrupted)
    run = {"runtime": runtime, "n_workers": n_workers, "seed": 3}
    with pytest.raises(KeyboardInterrupt):
        solve(problem, checkpoint=path, **run)
    assert checkpoints.load(path).epochs == 2
    assert os.listdir(path.parent) == ["run.npz"]
    assert solve(problem, resume=path, checkpoint=path, **run).n_epochs == 10
    assert checkpoints.load(path).epochs == 10


@pytest.mark.parametrize(("runtime", "n_workers"), [("threads", 2), ("processes", 2)])
def test_several_workers_that_are_stopped_between_two_checkpoints(large, path, runtime, n_workers):
    """What they have done is in the file, though a part of an epoch is in the model already."""
    run = {"rule": SAGA(), "runtime": runtime, "n_workers": n_workers, "seed": 1}
    stopped = solve(
        large,
        stop=Stop(epochs=1000),
        checkpoint=Checkpoint(path, epochs=400),
        on_epoch=lambda epoch, snapshot: epoch == 7,
        **run,
    )
    saved = checkpoints.load(path)
    assert saved.epochs == stopped.n_epochs >= 7
    assert_same_model(Checkpoint(path).model(), stopped.model)
    report = solve(large, stop=Stop(epochs=1000, gradient=1e-9), rule=SAGA(), seed=1)
    end = saved.epochs + 50  # a caller that has no core for a moment is told of the seventh late
    further = solve(large, stop=Stop(epochs=end), resume=path, **run)
    assert further.n_epochs == end
    assert value(large, further) <= value(large, report) + 1e-8


def test_how_often(path, seams):
    problem = problems.linear(*rows(), alpha=0.01)
    written = []
    real = seams.loop.save
    seams.loop.save = lambda saved, place: (written.append(saved.epochs), real(saved, place))
    solve(problem, stop=Stop(epochs=7), checkpoint=Checkpoint(path, epochs=3))
    assert written == [3, 6, 7]
    written.clear()
    solve(problem, stop=Stop(epochs=12), resume=path, seed=None, checkpoint=Checkpoint(path, 3))
    assert written == [9, 12]  # the same ones as without the interruption
    written.clear()
    os.unlink(path)
    solve(problem, stop=Stop(epochs=7), checkpoint=Checkpoint(path, seconds=3600))
    assert written == [7]
    written.clear()
    two = {"runtime": "threads", "n_workers": 2, "stop": Stop(epochs=40)}
    solve(problem, checkpoint=Checkpoint(path, epochs=2, seconds=3600), **two)
    assert written == [2, 16, 40]  # from the pace of the first on, at most eight times as far


def test_a_run_that_is_over_stays_as_it_is(path):
    problem, run, stop = case("converges")
    first = solve(problem, stop=stop(10), seed=3, checkpoint=path, **run)
    before = path.read_bytes()
    again = solve(problem, stop=stop(50), resume=path, checkpoint=path, **run)
    assert_same_report(again, first)
    assert path.read_bytes() == before
    problem = problems.linear(*rows(), alpha=0.01)
    os.unlink(path)
    first = solve(problem, seed=3, checkpoint=path)
    again = solve(problem, stop=Stop(epochs=7), resume=path)
    assert_same_model(again.model, first.model)
    assert again.n_epochs == 10 and again.stop_reason == "all epochs were done"


def test_the_model_of_a_checkpoint(path):
    """It predicts, and another run may begin there."""
    problem = problems.linear(*rows(), alpha=0.01, penalty="elasticnet", l1_ratio=0.2)
    report = solve(problem, rule=SDCA(), seed=3, checkpoint=path)
    assert_same_model(Checkpoint(path).model(), report.model)
    other = dataclasses.replace(problem, alpha=0.02)
    further = solve(other, rule=SDCA(), start=Checkpoint(path).model(), stop=Stop(epochs=3))
    cold = solve(other, rule=SDCA(), stop=Stop(epochs=3))
    assert value(other, further) < value(other, cold)


def test_a_trace_goes_on(path):
    problem = problems.linear(*rows(), alpha=0.01)
    whole = solve(problem, seed=3, trace=2)
    solve(problem, stop=Stop(epochs=4), seed=3, trace=2, checkpoint=path)
    trace = solve(problem, resume=path, trace=2).trace
    assert trace.epochs[0] == 4.0
    late = whole.trace.epochs >= 4.0
    np.testing.assert_array_equal(trace.epochs, whole.trace.epochs[late])
    np.testing.assert_array_equal(trace.objective, whole.trace.objective[late])


# -- several workers, and from one to the other


def value(problem, report):
    return problem.objective(report.model.coef, report.model.intercept)


@pytest.fixture(scope="module")
def large():
    X, y = rows(n=3000, m=40, form="csr", seed=5)
    return problems.linear(X, y, alpha=0.01)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("threads", "threads"),
        ("processes", "processes"),
        ("caller", "threads"),
        ("threads", "caller"),
    ],
)
def test_any_workers_go_on(large, path, name, first, then):
    best = value(large, solve(large, rule=SDCA(), stop=Stop(epochs=200, gap=1e-8), seed=0))
    run, stop = RULES[name], Stop(epochs=24)
    runtime, n_workers = WORKERS[first]
    solve(
        large,
        **run,
        runtime=runtime,
        n_workers=n_workers,
        stop=Stop(epochs=12),
        seed=1,
        checkpoint=Checkpoint(path, epochs=5),
    )
    saved = checkpoints.load(path)
    assert saved.epochs == 12
    runtime, n_workers = WORKERS[then]
    report = solve(large, **run, runtime=runtime, n_workers=n_workers, stop=stop, resume=path)
    assert report.n_epochs == 24
    assert report.model.t == 1.0 + 24 * large.n_rows
    assert value(large, report) <= best + (5e-4 if "step" in run else 1e-6)
    if report.model.average_coef is not None:
        mean = large.objective(report.model.average_coef, report.model.average_intercept)
        assert mean <= best + 5e-4


@pytest.mark.parametrize("name", RULES)
def test_the_average_survives_a_change_of_workers(large, path, name):
    """The sum of the iterates is the same number in every form."""
    run = RULES[name]
    if not run["rule"].average:
        pytest.skip("no average")
    solve(large, **run, stop=Stop(epochs=4), seed=1, checkpoint=path)
    before = Checkpoint(path).model()
    for runtime, n_workers in [("threads", 3), ("caller", 1)]:
        workers = {"runtime": runtime, "n_workers": n_workers}
        report = solve(large, **run, **workers, stop=Stop(epochs=4), resume=path)
        assert report.n_epochs == 4
        for part in ("coef", "intercept", "average_coef", "average_intercept"):
            want, found = getattr(before, part), getattr(report.model, part)
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_several_workers_with_looks(large, path, runtime):
    """Looks and checkpoints fall on epochs of their own; either may end or save the run."""
    run = {"rule": SAGA(), "runtime": runtime, "n_workers": 2, "seed": 1}
    stop = {"gradient": 1e-9}
    solve(large, stop=Stop(epochs=6, **stop), checkpoint=Checkpoint(path, epochs=2), **run)
    seen = checkpoints.load(path).checks["seen"]
    assert [look["epoch"] for look in seen][:1] == [3]
    report = solve(large, stop=Stop(epochs=500, **stop), checkpoint=path, resume=path, **run)
    assert report.converged and report.checks[-1]["gradient"] <= 1e-9
    assert report.checks[: len(seen)] == seen
    epochs = [look["epoch"] for look in report.checks]
    assert epochs == sorted(set(epochs))
    # the last look is not in the file: a run that goes on does it again
    again = solve(large, stop=Stop(epochs=500, **stop), resume=path, **run)
    assert again.converged and again.n_epochs == report.n_epochs


# -- what goes wrong


def test_another_run_is_refused(path):
    X, y = rows()
    problem = problems.linear(X, y, alpha=0.01)
    solve(problem, seed=3, stop=Stop(epochs=2, tol=1e-3), checkpoint=path)
    stop = Stop(epochs=4, tol=1e-3)

    def refused(words, problem=problem, **run):
        with pytest.raises(ValueError, match=words) as caught:
            solve(problem, **{"stop": stop, "resume": path, **run})
        assert "run.npz" in str(caught.value) or "start and resume" in words

    refused("alpha was 0.01 and is 0.02", problems.linear(X, y, alpha=0.02))
    refused("loss was 'log_loss' and is 'hinge'", problems.linear(X, y, loss="hinge", alpha=0.01))
    refused("penalty was 'l2' and is None", problems.linear(X, y, alpha=0.01, penalty=None))
    refused("dtype was 'float64'", problems.linear(X.astype("float32"), y, alpha=0.01))
    refused("format was 'dense' and is 'csr'", problems.linear(sp.csr_array(X), y, alpha=0.01))
    refused("rows was 120 and is 119", problems.linear(X[1:], y[1:], alpha=0.01))
    refused("features was 9 and is 8", problems.linear(X[:, 1:], y, alpha=0.01))
    refused("rule name was 'SGD' and is 'SAGA'", rule=SAGA())
    refused("rule average was 0 and is 1", rule=SGD(average=True))
    refused("step kind was 'optimal' and is 'constant'", step=StepSize("constant"))
    refused("step eta0", step=StepSize("optimal", eta0=0.5))
    refused("seed was", seed=4)
    refused("shuffle was True and is False", shuffle=False)
    refused("stop tol was 0.001 and is 0.1", stop=Stop(epochs=4, tol=0.1))
    refused("stop validation was None", stop=Stop(epochs=4, tol=1e-3, validation=MASK))
    moved = X.copy()
    moved[17, 3] += 1e-9
    refused("have other numbers", problems.linear(moved, y, alpha=0.01))
    turned = y.copy()
    turned[17] = 1 - turned[17]
    refused("have other numbers", problems.linear(X, turned, alpha=0.01))
    refused("have other numbers", problems.linear(X[::-1], y[::-1], alpha=0.01))
    refused("have other numbers", problems.linear(X, y, alpha=0.01, class_weight=np.array([1, 2])))
    refused("one of start and resume", start=Checkpoint(path).model())
    # the same run under another name of its seed, with other workers
    report = solve(problem, stop=stop, resume=path, seed=3, n_workers=2, runtime="threads")
    assert report.n_epochs == 4
    seed = OrderSeed(checkpoints.load(path).seed)
    assert solve(problem, stop=stop, resume=path, seed=seed).n_epochs == 4


def swapped(array, apart):
    """With two unlike numbers, so far from each other and at odd places, exchanged."""
    array = array.copy()
    flat = array.reshape(-1)
    k = next(k for k in range(100_001, array.size, 2) if flat[k] != flat[k + apart])
    flat[[k, k + apart]] = flat[[k + apart, k]]
    return array


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_fingerprint_of_large_data_sees_what_is_exchanged(form, dtype):
    """With numbers of few bits, which are lost in a product with a round one, and the same sum."""
    n = 150_000
    rng = np.random.default_rng(0)
    values = rng.integers(1, 3, 2 * n).astype(dtype)
    y, weight = np.arange(n) % 3 % 2, rng.integers(1, 3, n).astype(float)
    columns = np.arange(2 * n, dtype=np.int32)
    first = np.cumsum([0, *np.tile([1, 3, 2], n // 3)]).astype(np.int32)

    def printed(values=values, columns=columns, first=first, y=y, weight=weight):
        X = values.reshape(n, 2)
        if form == "csr":
            X = sp.csr_array((values, columns, first), shape=(n, 2 * n))
        return problems.linear(X, y, sample_weight=weight).identity()["data"]

    whole = printed()
    for apart in (2, 4096):
        assert printed(values=swapped(values, apart)) != whole
        assert printed(y=swapped(y, apart)) != whole
        assert printed(weight=swapped(weight, apart)) != whole
        if form == "csr":
            assert printed(columns=swapped(columns, apart)) != whole
            moved = first.copy()
            moved[[100_001, 100_001 + apart]] += 1, -1  # a value more in one row, and one less
            assert printed(first=moved) != whole
    assert printed(*(a.copy() for a in (values, columns, first, y, weight))) == whole
    # by numbers, however they are stored
    wide = printed(columns=columns.astype(np.int64), first=first.astype(np.int64))
    assert wide == whole == printed(weight=weight.astype(np.float32))


def test_the_fingerprint_is_that_of_the_numbers(monkeypatch):
    """On every machine, in every layout, and in however many parts it is found."""
    X = np.arange(60.0).reshape(20, 3) % 7
    y = np.arange(20) % 2

    def printed(X):
        return problems.linear(X, y).identity()["data"]

    assert printed(X) == "by place:655a2309f80fc8b0"
    assert printed(X) == printed(np.asfortranarray(X)) == printed(X[::-1][::-1])
    assert printed(X) == printed(X.astype(">f8"))
    csr = sp.csr_array(X)
    assert printed(csr) == printed(csr.tocsc()) == printed(csr.tocoo()) != printed(X)
    assert len({printed(X), printed(X.astype(np.float32)), printed(csr)}) == 3
    whole = printed(X), printed(csr)
    monkeypatch.setattr(fingerprints, "AT_ONCE", 7)
    assert (printed(X), printed(csr)) == whole


def test_a_checkpoint_with_an_earlier_versions_digits(path):
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, checkpoint=path, seed=3, stop=Stop(epochs=2))
    facts = checkpoints.load(path).facts
    facts["problem"]["data"] = "0123456789abcdef"
    rewritten(path, {"facts": facts})
    with pytest.raises(ValueError, match=r"run.npz: .* of an earlier hogshare.*start=Checkpoint"):
        solve(problem, resume=path)
    report = solve(problem, start=Checkpoint(path).model(), checkpoint=path, stop=Stop(epochs=2))
    assert report.n_epochs == 2  # and it is written over
    solve(problem, resume=path, stop=Stop(epochs=3))


def header_of(saved):
    """The header of a file that holds this."""
    same = ("epochs", "facts", "first_t", "form", "ready", "fields")
    known = {"format": checkpoints.FORMAT, "format_version": checkpoints.FORMAT_VERSION}
    return known | {name: getattr(saved, name) for name in same} | {"looks": saved.checks}


def rewritten(path, header=None, **arrays):
    """The file with some parts changed; None takes an array away."""
    with np.load(path) as archive:
        parts = dict(archive)
    head = json.loads(parts.pop("header").tobytes()) | (header or {})
    parts = {**parts, **arrays}
    archives.write(path, head, {name: a for name, a in parts.items() if a is not None})


def test_files_that_are_no_checkpoint(path, tmp_path):
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, checkpoint=path, seed=3)
    content = path.read_bytes()
    other = tmp_path / "other.npz"
    for case in [b"", b"hello", content[:50], content[:-30], b"PK\x03\x04" + bytes(100)]:
        other.write_bytes(case)
        with pytest.raises(ValueError, match=r"other.npz: not a hogshare checkpoint"):
            solve(problem, resume=other)
        with pytest.raises(ValueError, match=r"It would be overwritten by a checkpoint"):
            solve(problem, checkpoint=other)
        assert other.read_bytes() == case
    np.savez(other, X=np.eye(2))
    with pytest.raises(ValueError, match="not a hogshare checkpoint"):
        solve(problem, resume=other)
    np.savez(other, header=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="never loaded"):
        solve(problem, resume=other)
    with pytest.raises(FileNotFoundError):
        solve(problem, resume=tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError, match="there is no such folder; make it first"):
        solve(problem, checkpoint=tmp_path / "nowhere" / "run.npz")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        solve(problem, checkpoint=tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a checkpoint is read again, and this is not a file"):
        solve(problem, checkpoint=tmp_path / "pipe")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format_version": 99}, "update hogshare"),
        ({"format": "hogshare model"}, "header says"),
        ({"facts": {}}, "not a hogshare checkpoint"),
        ({"facts": []}, "not a hogshare checkpoint"),
        ({"facts": {"problem": {"training rows": 120}, "seed": "x"}}, "not a hogshare checkpoint"),
        ({"looks": {"seen": [{"epoch": 11}], "next": 3}}, "out of range"),
        ({"looks": {"seen": [{"epoch": 3, "gap": "x"}], "next": 3}}, "not a hogshare checkpoint"),
        ({"looks": {"seen": [3], "next": 3}}, "not a hogshare checkpoint"),
        ({"looks": {"seen": [], "next": -1}}, "out of range"),
        ({"looks": {"seen": [], "next": 1 << 64}}, "out of range"),
        ({"facts": {"problem": {"training rows": 120}, "seed": 10**400}}, "out of range"),
        ({"facts": {"problem": {"training rows": 120}, "seed": -1}}, "out of range"),
        ({"epochs": float("inf")}, "not a hogshare checkpoint"),
        ({"epochs": 1 << 60}, "out of range"),
        ({"epochs": -1}, "out of range"),
        ({"epochs": 9}, "damaged"),
        ({"ready": 99}, "orders are ready"),
        ({"form": "other"}, "unknown form"),
        ({"fields": {"columns": ["C_NEW"], "local": []}}, "stores other numbers"),
    ],
)
def test_headers_that_do_not_fit(path, change, words):
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, checkpoint=path, seed=3)
    rewritten(path, change)
    with pytest.raises(ValueError, match=words) as caught:
        solve(problem, resume=path)
    assert "run.npz" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda looks: looks[-1].pop("relative_gap"),
        lambda looks: looks[-1].pop("objective"),
        lambda looks: looks[-1].update(gradient=1.0),
        lambda looks: looks[-1].update(relative_gap=10**400),
        lambda looks: looks[-1].update(relative_gap=None),
        lambda looks: looks.append(looks[-1]),
        lambda looks: looks.reverse(),
    ],
)
def test_looks_that_no_run_has(path, change):
    problem, stop = problems.linear(*rows(), alpha=0.01), Stop(epochs=6, relative_gap=1e-9)
    solve(problem, checkpoint=path, seed=3, stop=stop)
    looks = checkpoints.load(path).checks
    assert len(looks["seen"]) > 1
    change(looks["seen"])
    rewritten(path, {"looks": looks})
    with pytest.raises(ValueError, match=r"run.npz: not a hogshare checkpoint"):
        solve(problem, resume=path, stop=dataclasses.replace(stop, epochs=9))


@pytest.mark.parametrize("place", ["C_ENOUGH", "C_SMALL", "C_SOONEST"])
@pytest.mark.parametrize("value", [1.0, -1.0, np.nan])
def test_a_look_that_nobody_takes_is_not_waited_for(path, place, value):
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, checkpoint=path, seed=3, stop=Stop(epochs=3))
    columns = checkpoints.load(path).arrays["state_columns"]
    columns[getattr(layout, place)] = value
    rewritten(path, state_columns=columns)
    with pytest.raises(ValueError, match=r"run.npz: .* columns asks for a check"):
        # a run that looked would rest for ever, so this only begins one
        solve(problem, resume=path, stop=Stop(epochs=3))


def test_a_look_that_an_epochs_end_does_not_ask_for(path):
    problem, stop = problems.linear(*rows(), alpha=0.01), Stop(epochs=6, gradient=1e-9)
    solve(problem, checkpoint=path, seed=3, stop=stop)
    whole = path.read_bytes()
    columns = checkpoints.load(path).arrays["state_columns"]
    for place, value in [("ENOUGH", -1.5), ("ENOUGH", -9.0), ("ENOUGH", -np.inf), ("SMALL", -1.0)]:
        path.write_bytes(whole)
        changed = columns.copy()
        changed[getattr(layout, f"C_{place}")] = value
        rewritten(path, state_columns=changed)
        with pytest.raises(ValueError, match="asks for a check"):
            solve(problem, resume=path, stop=dataclasses.replace(stop, epochs=9))


EXTREME = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1.0, 1.5, 1e300, -1e300, 5e-324, 2.0**53)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["adaptive", "elasticnet-average", "lock-free", "looks", "sdca"])
@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.filterwarnings("ignore")
def test_no_number_of_a_state_keeps_a_run_from_its_end(path, monkeypatch, rounds, name, n_workers):
    """Rows of both tables and arrays, all of it something extreme: an error, or a fit."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    problem, run, stop = case(name)
    solve(problem, stop=stop(3), seed=3, checkpoint=path, **run)
    saved, ended = checkpoints.load(path), 0
    states = []
    for key, array in saved.arrays.items():
        if array.dtype.kind != "f":
            continue
        is_table = key in ("state_columns", "state_local")
        for place in range(len(array)) if is_table else [slice(None)]:
            states += [(key, place, value) for value in EXTREME]
    if n_workers > 1:
        run = {**run, "runtime": "threads", "n_workers": n_workers}
    told = [state for state in states if state[0] == "state_columns"]  # by which runs end
    others = random.Random(0).sample(states, min(len(states), rounds(400)))
    for key, place, value in told + others:
        array = saved.arrays[key].copy()
        array[place] = value
        archives.write(path, header_of(saved), {**saved.arrays, key: array})
        try:
            report = solve(problem, stop=stop(6), resume=path, **run)
        except ValueError:
            continue
        assert np.isfinite(report.model.coef).all(), (key, place, value)
        ended += 1
    assert ended > 20


@pytest.mark.parametrize("depth", [100, 50_000])
def test_a_header_that_is_nested_deeply(path, depth):
    nested = np.frombuffer(b'{"format":' * depth + b"1" + b"}" * depth, np.uint8)
    np.savez(path, header=nested)
    with pytest.raises(ValueError, match=r"run.npz: not a hogshare checkpoint .*nested too deeply"):
        checkpoints.load(path)


@pytest.mark.parametrize("name", ["w", "local", "columns", "order", "permutation", "history"])
def test_arrays_that_do_not_fit(path, name):
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, checkpoint=path, seed=3)
    whole = path.read_bytes()
    array = checkpoints.load(path).arrays[f"state_{name}"]
    wrong = [None, array[:-1], array.astype(np.float32), array.astype(str)]
    if name in checkpoint_session.ORDERS:
        wrong += [None, np.where(array == 5, 120, array), np.where(array == 5, -1, array)]
    for change in wrong:
        path.write_bytes(whole)
        rewritten(path, **{f"state_{name}": change})
        if name == "order" and change is None:
            rewritten(path, state_permutation=array[0][:7])
        with pytest.raises(ValueError, match=rf"not hogshare's own: ({name}|permutation) "):
            solve(problem, resume=path, stop=Stop(epochs=11))


def of_words(array):
    return array.astype(str)


def of_a_network():
    X, y = rows(n=60)
    return problems.network(X, y > 0, (4,)), {"rule": Adam(batch=10), "step": 0.01}


def of_mirrors():
    return problems.linear(*rows(n=60)), {"plane": Mirrors(2), "n_workers": 2, "runtime": "threads"}


CRAFTED = {
    ("coef", of_a_network): [lambda a: a[:0], lambda a: a[0], lambda a: a[:, :3], of_words],
    ("intercept", of_a_network): [lambda a: a[:0], of_words, lambda a: None],
    ("state_w", of_a_network): [lambda a: a[:0], lambda a: a * np.nan, lambda a: a.astype("g")],
    ("state_rule_mean", of_a_network): [of_words, lambda a: a * np.inf, lambda a: a[:0]],
    ("state_rule_steps", of_a_network): [lambda a: a - 99, lambda a: a * 1.0],
    ("state_homes", of_mirrors): [of_words, lambda a: a * np.nan, lambda a: a.astype(complex)],
    ("state_plane_mirror", of_mirrors): [of_words, lambda a: a.astype(complex)],
    ("coef", of_mirrors): [of_words, lambda a: a[:0]],
}


@pytest.mark.parametrize(("name", "made"), CRAFTED, ids=lambda one: getattr(one, "__name__", one))
def test_crafted_arrays_are_refused_by_a_sentence(path, name, made):
    problem, run = made()
    solve(problem, stop=2, seed=0, checkpoint=path, **run)
    whole = path.read_bytes()
    array = checkpoints.load(path).arrays[name]
    for change in CRAFTED[name, made]:
        path.write_bytes(whole)
        rewritten(path, **{name: change(array)})
        with pytest.raises(ValueError, match=r"run\.npz.*(not a hogshare|not hogshare's own)"):
            solve(problem, stop=3, resume=path, **run)


def test_damaged_bytes_never_crash(path):
    problem = problems.linear(*rows(n=40), alpha=0.01)
    plain = solve(problem, stop=Stop(epochs=6), seed=3)
    solve(problem, stop=Stop(epochs=3), seed=3, checkpoint=path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    whole = 0
    for _ in range(200):
        broken = bytearray(content)
        for place in rng.integers(0, len(content), 2):
            broken[place] = rng.integers(256)
        path.write_bytes(broken)
        try:
            report = solve(problem, stop=Stop(epochs=6), resume=path)
        except ValueError as error:
            assert "run.npz" in str(error)
        else:  # only what nobody reads was hit, such as a date
            assert_same_report(report, plain)
            whole += 1
    assert whole < 100


def test_a_full_disk_is_a_warning_and_the_fit_goes_on(path, monkeypatch):
    problem = problems.linear(*rows(), alpha=0.01)
    plain = solve(problem, seed=3)
    real = os.fsync
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if 4 < len(calls) <= 8:  # two calls a checkpoint: of the file, and of the folder
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    def keep(epoch, snapshot):
        if path.exists():
            seen.append(checkpoints.load(path).epochs)
        return False

    seen = []
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CheckpointFailed, match="No space left on device.* goes on") as caught:
        report = solve(problem, seed=3, checkpoint=path, on_epoch=keep)
    assert len(caught) == 1  # not one for each of the four
    assert_same_report(report, plain)
    assert str(caught[0].message) in report.notes
    assert seen == [1, 2, 2, 2, 2, 2, 7, 8, 9]  # whole at every moment
    assert checkpoints.load(path).epochs == 10
    assert os.listdir(path.parent) == ["run.npz"]


def test_a_limit_of_the_system(path):
    """A real refusal: a process that may write no file beyond a thousand bytes."""
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, stop=Stop(epochs=2), seed=3, checkpoint=path)
    before = path.read_bytes()
    script = f"""
import resource, signal, sys, warnings
sys.path.insert(0, {str(ROOT / "tests")!r})
from test_checkpoints import rows
from hogshare import Stop, problems, solve
problem = problems.linear(*rows(), alpha=0.01)
solve(problem, stop=Stop(epochs=1))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    report = solve(problem, stop=Stop(epochs=5), resume={str(path)!r}, checkpoint={str(path)!r})
print(report.n_epochs, caught[0].message)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout.startswith(f"5 {path}: the checkpoint could not be written (File too large)")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["run.npz"]


@pytest.mark.parametrize(("runtime", "n_workers"), WORKERS.values())
def test_a_run_that_diverges_leaves_the_last_good_state(path, runtime, n_workers):
    X, y = rows(dtype="float32", form="csr")
    problem = problems.linear(X, y.astype(float), loss="squared_error", penalty=None)
    run = {"runtime": runtime, "n_workers": n_workers, "seed": 3}
    step = StepSize("constant", eta0=0.01)
    solve(problem, step=step, checkpoint=path, **run)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="under-/overflow"):
        solve(problem, step=StepSize("constant", eta0=1e30), checkpoint=path, **run)
    assert path.read_bytes() == before


def test_a_model_that_is_not_finite_is_not_saved(path):
    """Several workers may rest before one of them has noticed that the numbers have ended."""
    problem = problems.linear(*rows(), alpha=0.01)
    solve(problem, seed=3, checkpoint=path)
    saved = checkpoints.load(path)
    writer = checkpoint_session.CheckpointWriter(a_session(), Checkpoint(path), {}, None, 0, False)
    os.unlink(path)
    saved.arrays["intercept"][0] = np.nan
    writer._write(saved)
    assert not path.exists()
    saved.arrays["intercept"][0] = 0.0
    writer._write(saved)
    assert path.exists()


def a_session():
    """What a writer asks of a session when it is made."""
    return type("Session", (), {"word": lambda self, place: 0})()


def test_what_makes_no_sense():
    with pytest.raises(ValueError, match="epochs must be a whole number, at least 1"):
        Checkpoint("x", epochs=0)
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="seconds must be"):
            Checkpoint("x", seconds=seconds)


def test_every_number_of_a_worker_has_a_name():
    names = checkpoint_session.fields()
    assert len(set(names["local"])) == layout.N_LOCAL_FIELDS
    assert len(set(names["columns"])) == layout.N_COLUMN_FIELDS
    assert names["local"][layout.L_SCALE] == "L_SCALE"


# -- kills


def environment():
    path = os.pathsep.join(p for p in [str(ROOT), *sys.path] if p)
    return {**os.environ, "PYTHONPATH": path}


def started(tmp_path, text):
    """A process that has said its first line."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    process = subprocess.Popen(
        [sys.executable, str(script)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    return process


WRITER = """
    import itertools, sys
    import numpy as np
    from hogshare.io import archives

    for k in itertools.count({first}):
        parts = {{f"part{{i}}": np.full(50_000, k) for i in range(10)}}
        archives.write({path!r}, {{"format": "test", "format_version": 1, "k": k}}, parts)
        print(k, flush=True)
"""


@pytest.mark.timeout(900)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_file_that_is_being_written_is_the_old_or_the_new_one(tmp_path, path, rounds):
    rng = random.Random(0)
    halves = []
    first = 0
    for _ in range(rounds(200)):
        process = started(tmp_path, WRITER.format(path=str(path), first=first))
        time.sleep(rng.uniform(0.0, 0.05))
        process.kill()
        said = process.stdout.read().split()
        process.stdout.close()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        parts = [f"part{i}" for i in range(10)]
        header, arrays = archives.read(path, "a test", "test", [1], lambda _, parts=parts: parts)
        last = int(said[-1]) if said else first
        # what was said to be written is there, or the next one, which was not said any more
        assert header["k"] in (last, last + 1)
        assert len(arrays) == 10
        for array in arrays.values():
            assert (array == header["k"]).all() and len(array) == 50_000
        halves.append(len(os.listdir(tmp_path)) - 2)
        first = header["k"] + 1
    assert max(halves) > 0, "no kill hit a write: this test has seen nothing"
    files.sweep(path)
    assert sorted(os.listdir(tmp_path)) == ["run.npz", "script.py"]


FIT = """
    import sys
    sys.path.insert(0, {tests!r})
    from test_checkpoints import rows
    from hogshare import SAGA, Stop, problems, solve

    X, y = rows(n=3000, m=40, form="csr", seed=5)
    problem = problems.linear(X, y, alpha=0.01)
    run = dict(rule=SAGA(), runtime={runtime!r}, n_workers={n_workers}, seed=1)
    solve(problem, stop=Stop(epochs=1), **run)
    print("ready", flush=True)
    solve(problem, stop=Stop(epochs=10_000_000), checkpoint={path!r}, resume={resume!r}, **run)
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("runtime", "n_workers"), [("caller", 1), ("processes", 2)])
def test_a_fit_that_is_killed_goes_on(large, tmp_path, path, rounds, runtime, n_workers):
    rng = random.Random(1)
    run = {"rule": SAGA(), "runtime": runtime, "n_workers": n_workers}
    plain = solve(large, rule=SAGA(), stop=Stop(epochs=30), seed=1)
    reached, again = [0], None
    for _ in range(rounds(20)):
        text = FIT.format(
            tests=str(ROOT / "tests"),
            runtime=runtime,
            n_workers=n_workers,
            path=str(path),
            resume=again,
        )
        process = started(tmp_path, text)
        deadline = time.monotonic() + PATIENCE
        while not path.exists() or checkpoints.load(path).epochs == reached[-1]:
            assert time.monotonic() < deadline, "no checkpoint comes"
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.2))
        process.kill()
        process.stdout.close()
        process.wait(PATIENCE)
        reached.append(checkpoints.load(path).epochs)
        again = str(path)
    assert reached == sorted(set(reached))
    report = solve(large, stop=Stop(epochs=max(30, reached[-1] + 2)), resume=path, **run)
    assert report.n_epochs == max(30, reached[-1] + 2)
    assert value(large, report) <= value(large, plain) + 1e-7
    if n_workers == 1:
        whole = solve(large, stop=Stop(epochs=report.n_epochs), seed=1, **run)
        assert_same_model(report.model, whole.model)


class Kill:
    """An `on_epoch` that kills the crew, one process an epoch, from some epoch on.

    All of it, because a spare process of the crew may be none of this run's workers.
    """

    def __init__(self, rng, at):
        self.rng, self.at = rng, at

    def __call__(self, epoch, snapshot):
        if epoch >= self.at and (victims := members()):
            with contextlib.suppress(psutil.NoSuchProcess):  # the last kill's victim, just reaped
                self.rng.choice(victims).kill()
        return False


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", [SGD(), SDCA(), SAGA()], ids=lambda rule: type(rule).__name__)
def test_a_worker_that_is_killed_leaves_a_checkpoint_to_go_on_from(large, path, rounds, rule):
    """Whenever it dies, the files before, at and after its death are resumable, and good."""
    rng = random.Random(2)
    step = {"step": StepSize("invscaling", eta0=0.1)} if isinstance(rule, SGD) else {}
    run = {"rule": rule, "runtime": "processes", "n_workers": 3, **step}
    best = value(large, solve(large, seed=1, stop=Stop(epochs=40), **run))
    deaths = 0
    for k in range(rounds(50)):
        deadline = time.monotonic() + PATIENCE
        while not members():  # the first ones take seconds to come up
            assert time.monotonic() < deadline
            solve(large, stop=Stop(epochs=2), **run)
        kill = Kill(rng, at=rng.randrange(2, 20))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = solve(
                large, seed=k, stop=Stop(epochs=30), checkpoint=path, on_epoch=kill, **run
            )
        deaths += sum(w["state"] == "dead" for w in report.workers)
        saved = checkpoints.load(path)
        assert saved.epochs == 30
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            further = solve(large, stop=Stop(epochs=40), resume=path, **run)
        assert value(large, further) <= best * 1.01 + 1e-7
        memory = further.model.memory
        if memory is not None:
            assert np.isfinite(memory).all()
        os.unlink(path)
    assert deaths > 0, "no kill hit a fit: this test has seen nothing"


def test_ctrl_c_in_the_middle_of_a_write(tmp_path, path):
    """The interruption comes through, and the file is whole."""
    text = FIT.format(
        tests=str(ROOT / "tests"), runtime="threads", n_workers=2, path=str(path), resume=None
    )
    process = started(tmp_path, text)
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) != 0
    assert time.monotonic() - began < 5.0, "it takes 0.3 s where the machine is quiet"
    process.stdout.close()
    assert checkpoints.load(path).epochs >= 1
    assert sorted(os.listdir(tmp_path)) == ["run.npz", "script.py"]


def test_a_keeper_rests_by_the_seconds(seams, path):
    """From a pace of sixteen epochs a second, a checkpoint a second is one every 16 epochs."""
    clock = [0.0]
    seams.clock.of_checkpoints = lambda: clock[0]
    writer = checkpoint_session.CheckpointWriter(
        a_session(), Checkpoint(path, seconds=1.0), {}, None, 0, False
    )
    epochs = []
    for _ in range(4):
        epochs.append(writer.limit)
        clock[0] = epochs[-1] / 16
        writer._pace(epochs[-1])
        writer._next = writer._after(epochs[-1])
    assert epochs == [1, 8, 16, 32]


@pytest.mark.parametrize("runtime", ["caller", "threads", "processes", "simulator"])
def test_the_checkpoint_of_an_end_has_the_sums_of_an_average(path, runtime):
    """The run's own model is made in the same arrays, when the checkpoint has been written."""
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60.0)
    problem = problems.linear(X, y, loss="squared_error", alpha=1e-4)
    run = {"rule": SGD(average=1), "step": StepSize("constant", 1e-3), "seed": 3}
    whole = solve(problem, runtime=runtime, stop=6, **run).model
    solve(problem, runtime=runtime, stop=3, checkpoint=path, **run)
    rest = solve(problem, runtime=runtime, stop=6, resume=path, **run).model
    np.testing.assert_allclose(rest.average_coef, whole.average_coef, rtol=1e-12)
