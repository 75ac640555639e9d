"""Signals at any moment: a fit ends, the next one works, and nothing is left behind."""

import contextlib
import dataclasses
import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path

import interrupting
import numpy as np
import pytest
from sklearn.utils import check_array

from hogshare import (
    Lasso,
    LogisticRegression,
    Master,
    Ridge,
    SGDClassifier,
    SGDRegressor,
    Stop,
    problems,
    solve,
)
from hogshare.io import archives
from hogshare.problems.linear.intercepts import best_intercepts
from hogshare.runtimes import crew, interpreter_exit, pool, processes
from hogshare.runtimes.events import Bell
from hogshare.runtimes.hooks import call_parts
from hogshare.shm.descriptor import Descriptor
from hogshare.stragglers import Stragglers
from hogshare.system import files, interrupts
from hogshare.system.interrupts import DeferredSignals

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")

TESTS = Path(__file__).parent
PATIENCE = 60.0
MOST = {"/memfd": 64, "anon_inode": 64, "mapped": 64}  # more than before, amid a storm
ENDLESS = Stop(epochs=1_000_000_000)
RUNTIMES = ["threads", "processes"]

EVERY = list(interrupting.KINDS) + list(interrupting.ESTIMATORS)
STORM_SECONDS = 300.0


def problem():
    X = np.random.default_rng(0).standard_normal((300, 6))
    return problems.linear(X, X[:, 0] > 0.0, alpha=0.01)


