"""What a worker that is killed leaves half done in SAGA's average and SDCA's vector is put in order
while the others go on. All workers take turns in one thread, and one is not asked again.
"""

import cases
import numpy as np
import pytest

from hogshare import SAGA, SDCA, SGD, Shared, Stop, problems, solve
from hogshare.kernels import layout
from hogshare.kernels.schedule import worker_life
from hogshare.kernels.schedule.repair import open_repair
from hogshare.runtimes.monitor import Monitor

WAYS = {
    "exchange": (SAGA(), Shared(exchange=7)),
    "lock-free": (SAGA(), Shared(exchange=None)),
    "importance": (SAGA(sampling="importance"), Shared(exchange=7)),
    "dual": (SDCA(), Shared(exchange=7)),
}


def make(n=120, m=6, columns=1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m)) * (rng.random((n, m)) < 0.7)
    y = (X @ rng.standard_normal((m, columns)) + rng.standard_normal(columns)).argmax(axis=1)
    y = y if columns > 1 else (X @ rng.standard_normal(m) > 0.0).astype(int)
    return X, problems.linear(X, y, alpha=0.05)


def error(session, X):
    """By how much what the rule sums over the rows is off, all private copies' parts included."""
    columns, s = session.settings.n_columns, session
    if session.rule.method == 2:
        table = s.memory.gradients.reshape(-1, columns)
        wanted, have = X.T @ table / len(X), s.memory.average.reshape(-1, columns)
    else:
        table = s.memory.dual.reshape(-1, 1 + columns)[:, 1:]
        wanted, have = X.T @ table / session.rule.dual_scale, s.vector.w.reshape(-1, columns)
    means = np.abs(s.memory.dual_mean - table.mean(axis=0)).max()
    return max(np.abs(wanted - have).max(), means)


def turn(workers):
    return [w for w in workers if w.run_quantum(1) != layout.QUANTUM_DONE]


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_the_sums_are_whole_again_and_the_run_reaches_the_optimum(way, columns):
    rule, plane = WAYS[way]
    X, problem = make(columns=columns)
    best = solve(problem, rule=SDCA(), stop=Stop(epochs=400), seed=0).model
    session = cases.session(problem, rule=rule, plane=plane, stop=Stop(epochs=400), n_workers=3)
    first, dead, last = (session.worker(k) for k in range(3))
    assert first.join() and dead.join() and last.join()
    for _ in range(20):
        turn([first, dead, last])
    # in the middle of a row: the table has it, the sums do not
    s = session
    for r in range(5):
        if rule == SDCA():
            s.memory.dual.reshape(-1, 1 + columns)[r, 1:] *= 0.5
        else:
            s.memory.gradients.reshape(-1, columns)[r] += 0.1
    monitor = Monitor(session)
    monitor.bury(dead.me)
    assert session.word(layout.REPAIR_WANTED) == 1
    live = [first, last]
    for _ in range(6):
        monitor.tick()
        turn(live)
    assert session.word(layout.REPAIRED) == 1
    assert session.word(layout.SUMMER) == 0
    while live:
        live = turn(live)
        monitor.tick()
    first.leave()
    last.leave()
    assert error(session, X) < 1e-12
    model = session.model()
    np.testing.assert_allclose(model.coef, best.coef, atol=1e-6)
    np.testing.assert_allclose(model.intercept, best.intercept, atol=1e-6)


def test_without_the_repair_that_run_ends_elsewhere():
    """The broken twin: nobody asks."""
    X, problem = make()
    best = solve(problem, rule=SDCA(), stop=Stop(epochs=400), seed=0).model
    run = {"rule": SAGA(), "plane": Shared(exchange=7), "stop": Stop(epochs=400)}
    session = cases.session(problem, n_workers=2, **run)
    workers = [session.worker(k) for k in range(2)]
    assert all(w.join() for w in workers)
    for _ in range(20):
        turn(workers)
    session.memory.gradients[:5] += 0.1
    live = workers
    while live:
        live = turn(live)
    for worker in workers:
        worker.leave()
    assert error(session, X) > 1e-3
    assert np.abs(session.model().coef - best.coef).max() > 1e-3


def test_nobody_sums_while_another_works():
    """Whoever has paused waits for the rest; one that joins meanwhile disturbs nothing."""
    X, problem = make()
    run = {"rule": SAGA(), "plane": Shared(exchange=7), "stop": Stop(epochs=50)}
    session = cases.session(problem, n_workers=4, **run)
    a, dead, b, late = (session.worker(k) for k in range(4))
    assert a.join() and dead.join() and b.join()
    for _ in range(5):
        turn([a, dead, b])
    monitor = Monitor(session)
    monitor.bury(dead.me)
    for _ in range(5):
        assert a.run_quantum(1) == layout.QUANTUM_WAIT
        monitor.tick()
    assert session.word(layout.SUMMER) == 0, "b has not paused"
    assert b.run_quantum(1) == layout.QUANTUM_WAIT
    assert late.join()
    monitor.tick()
    assert session.word(layout.SUMMER) == 0, "the late one is in the run by now"
    assert late.run_quantum(1) == layout.QUANTUM_WAIT
    monitor.tick()
    assert session.word(layout.SUMMER) == -1
    assert late.run_quantum(1) == layout.QUANTUM_WAIT
    assert session.word(layout.REPAIRED) == 1
    assert error(session, X) < 1e-12
    live = [a, b, late]
    while live:
        live = turn(live)
    for worker in (a, b, late):
        worker.leave()
    assert error(session, X) < 1e-12


