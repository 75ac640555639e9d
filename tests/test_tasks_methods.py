"""SGD, ASGD, SAGA and ASAGA on tasks: plain loops with one worker, and to the optimum with more."""

import operator

import numpy as np
import pytest

from hogshare import (
    AsyncContext,
    Simulator,
    Throttled,
    asaga_tasks,
    asgd,
    problems,
    saga_rounds,
    sgd_rounds,
)
from hogshare.simulation import LogNormal
from hogshare.stragglers import ControlledDelay
from hogshare.tasks import Result, TaskError, steps
from hogshare.tasks.draws import draws_of_task

RNG = np.random.default_rng(2)
X = RNG.standard_normal((300, 6))
Y = X @ [1.0, -2.0, 0.0, 3.0, 0.5, 1.0] + 0.1 * RNG.standard_normal(300)
PROBLEM = problems.linear(X, Y, loss="squared_error", penalty=None, fit_intercept=False)
OPTIMUM = np.linalg.lstsq(X, Y, rcond=None)[0]
METHODS = {"sgd": sgd_rounds, "asgd": asgd, "saga": saga_rounds, "asaga": asaga_tasks}


def simulator():
    return Simulator(block_time=LogNormal(1.0, 0.3))


def draws(rounds, rate):
    for k in range(rounds):
        yield draws_of_task(0, k, {0: 300}, rate)[0]


def test_sgd_is_a_plain_loop():
    report = sgd_rounds(PROBLEM, workers="threads", n_workers=1, rate=0.1, step=0.2, epochs=3)
    w = np.zeros(6)
    for k, rows in enumerate(draws(report.settings["updates"], 0.1)):
        w -= 0.2 / np.sqrt(k + 1) * X[rows].T @ (X[rows] @ w - Y[rows]) / len(rows)
    assert report.settings["updates"] > 25
    assert np.abs(report.model.coef[0] - w).max() < 1e-12
    alone = asgd(PROBLEM, workers="threads", n_workers=1, rate=0.1, step=0.2, epochs=3)
    assert np.abs(alone.model.coef[0] - w).max() < 1e-12


@pytest.mark.parametrize("method", [saga_rounds, asaga_tasks])
def test_saga_is_a_plain_loop_with_scalars(method):
    report = method(PROBLEM, workers="threads", n_workers=1, rate=0.1, step=0.05, epochs=4)
    w, average, slopes = np.zeros(6), np.zeros(6), np.zeros(300)
    for rows in draws(report.settings["updates"], 0.1):
        new = X[rows] @ w - Y[rows]
        change = X[rows].T @ (new - slopes[rows])
        slopes[rows] = new
        w = w - 0.05 * (change / len(rows) + average)
        average = average + change / 300
    assert np.abs(report.model.coef[0] - w).max() < 1e-12


@pytest.mark.parametrize("method", METHODS.values())
def test_many_workers_come_to_the_optimum(method):
    law = ControlledDelay(1.0, base=0.5)
    run = {"n_workers": 4, "stragglers": law, "trace": 1, "epochs": 40, "partitions": 8}
    report = method(PROBLEM, workers=simulator(), **run)
    assert np.abs(report.model.coef[0] - OPTIMUM).max() < 0.05
    assert report.trace.objective[-1] < 0.01 < report.trace.objective[0]
    assert report.runtime == "simulator" and report.n_workers == 4
    assert report.seconds["virtual"] > 0.0 and "4 workers" in str(report)
    again = method(PROBLEM, workers=simulator(), **run)
    assert again.model.coef.tobytes() == report.model.coef.tobytes()
    assert len(report.to_json()) > 100


@pytest.mark.parametrize("method", [saga_rounds, asaga_tasks])
def test_saga_s_noise_goes(method):
    report = method(PROBLEM, workers=simulator(), n_workers=2, epochs=150)
    assert np.abs(report.model.coef[0] - OPTIMUM).max() < 1e-6


def test_a_problem_by_a_gradient():
    def gradient(w, rows, out):
        residual = X[rows] @ w - Y[rows]
        out += X[rows].T @ residual
        return 0.5 * float(residual @ residual)

    problem = problems.user(gradient, n_rows=300, n_params=6)
    for name, method in METHODS.items():
        step = 0.5 if "sgd" in name else 0.05
        report = method(problem, workers="threads", n_workers=2, step=step, epochs=60)
        assert np.abs(report.model.params - OPTIMUM).max() < 0.1
    with pytest.raises(ValueError, match="step has to be given"):
        asgd(problem, workers="threads", n_workers=2)