def run_script(*arguments, timeout=PATIENCE):
    """What a script prints, which must end well."""
    path = os.pathsep.join([str(TESTS.parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def walk(kind, how, seconds, timeout):
    """Run the script; what it found, of which nothing may be left or without bounds."""
    script = str(TESTS / "interrupting.py")
    found = json.loads(run_script(script, kind, how, str(seconds), timeout=timeout)[0])
    if how != "no":
        assert found["came"] == found["sent"] >= 100 and not found["lost"]
    left = found["left"]
    for kept in ("threads", "processes"):  # as many as a fit may have, for the next one
        assert left.pop(kept, 0) <= 2, found
    assert not left, found
    if seconds:
        assert found["storm"]["ended"] > 10
        for what, most in found["storm"]["most"].items():
            assert most <= found["before"].get(what, 0) + MOST.get(what, 4), found
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", RUNTIMES)
def test_an_interrupt_may_come_at_any_call_and_return(kind):
    """Each function of the package and each that takes a lock; and at random moments, for a bit."""
    walk(kind, "some", 0.3, 110.0)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", EVERY)
def test_an_interrupt_may_come_at_every_call_and_return(kind):
    walk(kind, "every", 0.0, 3600.0)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", RUNTIMES)
def test_ten_minutes_of_signals_leave_nothing(kind):
    walk(kind, "no", STORM_SECONDS, 3600.0)


# What a block of `DeferredSignals` promises.


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_a_signal_waits_for_a_point_at_which_it_may_come():
    before, steps = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), DeferredSignals() as held:
        interrupt()
        interrupt()
        steps.append("held")
        held.deliver()
        steps.append("not here")
    assert steps == ["held"] and signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_is_remembered_for_the_end():
    steps = []
    with pytest.raises(KeyboardInterrupt), DeferredSignals() as held:
        with pytest.raises(KeyboardInterrupt):
            interrupt()
            held.deliver()
        interrupt()
        steps.append("the orderly end")
    assert steps == ["the orderly end"]


def test_code_of_the_users_is_interrupted_where_it_is():
    steps = []

    def users():
        steps.append("users")
        interrupt()
        steps.append("not here")

    with DeferredSignals() as held:
        with pytest.raises(KeyboardInterrupt):
            held.outside(users)
        with DeferredSignals():
            pass  # within another's block; it still holds
        steps.append("held again")
        other = threading.Thread(target=lambda: held.let_through(steps.append)("elsewhere"))
        other.start()
        other.join()
    assert steps == ["users", "held again", "elsewhere"]


def test_what_came_just_before_interrupts_code_of_the_users_too():
    steps = []
    with DeferredSignals() as held:
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            held.outside(steps.append, "not here")
    assert not steps


def test_a_signal_rings_the_bell_of_whoever_waits():
    bell, inner = Bell(), Bell()
    with pytest.raises(KeyboardInterrupt), DeferredSignals(bell), DeferredSignals(inner):
        interrupt()
        assert bell.wait(0.0) and inner.wait(0.0)


def test_a_handler_that_the_users_code_sets_stays_and_waits():
    called = []
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with DeferredSignals() as held:
            handler = lambda number, frame: called.append(number)  # noqa: E731
            held.outside(signal.signal, signal.SIGUSR1, handler)
            signal.raise_signal(signal.SIGUSR1)
            assert not called
        assert called == [signal.SIGUSR1] and signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_gravest_error_of_several_handlers_comes_out():
    def late(number, frame):
        raise TimeoutError("mine")

    before = signal.signal(signal.SIGALRM, late)
    try:
        for first, second in (signal.SIGINT, signal.SIGALRM), (signal.SIGALRM, signal.SIGINT):
            with pytest.raises(KeyboardInterrupt), DeferredSignals():
                signal.raise_signal(first)
                signal.raise_signal(second)
        with pytest.raises(TimeoutError, match="mine"), DeferredSignals():
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_an_interrupt_left_in_place_is_taken_away_by_the_next():
    before = signal.getsignal(signal.SIGINT)
    try:
        left = interrupts._StandIn(before, DeferredSignals())  # its block is over
        signal.signal(signal.SIGINT, left)
        with pytest.raises(KeyboardInterrupt):
            interrupt()  # it does no harm
        with DeferredSignals():
            pass
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_descriptor_is_closed_once_and_by_cycles_too(tmp_path):
    """What it is open on tells whether it is: a library's thread may have its number by then."""

    class Holder:
        pass

    def is_open(number):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{number}") == str(path)
        return False

    path = tmp_path / "given"
    path.touch()
    given = os.open(path, os.O_RDONLY)
    holder = Holder()
    holder.me, holder.file = holder, Descriptor(os.dup, given)
    number = holder.file.number
    assert is_open(number)
    del holder
    gc.collect()
    assert not is_open(number)
    file = Descriptor(os.dup, given)
    assert is_open(file.number)
    number = file.number
    file.close()
    assert file.number == -1 and not is_open(number)
    again = os.dup(given)  # most likely has the number that was free
    file.close()
    del file
    assert is_open(again)
    os.close(again)
    os.close(given)


# At each call and return of one function, one after the other.


def at_every_step(function):
    """Call it, interrupted one step later each time, until it comes to its end; how often."""
    for number in itertools.count(1):
        left = number

        def step(frame, event, _):
            nonlocal left
            if event in ("call", "return"):
                left -= 1
                if left == 0:
                    sys.setprofile(None)
                    interrupt()

        try:
            sys.setprofile(step)
            function()
        except KeyboardInterrupt:
            yield number
            continue
        finally:
            sys.setprofile(None)
        if left > 0:
            return


def test_numpys_warnings_are_as_before_wherever_the_block_is_interrupted():
    before, within = np.geterr(), []

    def block():
        with interrupts.errstate(all="ignore") as held:
            within.append(np.geterr())
            held.outside(int)

    for step in at_every_step(block):
        assert np.geterr() == before, step
    assert set(within[-1].values()) == {"ignore"} and step > 10


def test_numpys_warnings_are_as_before_wherever_the_best_intercepts_are_interrupted():
    """NumPy's least squares change them meanwhile."""
    before, fitted = np.geterr(), problem()
    margins, start, parts = 9.0 * fitted.rows.y, np.zeros(1), [(0, fitted.n_rows)]
    best_intercepts(fitted, margins, start, 1e-12, parts)  # kernels are loaded
    for step in at_every_step(lambda: best_intercepts(fitted, margins, start, 1e-12, parts)):
        after = np.geterr()
        np.seterr(**before)
        assert after == before, step
    assert step > 50


class Interrupted:
    """Rows or labels that are interrupted while somebody has changed what NumPy warns of."""

    def __array__(self, dtype=None, copy=None):
        np.seterr(over="raise")
        raise KeyboardInterrupt


def told(_):
    np.seterr(over="raise")
    raise KeyboardInterrupt


ENTRANCES = {
    "problems.linear": lambda: problems.linear(Interrupted(), np.ones(3)),
    "solve": lambda: solve(problem(), on_epoch=lambda *_: told(_), runtime="caller"),
    "fit": lambda: SGDClassifier().fit(Interrupted(), np.ones(3)),
    "partial_fit": lambda: SGDRegressor().partial_fit(Interrupted(), np.ones(3)),
    "Ridge": lambda: Ridge().fit(Interrupted(), np.ones(3)),
    "Lasso": lambda: Lasso().fit(Interrupted(), np.ones(3)),
    "LogisticRegression": lambda: LogisticRegression().fit(Interrupted(), np.ones(3)),
}


@pytest.mark.parametrize("name", ENTRANCES)
def test_numpy_warns_as_before_of_what_others_have_changed_where_an_interrupt_leaves_us(name):
    before = np.geterr()
    try:
        with pytest.raises(KeyboardInterrupt):
            ENTRANCES[name]()
        after = np.geterr()
    finally:
        np.seterr(**before)
    assert after == before


def test_numpys_warnings_are_as_before_wherever_scikit_learns_check_is_interrupted():
    """It enters `numpy.errstate` itself."""
    before, check = np.geterr(), interrupts.leaves_numpy(lambda: check_array(np.ones((3, 2))))
    for step in at_every_step(check):
        after = np.geterr()
        np.seterr(**before)
        assert after == before, step
    assert step > 50


def descriptors():
    """How many there are, but for what a thread of a library has open to look at /proc."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            found += not os.readlink(f"/proc/self/fd/{number}").startswith(("/proc", "/sys"))
    return found


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_file_is_the_old_or_the_new_one_wherever_the_writing_is_interrupted(tmp_path):
    path, opened = tmp_path / "kept", descriptors()
    path.write_bytes(b"old")
    path.chmod(0o640)
    for step in at_every_step(lambda: files.replace(path, b"new" * 9)):
        assert os.listdir(tmp_path) == ["kept"], step
        assert path.read_bytes() in (b"old", b"new" * 9)
        assert path.stat().st_mode & 0o777 == 0o640
        path.write_bytes(b"old")
        assert descriptors() == opened, step
    assert step > 50


def test_no_interrupt_is_lost_wherever_the_reading_of_an_archive_is_interrupted(
    tmp_path, monkeypatch
):
    """A zip file's destructor closes it once more, and what is raised in one goes no further."""
    path, lost = tmp_path / "kept", []
    archives.write(path, {"format": "a", "format_version": 1}, {"x": [1.0]})
    monkeypatch.setattr(sys, "unraisablehook", lambda args: lost.append(args.exc_type))
    gc.disable()  # or what an interrupt has left is collected amid a later one
    for step in at_every_step(lambda: archives.read(path, "an a", "a", [1], lambda _: ["x"])):
        assert KeyboardInterrupt not in lost, step
    gc.enable()
    assert step > 100


def test_an_archives_writing_ends_with_the_interrupt_and_no_other_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    path = tmp_path / "kept"
    for step in at_every_step(lambda: archives.write(path, {"format": "a"}, {"x": [1.0]})):
        assert os.listdir(tmp_path) in ([], ["kept"]), step
    assert os.listdir(tmp_path) == ["kept"] and step > 50


def test_a_second_signal_leaves_no_half_of_a_file_either(tmp_path, monkeypatch):
    """One that comes while the first is being answered."""
    remove = os.unlink

    def interrupted(path):
        interrupt()
        remove(path)

    def synced(_):
        interrupt()
        raise OSError("full")

    monkeypatch.setattr(os, "unlink", interrupted)
    monkeypatch.setattr(os, "fsync", synced)
    with pytest.raises(KeyboardInterrupt):
        files.replace(tmp_path / "new", b"new")
    assert not os.listdir(tmp_path)


def test_a_long_writing_ends_between_two_pieces(tmp_path, seams, monkeypatch):
    seams.pieces.written = 1
    seams.files.private = lambda *_: interrupt() or os.open(*_, 0o600)
    monkeypatch.setattr(os, "fsync", None)  # it does not come to that
    with pytest.raises(KeyboardInterrupt):
        files.replace(tmp_path / "new", b"new", private=True)
    assert not os.listdir(tmp_path)


def test_nobody_is_left_at_work_wherever_parts_are_interrupted():
    def work(part):
        done.append(part)

    done = []
    for step in at_every_step(lambda: call_parts(work, range(3))):
        assert not pool.pool()._unfinished, step
    assert done[-3:].count(0) == 1 and step > 50


# Fits within fits.


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_fit_in_a_callback_and_in_a_handler(runtime):
    """Both while another one goes on; a handler comes where that lets it through."""
    data, inner = problem(), []
    run = {"runtime": runtime, "n_workers": 2, "seed": 0}

    def handler(number, frame):
        inner.append(solve(data, stop=Stop(epochs=3), **run).n_epochs)

    def told(epoch, snapshot):
        if epoch == 2:
            inner.append(solve(data, stop=Stop(epochs=2), **run).n_epochs)
        if epoch == 3:
            signal.raise_signal(signal.SIGUSR1)
        return epoch >= 4

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert solve(data, stop=ENDLESS, on_epoch=told, **run).n_epochs >= 4
        assert inner == [2, 3]
        sender = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
        sender.start()
        solve(data, stop=ENDLESS, on_epoch=lambda *_: len(inner) > 2, **run)
        assert inner[2:] == [3]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("event", ["call", "return"])
def test_a_handler_may_submit_while_its_thread_is_about_to(event):
    """At every call and return within `submit_to`, taken by the handler itself: nothing is held."""
    seen = []

    def nested(frame, what, _):
        code = frame.f_back.f_code if frame.f_back else None
        if what == event and code is pool.ThreadPool.submit_to.__code__:
            sys.setprofile(None)
            seen.append(pool.pool().submit(divmod, 7, 2).result(PATIENCE))
            sys.setprofile(nested)

    pool.pool().submit(int).result(PATIENCE)
    sys.setprofile(nested)
    try:
        task = pool.pool().submit(divmod, 9, 2)
    finally:
        sys.setprofile(None)
    assert task.result(PATIENCE) == (4, 1) and len(seen) >= 2 and set(seen) == {(3, 1)}


@pytest.mark.timeout(30)
def test_who_insists_leaves_what_is_stuck_behind(seams):
    """A worker that never comes back from a barrier of the user's."""
    seams.clock.patience = 0.0
    main, go_on, stuck = threading.get_ident(), threading.Event(), threading.Event()

    def barrier(table, me):
        if threading.get_ident() != main:
            stuck.set()
            go_on.wait(PATIENCE)
        return me != 0 or not stuck.is_set()

    def send():
        stuck.wait(PATIENCE)
        while not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(0.05)

    over = threading.Event()
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            try:
                solve(problem(), stop=ENDLESS, runtime="threads", n_workers=2, barrier=barrier)
            finally:
                over.set()
                sender.join()
    finally:
        go_on.set()
    pool.wait_for(list(pool.pool()._unfinished))


@dataclasses.dataclass(frozen=True)
class Stuck(Stragglers):
    """A law, and a barrier, that does not return to one of the workers till a file is there."""

    folder: str = ""
    where: int = 0

    def wait(self, me):
        if me == self.where:
            Path(self.folder, "making").write_text(str(os.getpid()))
            os.replace(f"{self.folder}/making", f"{self.folder}/in")
            while not os.path.exists(f"{self.folder}/out"):
                time.sleep(0.005)

    def lateness(self, worker, block, n_workers, mean):
        self.wait(worker)
        return 0.0

    def passes(self, table, me):
        self.wait(me)
        return True


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", ["stragglers", "barrier"])
@pytest.mark.parametrize(
    ("runtime", "n_workers", "where"),
    [
        *(("caller", 1, 0), ("simulator", 2, 1)),
        *((runtime, 2, where) for runtime in RUNTIMES for where in (0, 1)),
    ],
)
def test_ctrl_c_ends_a_run_that_is_stuck_in_code_of_the_users(
    tmp_path, seams, what, runtime, n_workers, where
):
    """In the calling thread, in one of the pool and in a process; and once is enough."""
    stuck, run = Stuck(folder=str(tmp_path), where=where), {"seed": 0, "n_workers": n_workers}
    users = {"stragglers": stuck, "barrier": stuck.passes}
    with interrupted_in_code_of_the_users(tmp_path, seams):
        solve(problem(), stop=ENDLESS, runtime=runtime, **run, **{what: users[what]})
    assert not interpreter_exit._outside and not list(crew.current_crew()._hired)
    assert solve(problem(), stop=Stop(epochs=2), runtime=runtime, **run).n_epochs == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize("where", [0, 1])
def test_no_master_waits_for_who_is_left_behind(tmp_path, seams, where):
    """Its process would be hired again, and a plane wait for a worker that never comes."""
    stuck = Stuck(folder=str(tmp_path), where=where)
    run = {"plane": Master(), "stragglers": stuck, "runtime": "processes", "n_workers": 2}
    with interrupted_in_code_of_the_users(tmp_path, seams):
        solve(problem(), stop=ENDLESS, seed=0, **run)
    deadline = time.monotonic() + PATIENCE
    while [member for member in crew.current_crew()._idle if member.busy and member.alive]:
        assert time.monotonic() < deadline, "a member never ends its task"
        time.sleep(0.005)
        for member in crew.current_crew()._idle:
            member._pump()


@contextlib.contextmanager
def interrupted_in_code_of_the_users(folder, seams):
    """Interrupt the run within as soon as a worker is stuck, who is let go once that has ended."""
    seams.clock.patience = 0.1
    over = threading.Event()

    def send():
        while not Path(folder, "in").exists() and not over.is_set():
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
        pid = int(Path(folder, "in").read_text())
        deadline = time.monotonic() + PATIENCE
        while pid != os.getpid() and Path(f"/proc/{pid}").exists():
            assert time.monotonic() < deadline, "a process goes on for nobody"
            time.sleep(0.005)
    finally:
        over.set()
        sender.join()
        Path(folder, "out").touch()
    pool.wait_for(list(pool.pool()._unfinished))


EXIT = """
    import sys, threading, time
    import numpy as np
    from hogshare import Stop, problems, solve
    from hogshare.kernels import layout

    X = np.random.default_rng(0).standard_normal((300, 6))
    problem = problems.linear(X, X[:, 0] > 0.0)
    runs = {"caller": 1, "threads": 2, "processes": 2}
    begun = threading.Barrier(1 + len(runs))

    def fit(runtime, n_workers):
        told = lambda epoch, _: epoch == 1 and begun.wait() < 0
        run = dict(runtime=runtime, n_workers=n_workers)
        solve(problem, stop=Stop(epochs=10**9), on_epoch=told, **run)
        print("went on with half a model")

    for run in runs.items():
        threading.Thread(target=fit, args=run, daemon=True).start()
    begun.wait()
"""


@pytest.mark.timeout(30)
def test_the_interpreters_end_stops_fits_in_daemon_threads():
    assert run_script("-W", "error", "-c", textwrap.dedent(EXIT), timeout=25.0) == ("", "")


# Who is hired, and whose they are.


@pytest.fixture
def some_crew(seams):
    # a helper that imports nothing for fits is there ten times as soon
    seams.kernels.loaded = list
    crew.current_crew().shutdown()
    yield crew.current_crew()
    crew.current_crew().shutdown()


def up(member):
    deadline = time.monotonic() + PATIENCE
    while member.pid is None:
        member.poll()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return member.pid


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_fork_that_fails_leaves_nobody_hired(some_crew, monkeypatch, fails_at):
    """Whether the descriptors are used up at once, or in the middle of it."""
    (first,) = some_crew.hire(1)
    up(first)
    some_crew.release([first])
    gc.collect()
    before, left, make = descriptors(), [fails_at], crew.socket.socketpair

    def failing(*args):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(24, "Too many open files")
        return make(*args)

    with monkeypatch.context() as patch:
        patch.setattr(crew.socket, "socketpair", failing)
        for _ in range(3):
            left[0] = fails_at
            with pytest.raises(OSError, match="Too many"):
                some_crew.hire(3)
    assert not list(some_crew._hired) and some_crew._idle == [first]
    assert descriptors() <= before
    assert some_crew.hire(1) == [first]


@pytest.mark.parametrize("name", ["Watch", "ThreadCrew"])
def test_a_run_that_cannot_begin_gives_its_members_back(some_crew, monkeypatch, name):
    def failing(*args, **options):
        raise ZeroDivisionError("mine")

    with monkeypatch.context() as patch:
        patch.setattr(processes, name, failing)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                solve(problem(), runtime="processes", n_workers=3)
    assert not list(some_crew._hired) and len(some_crew._idle) == 2


def test_a_member_of_nobody_leaves_by_itself(some_crew):
    (member,) = some_crew.hire(1)
    pid = up(member)
    del member
    assert not list(some_crew._hired)
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "it waits for a task of nobody's"
        time.sleep(0.001)


def test_a_helper_that_is_gone_is_reaped_by_the_request_that_sees_it(some_crew):
    (member,) = some_crew.hire(1)
    up(member)
    helper = some_crew._helper
    os.kill(helper._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, helper._process.pid, os.WEXITED | os.WNOWAIT)
    helper.request([], [], 1.0)
    assert (
        helper.death == "was killed by signal 9 (SIGKILL)"
        and not Path(f"/proc/{helper._process.pid}").exists()
    )


def test_an_interrupted_fit_frees_its_memory_at_once(seams):
    """Not when cycles are collected, which may be long after."""
    made, init, turn = [], seams.loop.session, seams.loop.quantum

    def noted(session, *args, **options):
        made.append(weakref.ref(session))
        init(session, *args, **options)

    def interrupted(worker, n_blocks):
        if worker.me == 0:
            interrupt()  # it comes after the turn
        return turn(worker, n_blocks)

    gc.disable()
    try:
        with seams.for_now() as now:
            now.loop.session = noted
            now.loop.quantum = interrupted
            with pytest.raises(KeyboardInterrupt) as caught:
                solve(problem(), stop=ENDLESS, runtime="threads", n_workers=2)
        del caught
        deadline = time.monotonic() + PATIENCE
        while made[0]() is not None:  # the other worker's thread may be about to let go of it
            assert time.monotonic() < deadline
            time.sleep(0.001)
    finally:
        gc.enable()


def test_a_block_that_is_over_keeps_its_bell_no_longer():
    """And with it no descriptor, until somebody collects cycles."""
    bell = Bell()
    told = weakref.ref(bell)
    gc.disable()
    try:
        with DeferredSignals(bell):
            pass
        del bell
        assert told() is None
    finally:
        gc.enable()
