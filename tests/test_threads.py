"""`runtime="threads"`: the calling thread is worker 0, and may be interrupted between its turns."""

import os
import threading
import time

import numpy as np
import pytest

from hogshare import BSP, PBSP, SAGA, SDCA, SGD, SSP, Master, Shared, Stop, problems, solve
from hogshare.engine.convergence_checks import Checks
from hogshare.kernels import layout
from hogshare.runtimes import core_placement, pool
from hogshare.runtimes import threads as threads_module
from hogshare.runtimes.events import Bell

ENDLESS = Stop(epochs=1_000_000_000)


def problem_of(n_rows=2_000):
    X = np.random.default_rng(0).standard_normal((n_rows, 12))
    return problems.linear(X, X[:, 0] > 0.0, alpha=0.01)


@pytest.fixture
def turns(seams):
    """Who has taken turns, in which thread: pairs of worker and thread."""
    seen, turn = set(), seams.loop.quantum

    def seen_turn(worker, n_blocks):
        seen.add((worker.me, threading.get_ident()))
        return turn(worker, n_blocks)

    seams.loop.quantum = seen_turn
    return seen


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_worker_0_is_the_calling_thread(turns, n_workers):
    barrier = BSP() if n_workers > 1 else None  # nobody is through before the others have come
    run = {"runtime": "threads", "n_workers": n_workers, "seed": 0}
    report = solve(problem_of(), stop=Stop(epochs=3), barrier=barrier, **run)
    assert report.n_epochs == 3
    assert {me for me, _ in turns} == set(range(n_workers))
    assert len(turns) == len({thread for _, thread in turns}) == n_workers
    assert (0, threading.get_ident()) in turns


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
@pytest.mark.parametrize("known", [True, False], ids=["its core is known", "it is not"])
def test_the_calling_thread_is_never_bound_to_a_core(monkeypatch, turns, known):
    """Or threads that a library of its starts would be bound with it, for good."""
    free, seen, look = os.sched_getaffinity(0), [], Checks.act

    def seen_look(*given):
        seen.append(os.sched_getaffinity(0))
        return look(*given)

    monkeypatch.setattr(Checks, "act", seen_look)
    if not known:
        monkeypatch.setattr(core_placement, "_current_core", lambda: core_placement.UNKNOWN)
    stop = Stop(epochs=200, gradient=1e-9)
    report = solve(problem_of(), stop=stop, rule=SAGA(), runtime="threads", n_workers=2)
    assert report.converged and len(seen) > 1 and (0, threading.get_ident()) in turns
    assert set(map(frozenset, seen)) == {frozenset(free)} == {frozenset(os.sched_getaffinity(0))}


@pytest.mark.parametrize(("epochs", "turns_taken"), [(1, 1), (5, 1), (2_000, None)])
def test_a_run_of_a_moment_is_one_turn(epochs, turns_taken, seams):
    """It sees by itself that there is nothing left; a long one can be interrupted."""
    calls, turn = [], seams.loop.quantum
    seams.loop.quantum = lambda *given: calls.append(1) or turn(*given)
    assert solve(problem_of(), stop=Stop(epochs=epochs), seed=0).n_epochs == epochs
    assert len(calls) == turns_taken if turns_taken else len(calls) > 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_no_other_begins_on_the_calling_threads_core(seams):
    usable, sent = os.sched_getaffinity(0), []
    if len(usable) < 2:
        pytest.skip("one usable core")
    submit_to = seams.loop.submit

    def noted(threads, cores, *task):
        sent.append(set(cores))
        return submit_to(threads, cores, *task)

    seams.loop.submit = noted
    run = {"runtime": "threads", "n_workers": 2, "seed": 0}
    for _ in range(5):
        solve(problem_of(), stop=Stop(epochs=1), **run)
    assert len(sent) == 5 and all(len(cores) == len(usable) - 1 for cores in sent)
    tasks = [pool.pool().submit(os.sched_getaffinity, 0) for _ in range(4)]
    assert all(task.result(10.0) == usable for task in tasks), "free, once the runs are over"
    sent.clear()
    solve(problem_of(), stop=Stop(epochs=1), on_epoch=lambda *_: False, **run)
    assert sent == [set(), set()], "a caller that only waits leaves its core to them"


