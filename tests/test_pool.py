"""Threads that are kept: never fewer than tasks, and no more than there ever were at one time."""

import os
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

from hogshare.runtimes import interpreter_exit
from hogshare.runtimes.pool import ThreadPool, pool

PATIENCE = 30.0


def test_a_task_gives_its_result_or_what_it_raises():
    threads = ThreadPool()
    assert threads.submit(divmod, 7, 2).result(PATIENCE) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(PATIENCE)
    with pytest.raises(SystemExit):
        threads.submit(sys.exit, 3).result(PATIENCE)
    assert threads.submit(int).result(PATIENCE) == 0, "the threads are there still"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_a_thread_is_bound_before_it_begins():
    threads, usable = ThreadPool(), os.sched_getaffinity(0)
    for core in [*usable, *usable]:
        assert threads.submit_to({core}, os.sched_getaffinity, 0).result(PATIENCE) == {core}
    assert threads.submit_to((), int).result(PATIENCE) == 0
    threads._spare[-1].go_to({min(usable)})  # and then the call was interrupted
    assert threads.submit(os.sched_getaffinity, 0).result(PATIENCE) == usable
    nowhere = {1 << 12}  # the system says that there is no such core
    assert threads.submit_to(nowhere, divmod, 7, 2).result(PATIENCE) == (3, 1)


def test_no_task_waits_for_another():
    threads = ThreadPool()
    for _ in range(20):
        together = threading.Barrier(4, timeout=PATIENCE)
        tasks = [threads.submit(together.wait) for _ in range(4)]
        assert sorted(task.result(PATIENCE) for task in tasks) == [0, 1, 2, 3]


def test_there_are_no_more_threads_than_tasks_at_one_time():
    """A task comes while the one before ends, which is where a count may go wrong."""
    threads, before = ThreadPool(), threading.active_count()
    for _ in range(2000):
        ended = threading.Event()
        threads.submit(ended.set)
        assert ended.wait(PATIENCE)
    # a thread that has told so may not be spare yet
    assert threading.active_count() - before <= 5


def test_who_waits_for_each_task_needs_one_thread():
    threads = ThreadPool()
    before, interval = threading.active_count(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # seconds: who has told of its result is held up right then
    try:
        for k in range(5_000):
            assert threads.submit(abs, -k).result(PATIENCE) == k
    finally:
        sys.setswitchinterval(interval)
    assert threading.active_count() - before == 1


def test_an_idle_thread_keeps_nothing_of_its_task():
    class Thing:
        pass

    threads, gone = ThreadPool(), threading.Event()
    thing = Thing()
    finalizer = weakref.finalize(thing, gone.set)
    assert threads.submit(id, thing).result(PATIENCE) == id(thing)
    del thing
    assert gone.wait(PATIENCE) and not finalizer.alive


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_has_threads_of_its_own():
    pool().submit(int).result(PATIENCE)
    child = os.fork()
    if child == 0:
        right = False
        try:
            right = pool().submit(divmod, 7, 2).result(PATIENCE) == (3, 1)
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_ends_after_its_tasks_and_not_with_its_idle_threads():
    code = (
        "import time\n"
        "from hogshare.runtimes.pool import pool\n"
        "pool().submit(int).result()\n"
        "pool().submit(lambda: (time.sleep(0.3), print('through')))\n"
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.strip() == "through" and not done.stderr


def test_a_pool_that_is_closed_waits_for_its_tasks_and_takes_no_more():
    threads, go = ThreadPool(), threading.Event()
    task = threads.submit(go.wait, PATIENCE)
    closing = threading.Thread(target=threads.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive(), "it waits"
    with pytest.raises(RuntimeError, match="the process is ending"):
        threads.submit(int)
    go.set()
    closing.join(PATIENCE)
    assert not closing.is_alive() and task.done()


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_the_end_waits_for_an_interrupted_task_only_if_it_runs(late):
    threads, ran = ThreadPool(), threading.Event()
    threads.submit(int).result(PATIENCE)
    (server,) = threads._spare
    queue = server.tasks

    class Interrupted:
        get = queue.get

        def put(self, task):
            if late:
                queue.put(task)
                assert ran.wait(PATIENCE)
            raise KeyboardInterrupt

    server.tasks = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        threads.submit(ran.set)
    closing = threading.Thread(target=threads.close)
    closing.start()
    closing.join(PATIENCE)
    assert not closing.is_alive() and ran.is_set() == late
    assert not threads._unfinished


@pytest.fixture
def in_barriers(seams):
    """Two events: the first is set in a barrier that does not return before the second is."""
    inside, go_on = threading.Event(), threading.Event()
    seams.clock.until_left_behind = 0.0
    seams.clock.between_polls_of_pool = 0.01
    yield inside, go_on
    interpreter_exit._left_behind = False
    go_on.set()


def test_a_pool_that_is_closed_leaves_behind_who_is_stuck_in_a_barrier(in_barriers):
    inside, go_on = in_barriers

    def stuck(table, me):
        inside.set()
        return go_on.wait(PATIENCE)

    threads, came_back = ThreadPool(), threading.Event()
    barrier = interpreter_exit.noted(stuck)

    def work():
        barrier(None, 0)
        came_back.set()

    threads.submit(work)
    assert inside.wait(PATIENCE)
    with pytest.warns(RuntimeWarning, match=r"without waiting for .*stuck, which has not returned"):
        threads.close()
    go_on.set()
    assert not came_back.wait(0.05), "it goes no further"
    interpreter_exit._left_behind = False
    assert came_back.wait(PATIENCE)
    threads.close()
    assert not interpreter_exit._outside


def test_who_is_in_no_barrier_is_waited_for(in_barriers):
    inside, go_on = in_barriers
    through, threads = threading.Event(), ThreadPool()
    barrier = interpreter_exit.noted(lambda table, me: inside.set() or go_on.wait(PATIENCE))
    waiting = threads.submit(barrier, None, 0)
    threads.submit(through.wait, PATIENCE)
    assert inside.wait(PATIENCE)
    closing = threading.Thread(target=threads.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive() and not interpreter_exit._left_behind
    go_on.set()
    assert waiting.result(PATIENCE)  # out of its barrier, before nobody else is left
    through.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()


STUCK = """
    import threading
    import numpy as np
    from hogshare import Stop, problems, solve
    from hogshare.runtimes import interpreter_exit, pool

    interpreter_exit.SECONDS = pool.STUCK_SECONDS = pool.POLL_SECONDS = 0.1
    inside = threading.Event()

    def slow(table, me):
        if me == 1:
            inside.set()
            threading.Event().wait()
        return True

    X = np.random.default_rng(0).standard_normal((300, 6))
    problem = problems.linear(X, X[:, 0] > 0.0)
    run = dict(runtime="threads", n_workers=2, barrier=slow, stop=Stop(epochs=10**6))
    threading.Thread(target=solve, args=[problem], kwargs=run, daemon=True).start()
    inside.wait()
"""


def test_the_process_ends_though_a_barrier_never_returns():
    run = [sys.executable, "-c", textwrap.dedent(STUCK)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "the process ends without waiting for slow, which has not returned" in done.stderr
    assert "Traceback" not in done.stderr and "Fatal" not in done.stderr
