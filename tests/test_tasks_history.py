"""History: which version each row was last used with, and that nothing but a result changes it."""

import os
import signal
import warnings
from operator import add

import numpy as np
import pytest
from executors import KINDS, MADE, NEEDS_DASK, client, fork_workers  # noqa: F401
from selection import long_but

from hogshare import BSP, SSP, AsyncContext, Simulator, Throttled
from hogshare.simulation import Churn, Constant, LogNormal
from hogshare.tasks import TaskError, context
from hogshare.tasks.draws import draws_of_task
from hogshare.tasks.executor import Remote
from hogshare.tasks.rank_executor import RankExecutor, follow
from hogshare.tasks.work import Store

PATIENCE = 60.0
N, D = 96, 4
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, D))
Y = X @ [1.0, -1.0, 2.0, 0.0] + 0.2 * RNG.standard_normal(N)


def difference(rows, w):
    """Gradients now less those at the versions that the rows were last used with."""
    X, y = rows
    total = X.T @ (X @ w.value - y)
    for old, places in w.groups():
        if old is not None:
            total -= X[places].T @ (X[places] @ old - y[places])
    return total


def by_rows(index, row, w):
    """The same, of a row, by `value_at`."""
    x, y = row
    old = w.value_at(index)
    return x * (x @ w.value - y) - (0.0 if old is None else x * (x @ old - y))


class Saga:
    """The server's half of SAGA: the model, and the average of the history."""

    def __init__(self, step=0.05):
        self.w, self.average, self.step = np.zeros(D), np.zeros(D), step

    def take(self, result):
        self.w = self.w - self.step * (result.value / result.n_samples + self.average)
        self.average = self.average + result.value / N


def mean_of_history(w_br):
    """The average by its definition, from `value_at` of every row."""
    total = np.zeros(D)
    for i in range(N):
        old = w_br.value_at(i)
        if old is not None:
            total += X[i] * (X[i] @ old - Y[i])
    return total / N


def run(ac, rounds, saga, f=difference, rate=0.2, **how):
    points = ac.parallelize(X, Y, partitions=8).sample(rate)
    for _ in range(rounds):
        w_br = ac.broadcast(saga.w)
        mapped = points.map_with_index if f is by_rows else points.map
        mapped(f, w_br, history=True, **how).reduce(add)
        while ac.has_next():
            saga.take(ac.collect())
    for result in ac:
        saga.take(result)
    return w_br


