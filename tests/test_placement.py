"""New threads get a core each for a moment, and are free afterwards."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from hogshare.engine.loop import Compute, Pause
from hogshare.kernels.schedule.barrier_codes import FREE
from hogshare.kernels.schedule.epoch_schedule import EXCHANGE
from hogshare.runtimes import threads as threads_module
from hogshare.runtimes.core_placement import SETTLED_SECONDS, CorePlacement
from hogshare.runtimes.threads import ThreadCrew

linux_only = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="binding threads to cores needs Linux"
)


@pytest.fixture
def usable():
    """The cores that tests may use, if they are two at least."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("one usable core")
    return cores


def in_a_thread(work):
    """Call it in a thread of its own, whose binding nobody keeps."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def cores_of(placement, n_workers, begins_on=None):
    """The cores of each worker once it has taken one, and after everyone was freed."""
    before, after = {}, {}
    everyone = threading.Barrier(n_workers + 1)

    def work(k):
        if begins_on is not None:
            os.sched_setaffinity(0, {begins_on})
        placement.take(k)
        before[k] = os.sched_getaffinity(0)
        everyone.wait(10)
        everyone.wait(10)
        after[k] = os.sched_getaffinity(0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_workers)]
    for thread in threads:
        thread.start()
    everyone.wait(10)
    placement.free()
    everyone.wait(10)
    for thread in threads:
        thread.join()
    return before, after


@linux_only
def test_who_meets_another_on_its_core_is_moved_and_freed(usable):
    here = min(usable)
    placement = CorePlacement(2)
    before, after = cores_of(placement, 2, begins_on=here)
    stayed, moved = sorted(before.values(), key=len, reverse=True)
    assert stayed == usable, "who comes first is alone there, and is not bound"
    assert len(moved) == 1 and moved != {here}
    assert after == {0: usable, 1: usable}


@linux_only
def test_who_is_alone_on_its_core_can_be_bound_to_it_later(usable):
    placement, seen = CorePlacement(2), []

    def work():
        os.sched_setaffinity(0, {max(usable)})
        placement.take(1)
        seen.append(os.sched_getaffinity(0))
        placement.bind(1)
        seen.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert seen == [usable, {max(usable)}]
    placement.free()


@linux_only
def test_who_is_bound_frees_itself_once_it_has_had_its_time(usable, seams):
    placement, seen, now = CorePlacement(2), [], [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    seams.clock.of_placement = clock

    def work():
        for worker in (0, 1):
            placement.take(worker)
            placement.bind(worker)
        for now[0] in (0.5 * SETTLED_SECONDS, 1.5 * SETTLED_SECONDS):
            placement.settle(1)
            seen.append(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {max(usable)})
        placement.settle(1)  # it is not bound any more, and whatever it is, is not ours
        seen.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert len(seen[0]) == 1 and seen[1:] == [usable, {max(usable)}]


@linux_only
def test_who_was_started_by_a_bound_thread_is_not_bound_for_good(usable):
    placement, seen = CorePlacement(2), []

    def work():
        os.sched_setaffinity(0, {min(usable)})
        placement.take(0)
        seen.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert seen == [usable]


@linux_only
def test_who_is_sent_stays_away_from_the_first_ones_core_until_it_is_freed(usable):
    placement, seen = CorePlacement(2), []
    assert placement.other_cores(1) == set(), "nobody has a core yet"
    assert placement.stay(0)
    cores = placement.other_cores(1)
    assert len(cores) == len(usable) - 1 and cores < usable

    def work():
        os.sched_setaffinity(0, cores)
        placement.take(1)
        seen.append(os.sched_getaffinity(0))
        placement.free()
        seen.append(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores)
        placement.leave(1)
        seen.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert seen == [cores, usable, usable]


@linux_only
def test_nobody_is_sent_anywhere_where_it_cannot_help(usable, seams):
    crowded = CorePlacement(len(usable) + 1)
    crowded.stay(0)
    assert crowded.other_cores(1) == set()
    seams.machine.libc = None
    unknown = CorePlacement(2)
    unknown.stay(0)
    assert unknown.other_cores(1) == set()


@linux_only
def test_where_the_core_is_not_known_everybody_is_bound(usable, seams):
    seams.machine.libc = None
    before, after = cores_of(CorePlacement(2), 2)
    assert all(len(cores) == 1 for cores in before.values()) and before[0] != before[1]
    assert after == {0: usable, 1: usable}


@linux_only
@pytest.mark.parametrize("more", [False, True])
def test_nobody_is_bound_where_it_cannot_help(more):
    """One worker alone, or more workers than cores."""
    usable = os.sched_getaffinity(0)
    n_workers = len(usable) + 1 if more else 1
    before, _ = cores_of(CorePlacement(n_workers), n_workers)
    assert all(cores == usable for cores in before.values())


@linux_only
def test_freeing_threads_that_have_ended_is_harmless():
    placement = CorePlacement(2)

    def work():
        placement.take(0)
        placement.bind(0)

    in_a_thread(work)
    placement.free()
    placement.free()


class Late(CorePlacement):
    """Placement of which worker 1 arrives late."""

    def take(self, worker):
        time.sleep(0.2 * worker)


class Crowd:
    """A session for `ThreadCrew`, in which workers only tell when they began."""

    def __init__(self, n_workers):
        self.settings = self.plan = self
        self.local_workers = range(n_workers)
        self.n_workers = n_workers
        self.n_polls = 0
        self.barrier, self.private = FREE, EXCHANGE
        self.began = {}

    def call_users_by(self, way):
        """Nothing in it is the user's."""

    def loop(self, session, me):
        yield Compute(lambda: None)
        self.began[me] = time.monotonic()


