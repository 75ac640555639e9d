"""Turns whose steps are taken outside: what they claim, push and count, plain and compiled."""

import numpy as np
import pytest

from hogshare import ASP, BSP, SGD, SSP, Master, Shared, Simulator, Stop, problems, solve
from hogshare.kernels import layout
from hogshare.kernels.schedule import outside_steps

N, D = 60, 4
TARGETS = np.random.default_rng(0).standard_normal((N, D))
PLANES = [Shared(), Shared(exchange=None), Shared(exchange=None, adds="atomic"), Master(2)]


def gradient(w, rows, out):
    """Half the squared distances from some points."""
    away = w - TARGETS[rows]
    out += away.sum(axis=0)
    return 0.5 * np.square(away).sum()


def spied(orders):
    def spying(w, rows, out):
        orders.append(rows.copy())
        return gradient(w, rows, out)

    return problems.user(spying, N, D)


@pytest.mark.parametrize("places", [[], [2], [0, 3], [3, 1, 2]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subtract(places, dtype):
    w, places = np.arange(5.0).astype(dtype), np.array(places, np.int64)
    step = np.arange(1.0, 1.0 + (len(places) or 5)).astype(dtype)
    expected = w.copy()
    if len(places):
        expected[places] -= step
    else:
        expected -= step
    outside_steps.subtract(w, places, step)
    np.testing.assert_array_equal(w, expected)


@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("runtime", ["caller", "simulator"])
def test_one_worker_takes_every_block_once_in_each_epoch(plane, runtime):
    orders = []
    run = {"rule": SGD(batch=7), "step": 0.01, "stop": 3, "seed": 2, "runtime": runtime}
    report = solve(spied(orders), plane=plane, **run)
    w = np.zeros(D)
    blocks_of_a_run = orders[-3 * 9 :]
    for epoch in range(3):
        seen = np.concatenate(blocks_of_a_run[9 * epoch : 9 * epoch + 9])
        np.testing.assert_array_equal(np.sort(seen), np.arange(N))
    if plane != Master(2):
        for rows in blocks_of_a_run:
            out = np.zeros(D)
            gradient(w, rows, out)
            w -= 0.01 * out
        np.testing.assert_array_equal(report.model.params, w)
    assert report.workers[0]["blocks"] == 27 and report.workers[0]["rows"] == 3 * N


@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("barrier", [ASP(), BSP(), SSP(1)], ids=repr)
def test_several_workers_on_a_virtual_clock(plane, barrier):
    run = {"rule": SGD(batch=5), "step": 0.01, "stop": 6, "plane": plane, "barrier": barrier}
    report = solve(spied([]), runtime=Simulator(seed=3), n_workers=3, seed=0, **run)
    assert sum(worker["rows"] for worker in report.workers) == 6 * N
    n_blocks = -(-N // report.block_rows)
    assert sum(worker["blocks"] for worker in report.workers) == 6 * n_blocks
    np.testing.assert_allclose(report.model.params, TARGETS.mean(axis=0), atol=0.3)
    lead = {ASP(): 99, BSP(): 0, SSP(1): 1}[barrier]
    assert all((worker["largest_lead"] or 0) <= lead for worker in report.workers)


def test_stragglers_sleep_before_their_steps():
    run = {"rule": SGD(batch=5), "step": 0.01, "stop": 2, "stragglers": "cds:0.1"}
    for plane in PLANES:
        report = solve(spied([]), plane=plane, runtime="threads", n_workers=2, **run)
        assert sum(worker["blocks"] for worker in report.workers) == 24


def test_a_run_rests_for_its_looks_and_goes_on():
    run = {"rule": SGD(batch=5), "step": 0.005, "stop": Stop(epochs=300, gradient=0.05)}
    for plane in PLANES:
        report = solve(spied([]), plane=plane, runtime=Simulator(), n_workers=2, seed=0, **run)
        assert report.converged and len(report.checks) > 1


def test_the_word_of_a_step_is_no_other():
    words = [value for name, value in vars(layout).items() if name.startswith("T_")]
    assert words.count(layout.T_STEP) == 1 and max(words) < layout.N_TABLE
