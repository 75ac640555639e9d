"""`AsyncContext`: what users write, on every executor where that makes a difference."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp
from executors import KINDS, MADE, NEEDS_DASK, client, cluster  # noqa: F401

import hogshare
from hogshare import BSP, PSSP, SSP, AsyncContext, Fraction, Simulator, Throttled, problems
from hogshare.barriers import BarrierError
from hogshare.runtimes.pool import pool
from hogshare.simulation import Churn, Constant, Link, LogNormal, Measured, Network
from hogshare.stragglers import ControlledDelay
from hogshare.tasks import TaskError
from hogshare.tasks.draws import draws_of_task

D = 5
RNG = np.random.default_rng(7)
X = RNG.standard_normal((120, D))
Y = X @ np.arange(1.0, D + 1.0) + 0.1 * RNG.standard_normal(120)
PATIENCE = 60.0


def gradient(rows, w):
    X, y = rows
    return X.T @ (X @ w - y)


def count(rows):
    return len(rows[1])


def virtual(**settings):
    return Simulator(**{"block_time": LogNormal(1.0, 0.4), **settings})


@pytest.fixture(params=KINDS)
def workers(request):
    """What `AsyncContext` takes for each executor."""
    return MADE[request.param](request)


def plain_sgd(rounds, rate, step, seed=0):
    """The same draws in a plain loop: one worker, one partition, one round after another."""
    w = np.zeros(D)
    for k in range(rounds):
        rows = draws_of_task(seed, k, {0: len(X)}, rate)[0]
        w = w - step * (X[rows].T @ (X[rows] @ w - Y[rows])) / len(rows)
    return w


def test_one_worker_behind_a_barrier_is_the_plain_loop(workers):
    w = np.zeros(D)
    with AsyncContext(workers, n_workers=1) as ac:
        points = ac.parallelize(X, Y).barrier(BSP()).sample(0.2)
        for _ in range(30):
            points.map(gradient, ac.broadcast(w)).reduce(add)
            while ac.has_next():
                result = ac.collect()
                w -= 0.1 * result.value / result.n_samples
    assert np.abs(w - plain_sgd(30, 0.2, 0.1)).max() < 1e-12


def in_fixed_order(workers):
    """Tasks one at a time, worker by worker: models on the way."""
    w, seen = np.zeros(D), []
    with AsyncContext(workers, n_workers=2, seed=3) as ac:
        points = ac.parallelize(X, Y, partitions=4).sample(0.3)
        for k in range(12):
            turn = points.barrier(lambda stat, me, k=k: me == k % 2)
            assert turn.map(gradient, ac.broadcast(w)).reduce(add) == [k % 2]
            (result,) = ac.collect_all()
            assert result.worker == k % 2 and result.partitions == (k % 2, k % 2 + 2)
            w = w - 0.1 * result.value / result.n_samples
            seen.append(w.tobytes())
    return seen


def test_one_task_at_a_time_gives_the_same_bits_everywhere(workers):
    assert in_fixed_order(workers) == in_fixed_order("threads")


def test_attributes_and_the_table(workers):
    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(X, Y, partitions=5)
        assert points.n_rows == 120 and points.n_partitions == 5
        assert ac.stat.available_workers == 2 and ac.stat.max_staleness == 0
        assert points.map(count).reduce(add) == [0, 1]
        assert ac.stat.available_workers == 0 and set(ac.stat.state) == {"running"}
        results = ac.collect_all()
        assert sorted(r.worker for r in results) == [0, 1]
        assert sorted(r.staleness for r in results) == [0, 1]
        assert sum(r.value for r in results) == 120 == sum(r.n_samples for r in results)
        assert {p for r in results for p in r.partitions} == set(range(5))
        stat = ac.stat
        assert stat.blocks.tolist() == [1, 1] == stat.clock.tolist()
        assert stat.rows.sum() == 120 and (stat.mean_block_seconds > 0.0).all()
        assert not ac.has_next() and ac.accepted == 2


def test_waiting_is_from_result_to_task():
    with AsyncContext(virtual(block_time=Constant(2.0)), n_workers=2) as ac:
        points = ac.parallelize(X, Y).map(count)
        only = points.barrier(lambda stat, me: me == 0)
        points.reduce(add)
        ac.collect_all()
        only.reduce(add)
        ac.collect_all()
        points.reduce(add)
        ac.collect_all()
        assert ac.seconds == 6.0
        assert ac.stat.waiting_seconds.tolist() == [0.0, 2.0]
        assert ac.stat.mean_block_seconds.tolist() == [2.0, 2.0]


def test_the_mean_of_task_times_is_of_all_of_them():
    """Not half of the last one, whatever came before."""
    times = Measured([1.0, 2.0, 6.0, 3.0])
    with AsyncContext(virtual(block_time=times, seed=1), n_workers=1) as ac:
        points = ac.parallelize(X, Y).map(count)
        seconds = []
        for _ in range(6):
            points.reduce(add)
            (result,) = ac.collect_all()
            seconds.append(result.seconds)
        assert len(set(seconds)) > 2
        assert ac.stat.mean_block_seconds[0] == pytest.approx(np.mean(seconds))


# --- collections -----------------------------------------------------------------------------


@pytest.mark.quick
def test_a_function_of_a_row():
    with AsyncContext("threads", n_workers=2) as ac:
        points = ac.parallelize(X, Y, partitions=3)
        points.map(lambda row: row[0] * row[1], each="row").reduce(add)
        found = sum(r.value for r in ac)
        assert np.allclose(found, X.T @ Y)
        points.map_with_index(lambda i, row: {i: row[1]}, each="row").reduce(lambda a, b: a | b)
        by_row = {}
        for result in ac:
            by_row |= result.value
        assert by_row == dict(enumerate(Y))


def test_a_block_knows_its_row_numbers():
    def differ(index, rows):
        return float(np.abs(X[index] - rows[0]).max())

    with AsyncContext("threads", n_workers=2) as ac:
        ac.parallelize(X, Y, partitions=7).sample(0.3).map_with_index(differ).reduce(max)
        assert [r.value for r in ac.collect_all()] == [0.0, 0.0]


def test_aggregate_folds_into_another_kind():
    with AsyncContext("threads", n_workers=2) as ac:
        zero = [0, 0.0]

        def seq(sums, y):
            sums[0] += 1
            sums[1] += y
            return sums

        points = ac.parallelize(Y, partitions=4)
        each = points.map(lambda y: y, each="row")
        each.aggregate(zero, seq, lambda a, b: [a[0] + b[0], a[1] + b[1]])
        found = [r.value for r in ac]
        assert sum(n for n, _ in found) == 120 and np.isclose(sum(s for _, s in found), Y.sum())
        assert zero == [0, 0.0]


@pytest.mark.quick
def test_sparse_rows_are_the_dense_ones():
    sparse = sp.csr_array(X * (np.abs(X) > 1.0))
    w = np.arange(D) / 10
    with AsyncContext("processes", n_workers=2) as ac:
        w_br = ac.broadcast(w)
        values = []
        for rows in (sparse, sparse.toarray()):
            ac.parallelize(rows, Y, partitions=4).map(gradient, w_br).reduce(add)
            values.append(sum(r.value for r in ac))
        assert np.allclose(*values)
        by_row = ac.parallelize(sparse, Y).map(lambda row: row[0].sum() * row[1], each="row")
        by_row.reduce(add)
        assert np.isclose(sum(r.value for r in ac), sparse.sum(axis=1) @ Y)


def test_loaders_are_read_by_workers(workers):
    def loader(k):
        return lambda: (X[10 * k : 10 * k + 10 + k], Y[10 * k : 10 * k + 10 + k])

    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(loaders=[loader(k) for k in range(4)])
        assert points.n_rows == 46 and points.n_partitions == 4
        points.map(count).reduce(add)
        assert sum(r.value for r in ac.collect_all()) == 46


def test_a_problem_gives_its_gradient():
    problem = problems.user(
        lambda w, rows, out: _least_squares(w, rows, out), n_rows=120, n_params=D
    )
    w = np.arange(D) / 10
    for kind in ("threads", "processes"):
        with AsyncContext(kind, n_workers=2) as ac:
            points = ac.parallelize(problem, partitions=4)
            points.map(problem.gradient, ac.broadcast(w)).reduce(add)
            assert np.allclose(sum(r.value for r in ac), X.T @ (X @ w - Y))
            with pytest.raises(ValueError, match="the problem has 120 rows, and the collection 60"):
                ac.parallelize(X[:60]).map(problem, ac.broadcast(w))


@pytest.mark.parametrize("is_short", [True, False])
def test_the_caller_helps_with_short_tasks_of_linear_problems_alone(monkeypatch, is_short):
    """A user's function may wait for the caller, and must not run in its thread."""
    from hogshare.tasks import thread_executor

    seen, work = [], thread_executor.work
    problem = problems.linear(X, Y, loss="squared_error", penalty=None, fit_intercept=False)

    def recorded(*args):
        seen.append(threading.current_thread())
        return work(*args)

    monkeypatch.setattr(thread_executor, "work", recorded)
    if not is_short:
        monkeypatch.setattr(thread_executor, "SHORT_VALUES", 0)
    with AsyncContext("threads", n_workers=2) as ac:
        points = ac.parallelize(problem)
        for _ in range(50):
            points.map(problem, ac.broadcast(np.ones(D))).reduce()
            total = sum(result.value for result in ac.collect_all(PATIENCE / 10))
            total_again = ac.collect_all()
            assert total_again == [] and np.allclose(total, X.T @ (X.sum(axis=1) - Y))
        main = threading.main_thread()
        assert main not in seen, "a wait with a limit"
        for _ in range(50):
            points.map(problem, ac.broadcast(np.ones(D))).reduce()
            total = sum(result.value for result in ac.collect_all())
            assert np.allclose(total, X.T @ (X.sum(axis=1) - Y))
        assert (main in seen) is is_short and len(set(seen)) > 1
        seen.clear()
        for _ in range(50):
            points.map_with_index(lambda i, rows: len(i)).reduce()
            assert sum(result.value for result in ac.collect_all()) == len(X)
        assert main not in seen
        assert ac.stat.blocks.sum() == 2 * 150


