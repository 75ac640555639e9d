"""Workers that wait for nobody go on into their next epoch: one that is slow slows no other."""

import math
import os
import signal

import numpy as np
import pytest

from hogshare import Mirrors, Replicas, Shared, Simulator, Stop, problems, solve
from hogshare.engine import arrays
from hogshare.kernels.schedule import shares
from hogshare.planes.mirrors.centre import Centre
from hogshare.planes.replicas.reducer import Reducer
from hogshare.runtimes.processes import WorkerDied
from hogshare.simulation import Churn, Constant
from hogshare.stragglers import ControlledDelay

N, D, WORKERS, EVERY, EPOCHS = 400, 5, 4, 20, 6
IN_EPOCH = N // WORKERS // EVERY  # blocks of a worker
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
SIGNS = np.where(X @ np.arange(D) > 0.0, 1, -1)
LINEAR = problems.linear(X, SIGNS, alpha=0.01)
SLOWNESS = [1.0, 1.0, 1.0, 10.0]
VISITED: list[tuple[int, ...]] = []


def gradient(w, rows, out):
    VISITED.append(tuple(rows.tolist()))
    away = X[rows] @ w - SIGNS[rows]
    out[:] = X[rows].T @ away
    return 0.5 * float(away @ away)


USER = problems.user(gradient, N, D)
FREE = {
    "async": Replicas("ring", every=EVERY, sync="async"),
    "mirrors": Mirrors(WORKERS, every=EVERY, clock_difference=math.inf),
    "direct": Mirrors([0, 1, 2, 3], Shared(exchange=None), every=EVERY, clock_difference=math.inf),
}


def simulator(**more):
    return Simulator(block_time=Constant(1.0), slowness=SLOWNESS, **more)


def run_of(plane, problem=LINEAR, **more):
    step = None if problem is LINEAR else 1e-3
    run = {"n_workers": WORKERS, "runtime": simulator(), "stop": EPOCHS, "seed": 0, "step": step}
    return solve(problem, plane=plane, **{**run, **more})


@pytest.fixture
def ends(monkeypatch):
    """When each worker's blocks have ended, on the run's clock."""
    seen = {me: [] for me in range(WORKERS)}
    due, after = Reducer.is_due, Centre.after_block

    def is_due(self):
        seen[self.home.me].append(self.home.now())
        return due(self)

    def after_block(self):
        seen[self.home.me].append(self.home.now())
        return after(self)

    monkeypatch.setattr(Reducer, "is_due", is_due)
    monkeypatch.setattr(Centre, "after_block", after_block)
    return seen


@pytest.mark.parametrize("problem", [LINEAR, USER], ids=["linear", "gradient"])
@pytest.mark.parametrize("plane", FREE)
def test_a_slow_worker_slows_no_other(ends, plane, problem):
    report = run_of(FREE[plane], problem)
    assert report.n_epochs == EPOCHS
    assert [worker["blocks"] for worker in report.workers] == [EPOCHS * IN_EPOCH] * WORKERS
    for me, slowness in enumerate(SLOWNESS):
        expected = slowness * np.arange(1, EPOCHS * IN_EPOCH + 1)
        # a centre that begins may wait for a message once, and a slow one for room
        np.testing.assert_allclose(ends[me], expected, atol=2.0 if plane != "async" else 1e-9)


def test_with_acknowledgements_all_wait_for_the_slow_one(ends):
    run_of(Replicas("ring", every=EVERY))
    assert min(times[-1] for times in ends.values()) > 0.8 * max(SLOWNESS) * EPOCHS * IN_EPOCH


def test_a_clock_difference_holds_across_epochs(ends):
    run_of(Mirrors(WORKERS, every=EVERY, clock_difference=14, queue=20))
    slow = np.asarray(ends[3])
    leads = [k + 1 - np.searchsorted(slow, at + 1e-9) for k, at in enumerate(ends[0])]
    assert 2 * IN_EPOCH < max(leads) <= 15  # never more than the clock that it waits at


@pytest.mark.parametrize("plane", FREE)
def test_every_worker_visits_the_rows_of_its_share_in_the_seeds_order(plane):
    def visited(plane):
        VISITED.clear()
        run_of(plane, USER)
        return sorted(rows for rows in VISITED if len(rows) == EVERY)  # others: to try it

    waiting = visited(Replicas("ring", every=EVERY))
    assert visited(FREE[plane]) == waiting and len(waiting) == EPOCHS * N // EVERY