class Bell(threading.Event):
    """Counts how often it is set."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def set(self):
        self.times += 1
        super().set()


def test_the_caller_is_woken_once(seams):
    """By the last worker: it would take the interpreter from those that still work."""
    seams.loop.placement = Late
    seams.loop.of_thread = Crowd(2).loop
    bell = Bell()
    crew = ThreadCrew(Crowd(2), range(2), bell)
    crew.start()
    assert bell.wait(10.0)
    assert not crew.running
    crew.finish()
    assert bell.times == 1


class Executor(ThreadPoolExecutor):
    """A pool that sends nobody anywhere."""

    def submit_to(self, cores, *task):
        return self.submit(*task)


def test_nobody_computes_before_all_are_sent_for(seams):
    """However long it takes to start a thread."""
    crowd = Crowd(3)
    seams.loop.of_thread = crowd.loop
    with Executor(3) as threads:
        seams.loop.pool = lambda: SlowToStart(threads)
        crew = ThreadCrew(crowd, range(3))
        crew.start()
        sent = time.monotonic()
        crew.finish()
    assert min(crowd.began.values()) > sent - 0.05


@linux_only
@pytest.mark.parametrize("is_master", [False, True])
def test_a_thread_is_free_once_the_crew_has_ended(usable, is_master, seams):
    """A master takes no core, and nobody would free it."""
    seen = []

    def loop(session, me):
        seen.append(os.sched_getaffinity(0))
        yield Compute(lambda: None)

    seams.loop.of_thread = loop
    crew = ThreadCrew(Crowd(1 if is_master else 2), range(1, 2), leads=True)
    crew.start()
    crew.finish()
    assert len(seen[0]) == len(usable) - (not is_master)
    tasks = [threads_module.pool().submit(os.sched_getaffinity, 0) for _ in range(4)]
    assert all(task.result(10.0) == usable for task in tasks)


class SlowToStart:
    """A pool that takes a tenth of a second for each thread."""

    def __init__(self, threads):
        self.threads = threads

    def submit_to(self, cores, *task):
        time.sleep(0.1)
        return self.threads.submit(*task)


def test_a_thread_that_cannot_be_started_holds_nobody(seams, monkeypatch):
    """Its task stays in the pool's queue, and must do nothing when a thread finds it there."""
    crowd = Crowd(2)
    started = []
    start = threading.Thread.start

    def start_one(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    seams.loop.of_thread = crowd.loop
    began = time.monotonic()
    with Executor(2) as threads:
        seams.loop.pool = lambda: threads
        crew = ThreadCrew(crowd, range(2))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start_one)
            with pytest.raises(RuntimeError, match="new thread"):
                crew.start()
        crew.finish()
        assert not crew.running
    assert set(crowd.began) <= {0} and not crew.running, "the first may have come before"
    assert time.monotonic() - began < 10.0