def test_a_linear_problem_gives_its_gradient():
    problem = problems.linear(X, Y > 0.0, alpha=0.1)
    w = np.linspace(-0.5, 0.5, problem.n_params)
    whole = np.zeros(problem.n_params)
    problem.gradient(w, np.arange(120), whole)
    for kind in ("threads", "processes"):
        with AsyncContext(kind, n_workers=2) as ac:
            points = ac.parallelize(problem, partitions=4)
            points.map(problem.gradient, ac.broadcast(w)).reduce(add)
            assert np.allclose(sum(r.value for r in ac), whole)


def _least_squares(w, rows, out):
    residual = X[rows] @ w - Y[rows]
    out += X[rows].T @ residual
    return 0.5 * float(residual @ residual)


@pytest.mark.parametrize(("rate", "replace"), [(0.1, False), (0.1, True), (1.0, True)])
def test_samples_are_of_the_rate(rate, replace):
    with AsyncContext("threads", n_workers=2) as ac:
        points = ac.parallelize(X, Y).sample(rate, replace=replace)
        for _ in range(100):
            points.map(lambda rows: rows[1].tolist()).reduce(add)
            for result in ac:
                assert len(result.value) == result.n_samples > 0
                assert replace or len(set(result.value)) == result.n_samples
        drawn = ac.stat.rows.sum()
    expected = 100 * 120 * rate
    assert abs(drawn - expected) < 6 * np.sqrt(expected)


