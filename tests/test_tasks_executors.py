"""The executors' contract: the same tests on all of them (`executors.py`)."""

import os
import signal
import threading
import time
from operator import add

import numpy as np
import pytest
from executors import KINDS, MADE, client  # noqa: F401

from hogshare import Simulator
from hogshare.tasks.blocks import Block
from hogshare.tasks.draws import drawn_rows
from hogshare.tasks.executor import Back, Lost
from hogshare.tasks.executors import executor_of
from hogshare.tasks.partitions import ArrayParts, LoadedParts, cut
from hogshare.tasks.plans import TaskPlan
from hogshare.tasks.store import Shelf
from hogshare.tasks.work import Task, Value

PATIENCE = 60.0

X = np.arange(24.0).reshape(12, 2)


@pytest.fixture(params=KINDS)
def made(request):
    """An executor of two workers, and its shelf."""
    shelf = Shelf()
    executor, count = executor_of(MADE[request.param](request), 2, shelf)
    assert count == 2 and list(executor.workers) == [0, 1]
    yield executor, shelf
    executor.close()
    executor.close()


def total(rows, *values):
    return rows.sum(axis=0) + sum(values)


def put(shelf, function=total, rate=1.0, parts=None):
    """A plan and two partitions on the shelf."""
    shelf.put(("plan", 0), TaskPlan(function, op=add, rate=rate))
    shelf.put(("data", 0), parts or ArrayParts(Block(X), cut(12, 2)))


def task(number, part=0, values=()):
    starts = {part: 6 * part}
    return Task(number, ("plan", 0), ("data", 0), 0, number, {part: 6}, starts, tuple(values))


def back(executor, count=1):
    """So many outcomes, by number."""
    found, deadline = {}, time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, "nothing comes back"
        for event in executor.poll(1.0):
            if isinstance(event, Back):
                found[event.outcome.number] = event.outcome
    return found


def test_a_task_comes_back_with_its_value(made):
    executor, shelf = made
    put(shelf)
    executor.submit(0, task(0, 0))
    executor.submit(1, task(1, 1))
    found = back(executor, 2)
    assert found[0].value.tolist() == X[:6].sum(axis=0).tolist()
    assert found[1].value.tolist() == X[6:].sum(axis=0).tolist()
    assert found[0].n_samples == 6 and found[0].error is None and found[0].seconds >= 0.0


def test_nothing_under_way_is_nothing_to_wait_for(made):
    executor, _ = made
    assert executor.poll(None) == [] and executor.poll(0.0) == []


def test_versions_come_along_and_may_go(made):
    """A version that is dropped and one that is new: the worker has what its task needs."""
    executor, shelf = made
    put(shelf)
    for version in range(4):
        shelf.put(("value", 0, version), np.array([0.0, float(version)]))
        executor.submit(0, task(version, 0, [Value(0, version)]))
        (outcome,) = back(executor).values()
        assert outcome.value[1] == X[:6, 1].sum() + version
        shelf.drop(("value", 0, version))


def test_a_large_version_is_the_same_there(made):
    executor, shelf = made
    put(shelf, lambda rows, w: w * 2.0)
    w = np.random.default_rng(0).standard_normal(300_000)
    shelf.put(("value", 0, 0), w)
    executor.submit(1, task(0, 0, [Value(0, 0)]))
    assert np.array_equal(back(executor)[0].value, 2.0 * w)


def test_values_are_read_only(made):
    executor, shelf = made

    def write(rows, w):
        w[0] = 1.0

    put(shelf, write)
    w = np.zeros(2)
    w.flags.writeable = False  # as `broadcast` has it
    shelf.put(("value", 0, 0), w)
    executor.submit(0, task(0, 0, [Value(0, 0)]))
    assert "read-only" in back(executor)[0].error[0]


def test_what_raises_is_told_and_the_worker_goes_on(made):
    executor, shelf = made

    def bad(rows):
        if rows[0, 0] == 0.0:
            raise KeyError("no such thing")
        return 1

    put(shelf, bad)
    executor.submit(0, task(0, 0))
    line, told = back(executor)[0].error
    assert line == "KeyError: 'no such thing'" and "in bad" in told
    executor.submit(0, task(1, 1))
    assert back(executor)[1].value == 1


def test_loaders_are_called_by_workers(made):
    executor, shelf = made

    def of(k):
        return lambda: X[6 * k : 6 * k + 6]

    put(shelf, parts=LoadedParts((of(0), of(1)), cut(12, 2)))
    executor.submit(0, task(0, 1))
    assert back(executor)[0].value.tolist() == X[6:].sum(axis=0).tolist()


def test_draws_are_the_same_everywhere(made):
    executor, shelf = made
    put(shelf, lambda rows: rows[:, 0].tolist(), rate=0.5)
    executor.submit(1, task(3, 0))
    assert back(executor)[3].value == X[drawn_rows(0, 3, 0, 6, 0.5), 0].tolist()


def test_an_executor_that_is_closed_in_a_task_ends(made):
    executor, shelf = made
    put(shelf, lambda rows: time.sleep(0.05))
    executor.submit(0, task(0))
    begin = time.monotonic()
    executor.close()
    assert time.monotonic() - begin < PATIENCE


def test_a_killed_process_is_lost_and_replaced():
    shelf = Shelf()
    executor, _ = executor_of("processes", 2, shelf)
    try:
        put(shelf, lambda rows: time.sleep(600))
        first = executor.pid(0)
        executor.submit(0, task(7))
        os.kill(first, signal.SIGKILL)
        events, deadline = [], time.monotonic() + PATIENCE
        while not events and time.monotonic() < deadline:
            events = executor.poll(1.0)
        (lost,) = (event for event in events if isinstance(event, Lost))
        assert lost.numbers == (7,) and "SIGKILL" in lost.why
        assert list(executor.workers) == [0, 1] and executor.pid(0) != first
        shelf.put(("plan", 0), TaskPlan(total, op=add))
    finally:
        executor.close()


def test_what_cannot_be_pickled_is_refused_before_it_goes():
    shelf = Shelf()
    executor, _ = executor_of("processes", 1, shelf)
    try:
        lock = threading.Lock()
        put(shelf, lambda rows: lock.acquire())
        with pytest.raises(ValueError, match=r"cannot be sent .* use workers='threads'"):
            executor.submit(0, task(0))
        assert executor.poll(None) == []
    finally:
        executor.close()


@pytest.mark.parametrize(
    ("workers", "told"),
    [("thread", "threads"), (3, "workers must be"), (None, "got None")],
)
def test_other_workers_are_refused(workers, told):
    with pytest.raises(ValueError, match=told):
        executor_of(workers, 1, Shelf())


@pytest.mark.parametrize(
    ("simulator", "told"),
    [
        (Simulator(parts=2), "takes no parts"),
        (Simulator(slowness=[1.0]), "1 entries"),
    ],
)
def test_what_a_simulator_of_tasks_has_no_use_for_is_refused(simulator, told):
    with pytest.raises(ValueError, match=told):
        executor_of(simulator, 2, Shelf())