@pytest.mark.parametrize("shuffled", [0, 1])
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_a_share_is_dealt_alone_as_with_the_others(shuffled, window, masked):
    n, count = 37, 5
    held_out = np.zeros(n if masked else 0, np.uint8)
    held_out[::4] = 1
    left = n - int(held_out.sum())
    whole, alone = np.zeros(left, np.int64), np.full(left, -1, np.int64)
    for epoch in range(3):
        args = 2, shuffled, window, 7, epoch
        shares.deal(np.zeros(2 * n, np.int64), held_out, whole, count, *args)
        for share in (3, 0, 4, 1, 2):
            scratch = np.zeros(2 * n, np.int64)
            shares.deal_one(scratch, held_out, alone, count, share, *args)
        np.testing.assert_array_equal(alone, whole)


@pytest.mark.parametrize("plane", FREE)
def test_who_is_gone_is_done_for_before_ones_own_further_epochs(plane):
    """Else its rows would be trained on when all others have done theirs."""
    ended = []
    dying = Simulator(block_time=Constant(1.0), churn=Churn(deaths={3: 2.5}))
    report = run_of(
        FREE[plane], runtime=dying, on_epoch=lambda e, *_: ended.append(e) or False, stop=EPOCHS
    )
    assert report.n_epochs == EPOCHS and len(ended) == EPOCHS
    assert sum(worker["rows"] for worker in report.workers) == EPOCHS * N


@pytest.mark.parametrize("plane", FREE)
@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_epochs_and_stops_take_what_is_there(plane, runtime):
    seen = []
    report = run_of(
        FREE[plane],
        runtime=runtime,
        stop=Stop(epochs=200, tol=1e-2, patience=2),
        on_epoch=lambda *_: seen.append(0) and False,
        trace=1,
    )
    assert report.converged and len(seen) == report.n_epochs < 200
    assert np.isfinite(report.model.coef).all()
    assert plane != "async" or report.trace.objective[-1] < 0.5  # sums of centres overshoot


@pytest.mark.parametrize("plane", FREE)
def test_a_stop_that_evaluates_the_model_does_not_wait_for_the_slow_one(ends, plane):
    run_of(FREE[plane], stop=Stop(epochs=EPOCHS, gradient=1e-9))
    first = [sum(at <= SLOWNESS[3] * IN_EPOCH for at in ends[me]) for me in range(3)]
    assert min(first) >= EPOCHS * IN_EPOCH - 1  # done before the slow one has ended its first


@pytest.mark.parametrize("plane", FREE)
def test_a_checkpoint_has_what_is_there(tmp_path, plane):
    file = tmp_path / "run.npz"
    run_of(FREE[plane], stop=3, checkpoint=file)
    report = run_of(FREE[plane], resume=file)
    assert report.n_epochs == EPOCHS
    assert [worker["blocks"] for worker in report.workers] == [3 * IN_EPOCH] * WORKERS
    whole = run_of(FREE[plane])
    found = [LINEAR.objective(one.model.coef, one.model.intercept) for one in (report, whole)]
    assert found[0] < 1.2 * found[1]


@pytest.mark.parametrize("plane", FREE)
def test_sums_have_so_much_memory_and_no_more(monkeypatch, ends, plane):
    monkeypatch.setattr(arrays, "OPEN_NUMBERS", 120)
    report = run_of(FREE[plane])
    assert report.n_epochs == EPOCHS
    slow = np.asarray(ends[3])
    leads = [k + 1 - np.searchsorted(slow, at + 1e-9) for k, at in enumerate(ends[0])]
    assert 2 * IN_EPOCH < max(leads) <= 3 * IN_EPOCH


@pytest.mark.parametrize("at", [4, 12])
@pytest.mark.parametrize("plane", FREE)
def test_a_worker_that_is_killed_is_survived(tmp_path, plane, at):
    mark, caller, blocks = str(tmp_path / "killed"), os.getpid(), []

    def deadly(w, rows, out):
        blocks.append(0)
        if os.getpid() != caller and len(blocks) == at:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return gradient(w, rows, out)

    problem = problems.user(deadly, N, D)
    slow = ControlledDelay(base=2e-3, delay=0.0)
    with pytest.warns(WorkerDied, match="goes on without it"):
        report = run_of(FREE[plane], problem, runtime="processes", stragglers=slow)
    assert report.n_epochs == EPOCHS
    assert [worker["state"] for worker in report.workers].count("dead") == 1
    assert sum(worker["rows"] for worker in report.workers) >= EPOCHS * N - EVERY
