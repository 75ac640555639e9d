import json
import math
import pickle

import cases
import numpy as np
import pytest
import scipy.sparse as sp

from hogshare import (
    ASP,
    BSP,
    PBSP,
    PSSP,
    SAGA,
    SSP,
    Fraction,
    Master,
    Shared,
    Simulator,
    Stop,
    Throttled,
    datasets,
    problems,
    solve,
)
from hogshare.barriers import name_of, named
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.kernels.schedule.shared_quanta import (
    DESCENT_FIRST,
    DESCENT_GROWTH,
    FIRST_INTERVAL,
    GROWTH,
)
from hogshare.lab.prediction import costs as costing
from hogshare.lab.prediction import predictor
from hogshare.lab.prediction.costs import ReportFacts, costs_of, pushes_of, separate_costs
from hogshare.problems.linear.row_arrays import block_rows
from hogshare.report import Report, Trace
from hogshare.shm.speeds import RING_SIZE, SHORTEST_NS, QuantumTimes, recorded
from hogshare.simulation import Measured

N_ROWS = 16_000
ORDER = costing.ORDER_NS * N_ROWS  # nanoseconds


def a_report(
    turns,
    n_workers=1,
    plane=None,
    barrier="ASP()",
    epochs=10,
    block=None,
    mail=None,
    interval=0,
    outside=0.0,
    **changes,
):
    """A report of a run whose workers did alike; `turns` are one worker's (rows, pushes, ns)."""
    block = block or block_rows(N_ROWS, n_workers, 0)
    rows = np.array(turns, float)
    ring = np.column_stack([np.ceil(rows[:, 0] / block), rows]).astype(np.int64)
    own = epochs * N_ROWS / n_workers
    scale = own / rows[:, 0].sum()
    blocks = epochs * -(-N_ROWS // block) // n_workers
    busy = rows[:, 2].sum() * scale * 1e-9 + ORDER * 1e-9 * epochs / n_workers
    worker = {
        "rows": own,
        "blocks": blocks,
        "pushes": rows[:, 1].sum() * scale,
        "mean_block_seconds": busy / blocks,
        "waiting_seconds": 0.0,
    }
    settings = {
        "problem": {
            "penalty": "l2",
            "l1_ratio": 0.0,
            "rows": N_ROWS,
            "features": 500,
            "columns": 1,
            "nonzeros": 10 * N_ROWS,
            "dtype": "float32",
            "format": "csr",
        },
        "rule": {"name": "SGD"},
        "plane": plane or {"name": "Shared", "exchange": None},
        "barrier": barrier,
        "stragglers": None,
        "n_workers": n_workers,
        "block_rows": block,
        "exchange_rows": interval,
    }
    values = {
        "model": None,
        "settings": settings,
        "machine": {"usable_cores": 64},
        "n_epochs": epochs,
        "workers": [{"worker": k, **worker} for k in range(n_workers)],
        "turns": np.repeat(ring[None], n_workers, axis=0),
        "mail": mail,
        "seconds": {"run": busy + outside},
    }
    return Report(**(values | changes))


def even(row, n=20, n_rows=2000):
    """Turns without exchanges, `row` nanoseconds a row."""
    return [(n_rows, 0, row * n_rows)] * n


def varied(row, exchange, noise=0.0, n=100):
    rng = np.random.default_rng(0)
    turns = []
    for k in range(n):
        n_rows, pushes = 4000 + 10 * k, 2 + k % 7
        time = (row * n_rows + exchange * pushes) * (1 + noise * rng.standard_normal())
        turns.append((n_rows, pushes, time))
    return turns


SHARED = {"name": "Shared", "exchange": "auto"}


def test_known_costs_come_back():
    turns = np.column_stack([np.ones(100), varied(200.0, 90_000.0)])
    row, exchange, error = separate_costs(turns, turns[:, 2])
    assert row == pytest.approx(200e-9) and exchange == pytest.approx(90e-6)
    assert error < 1e-6
    noisy = np.column_stack([np.ones(100), varied(200.0, 90_000.0, noise=0.05)])
    noisy[3, 3] *= 5.0  # somebody took the core
    row, exchange, error = separate_costs(noisy, noisy[:, 2])
    assert abs(exchange - 90e-6) < 3 * error * exchange and 0.0 < error < 0.2


def test_costs_in_proportion_cannot_be_told_apart():
    rows = np.arange(1.0, 21.0)[:, None]
    turns = np.hstack([rows, rows * 1000, rows, rows * 300_000])
    assert separate_costs(turns, turns[:, 2])[2] == math.inf
    noise = 1.0 + 0.1 * np.random.default_rng(1).standard_normal(20)
    turns[:, 3] *= noise
    turns[0, 2] += 1.0
    assert separate_costs(turns, turns[:, 2])[2] > costing.SEPARABLE


def test_costs_of_a_run_that_varies():
    run = ReportFacts(a_report(varied(200.0, 90_000.0), 2, SHARED, interval=1000))
    costs = costs_of(run)
    assert costs.source.startswith("least squares")
    assert costs.row == pytest.approx(200e-9, rel=1e-4)
    assert costs.exchange == pytest.approx(90e-6, rel=1e-4)
    assert costs.factors.mean() == pytest.approx(1.0)


def test_costs_of_a_run_in_proportion_are_the_machines():
    known = costing.exchange_seconds(500, 4) * 1e9
    turns = [(1000 * k, k, k * (1000 * 100.0 + known)) for k in range(1, 9)]
    costs = costs_of(ReportFacts(a_report(turns, 2, SHARED, interval=1000)))
    assert "constants" in costs.source
    assert costs.exchange == pytest.approx(known * 1e-9)
    assert costs.row == pytest.approx(100e-9, rel=1e-4)


def test_exchanges_are_not_most_of_a_run():
    """Constants that do not fit the machine leave something for the rows."""
    turns = [(1000, 1000, 1e6)] * 10
    costs = costs_of(ReportFacts(a_report(turns, 2, SHARED, interval=1)))
    assert costs.row == pytest.approx(0.3 * (1000.0 + ORDER / N_ROWS) * 1e-9, rel=1e-3)
    assert any("at most" in note for note in costs.notes)


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7, 16])
def test_constant_times_are_divided_up(n_workers):
    """Workers claim equal blocks: ceil(blocks / workers) of them one after the other."""
    report = a_report(even(3000.0), epochs=3, block=1000, outside=0.25)
    prediction = report.predict([n_workers])
    block = 1000 * 3000e-9 + ORDER * 1e-9 / 16
    expected = math.ceil(48 / n_workers) * block
    assert prediction.seconds[0] == pytest.approx(0.25 + expected)
    assert prediction.speedup[0] == pytest.approx((0.25 + 48 * block) / (0.25 + expected))
    assert prediction.waiting_share[0] == pytest.approx(1 - 48 / n_workers * block / expected)
    assert prediction.throughput[0] == pytest.approx(3 * N_ROWS / (0.25 + expected))
    assert prediction.limits == ("workers",)