@pytest.mark.parametrize("moment", ["opened", "summing", "summed"])
def test_the_one_that_sums_may_die_too(moment):
    X, problem = make()
    run = {"rule": SAGA(), "plane": Shared(exchange=7), "stop": Stop(epochs=50)}
    session = cases.session(problem, n_workers=4, **run)
    a, dead, b, c = (session.worker(k) for k in range(4))
    assert all(w.join() for w in (a, dead, b, c))
    for _ in range(5):
        turn([a, dead, b, c])
    monitor = Monitor(session)
    monitor.bury(dead.me)
    turn([a, b, c])
    monitor.tick()
    s = session
    assert s.schedule.control[layout.SUMMER] == -1
    if moment != "opened":
        s.schedule.control[layout.SUMMER] = b.me + 1
        s.memory.average[: len(s.memory.average) // 2] = 7.0
    if moment == "summed":
        s.schedule.control[layout.REPAIRED] = 1
    monitor.bury(b.me)
    assert session.word(layout.REPAIR_WANTED) == 2
    live = [a, c]
    while live:
        live = turn(live)
        monitor.tick()
    assert session.word(layout.REPAIRED) == 2
    for worker in (a, c):
        worker.leave()
    assert error(session, X) < 1e-12


def test_a_monitor_that_opens_too_late_does_no_harm():
    X, problem = make()
    run = {"rule": SAGA(), "plane": Shared(exchange=7), "stop": Stop(epochs=50)}
    session = cases.session(problem, n_workers=3, **run)
    a, dead, b = (session.worker(k) for k in range(3))
    assert a.join() and dead.join() and b.join()
    for _ in range(5):
        turn([a, dead, b])
    monitor = Monitor(session)
    monitor.bury(dead.me)
    turn([a, b])
    monitor.tick()
    turn([a])
    assert session.word(layout.REPAIRED) == 1
    session.schedule.control[layout.SUMMER] = -1  # what it would have written a moment before
    turn([a, b])
    monitor.bury(b.me)
    turn([a])
    assert session.word(layout.REPAIRED) == 1, "opened for the first repair, not for this one"
    open_repair(session.schedule.table, session.schedule.control)
    assert session.word(layout.SUMMER) == -2
    turn([a])
    assert session.word(layout.REPAIRED) == 2
    assert error(session, X) < 1e-12


def test_stochastic_gradients_have_nothing_to_repair():
    _, problem = make()
    session = cases.session(problem, rule=SGD(), plane=Shared(exchange=7), n_workers=2)
    worker, dead = session.worker(0), session.worker(1)
    assert worker.join() and dead.join()
    Monitor(session).bury(1)
    assert session.word(layout.REPAIR_WANTED) == 0


def resting(n_workers=3):
    """A run that looks after three epochs; all workers rest but the last, which is about to."""
    X, problem = make()
    stop = Stop(epochs=50)
    plane = Shared(exchange=7)
    session = cases.session(problem, rule=SDCA(), plane=plane, stop=stop, n_workers=n_workers)
    session.raise_limit(3)
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(worker.join() for worker in workers)
    tired = set()
    while len(tired) < n_workers:
        tired |= {
            w.me for w in workers if w.me not in tired and w.run_quantum(1) == layout.QUANTUM_PAUSE
        }
    for worker in workers[:-1]:
        worker.leave(worker_life.PAUSE)
    return X, session, workers


def test_a_death_inside_of_leaving_does_not_keep_the_others_at_rest():
    _, session, workers = resting()
    session.schedule.control[layout.LIVE] -= 1  # what leaving does first
    assert not session.is_paused()
    Monitor(session).bury(workers[-1].me)
    assert session.is_paused()


def test_a_death_at_rest_is_repaired_by_the_caller_and_nobody_pushes_into_a_sum():
    X, session, (first, second, dead) = resting()
    session.memory.dual.reshape(-1, 2)[:5, 1:] *= 0.5
    monitor = Monitor(session)
    monitor.bury(dead.me)
    monitor.tick()
    assert session.is_paused() and session.restore_at_pause()
    assert session.word(layout.REPAIRED) == 1 and error(session, X) < 1e-12
    session.raise_limit(6)
    assert first.rejoin() and second.rejoin()
    monitor.bury(dead.me)  # asks for another repair, with nothing done since
    pushes = session.word(layout.VERSION)
    for worker in (first, second):
        assert worker.run_quantum(1) == layout.QUANTUM_WAIT
    assert session.word(layout.VERSION) == pushes
    for _ in range(4):
        monitor.tick()
        turn([first, second])
    assert session.word(layout.REPAIRED) == 2 and error(session, X) > 0.0


def test_the_caller_leaves_a_worker_that_sums_alone():
    _, session, workers = resting()
    Monitor(session).bury(workers[-1].me)
    session.schedule.control[layout.SUMMER] = 1  # a late worker
    assert not session.restore_at_pause()
    assert session.word(layout.SUMMER) == 1 and session.word(layout.REPAIRED) == 0