def test_a_task_has_one_row_at_least():
    with AsyncContext("threads", n_workers=1) as ac:
        points = ac.parallelize(X[:2], Y[:2]).sample(1e-9).map(count)
        for _ in range(3):
            points.reduce(add)
        ac_values = [r.value for r in ac]
    assert ac_values == [1] * len(ac_values)


# --- barriers --------------------------------------------------------------------------------


def leads(barrier, n_workers=5, rounds=60):
    """Largest lead of a task's worker over the last at its submission, and tasks in all."""
    most = 0
    with AsyncContext(virtual(), n_workers=n_workers) as ac:
        points = ac.parallelize(X, Y).map(count).barrier(barrier)
        for _ in range(rounds):
            clock = ac.stat.clock
            for worker in points.reduce(add):
                most = max(most, int(ac.stat.clock[worker] - ac.stat.clock.min()))
            assert len(clock) == n_workers
            while ac.has_next():
                ac.collect()
        return most, int(ac.stat.blocks.sum())


def test_barriers_hold_what_they_say():
    assert leads(BSP(), rounds=10)[0] == 0
    assert 0 < leads(SSP(2))[0] <= 2
    assert leads("asp")[0] > 2
    assert leads(Fraction(1.0, 1))[0] <= 1
    assert leads(PSSP(2, 3))[0] >= 3


def test_a_throttled_release_waits_for_enough():
    for barrier in (Throttled(3), lambda stat: stat.available_workers >= 3):
        with AsyncContext(virtual(), n_workers=4) as ac:
            points = ac.parallelize(X, Y).map(count).barrier(barrier)
            assert points.reduce(add) == [0, 1, 2, 3]
            for _ in range(10):
                assert len(points.reduce(add)) == 3


def test_max_staleness_can_be_kept():
    """Of tasks at work: a barrier on it holds new tasks back, and never for ever."""
    slow = virtual(block_time=Constant(1.0), slowness=[1.0, 1.0, 50.0])
    with AsyncContext(slow, n_workers=3) as ac:
        points = ac.parallelize(X, Y).map(count).barrier(lambda stat: stat.max_staleness < 4)
        seen = []
        for _ in range(40):
            points.reduce(add)
            while ac.has_next():
                seen.append(ac.collect())
        assert max(r.staleness for r in seen) <= 4 + 1
        assert any(r.worker == 2 for r in seen)


def test_a_barrier_that_can_never_be_met_is_told(workers, monkeypatch):
    """One of the user's, and workers that may come, are given time."""
    monkeypatch.setattr("hogshare.tasks.dispatch.IDLE_SECONDS", 0.3)
    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(X, Y).map(count)
        never = points.barrier(lambda stat: stat.available_workers >= 3)
        with pytest.raises(BarrierError, match=r"never be met.*2 of 2 workers are present, 2 of"):
            never.reduce(add)
        points.reduce(add)  # and the context goes on
        assert len(ac.collect_all()) == 2


def test_a_barrier_on_time_is_met(workers):
    """While nobody computes; and is given its time-out."""
    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(X, Y).map(count)
        began = ac.seconds
        late = points.barrier(lambda stat: ac.seconds - began > 1.5)
        with pytest.raises(TimeoutError, match=r"let no worker pass within 0\.1 s"):
            late.reduce(add, timeout=0.1)
        assert late.reduce(add, timeout=PATIENCE) == [0, 1]
        assert 1.5 < ac.seconds - began < PATIENCE
        assert len(ac.collect_all()) == 2


def test_a_barrier_that_raises_or_says_nothing():
    with AsyncContext("threads", n_workers=2) as ac:
        points = ac.parallelize(X, Y).map(count)
        with pytest.raises(BarrierError, match="raised ZeroDivisionError"):
            points.barrier(lambda stat: 1 / 0).reduce(add)
        with pytest.raises(BarrierError, match="returned None"):
            points.barrier(lambda stat, me: None).reduce(add)
        with pytest.raises(ValueError, match="is not a barrier"):
            points.barrier("bps")


def test_reduce_has_a_timeout():
    with AsyncContext("threads", n_workers=2) as ac:
        gate = threading.Event()
        points = ac.parallelize(X, Y)
        points.map(lambda rows: gate.wait(PATIENCE)).reduce(add)
        with pytest.raises(TimeoutError, match="let no worker pass within"):
            points.map(count).reduce(add, timeout=0.01)
        for late in (ac.collect, ac.has_next, ac.collect_all):
            with pytest.raises(TimeoutError, match="nothing has come back"):
                late(timeout=0.01)
        gate.set()
        assert len(ac.collect_all()) == 2