def test_classes_and_intercepts():
    y = np.digitize(X[:, 0] + X[:, 1] + 0.5, [-0.5, 1.0])
    problem = problems.linear(X, y, loss="multinomial", alpha=1e-3)
    report = asaga_tasks(problem, workers="threads", n_workers=2, epochs=30, trace=1)
    assert report.model.coef.shape == (3, 6) and report.model.intercept.any()
    assert report.objective < 0.5 * report.trace.objective[0]


def test_barriers_and_steps_are_taken():
    run = {"workers": simulator(), "n_workers": 4, "epochs": 20, "trace": 1}
    report = asgd(PROBLEM, barrier=Throttled(3), step=steps.damped(steps.constant(0.1)), **run)
    assert report.barrier == "Throttled(available=3)" and report.objective < 0.01
    with pytest.raises(TypeError, match="step must be a number or a function"):
        asgd(PROBLEM, step="large", **run)
    with pytest.raises(FloatingPointError, match=r"not finite after 1 updates: use a smaller step"):
        sgd_rounds(PROBLEM, step=lambda k, result: float("inf"), **run)


def test_step_rules_are_the_paper_s():
    late = Result(None, 0, 3, 1, (0,), 1.0, 0)
    assert [steps.falling(1.0)(k, late) for k in (0, 3, 8)] == [1.0, 0.5, 1 / 3]
    of_four = steps.falling_per_worker(1.0, 4)
    assert [of_four(k, late) for k in (0, 3, 12)] == [0.25, 0.25, 0.125]
    assert steps.damped(of_four)(0, late) == 0.0625
    for rule in (steps.constant, steps.falling):
        with pytest.raises(ValueError, match="positive finite"):
            rule(0.0)


def test_the_virtual_clock_counts_what_tasks_send():
    """A version of the model goes to a worker once; a gradient of six numbers comes back."""
    report = asgd(PROBLEM, workers=simulator(), n_workers=3, rate=0.1, step=0.1, epochs=4)
    model, update = report.traffic["model"], report.traffic["update"]
    tasks = sum(worker["blocks"] for worker in report.workers)
    assert model["messages"] >= tasks == report.settings["updates"] <= update["messages"]
    assert model["bytes"] >= 8 * 6 * tasks and update["bytes"] >= 8 * 6 * tasks
    assert report.to_dict()["traffic"] == report.traffic and "update messages" in str(report)
    assert asgd(PROBLEM, workers="threads", n_workers=1, epochs=1).traffic == {}


def first_changes(left, right):
    left[:] += right
    return left


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("op", [operator.iadd, first_changes])
def test_a_fold_changes_no_rows(workers, op):
    """The first value of a fold may be a view of the caller's rows, or of a worker's."""
    rows, y = np.ones((8, 2)), np.ones(8)
    with AsyncContext(workers, n_workers=1) as ac:
        points = ac.parallelize(rows, y, partitions=2)
        for _ in range(2):
            points.map(lambda r: r[0]).reduce(op)
            assert np.array_equal(ac.collect().value, np.full((4, 2), 2.0))
            points.map(lambda r: r[1]).reduce(op)
            assert np.array_equal(ac.collect().value, np.full(4, 2.0))
            points.map(lambda r: r[0], each="row").reduce(op)
            assert np.array_equal(ac.collect().value, [8.0, 8.0])
        ac.parallelize(rows, partitions=2).reduce(op)
        assert np.array_equal(ac.collect().value, np.full((4, 2), 2.0))
    assert (rows == 1.0).all() and (y == 1.0).all()


def test_rounds_may_differ_in_their_values_shapes():
    """Nobody adds up the values of two data sets, or of two shapes of a model."""

    def columns(rows):
        return rows.sum(axis=0)

    def zeros(rows, w):
        return np.zeros(int(w[0]))

    with AsyncContext(simulator(), n_workers=2) as ac:
        for n in (3, 5):
            ac.parallelize(np.ones((9, n))).map(columns).reduce()
            assert [result.value.shape for result in ac.collect_all()] == [(n,), (n,)]
        points = ac.parallelize(X)
        for n in (3.0, 5.0):
            points.map(zeros, ac.broadcast([n])).reduce()
            assert [result.value.shape for result in ac.collect_all()] == [(n,), (n,)]
        points.map_with_index(lambda i, rows: np.zeros(1 + int(i[0] > 0))).reduce()
        with pytest.raises(TaskError, match="cannot be added up"):
            ac.collect_all()