def test_one_worker_is_saga_with_a_table_of_scalars():
    """The same draws in a plain loop that keeps one derivative for each row."""
    saga = Saga()
    with AsyncContext("threads", n_workers=1) as ac:
        w_br = run(ac, 40, saga)
        told = mean_of_history(w_br)
    w, average, slopes = np.zeros(D), np.zeros(D), np.zeros(N)
    bounds = np.linspace(0, N, 9).astype(int)
    for k in range(40):
        drawn = draws_of_task(0, k, dict.fromkeys(range(8), N // 8), 0.2)
        rows = np.concatenate([bounds[p] + places for p, places in drawn.items()])
        new = X[rows] @ w - Y[rows]
        change = X[rows].T @ (new - slopes[rows])
        slopes[rows] = new
        w = w - 0.05 * (change / len(rows) + average)
        average = average + change / N
    assert np.abs(saga.w - w).max() < 1e-12
    assert np.abs(saga.average - average).max() < 1e-12
    assert np.abs(told - X.T @ slopes / N).max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_is_the_mean_of_the_history(kind, request):
    saga = Saga()
    with AsyncContext(MADE[kind](request), n_workers=2, seed=1) as ac:
        w_br = run(ac, 30, saga)
        assert np.abs(mean_of_history(w_br) - saga.average).max() < 1e-12
        assert 1 < ac.versions_alive <= 31


@pytest.mark.parametrize("kind", KINDS)
def test_the_average_stands_beside_failed_tasks(kind, request):
    """`collect_all` raises the failures one by one, and every other result is collected."""

    def sometimes(index, rows, w):
        if index[0] % 7 == 0:
            raise ValueError("an unlucky row")
        return difference(rows, w)

    saga, failed = Saga(0.02), 0
    with AsyncContext(MADE[kind](request), n_workers=2, seed=2) as ac:
        points = ac.parallelize(X, Y, partitions=8).sample(0.1)
        for _ in range(15):
            w_br = ac.broadcast(saga.w)
            points.map_with_index(sometimes, w_br, history=True).reduce(add)
            while True:
                try:
                    results = ac.collect_all(PATIENCE)
                except TaskError as error:
                    assert "an unlucky row" in str(error)
                    failed += 1
                    continue
                break
            for result in results:
                saga.take(result)
        assert failed > 0 and ac.accepted + failed == 30
        assert np.abs(mean_of_history(w_br) - saga.average).max() < 1e-12


def test_a_function_of_a_row_asks_for_its_version():
    found = []
    for f, how in ((difference, {}), (by_rows, {"each": "row"})):
        saga = Saga()
        with AsyncContext("threads", n_workers=1) as ac:
            run(ac, 20, saga, f, **how)
        found.append(saga.w)
    assert np.allclose(*found, rtol=1e-10)


def test_the_average_stands_after_random_kills():
    """Tasks that are lost are done again, from the same rows and the same history, once."""
    saga, rng = Saga(), np.random.default_rng(5)
    with AsyncContext("processes", n_workers=2, retries=50) as ac:
        points = ac.parallelize(X, Y, partitions=8).sample(0.3)
        for _ in range(40):
            w_br = ac.broadcast(saga.w)
            given = points.map(difference, w_br, history=True).reduce(add)
            if rng.random() < 0.6:
                os.kill(ac.executor.pid(int(rng.choice(given))), signal.SIGKILL)
            while ac.has_next():
                saga.take(ac.collect())
        for result in ac:
            saga.take(result)
        assert ac.repeated > 0
        assert np.abs(mean_of_history(w_br) - saga.average).max() < 1e-12


@NEEDS_DASK
@pytest.mark.parametrize("seed", long_but(2, range(30)))
def test_the_average_stands_after_kills_of_every_dask_worker(seed):
    """One after the other in the course of the run, or all at once: nobody runs for a moment."""
    from distributed import Client, LocalCluster

    fork_workers()
    rng, saga = np.random.default_rng(seed), Saga()
    at = np.sort(rng.integers(20, 150, 3)) if seed % 2 else np.full(3, rng.integers(20, 150))
    victims = list(zip(at.tolist(), rng.permutation(3).tolist(), strict=True))
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        warnings.catch_warnings(),
        LocalCluster(processes=True, silence_logs=50, **options) as own,
        Client(own) as there,
        AsyncContext(there, retries=10) as ac,
    ):
        warnings.simplefilter("ignore")
        points, done = ac.parallelize(X, Y, partitions=9).sample(0.3), 0
        while done < 200:
            w_br = ac.broadcast(saga.w)
            points.map(difference, w_br, history=True).reduce(add, timeout=PATIENCE)
            while victims and done >= victims[0][0]:
                _, k = victims.pop(0)
                process = list(own.workers.values())[k % len(own.workers)].process
                if process is not None and process.pid:  # or it has not come up again
                    os.kill(process.pid, signal.SIGKILL)
            saga.take(ac.collect(timeout=PATIENCE))
            done += 1
        for result in ac:
            saga.take(result)
        assert not victims
        assert np.abs(mean_of_history(w_br) - saga.average).max() < 1e-12


def test_a_death_changes_no_bit():
    """On the virtual clock with one task at a time: with a death, and without."""

    def at_the_end(churn):
        saga = Saga()
        simulator = Simulator(block_time=Constant(1.0), churn=churn)
        with AsyncContext(simulator, n_workers=2) as ac:
            points = ac.parallelize(X, Y, partitions=2).sample(0.4)
            for k in range(5):
                turn = points.barrier(lambda stat, me, k=k: me == k % 2)
                turn.map(difference, ac.broadcast(saga.w), history=True).reduce(add)
                saga.take(ac.collect())
            return saga.w.tobytes(), ac.repeated

    calm, deadly = at_the_end(Churn()), at_the_end(Churn(deaths={0: 4.5}))
    assert (calm[1], deadly[1]) == (0, 1) and calm[0] == deadly[0]


def test_dropped_results_change_no_history():
    slow = Simulator(block_time=Constant(1.0), slowness=[1.0, 1.0, 7.5])
    saga = Saga()
    with AsyncContext(slow, n_workers=3, cutoff=5) as ac:
        w_br = run(ac, 40, saga)
        assert ac.dropped > 0
        assert np.abs(mean_of_history(w_br) - saga.average).max() < 1e-12


def test_versions_go_when_no_row_needs_them():
    """A pass over all rows leaves one."""
    with AsyncContext(Simulator(block_time=LogNormal(1.0, 0.2)), n_workers=2) as ac:
        points = ac.parallelize(X, Y)
        for k in range(40):
            w_br = ac.broadcast(np.full(D, float(k)))
            points.sample(0.1).map(difference, w_br, history=True).reduce(add)
            ac.collect()
        used = {None if (w := w_br.value_at(i)) is None else float(w[0]) for i in range(N)}
        assert 10 < len(used - {None}) <= ac.versions_alive <= len(used) + 2
        ac.collect_all()
        points.map(difference, w_br, history=True).reduce(add)
        ac.collect_all()
        assert ac.versions_alive == 1


def test_every_row_of_a_full_round_has_the_last_version():
    with AsyncContext("threads", n_workers=2) as ac:
        points = ac.parallelize(X, Y, partitions=4)
        for k in range(5):
            w_br = ac.broadcast(np.full(D, float(k)))
            points.map(difference, w_br, history=True).reduce(add)
            ac.collect_all()
            assert ac.versions_alive == 1 and w_br.value_at(N - 1)[0] == k
        with pytest.raises(LookupError, match="there is no row 96"):
            w_br.value_at(N)


def test_what_cannot_have_a_history_is_told():
    with AsyncContext("threads", n_workers=1) as ac:
        points = ac.parallelize(X, Y)
        w_br, other = ac.broadcast(np.zeros(D)), ac.broadcast(np.ones(D))
        with pytest.raises(ValueError, match="versions of one variable"):
            points.map(difference, w_br, other, history=True)
        with pytest.raises(ValueError, match="has two histories"):
            points.sample(0.5, replace=True).map(difference, w_br, history=True).reduce(add)
        with pytest.raises(LookupError, match="0 collections have used 'value'"):
            w_br.value_at(0)
        points.map(lambda rows, w: w.value_at(N + 3), w_br, history=True).reduce(add)
        with pytest.raises(RuntimeError, match="row 99 is none of those of this call"):
            ac.collect()


def test_memory_has_a_bound():
    with AsyncContext("threads", n_workers=1, memory=10 * 8 * D) as ac:
        points = ac.parallelize(X, Y).sample(0.1)
        with pytest.raises(MemoryError, match=r"versions of broadcasts would take .* are alive"):
            for _ in range(40):
                points.map(difference, ac.broadcast(np.zeros(D)), history=True).reduce(add)
                ac.collect()
        assert ac.versions_alive <= 10


def virtual(**how):
    """With an end, for whatever else would wait for ever."""
    return Simulator(block_time=Constant(1.0), seconds=1000.0, **how)


def test_a_dead_worker_s_result_is_not_its_successor_s():
    with AsyncContext(virtual(churn=Churn(deaths={0: 0.5})), n_workers=2) as ac:
        ac.parallelize(X, partitions=2).barrier(lambda stat, me: me == 0).map(len).reduce()
        assert ac.collect().worker == 1
        assert ac.seconds == 1.5 and ac.repeated == 1


def test_counting_has_no_cutoff():
    with AsyncContext(virtual(), n_workers=2, cutoff=0) as ac:
        points = ac.parallelize(loaders=[lambda: X[:40], lambda: X[40:]])
        assert points.n_rows == N and ac.dropped == 0


class Picky:
    """A function that is unpickled only where its file is."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return opened_if, (self.path,)

    def __call__(self, rows, w):
        raise AssertionError("it runs only where it is unpickled")


def opened_if(path):
    with open(path, encoding="ascii"):
        return lambda rows, w: float(w[0])


def test_what_a_worker_could_not_open_is_sent_again(tmp_path):
    """With all that should have come with it: the same function, or another, then works."""
    path = str(tmp_path / "there")
    with AsyncContext("processes", n_workers=1) as ac:
        points, w_br = ac.parallelize(X), ac.broadcast([3.0])
        picky = Picky(path)
        for _ in range(2):
            points.map(picky, w_br).reduce()
            with pytest.raises(TaskError, match="No such file"):
                ac.collect(PATIENCE)
        points.map(lambda rows, w: float(w[0]), w_br).reduce()
        assert ac.collect(PATIENCE).value == 3.0
        with open(path, "w", encoding="ascii"):
            points.map(picky, w_br).reduce()
        assert ac.collect(PATIENCE).value == 3.0


class OneRank(RankExecutor):
    """A rank of an MPI job that runs tasks in this process."""

    def __init__(self, shelf):
        Remote.__init__(self, shelf)
        self.workers, self._store, self._outcomes = range(1), Store(), []
        self._call, self._busy, self._is_open = self, {}, False
        self._sent.begin(0)

    def post(self, rank, kind, order):
        self._outcomes.append(follow(order, self._store))

    def poll(self, seconds):
        outcomes, self._outcomes = self._outcomes, []
        return [self._back(0, outcome) for outcome in outcomes]

    def close(self):
        pass


def test_a_loader_that_raised_on_a_rank_is_called_again(monkeypatch, tmp_path):
    path = tmp_path / "rows.npy"
    monkeypatch.setattr(context, "executor_of", lambda *given: (OneRank(given[-1]), 1))
    with AsyncContext("threads") as ac:
        with pytest.raises(TaskError, match="No such file"):
            ac.parallelize(loaders=[lambda: np.load(path)])
        np.save(path, X)
        assert ac.parallelize(loaders=[lambda: np.load(path)]).n_rows == N


@pytest.mark.parametrize("barrier", [BSP(), SSP(1), Throttled(3), lambda stat, me: level(stat, me)])
def test_workers_without_rows_hold_nobody_up(barrier):
    """Worker 1 has an empty partition beside another one, and worker 2 has only an empty one."""
    sizes = [5, 0, 0, 4, 3, 0]
    loaders = [lambda n=n: X[:n] for n in sizes]
    with AsyncContext(virtual(), n_workers=3) as ac:
        points = ac.parallelize(loaders=loaders)
        for _ in range(4):
            assert points.barrier(barrier).map(len).reduce() == [0, 1]
            found = {r.worker: (r.value, r.partitions) for r in ac.collect_all()}
            assert found == {0: (9, (0, 3)), 1: (3, (4,))}
        with pytest.raises(ValueError, match="0 rows"):
            ac.parallelize(loaders=[lambda: X[:0]] * 3)


def level(stat, me):
    return bool((stat.clock[stat.in_run] >= stat.clock[me]).all())


@NEEDS_DASK
def test_a_dask_array_of_fewer_blocks_than_workers(client):  # noqa: F811
    from dask import array

    with AsyncContext(client, n_workers=2) as ac:
        points = ac.parallelize(array.from_array(X, chunks=(N, D))).barrier(BSP())
        for _ in range(3):
            assert points.map(len).reduce() == [0]
            assert ac.collect(PATIENCE).value == N


def test_workers_that_come_late_have_partitions():
    with AsyncContext(virtual(churn=Churn(join_seconds=3.0)), n_workers=3) as ac:
        points = ac.parallelize(X)
        assert points.n_partitions == 3
        points.map(len).reduce()
        assert ac.collect().value > 0
    with AsyncContext(virtual(churn=Churn(joins={1: 5.0})), n_workers=2) as ac:
        points, found = ac.parallelize(X), set()
        while ac.seconds < 8.0:
            found.update(points.map(len).reduce())
            ac.collect()
        assert found == {0, 1}