def test_who_rests_is_woken_by_the_caller_on_a_core_of_its_own(seams):
    over, rests, cores = threading.Event(), [], {}

    def loop(session, me):
        yield Compute(lambda: None)
        while not over.is_set():
            rests.append((yield Pause(len(rests), over.is_set)))
        cores[me] = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}

    seams.clock.rest = 30.0
    seams.loop.of_thread = loop
    crew = ThreadCrew(Crowd(2), range(2))
    crew.start()
    deadline = time.monotonic() + 10.0
    while crew._n_paused < 2 and time.monotonic() < deadline:
        crew.wake()  # nothing has changed: they go on resting
        crew.wait(0.001)
    assert crew._n_paused == 2 and not rests
    over.set()
    crew.wake()
    crew.finish()
    assert len(rests) == 2 and all(0 < nanoseconds < 10e9 for nanoseconds in rests)
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1:
        assert len(cores[0]) == len(cores[1]) == 1 and cores[0] != cores[1]


def resting_until(over):
    """The loop of a worker that rests."""
    yield Compute(lambda: None)
    attempts = 0
    while not over.is_set():
        yield Pause(attempts, over.is_set)
        attempts += 1


def test_who_rests_looks_now_and_then_unasked(seams):
    over = threading.Event()
    seams.loop.of_thread = lambda session, me: resting_until(over)
    crew = ThreadCrew(Crowd(1), range(1))
    crew.start()
    deadline = time.monotonic() + 10.0
    while crew._n_paused < 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert crew.running
    over.set()
    began = time.monotonic()
    crew.finish()
    assert time.monotonic() - began < 5.0
    assert not crew.running and crew._n_paused == 0


@pytest.fixture
def resting(seams):
    """A thread that rests beside the caller, who is worker 0."""
    over, names = threading.Event(), []

    def loop(session, me):
        names.append(threading.current_thread().name)
        yield from resting_until(over)

    seams.loop.of_thread = loop
    crew = ThreadCrew(Crowd(2), range(1, 2), leads=True)
    crew.start()
    deadline = time.monotonic() + 10.0
    while crew._n_paused < 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    crew.names = names
    yield crew
    over.set()
    crew.wake()
    crew.finish()
    assert not crew._parts


def test_who_rests_and_the_caller_do_the_parts_of_a_look(resting):
    meeting = threading.Barrier(2)

    def part(k):
        meeting.wait(10.0)  # both at once, or neither
        return k, threading.current_thread().name

    for _ in range(3):
        found = resting.each(part, range(2))
        assert [k for k, _ in found] == [0, 1]
        names = {threading.current_thread().name, *resting.names}
        assert len(names) == 2 and {name for _, name in found} == names


def test_one_part_is_done_by_the_caller(resting):
    assert resting.each(lambda k: threading.current_thread(), [0]) == [threading.current_thread()]


def test_what_nobody_takes_the_caller_does():
    """Before any worker has come to rest."""
    crew = ThreadCrew(Crowd(2), range(2))
    assert crew.each(lambda k: (k, threading.current_thread()), range(3)) == [
        (k, threading.current_thread()) for k in range(3)
    ]


def test_an_error_in_a_part_is_the_callers(resting):
    def part(k):
        if k == 1:
            raise ZeroDivisionError("part 1")
        return k

    with pytest.raises(ZeroDivisionError, match="part 1"):
        resting.each(part, range(4))
    assert resting.each(lambda k: k, range(4)) == [0, 1, 2, 3], "they rest on"


def test_an_interrupt_in_a_part_of_the_callers_is_the_last():
    done = []

    def part(k):
        done.append(k)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ThreadCrew(Crowd(2), range(2)).each(part, range(4))
    assert done == [0]


def test_an_interrupted_look_leaves_no_part_behind(resting):
    caller = threading.current_thread()

    def part(k):
        if threading.current_thread() is caller:
            raise KeyboardInterrupt
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        resting.each(part, range(8))
    assert not resting._parts
