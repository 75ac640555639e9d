"""Idle threads of other libraries: ended where a run needs their cores, else left alone."""

import functools
import threading
import time

import numpy as np
import pytest
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from hogshare import Stop, problems, solve
from hogshare.runtimes import idle_threads

MATRIX = np.random.default_rng(0).standard_normal((400, 400))
PATIENCE = 60.0  # seconds
ATTEMPTS = 20  # on a busy machine threads may have gone to sleep before anybody has looked


@pytest.fixture(autouse=True)
def _no_core_is_free(seams):
    seams.machine.busy_others = lambda more=0: 1000


@pytest.fixture(autouse=True)
def _products_by_two_threads():
    """As a process has them that is no test's."""
    with threadpool_limits(2, user_api="blas"):
        yield


def begin_to_spin(work, library):
    """Have a library's threads work, and begin to wait for more."""
    work()
    if not idle_threads._strangers_awake():
        pytest.skip(f"{library} has no threads here, or they sleep at once")


def product():
    return MATRIX @ MATRIX


def spin():
    begin_to_spin(product, "NumPy's BLAS")


def ended(begin, names):
    """Whether a library's threads that wait for work are ended, in one of a few attempts.

    Threads that an earlier test has left awake in another library are ended with them.
    """
    for _ in range(ATTEMPTS):
        begin()
        if any(name in note for note in idle_threads.end_spinning(2) for name in names):
            return True
    return False


def test_idle_threads_are_ended_and_come_again():
    expected = product()
    for _ in range(3):
        assert ended(spin, ("openblas", "openmp"))
        deadline = time.monotonic() + 10.0
        while idle_threads._strangers_awake():  # such as the test runner's own thread, for a moment
            assert time.monotonic() < deadline
            time.sleep(0.01)
        np.testing.assert_array_equal(product(), expected)


def test_threads_that_sleep_are_no_reason_to_leave_them():
    told = threading.Event()
    others = [threading.Thread(target=told.wait) for _ in range(3)]
    for thread in others:
        thread.start()
    try:
        assert ended(spin, ("openblas", "openmp"))
    finally:
        told.set()
        for thread in others:
            thread.join()


def test_threads_of_openmp_are_ended_too():
    X = np.random.default_rng(0).random((20000, 20))
    model = KMeans(4, n_init=1, max_iter=2, random_state=0).fit(X)
    expected = model.predict(X)
    begin = functools.partial(begin_to_spin, lambda: model.predict(X), "scikit-learn's OpenMP")
    assert ended(begin, ("openmp",))
    np.testing.assert_array_equal(model.predict(X), expected)


def test_a_run_says_what_it_has_ended():
    problem = problems.linear(MATRIX, MATRIX[:, 0] > 0, loss="log_loss")

    def said():
        spin()
        report = solve(problem, n_workers=2, runtime="threads", stop=Stop(epochs=1), seed=0)
        return any("idle thread(s) of" in note for note in report.notes)

    assert any(said() for _ in range(ATTEMPTS))


def test_one_worker_leaves_them_alone():
    problem = problems.linear(MATRIX, MATRIX[:, 0] > 0, loss="log_loss")
    spin()
    report = solve(problem, n_workers=1, stop=Stop(epochs=1), seed=0)
    assert not any("idle" in note for note in report.notes)


def test_nothing_is_looked_at_where_cores_are_free(seams):
    seams.machine.busy_others = lambda more=0: 0
    seams.machine.strangers_awake = None
    assert idle_threads.end_spinning(1) == []


@pytest.mark.parametrize("polls", [["R"], ["D"], ["S", "R"], ["S", "S later"]])
def test_nothing_is_ended_while_another_thread_may_call(polls, monkeypatch):
    """A call that another thread makes would wait for ended threads for ever.

    Nor where it slept at both polls and was awake in between: of two that call by turns one sleeps
    at each poll, and yet somebody computes all the time.
    """
    told, real, seen = threading.Event(), idle_threads._asleep, []
    other = threading.Thread(target=told.wait)
    other.start()

    def of(status):
        if b"\nPid:\t%d\n" % other.native_id not in status:
            return real(status)
        seen.append(polls[min(len(seen), len(polls) - 1)])
        status = status.replace(b"State:\tS", b"State:\t" + seen[-1][:1].encode())
        return real(status) and b"%d" % seen.count("S later")

    monkeypatch.setattr(idle_threads, "_asleep", of)
    try:
        for _ in range(ATTEMPTS):  # until its threads are still awake when others are polled
            spin()
            assert idle_threads.end_spinning(2) == []
            if seen:
                break
        assert seen
    finally:
        told.set()
        other.join()


def test_nothing_is_ended_where_strangers_are_more_than_the_pools_have(seams, monkeypatch):
    """One of them calls a library from a thread that is not Python's."""
    spin()
    seams.machine.strangers_awake = lambda: 1000
    monkeypatch.setattr(idle_threads, "_end", None)
    assert idle_threads.end_spinning(2) == []


def test_products_of_another_thread_come_to_their_end():
    """Who ends threads without a look at the others hangs a product within a second."""
    expected, over, wrong = product(), threading.Event(), []

    def multiply():
        while not over.is_set():
            if not np.allclose(product(), expected):
                wrong.append(True)
            over.wait(0.001)

    others = [threading.Thread(target=multiply, daemon=True) for _ in range(2)]
    for thread in others:
        thread.start()
    deadline, ended = time.monotonic() + PATIENCE, 0
    for _ in range(200):
        ended += len(idle_threads.end_spinning(2))
        over.wait(0.001)
    over.set()
    for thread in others:
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive()
    assert not wrong