def test_long_runs_go_on_alike(monkeypatch):
    report = a_report(even(3000.0), epochs=30, block=1000)
    whole = report.predict([8]).seconds[0]
    monkeypatch.setattr(predictor, "MOST_BLOCKS", 80)
    assert report.predict([8]).seconds[0] == pytest.approx(whole)


def test_a_master_is_a_ceiling():
    mail = {"messages": 1000, "seconds": 0.05}
    plane = {"name": "Master"}
    report = a_report(even(2000.0), 2, plane, block=64, mail=mail, epochs=4)
    prediction = report.predict([1, 2, 4, 8, 16])
    blocks, block = 4 * 250, 64 * 2000e-9 + ORDER * 1e-9 / 250
    # one worker is its own master
    assert prediction.seconds[0] == pytest.approx(blocks * (block + 50e-6))
    assert prediction.seconds[1] == pytest.approx(blocks / 2 * block)
    assert prediction.seconds[3:] == pytest.approx([blocks * 50e-6] * 2)
    assert prediction.throughput[4] == pytest.approx(64 / 50e-6)
    assert prediction.limits == ("workers", "workers", "master", "master", "master")
    assert prediction.waiting_share[4] == pytest.approx(1 - blocks * block / (16 * blocks * 50e-6))


def test_the_next_order_is_a_floor():
    """It is begun in the middle of an epoch, by one, and the next epoch waits for it."""
    prediction = a_report(even(20.0), epochs=50).predict([1, 500])
    epoch = 0.5 * N_ROWS * 20e-9 / 500 + ORDER * 1e-9
    assert prediction.seconds[1] == pytest.approx(50 * epoch)
    assert prediction.limits == ("workers", "order")


