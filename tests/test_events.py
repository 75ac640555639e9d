"""A run with processes ends when its workers do, not when somebody happens to look."""

import contextlib
import os
import socket
import sys
import threading

import cases
import numpy as np
import pytest

from hogshare import Stop, problems, solve
from hogshare.runtimes import processes
from hogshare.runtimes.events import Bell, News

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs eventfd")

NEVER = 1e6  # seconds: whoever waits so long is ended by the test's own limit


def test_processes_elsewhere_than_on_linux_are_refused_in_a_sentence(monkeypatch):
    for name in ("eventfd", "memfd_create"):
        monkeypatch.delattr(os, name)
    problem = problems.linear(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(OSError, match='use runtime="threads"'):
        solve(problem, runtime="processes", n_workers=2, stop=1)
    assert solve(problem, runtime="threads", n_workers=2, stop=1).n_workers == 2


def test_news_are_there_until_they_are_taken_note_of():
    news = News()
    assert not news.wait(0)
    for _ in range(2):
        news.set()
        news.set()
        assert news.wait(0)
        assert news.wait(NEVER)
        news.clear()
        news.clear()
        assert not news.wait(0)


@pytest.mark.timeout(20)
def test_news_wake_who_waits():
    news = News()
    thread = threading.Thread(target=news.set)
    thread.start()
    assert news.wait(NEVER)
    thread.join()


@pytest.mark.timeout(60)
def test_a_bell_s_shortest_waits_end():
    """Also those that begin after it was rung and cleared; `queue.SimpleQueue` waits on then."""
    bell = Bell()
    for _ in range(20_000):
        bell.set()
        bell.set()
        bell.clear()
        assert not bell.wait(1e-7)
    bell.set()
    assert bell.wait(NEVER) and not bell.wait(0.0)


def test_the_descriptor_goes_with_its_object():
    news = News()
    fd = news.fileno()
    os.fstat(fd)
    del news
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(fd)


class Absent:
    """A member that is not up yet, and says nothing."""

    alive = True
    is_sending = False

    def __init__(self):
        self.mine, self.theirs = socket.socketpair()

    def fileno(self):
        return self.mine.fileno()

    def post(self, task, fds):
        self.task = task

    def poll(self):
        return []


class Crew:
    """All of its members are absent."""

    def __init__(self):
        self.members = []

    @contextlib.contextmanager
    def hired(self, n):
        self.members = [Absent() for _ in range(n)]
        yield self.members
        for member in self.members:
            member.mine.close()
            member.theirs.close()

    def reap(self):
        pass


@pytest.fixture
def nobody_looks_by_chance(monkeypatch):
    monkeypatch.setattr(processes, "TICK_SECONDS", NEVER)
    monkeypatch.setattr(processes, "POLL_SECONDS", NEVER)
    monkeypatch.setattr(processes, "current_crew", Crew)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.usefixtures("nobody_looks_by_chance")
def test_a_run_that_nobody_joins_ends_with_worker_0(n_workers):
    problem, *_ = cases.problem()
    for _ in range(20):
        report = solve(problem, runtime="processes", n_workers=n_workers, stop=Stop(epochs=2))
        assert report.n_epochs == 2
        assert [worker["state"] for worker in report.workers] == ["done"] * n_workers


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("nobody_looks_by_chance")
def test_epochs_are_told_of_when_they_end():
    problem, *_ = cases.problem()
    told = []
    solve(
        problem,
        runtime="processes",
        n_workers=2,
        stop=Stop(epochs=5),
        on_epoch=lambda epoch, snapshot: bool(told.append(epoch)),
    )
    assert told == [1, 2, 3, 4, 5]


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("nobody_looks_by_chance")
def test_a_model_is_looked_at_when_worker_0_rests():
    problem, *_ = cases.problem(alpha=0.1)
    stop = Stop(epochs=1000, gradient=1e-2)
    report = solve(problem, runtime="processes", n_workers=1, stop=stop, seed=0)
    assert report.checks