@pytest.mark.parametrize("barrier", [None, BSP()], ids=str)
def test_who_has_epochs_to_report_is_no_worker(turns, barrier):
    """Behind BSP another worker may end many epochs while it is in a turn."""
    seen = []

    def told(epoch, snapshot):
        seen.append((epoch, threading.get_ident()))
        assert snapshot().coef.shape == (1, 12)
        return epoch == 17

    run = {"runtime": "threads", "n_workers": 2, "on_epoch": told, "barrier": barrier}
    report = solve(problem_of(), stop=ENDLESS, **run)
    assert seen == [(epoch, threading.get_ident()) for epoch in range(1, 18)]
    assert report.n_epochs >= 17
    assert threading.get_ident() not in {thread for _, thread in turns}


def test_a_callback_that_takes_long_is_not_taken_for_a_barrier_that_is_stuck(seams):
    seams.clock.until_stuck_ns = 100_000_000

    def slow(epoch, snapshot):
        time.sleep(0.5 if epoch == 2 else 0.0)
        return False

    run = {"runtime": "threads", "n_workers": 2, "on_epoch": slow, "barrier": asked}
    assert solve(problem_of(), stop=Stop(epochs=5), **run).n_epochs == 5


def asked(table, me):
    """A barrier of the user's: nobody is ahead of the others by more than two."""
    present = table.in_run
    return bool(table.clock[me] <= table.clock[present].min(initial=table.clock[me]) + 2)


RUNS = {
    "no barrier": {},
    "BSP": {"barrier": BSP()},
    "SSP": {"barrier": SSP(1)},
    "a sample": {"barrier": PBSP(1)},
    "the user's": {"barrier": asked},
    "dual": {"rule": SDCA()},
    "remembering, behind BSP": {"rule": SAGA(), "barrier": BSP()},
    "one vector": {"plane": Shared(exchange=None)},
    "master": {"plane": Master()},
    "master behind BSP": {"plane": Master(), "barrier": BSP()},
}


def raised_by(number):
    """Interrupts the calling thread after so many of its turns, as Ctrl-C may."""
    left = [number]

    def interrupt(worker):
        if worker.me == 0:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

    return interrupt


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("before", [True, False], ids=["before a turn", "after it"])
@pytest.mark.parametrize("number", [1, 5])
def test_who_is_interrupted_between_turns_holds_nobody(seams, name, before, number):
    """Neither the others, who may wait for it at a barrier, nor the master, who ends last."""
    turn, interrupt = seams.loop.quantum, raised_by(number)

    def interrupted(worker, n_blocks):
        if before:
            interrupt(worker)
        answer = turn(worker, n_blocks)
        if not before:
            interrupt(worker)
        return answer

    run = {"rule": SGD(), **RUNS[name], "runtime": "threads", "n_workers": 3, "seed": 0}
    crews = []

    class Crew(threads_module.ThreadCrew):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            crews.append(self)

    seams.loop.crew = Crew
    with seams.for_now() as now:
        now.loop.quantum = interrupted
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            solve(problem_of(), stop=ENDLESS, **run)
        assert time.monotonic() - began < 30.0
    assert not crews[0].running and not crews[0].errors
    assert crews[0].session.schedule.table[0, layout.T_STATE] == layout.DEAD
    assert solve(problem_of(), stop=Stop(epochs=2), **run).n_epochs == 2


@pytest.mark.parametrize("name", ["no barrier", "BSP", "master behind BSP"])
def test_an_error_of_the_hooks_ends_the_run(name):
    def failing(epoch, snapshot):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        solve(
            problem_of(),
            stop=ENDLESS,
            runtime="threads",
            n_workers=2,
            on_epoch=failing,
            **RUNS[name],
        )
    assert caught.value.__context__ is None


def test_an_error_in_another_thread_is_raised_here(seams):
    turn = seams.loop.quantum

    def failing(worker, n_blocks):
        if worker.me == 1:
            raise ZeroDivisionError("in worker 1")
        return turn(worker, n_blocks)

    seams.loop.quantum = failing
    with pytest.raises(ZeroDivisionError, match="in worker 1"):
        solve(problem_of(), stop=ENDLESS, runtime="threads", n_workers=2)


def test_a_bell_rings_once_however_often_it_was_set():
    bell = Bell()
    assert not bell.wait(0.0)
    for _ in range(3):
        bell.set()
    assert bell.wait(0.0) and not bell.wait(0.0)
    bell.set()
    bell.clear()
    assert not bell.wait(0.001)
    threading.Timer(0.05, bell.set).start()
    assert bell.wait(10.0)