def test_bsp_folds_one_after_the_other():
    known = costing.exchange_seconds(500, 4)
    turns = [(1000, 1, 1000 * 1000.0 + 2e9 * known)] * 20  # a block is pushed, and pulled for
    report = a_report(turns, 2, SHARED, "BSP()", epochs=5, block=1000, interval=1000)
    prediction = report.predict([1, 4])
    # an eighth of a worker's share: five epochs of 32 blocks, four at a time; a section for each
    block = 500 * 1000e-9 + ORDER * 1e-9 / 32
    expected = 40 * (block + known) + 160 * known
    assert prediction.seconds[1] == pytest.approx(expected, rel=1e-4)


def test_uneven_blocks_wait_behind_a_barrier():
    turns = [(1000, 0, 1000 * (500.0 + 1000.0 * (k % 2))) for k in range(40)]
    free = a_report(turns, 4).predict([4, 8])
    held = a_report(turns, 4, barrier="BSP()").predict([4, 8])
    assert (held.seconds > 1.2 * free.seconds).all()
    assert (held.waiting_share > 0.2).all() and (free.waiting_share < 0.1).all()


def test_factors_are_those_of_blocks():
    """A turn of many blocks says of each what it says of all: it counts as often."""
    factors = costing._evened(np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    assert factors.tolist() == pytest.approx([0.8, 0.8, 0.8, 1.6])
    many = costing._evened(np.array([2.0, 1.0]), np.array([5_000.0, 15_000.0]))
    assert len(many) == costing.MOST_FACTORS and many.mean() == pytest.approx(1.0)
    assert np.mean(many > 1.0) == pytest.approx(0.25)


def test_the_interval_is_that_of_a_run_with_so_many_workers():
    problem = problems.linear(sp.random(N_ROWS, 500, 0.02, "csr", "float32"), np.arange(N_ROWS) % 2)
    counts = (2, 8, 64)
    real = [cases.session(problem, n_workers=k).plan.interval for k in counts]
    assert real[0] > real[1] > real[2]
    one, two = (
        ReportFacts(a_report(even(200.0), 1, SHARED)),
        ReportFacts(a_report(even(200.0), 2, SHARED, interval=real[0])),
    )
    assert [one.interval(k) for k in counts] == pytest.approx(real, rel=0.02)
    assert [two.interval(k) for k in counts] == pytest.approx(real, rel=0.02)
    odd = ReportFacts(a_report(even(200.0), 2, SHARED, interval=1000))
    assert odd.interval(2) == 1000, "as it was"
    chosen = {"name": "Shared", "exchange": 77}
    assert ReportFacts(a_report(even(200.0), 1, chosen)).interval(8) == 77
    assert ReportFacts(a_report(even(200.0), 2, chosen, interval=77)).interval(8) == 77
    remembering = a_report(even(200.0), 2, SHARED, interval=90)
    remembering.settings["rule"]["name"] = "SDCA"
    assert ReportFacts(remembering).interval(8) == 90
    assert ReportFacts(a_report(even(200.0), 2)).interval(8) == 0, "one vector for all"


def test_exchanges_are_frequent_at_first():
    # 128, 128 more, 256, 512, then every 1000 rows
    assert pushes_of(128, 1000, FIRST_INTERVAL, GROWTH) == 1.0
    assert pushes_of(1024, 1000, FIRST_INTERVAL, GROWTH) == 4.0
    assert pushes_of(11_024, 1000, FIRST_INTERVAL, GROWTH) == 14.0
    assert pushes_of(1024, 64, FIRST_INTERVAL, GROWTH) == 16.0
    # 256 sixteen times, then a sixteenth of what has been done
    assert pushes_of(4096, 288, 256, 0.0625) == 16.0
    assert pushes_of(4096 + 256 + 272 + 2880, 288, 256, 0.0625) == pytest.approx(28.0, abs=0.1)


def test_a_run_exchanges_as_often_as_is_predicted():
    X, y = datasets.dense(6000, 5)
    problem = problems.linear(X, y)
    plane = Shared(exchange=400)
    stop = Stop(epochs=3)
    report = solve(problem, runtime="threads", n_workers=2, plane=plane, stop=stop, seed=0)
    # whoever does a row, the interval is by the rows that all have done
    each = pushes_of(9000, 400, DESCENT_FIRST, DESCENT_GROWTH)
    pushes = sum(worker["pushes"] for worker in report.workers)
    assert pushes == pytest.approx(2 * each, abs=4)
    assert pushes > 1.15 * 18_000 / 400


def test_blocks_grow_smaller_with_workers_unless_they_were_chosen():
    run = ReportFacts(a_report(even(100.0)))
    assert [run.rows_of_block(k) for k in (1, 2, 8)] == [8192, 1000, 250]
    chosen = ReportFacts(a_report(even(100.0), block=4000))
    assert [chosen.rows_of_block(k) for k in (1, 2, 8)] == [4000] * 3


def test_what_is_doubtful_is_said():
    report = a_report(even(100.0), 4, machine={"usable_cores": 2})
    assert any("4 workers on 2 usable cores" in note for note in report.predict([4]).assumed)
    alone = a_report(even(100.0), 1, {"name": "Master"}, block=64)
    assert any("it sets no limit" in note for note in alone.predict([4]).assumed)
    assert any("frequent features" in note for note in report.predict([2]).assumed)


@pytest.mark.parametrize(
    ("report", "workers", "says"),
    [
        (a_report(even(100.0), seconds={"run": 1.0, "virtual": 2.0}), [2], "simulated"),
        (a_report(even(100.0, n=3)), [2], "too short"),
        (a_report(even(100.0)[:1]), [2], "more epochs"),
        (a_report(even(0.001)), [2], "too short"),
        (a_report(even(100.0)), [2, 0], "n_workers must be a whole number, at least 1; got 0"),
        (a_report(even(100.0)), [1.5], "got 1.5"),
        (a_report(even(100.0)), [], "at least one number"),
        (a_report(even(100.0), barrier="test_x.<locals>.mine"), [2], "function"),
    ],
)
def test_bad_input_is_told(report, workers, says):
    with pytest.raises(ValueError, match=says):
        report.predict(workers)


def test_a_problem_needs_what_repeats_the_run():
    report = a_report(even(100.0))
    with pytest.raises(ValueError, match="problem too"):
        report.predict([2], objective=0.5)
    with pytest.raises(ValueError, match="trace=4"):
        report.predict([2], problem=object())
    report.trace = Trace([0, 1], [0, 1], [0, 1], [1.0, 0.5])
    with pytest.raises(ValueError, match="not made by solve"):
        report.predict([2], problem=object())


@pytest.mark.parametrize(
    "barrier",
    [
        ASP(),
        BSP(),
        SSP(2),
        SSP(math.inf),
        PBSP(3, hold=True),
        PSSP(3, 2),
        Fraction(0.75),
        Fraction(0.5, 1, sample=4),
        Throttled(3),
    ],
)
def test_barriers_have_names(barrier):
    assert named(name_of(barrier)) == barrier


@pytest.mark.parametrize(
    ("sampled", "whole"),
    [
        (PBSP(4), BSP()),
        (PSSP(4, 2), SSP(2)),
        (Fraction(0.5, 1, sample=4), Fraction(0.5, 1)),
    ],
    ids=repr,
)
def test_samples_larger_than_the_world_are_everybody(sampled, whole):
    law = Measured([1.0, 2.0, 5.0])
    ends = [predictor.time_of_blocks(barrier, 4, law, 40) for barrier in (sampled, whole)]
    assert ends[0] == ends[1]


def test_a_ring_keeps_the_last_turns():
    table, ring = np.zeros(layout.N_TABLE, np.int64), np.zeros((RING_SIZE, 4), np.int64)
    turns = QuantumTimes(ring, table)
    for k in range(1, RING_SIZE + 3):
        table[layout.T_BUSY] += 300_000
        turns.note()  # nothing has been counted: that time belongs to the next entry
        table[[layout.T_BLOCKS, layout.T_ROWS, layout.T_PUSHES, layout.T_BUSY]] += (1, k, 2, 10)
        turns.note()
        table[layout.T_BUSY] += 3
        turns.note()  # too short
    assert sorted(ring[:, 1]) == list(range(3, RING_SIZE + 3))
    assert (ring[:, [0, 2, 3]] == (1, 2, 300_013)).all()
    whole = np.stack([ring, np.zeros_like(ring), ring])  # the last is the master's
    whole[1, :2] = 1
    assert recorded(whole).shape == (2, RING_SIZE, 4) and recorded(whole)[1, 2:].sum() == 0
    assert recorded(whole[:, :0]).shape == (2, 0, 4)


@pytest.fixture(scope="module")
def data():
    n_rows = 60 if JIT_DISABLED else 3000
    X, y = datasets.zipf_classification(n_rows, 500, seed=0)
    return problems.linear(X, y, alpha=1e-3)


@pytest.mark.parametrize(
    ("n_workers", "more"),
    [
        (1, {}),
        (2, {}),
        (2, {"barrier": BSP()}),
        (2, {"barrier": SSP(1), "runtime": "processes"}),
        (2, {"plane": Shared(exchange=None)}),
        (2, {"plane": Master(), "block": 20}),
    ],
)
def test_a_run_keeps_its_turns(data, n_workers, more):
    runtime = {"runtime": "caller" if n_workers == 1 else "threads"}
    report = solve(data, n_workers=n_workers, stop=Stop(epochs=10), seed=0, **(runtime | more))
    turns = report.turns
    assert turns.shape[0] == n_workers and turns.shape[2] == 4
    for worker, own in zip(report.workers, turns, strict=True):
        used = own[own[:, 1] > 0]
        assert used[:, 1].sum() <= worker["rows"] and used[:, 0].sum() <= worker["blocks"]
        assert (used[:, 0] > 0).all() and (used[:, 3] >= SHORTEST_NS).all()
        busy = worker["mean_block_seconds"] * worker["blocks"]
        assert used[:, 3].sum() * 1e-9 <= busy * (1 + 1e-9)
    assert turns[:, :, 1].any()
    facts = report.to_dict()["turns"]
    assert facts["rows"] == turns[:, :, 1].sum() and len(facts["nanoseconds_per_row"]) == 5
    if "plane" in more and isinstance(more["plane"], Master):
        assert report.mail["messages"] == sum(worker["blocks"] for worker in report.workers)
        assert report.mail["seconds"] > 0.0
    else:
        assert report.mail is None and "mail" not in report.to_dict()


def test_a_prediction_of_a_real_run(data):
    report = solve(data, n_workers=1, stop=Stop(epochs=30), seed=0, trace=4, block=data.n_rows // 4)
    assert pickle.loads(pickle.dumps(report)).again == report.again
    prediction = report.predict((1, 2, 4), problem=data)
    assert prediction.n_workers == (1, 2, 4) and prediction.speedup[0] == 1.0
    assert prediction.measured["predicted"] == pytest.approx(report.seconds["run"], rel=0.5)
    first, last = report.trace.objective[[0, -1]]
    assert prediction.objective == pytest.approx(first - 0.98 * (first - last))
    # one worker on the virtual clock is the run itself
    assert prediction.epochs[0] == pytest.approx(report.epochs_to(prediction.objective))
    expected = prediction.speedup * prediction.epochs[0] / prediction.epochs
    np.testing.assert_array_equal(prediction.time_speedup, expected)
    text = prediction.table()
    assert text == str(prediction) and "speedup of time" in text and "assumed: " in text
    assert "<table>" in prediction._repr_html_() and "predicted from" in repr(prediction)
    assert json.loads(json.dumps(prediction.to_dict(), allow_nan=False))["n_workers"] == [1, 2, 4]
    with pytest.raises(ValueError, match="rows is 10"):
        report.predict(problem=problems.linear(np.eye(10), np.arange(10) % 2))


def test_an_objective_that_an_epochs_end_reaches_is_reached(data):
    """The last snapshot of a trace may be a few blocks before the end."""
    report = solve(data, stop=Stop(epochs=30), seed=0, trace=4)
    seen = []

    def watch(epoch, snapshot):
        model = snapshot()
        seen.append(data.objective(model.coef, model.intercept))
        return epoch == 2

    at = {"n_workers": 2, "runtime": Simulator(), "block": data.n_rows // 30, "trace": 4}
    solve(data, seed=0, stop=Stop(epochs=30, tol=None), on_epoch=watch, **at)
    simulator, rows = at["runtime"], at["block"]
    assert report.again.epochs_to(seen[-1], data, 2, simulator, rows, 30) == 2.0
    assert report.again.epochs_to(0.0, data, 2, simulator, rows, 3) is None


@pytest.mark.parametrize("barrier", [ASP(), BSP(), SSP(2)], ids=str)
def test_epochs_are_predicted_with_exchanges_as_often_as_in_a_real_run(barrier):
    X, y = datasets.dense(4000, 50)
    problem = problems.linear(X, y, alpha=1e-2)
    run = {"rule": SAGA(), "barrier": barrier, "n_workers": 2, "runtime": "threads", "trace": 4}
    report = solve(problem, stop=Stop(epochs=60, tol=None), seed=0, **run)
    objective = float(report.trace.objective[-1]) * (1.0 + 1e-3)
    prediction = report.predict((1, 8), problem=problem, objective=objective)
    one, eight = prediction.epochs
    assert eight <= one + 1.5, "and 7 epochs, not 2, where what an exchange holds back is dropped"
    block, interval = report.again.pace(problem, 8, 4)
    assert interval == cases.session(problem, rule=SAGA(), n_workers=8).plan.interval
    assert block == (interval if barrier == BSP() else block_rows(4000, 8, 4))


def test_what_is_known_of_blocks_and_exchanges_is_used():
    report = a_report(even(200.0), 2, SHARED, interval=90)
    report.settings["rule"]["name"] = "SAGA"
    run = ReportFacts(report, {8: (250, 17), 16: (125, 3)})
    assert (run.rows_of_block(8), run.interval(8)) == (250, 17)
    assert (run.rows_of_block(4), run.interval(4)) == (500, 90)
    assert predictor.virtual_rows(run, 8) == 17
    assert predictor.virtual_rows(run, 4) == 90
    assert predictor.virtual_rows(run, 16) == 4, "no more blocks of an epoch than can be borne"
    assert predictor.virtual_rows(run, 1) == 8192
    report.settings["rule"]["name"] = "SGD"
    assert predictor.virtual_rows(ReportFacts(report), 8) == FIRST_INTERVAL


def test_what_is_not_reached_has_no_time(data):
    report = solve(data, stop=Stop(epochs=30), seed=0, trace=4)
    prediction = report.predict((2,), problem=data, objective=0.0)
    assert np.isnan(prediction.epochs).all() and np.isnan(prediction.time_speedup).all()
    assert prediction.to_dict()["epochs"] == [None]


def test_runs_that_cannot_be_repeated(data):
    first = solve(data, stop=Stop(epochs=30), seed=0, trace=1)
    resumed = solve(data, stop=Stop(epochs=30), seed=0, trace=1, start=first.model)
    with pytest.raises(ValueError, match="start model"):
        resumed.predict(problem=data)
    mine = solve(
        data, n_workers=2, stop=Stop(epochs=4), trace=1, barrier=lambda table, me: True, seed=0
    )
    assert mine.again.barrier is None and "function" in mine.again.obstacle
    pickle.dumps(mine)
    simulated = solve(data, n_workers=2, runtime=Simulator(), stop=Stop(epochs=2))
    with pytest.raises(ValueError, match="simulated"):
        simulated.predict()


def test_a_prediction_is_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    report = a_report(even(100.0))
    ax = report.predict((1, 2, 4)).plot()
    assert len(ax.lines) == 2 and ax.lines[1].get_ydata()[0] == 1.0