# --- results ---------------------------------------------------------------------------------


def test_has_next_waits_only_while_nobody_is_available():
    with AsyncContext(virtual(block_time=Constant(1.0), slowness=[1.0, 3.0]), n_workers=2) as ac:
        points = ac.parallelize(X, Y).map(count)
        assert not ac.has_next()
        points.reduce(add)
        assert ac.has_next() and ac.seconds == 1.0
        assert ac.collect().worker == 0
        assert not ac.has_next() and ac.seconds == 1.0
        assert ac.collect().worker == 1 and ac.seconds == 3.0
        with pytest.raises(RuntimeError, match="nothing to collect: no task is under way"):
            ac.collect()


def test_iteration_ends_with_the_last_task(workers):
    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(X, Y).map(count)
        points.reduce(add)
        assert sorted(r.worker for r in ac) == [0, 1]
        assert list(ac) == []

        async def gather():
            points.reduce(add)
            return [r.worker async for r in ac]

        assert sorted(asyncio.run(gather())) == [0, 1]


def test_others_run_while_results_are_awaited():
    async def main():
        gate, ticks = threading.Event(), 0

        async def tick():
            nonlocal ticks
            while not gate.is_set():
                ticks += 1
                if ticks == 5:
                    gate.set()
                await asyncio.sleep(0)

        with AsyncContext("threads", n_workers=1) as ac:
            ac.parallelize(X, Y).map(lambda rows: gate.wait(PATIENCE)).reduce(add)
            other = asyncio.create_task(tick())
            found = [r.value async for r in ac]
            await other
            return found, ticks

    assert asyncio.run(main()) == ([True], 5)


def test_old_results_are_dropped():
    slow = virtual(block_time=Constant(1.0), slowness=[1.0, 5.5])
    with AsyncContext(slow, n_workers=2, cutoff=3) as ac:
        points = ac.parallelize(X, Y).map(count)
        seen = []
        for _ in range(12):
            points.reduce(add)
            while ac.has_next():
                seen.append(ac.collect())
        assert {r.worker for r in seen} == {0} and ac.dropped >= 1
        assert ac.accepted == len(seen)


# --- faults ----------------------------------------------------------------------------------


def test_what_raises_ends_with_its_traceback_at_collect(workers):
    def bad(rows):
        raise LookupError("no such row")

    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(X, Y)
        points.map(bad).reduce(add)
        with pytest.raises(TaskError, match=r"(?s)raised LookupError: no such row.*in bad") as told:
            ac.collect()
        assert told.value.worker in (0, 1)
        with pytest.raises(TaskError):
            ac.collect()
        points.map(count).reduce(add)  # the workers are whole
        assert sum(r.value for r in ac.collect_all()) == 120


class NoWords(Exception):
    def __str__(self):
        raise ValueError("nothing to say")


@pytest.mark.parametrize("kind", ["threads", "processes", pytest.param("dask", marks=NEEDS_DASK)])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), BaseException("b"), NoWords])
def test_no_exception_ends_a_worker(kind, error, request):
    def bad(rows):
        raise error

    with AsyncContext(MADE[kind](request), n_workers=2) as ac:
        points = ac.parallelize(X, Y)
        points.map(bad).reduce(add)
        for _ in range(2):
            with pytest.raises(TaskError, match=r"raised (SystemExit|KeyboardInt|BaseEx|NoWords)"):
                ac.collect(timeout=PATIENCE)
        points.map(count).reduce(add)
        assert sum(r.value for r in ac.collect_all(timeout=PATIENCE)) == 120
        assert ac.repeated == 0


def test_a_loader_that_exits_ends_no_dask_worker(request):
    pytest.importorskip("distributed")

    def bad():
        raise SystemExit(3)

    with AsyncContext(request.getfixturevalue("client")) as ac:
        pids = ac.executor._client.run(os.getpid)
        with pytest.raises(TaskError, match="a loader raised SystemExit: 3"):
            ac.parallelize(loaders=[bad, bad])
        assert ac.executor._client.run(os.getpid) == pids


def test_ctrl_c_and_exits_in_the_caller_s_thread_are_the_caller_s():
    """On the virtual clock tasks run there, and nothing says whether a signal's handler raised."""
    with AsyncContext(virtual(block_time=Constant(1.0)), n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        with pytest.raises(KeyboardInterrupt):
            points.map(lambda rows: signal.raise_signal(signal.SIGINT)).reduce(add)
        points.map(count).reduce(add)
        assert ac.collect().value == 120


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_interrupts_while_collecting_leave_no_task_under_way(kind):
    """Whenever they come: a result is handled wholly, or remains to be handled."""
    rng, armed, interrupted = np.random.default_rng(0), False, 0

    def handler(*_):
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with AsyncContext(kind, n_workers=2) as ac:
            points = ac.parallelize(X, Y, partitions=4).map(count)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                points.reduce(timeout=PATIENCE)
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + 6e-4 * rng.random())
                try:
                    armed = True
                    ac.collect_all(PATIENCE)
                    armed = False
                except KeyboardInterrupt:
                    armed = False
                    interrupted += 1
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            ac.collect_all(PATIENCE)
            assert ac.stat.available_workers == 2 and ac.accepted == ac.stat.blocks.sum()
            points.reduce(timeout=PATIENCE)
            assert sum(result.value for result in ac.collect_all(PATIENCE)) == len(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 5


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_fork_does_not_take_its_parents_results(kind):
    with AsyncContext(kind, n_workers=1) as ac:
        points = ac.parallelize(X, Y).map(count)
        points.reduce()
        child = os.fork()
        if not child:
            status = 1
            try:
                ac.collect()
            except RuntimeError as error:
                status = int("of which this one is a fork" not in str(error))
                ac.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ac.collect(PATIENCE).value == len(X)


def test_a_value_of_a_class_of_the_script_comes_back():
    """On processes, whose workers have no such module."""
    code = """
        from hogshare import AsyncContext
        class Seen:
            def __init__(self, n):
                self.n = n
        if __name__ == "__main__":
            with AsyncContext("processes", n_workers=1) as ac:
                ac.parallelize([[1.0], [2.0]]).map(lambda rows: Seen(len(rows))).reduce(max)
                value = ac.collect().value
                assert isinstance(value, Seen) and value.n == 2
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run(command, check=True, timeout=PATIENCE)


@pytest.mark.parametrize("timeout", ["1", -1.0, float("nan"), True])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with AsyncContext("threads", n_workers=1) as ac:
        points = ac.parallelize(X, Y).map(count)
        with pytest.raises(ValueError, match="timeout must be None or a number of seconds"):
            points.reduce(timeout=timeout)
        with pytest.raises(ValueError, match="timeout must be None or a number of seconds"):
            ac.collect(timeout=timeout)


class OnlyGoes(Exception):
    """Can be pickled, and not unpickled: its class takes two arguments, and it stores one."""

    def __init__(self, row, why):
        super().__init__(f"{row}: {why}")


def test_a_value_that_cannot_be_unpickled_is_an_error_of_its_task(workers):
    with AsyncContext(workers, n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        points.map(lambda rows: OnlyGoes(3, "of no use")).reduce(min)
        if ac.executor.name in ("threads", "simulator"):
            assert isinstance(ac.collect().value, OnlyGoes)
        else:
            with pytest.raises(TaskError, match="missing 1 required positional argument"):
                ac.collect(PATIENCE)
        points.map(count).reduce()
        assert ac.collect(PATIENCE).value == len(X)


class Unnameable:
    def __call__(self, rows):
        return len(rows[1])

    def __repr__(self):
        raise RuntimeError("no name")


def test_nobody_asks_a_function_for_its_text():
    with AsyncContext("threads", n_workers=1) as ac:
        ac.parallelize(X, Y).map(Unnameable()).reduce()
        assert ac.collect(PATIENCE).value == len(X)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_ctrl_c_just_before_a_wait_ends_it(kind, monkeypatch):
    """Its handler has to run before the wait, for which it has rung no bell."""
    with AsyncContext(kind, n_workers=1) as ac:
        ac.parallelize(X, Y).map(lambda rows: time.sleep(3.0)).reduce()
        poll, began = ac.executor.poll, time.monotonic()

        def interrupted(seconds):
            if seconds is None:
                monkeypatch.undo()
                signal.raise_signal(signal.SIGINT)
            return poll(seconds)

        monkeypatch.setattr(ac.executor, "poll", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ac.collect()
        assert time.monotonic() - began < 2.0
        assert ac.collect(PATIENCE).value is None


def test_iterating_over_a_closed_context_is_an_error():
    with AsyncContext("threads", n_workers=1) as ac:
        ac.parallelize(X, Y).map(count).reduce()
    with pytest.raises(RuntimeError, match="this context is closed"):
        list(ac)


def test_a_value_that_contains_itself_is_an_error_of_its_task(workers):
    def endless(rows):
        found = []
        found.append(found)
        return found

    with AsyncContext(workers, n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        points.map(endless).reduce()
        with pytest.raises(TaskError, match="contains itself"):
            ac.collect()
        points.map(count).reduce()
        assert ac.collect().value == len(X)


@pytest.mark.parametrize("shape", [(4,), (9,), (5, 1), ()])
def test_a_model_of_another_shape_is_refused(shape):
    """Its kernel would read and write memory of others."""
    problem = problems.linear(X, Y, loss="squared_error", fit_intercept=False)
    with AsyncContext("threads", n_workers=1) as ac:
        ac.parallelize(problem).map(problem, ac.broadcast(np.zeros(shape))).reduce()
        with pytest.raises(TaskError, match="w must be a vector of 5 parameters; its shape is"):
            ac.collect()
    with pytest.raises(ValueError, match="out must be a vector of 5"):
        problem.gradient(np.zeros(5), np.arange(3), np.zeros(6))
    for rows in ([-1], [len(X)]):
        with pytest.raises(ValueError, match="rows must be from 0 to 119"):
            problem.gradient(np.zeros(5), np.array(rows), np.zeros(5))


def test_results_beside_a_failed_task_stay(workers):
    with AsyncContext(workers, n_workers=2) as ac:
        points = ac.parallelize(X, Y)
        points.map_with_index(lambda i, rows: 1 // int(i[0])).reduce(add)
        with pytest.raises(TaskError, match="ZeroDivisionError"):
            ac.collect_all(timeout=PATIENCE)
        assert [r.value for r in ac.collect_all()] == [0] and ac.accepted == 1
        assert ac.collect_all() == []


def test_shapes_that_do_not_add_up():
    with AsyncContext("threads", n_workers=2) as ac:
        points = ac.parallelize(X, Y, partitions=4)
        points.map_with_index(lambda i, rows: np.zeros(1 + int(i[0]) // 60)).reduce(add)
        for _ in range(2):
            with pytest.raises(TaskError, match="the same parts and shapes for all rows"):
                ac.collect()
        points.map_with_index(lambda i, rows: np.zeros(1 + int(i[0]) // 30 % 2)).reduce(add)
        ac.collect()
        with pytest.raises(TaskError, match=r"gave a value of shape .* cannot be added up"):
            ac.collect()


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def test_a_killed_worker_s_task_is_done_by_another_with_the_same_rows(tmp_path):
    """The second try sees the file that the first one has written."""
    mark = tmp_path / "tried"

    def once_deadly(rows):
        if not mark.exists():
            mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return rows[1].tolist()

    with AsyncContext("processes", n_workers=2) as ac:
        points = ac.parallelize(X, Y, partitions=2).sample(0.5)
        first = points.barrier(lambda stat, me: me == 0)
        assert first.map(once_deadly).reduce(add) == [0]
        (result,) = ac.collect_all()
        assert result.value == Y[draws_of_task(0, 0, {0: 60}, 0.5)[0]].tolist()
        assert result.worker == 1 and ac.repeated == 1 and ac.accepted == 1
        assert sorted(points.map(count).reduce(add)) == [0, 1]
        assert len(ac.collect_all()) == 2


def test_a_task_that_always_kills_is_given_up():
    with AsyncContext("processes", n_workers=1, retries=1) as ac:
        points = ac.parallelize(X, Y)
        points.map(lambda rows: os.kill(os.getpid(), signal.SIGKILL)).reduce(add)
        with pytest.raises(TaskError, match="was lost 2 times: worker 0 was killed by signal 9"):
            ac.collect()
        points.map(count).reduce(add)
        assert ac.collect().value == 120


def test_who_ends_its_worker_is_named_by_default():
    with AsyncContext("processes", n_workers=2) as ac:
        points = ac.parallelize(X, Y)
        points.map(lambda rows: os._exit(3)).reduce(add)
        for _ in range(2):
            with pytest.raises(TaskError, match=r"was lost 4 times: worker . ended with exit st"):
                ac.collect(timeout=PATIENCE)
        points.map(count).reduce(add)
        assert sum(r.value for r in ac.collect_all(timeout=PATIENCE)) == 120


def pid_of(ac, worker):
    return ac.executor.pid(worker) if worker in ac.executor.workers else None


def test_a_worker_that_dies_again_and_again_without_a_task_is_not_replaced():
    with AsyncContext("processes", n_workers=1) as ac:
        points = ac.parallelize(X, Y).map(count)
        with pytest.warns(RuntimeWarning, match="worker 0 was killed.*3 times in a row.*task"):
            deadline = time.monotonic() + PATIENCE
            while ac.executor.workers and time.monotonic() < deadline:
                pid = ac.executor.pid(0)
                kill(pid)
                while pid_of(ac, 0) == pid and time.monotonic() < deadline:
                    ac.has_next()
                    time.sleep(0.01)
        with pytest.raises(BarrierError, match="can never be met"):
            points.reduce(add)


def test_tasks_of_the_last_worker_fail_with_its_death():
    """And so do those who only wait, by whatever they wait."""
    dies = virtual(block_time=Constant(1.0), churn=Churn(deaths={0: 2.5}))

    async def collected(ac):
        return [result async for result in ac]

    for wait in (
        AsyncContext.collect,
        AsyncContext.collect_all,
        lambda ac: asyncio.run(collected(ac)),
    ):
        with AsyncContext(dies, n_workers=1) as ac:
            points = ac.parallelize(X, Y).map(count)
            for _ in range(2):
                points.reduce(add)
                ac.collect()
            points.reduce(add)
            with pytest.raises(TaskError, match=r"lost once: worker 0 died.*All workers are go"):
                wait(ac)


UNCLOSED = """
    import sys, time
    from operator import add
    import numpy as np
    from hogshare import AsyncContext
    kind, what = sys.argv[1:]
    if __name__ == "__main__":
        ac = AsyncContext(kind, n_workers=2)
        seconds = 600 if what == "stuck" else 0
        ac.parallelize(np.zeros((4, 2))).map(lambda rows: time.sleep(seconds) or 1).reduce(add)
        if what != "stuck":
            ac.collect_all()
        assert what != "error"
        print("the end")
"""


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("what", ["whole", "error", "stuck"])
def test_a_context_that_is_not_closed_lets_the_process_end(kind, what):
    command = [sys.executable, "-c", textwrap.dedent(UNCLOSED), kind, what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if what == "error":
        assert done.returncode == 1 and "AssertionError" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_context_that_is_dropped_leaves_no_worker(kind):
    def run():
        ac = AsyncContext(kind, n_workers=2)
        ac.parallelize(X, Y).map(lambda rows: [(os.getpid(), threading.get_ident())]).reduce(add)
        found = {where for result in ac.collect_all() for where in result.value}
        return found, weakref.ref(ac.executor)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            used, executor = run()
            assert executor() is None  # at once, without the collector of garbage
    if kind == "processes":
        assert_gone({pid for pid, _ in used})
        return
    spare, deadline = {server.thread.ident for server in pool()._spare}, time.monotonic() + PATIENCE
    while not {thread for _, thread in used} <= spare and time.monotonic() < deadline:
        spare = {server.thread.ident for server in pool()._spare}
        time.sleep(0.001)
    assert {thread for _, thread in used} <= spare


def test_partitions_of_the_dead_are_others():
    """On the virtual clock, where nobody comes back."""
    dies = virtual(block_time=Constant(1.0), churn=Churn(deaths={1: 2.5}, joins={2: 3.25}))
    with AsyncContext(dies, n_workers=3) as ac:
        points = ac.parallelize(X, Y, partitions=6).map(lambda rows: 1)
        done = np.zeros(6, int)
        while ac.seconds < 12.0:
            points.reduce(add)
            while ac.has_next():
                done[list(ac.collect().partitions)] += 1
        assert ac.stat.state.tolist()[1] == "dead" and ac.repeated == 1
        assert ac.stat.blocks[2] > 0 and done.min() >= 5


def test_a_dead_dask_worker_s_task_is_done_by_another():
    pytest.importorskip("distributed")

    def slow(rows, w):
        time.sleep(0.3)
        return float(w[0]) + len(rows[1])

    with cluster() as own, AsyncContext(own) as ac:
        pids = own.run(os.getpid)
        points = ac.parallelize(X, Y, partitions=4)
        w_br = ac.broadcast(np.ones(1))
        points.map(slow, w_br).reduce(add)
        ac.collect_all()  # both have the function and the version
        points.map(slow, w_br).reduce(add)
        kill(next(iter(pids.values())))
        results = ac.collect_all(timeout=PATIENCE)
        assert sum(r.n_samples for r in results) == 120
        assert [r.value for r in results] == [2.0 + 60] * 2
        deadline = time.monotonic() + PATIENCE
        while ac.stat.available_workers < 2 and time.monotonic() < deadline:
            points.map(slow, w_br).reduce(add)
            ac.collect_all(timeout=PATIENCE)
        assert ac.stat.available_workers == 2  # the nanny has started another


def test_a_task_outlives_the_only_dask_worker():
    """For a moment there is none, and none of the name that the task prefers comes back."""
    pytest.importorskip("distributed")

    def slow(rows):
        time.sleep(1.0)
        return len(rows[1])

    with cluster(1) as own, AsyncContext(own, n_workers=1) as ac:
        points = ac.parallelize(X, Y, partitions=3)
        for _ in range(2):  # of the second task the partitions are there
            points.map(slow).reduce(add)
            time.sleep(0.5)
            kill(*own.run(os.getpid).values())
            assert ac.collect(timeout=PATIENCE).value == 120
        assert ac.repeated == 2


def test_blocks_of_dask_arrays_are_made_again():
    pytest.importorskip("distributed")
    import dask.array as da

    with cluster(1) as own, AsyncContext(own) as ac:
        rows = da.from_array(X, chunks=(60, D))
        points = ac.parallelize(rows, da.from_array(Y, chunks=60))
        for _ in range(2):
            points.map(count).reduce(add)
            assert ac.collect(timeout=PATIENCE).value == 120
            kill(*own.run(os.getpid).values())
        wrong = da.from_delayed(dask_of(X[:50]), shape=(60, D), dtype=X.dtype)
        ac.parallelize(wrong).map(len).reduce(add, timeout=PATIENCE)
        with pytest.raises(TaskError, match="has 50 rows, and its chunks say 60"):
            ac.collect(timeout=PATIENCE)


def dask_of(thing):
    import dask

    return dask.delayed(lambda: thing)()


def test_the_end_of_a_dask_worker_counts_as_a_try():
    pytest.importorskip("distributed")

    with cluster(1) as own, AsyncContext(own, retries=0) as ac:
        ac.parallelize(X, Y).map(lambda rows: os._exit(3)).reduce(add)
        with pytest.raises(TaskError, match=r"was lost once: worker 0 at .* has left the cluster"):
            ac.collect(timeout=PATIENCE)


def test_ctrl_c_while_collecting_leaves_nothing(capsys):
    with AsyncContext("processes", n_workers=2) as ac:
        ac.parallelize(X, Y).map(lambda rows: time.sleep(600)).reduce(add)
        pids = [ac.executor.pid(worker) for worker in range(2)]
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            ac.collect(timeout=PATIENCE)
    assert_gone(pids)


def assert_gone(pids):
    deadline = time.monotonic() + PATIENCE
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, "a worker in the middle of a task has been left"
        time.sleep(0.01)


# --- bad use ---------------------------------------------------------------------------------


def test_bad_use_is_told_in_a_sentence():
    with AsyncContext("threads", n_workers=2) as ac, AsyncContext("threads", n_workers=2) as other:
        points = ac.parallelize(X, Y)
        w_br = other.broadcast(np.zeros(D))
        for rate in (0.0, -0.1, 1.1, float("nan"), "all", True):
            with pytest.raises(ValueError, match="rate must be above 0 and at most 1"):
                points.sample(rate)
        for call, kind, told in [
            (lambda: points.map(gradient, w_br), ValueError, "another context's"),
            (lambda: points.map(gradient, np.zeros(D)), TypeError, "must come from broadcast"),
            (lambda: points.map(count).map(count), ValueError, "has a function already"),
            (lambda: points.sample(0.5).sample(0.5), ValueError, "is sampled already"),
            (lambda: points.map(3), TypeError, "map takes a function"),
            (lambda: points.map(count, each="rows"), ValueError, "each must be"),
            (lambda: points.map(count).reduce(None), TypeError, "op must be a function"),
            (lambda: points.map(count, history=True), ValueError, "needs a broadcast"),
            (lambda: ac.parallelize(X, Y[:5]), ValueError, "a y for each row"),
            (lambda: ac.parallelize(X, partitions=1), ValueError, "too few for 2 workers"),
            (lambda: ac.parallelize(X[:3], partitions=4), ValueError, "too few for 4 partitions"),
            (lambda: ac.parallelize("rows"), ValueError, "array or a sparse matrix"),
            (lambda: ac.parallelize(loaders=[1, 2]), TypeError, "loader 0 is not a function"),
            (lambda: ac.broadcast(object()), TypeError, "array of numbers"),
        ]:
            with pytest.raises(kind, match=told):
                call()
    with pytest.raises(RuntimeError, match="this context is closed"):
        points.map(count).reduce(add)
    for used in (ac.collect, ac.has_next, ac.collect_all, lambda: ac.broadcast(w_br.value)):
        with pytest.raises(RuntimeError, match="this context is closed"):
            used()
    ac.close()  # again


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n_workers": 0}, "n_workers"),
        ({"seed": -1}, "seed"),
        ({"cutoff": -1}, "cutoff"),
        ({"retries": 1.5}, "retries"),
        ({"stragglers": ControlledDelay(1.0, workers=(5,))}, "names worker 5"),
        ({"memory": 0}, "memory"),
    ],
)
def test_settings_are_checked(settings, told):
    with pytest.raises(ValueError, match=told):
        AsyncContext("threads", **{"n_workers": 2, **settings})


def test_a_function_that_cannot_be_pickled():
    lock = threading.Lock()
    with AsyncContext("processes", n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        with pytest.raises(ValueError, match="cannot be sent to worker processes"):
            points.map(lambda rows: lock.acquire()).reduce(add)
        points.map(lambda rows: threading.Lock()).reduce(lambda a, b: a)
        with pytest.raises(TaskError, match="what the task returned cannot be sent"):
            ac.collect()
        points.map(count).reduce(add)
        assert ac.collect().value == 120


def test_nothing_is_left():
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for kind in ("threads", "processes"):
        for _ in range(3):
            with AsyncContext(kind, n_workers=2) as ac:
                points = ac.parallelize(np.zeros((200_000, 2)), partitions=2)
                points.map(np.sum).reduce(add)
                ac.collect()
    gc.collect()
    # the crew keeps a socket for each of its processes
    assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_stragglers_sleep_in_their_tasks():
    law = ControlledDelay(1.0, base=0.5)
    with AsyncContext(virtual(block_time=Constant(1.0)), n_workers=2, stragglers=law) as ac:
        ac.parallelize(X, Y).map(count).reduce(add)
        ac.collect_all()
        assert ac.stat.mean_block_seconds.tolist() == [2.0, 1.5]


def test_links_take_their_time_and_versions_travel_once():
    link = Link(bandwidth=1000.0)
    simulator = virtual(block_time=Constant(1.0), network=Network(link))
    with AsyncContext(simulator, n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        w_br = ac.broadcast(np.zeros(1000))
        took = []
        for _ in range(2):
            began = ac.seconds
            points.map(lambda rows, w: 0, w_br).reduce(add)
            ac.collect()
            took.append(ac.seconds - began)
        assert took[0] - took[1] == pytest.approx(8.0)


def test_two_contexts_at_once_do_not_mix(workers):
    """Each has its own rows, versions and results, whichever collects first."""
    both = [AsyncContext(workers, n_workers=1, seed=seed) for seed in (0, 1)]
    with both[0] as first, both[1] as second:
        for k in range(5):
            for ac, scale in ((first, 1.0), (second, 2.0)):
                points = ac.parallelize(scale * X, Y) if k == 0 else ac.points
                ac.points = points
                points.map(lambda rows, w: float(rows[0].sum() + w), ac.broadcast(k)).reduce()
            found = [ac.collect(PATIENCE).value for ac in (second, first)]
            assert found == pytest.approx([2.0 * X.sum() + k, X.sum() + k])
        with pytest.raises(ValueError, match="is another context's"):
            first.points.map(gradient, second.broadcast(np.zeros(D)))
        second.close()
        first.points.map(count).reduce()
        assert first.collect(PATIENCE).value == len(X)


@pytest.mark.parametrize("kind", ["threads", "processes", "simulator"])
def test_many_tasks_take_no_more_memory(kind):
    """Neither the caller nor a worker retains what a collected task was."""

    def resident(_rows=None):
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def peak(points, ac, n_tasks, w):
        most = 0
        for k in range(n_tasks):
            points.map(lambda rows, w: resident(), ac.broadcast(w)).reduce(max)
            seen = ac.collect()
            if k % 50 == 0:
                most = max(most, seen.value, resident())
        return most

    n_tasks = 10_000 if kind == "threads" else 2_000
    with AsyncContext(virtual() if kind == "simulator" else kind, n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        w = np.zeros(10_000)  # 80 kB: a version per task would be 800 MB
        before = peak(points, ac, 200, w)
        after = peak(points, ac, n_tasks, w)
        assert ac.versions_alive <= 2 and ac.accepted == n_tasks + 200
    assert after - before < 16 << 20


def test_it_is_a_public_name():
    assert hogshare.AsyncContext is AsyncContext and "AsyncContext" in hogshare.__all__
