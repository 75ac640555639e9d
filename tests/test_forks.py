"""A fork at any moment: the child fits, and its parent goes on, whatever others were doing."""

import contextlib
import ctypes
import functools
import gc
import importlib.machinery
import multiprocessing
import os
import pkgutil
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import types
from pathlib import Path

import cloudpickle
import numba.cloudpickle
import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUTarget, cpu_target

import hogshare
from hogshare import BSP, Stop, problems, solve
from hogshare.kernels.jit import decorators
from hogshare.runtimes import crew, events, idle_threads, pool, user_objects
from hogshare.runtimes.user_objects import packed
from hogshare.system import forks, interrupts
from hogshare.system.interrupts import DeferredSignals

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

PATIENCE = 60.0
EPOCHS = 500  # of a run that goes on while its caller has been told of the first
RUNS = (("caller", 1), ("threads", 2), ("processes", 2))


def problem():
    X = np.random.default_rng(0).standard_normal((300, 6))
    return problems.linear(X, X[:, 0] > 0.0, alpha=0.01)


def fit(runs=RUNS):
    for runtime, n_workers in runs:
        report = solve(problem(), stop=Stop(epochs=2), runtime=runtime, n_workers=n_workers)
        assert report.n_epochs == 2


def forget_kernels():
    """Have the next fit show its kernels to Numba and load them, as the first of a process does."""
    for each in gc.get_objects():
        if issubclass(type(each), decorators.Compiled):
            each.shown = None


def first_fit():
    forget_kernels()
    fit()


def fork(work):
    """Call a function in a forked child, which must end well, and in time."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def ends_well(child):
    deadline = time.monotonic() + PATIENCE
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.002)
    assert os.waitstatus_to_exitcode(ended[1]) == 0


def fork_by_multiprocessing(work):
    """As `fork`, by the standard library, and the child ends as a process does."""

    def ending():
        work()
        sys.exit(7)

    child = multiprocessing.get_context("fork").Process(target=ending)
    child.start()
    child.join(PATIENCE)
    if child.is_alive():
        child.kill()
        child.join()
        pytest.fail("the child hangs")
    assert child.exitcode == 7


@contextlib.contextmanager
def elsewhere(work):
    """Let another thread do something in the block, ``work(is_due)``.

    It is in the middle of it when the block begins, having called ``is_due()``, which says so when
    this thread waits in a fork for others, or has left the block.
    """
    main, over, begun, errors = threading.get_ident(), threading.Event(), threading.Event(), []

    def is_due():
        begun.set()
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code is not forks._Fork.take.__code__:
            frame = frame.f_back
        return frame is not None or over.is_set()

    def run():
        try:
            work(is_due)
        except BaseException as error:
            errors.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield
    finally:
        over.set()
        thread.join(PATIENCE)
    assert not thread.is_alive() and not errors, errors


def until(is_due):
    deadline = time.monotonic() + PATIENCE
    while not is_due():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def holding(lock):
    def work(is_due):
        with lock:
            until(is_due)

    return work


def drawing():
    """NumPy's own generator, in whose draws a fit without a seed has a part."""
    return np.random.mtrand._rand._bit_generator.lock


def draw():
    assert solve(problem(), stop=Stop(epochs=1), seed=None).n_epochs == 1


def send_by_value():
    class Barrier:
        def __call__(self, table, me):
            return True

    assert packed("barrier", Barrier())


def context(name):
    """The lock of one of Numba's contexts, and a first use of Numba, which makes that."""

    def meet():
        del vars(cpu_target)[name]
        getattr(cpu_target, name)

    return lambda: vars(CPUTarget)[name]._lock, meet


# What a fit meets, by name; what it is, and who meets it.
LOCKS = {
    "the crew": (lambda: crew._lock, fit),
    "luggage": (lambda: user_objects._lock, send_by_value),
    "looking for libraries": (lambda: idle_threads._stopping, lambda: idle_threads._known()),
    "Numba's compiler": (lambda: global_compiler_lock, first_fit),
    "LLVM": (lambda: ffi.lib._lock._lock, first_fit),
    "a target's context": context("_toplevel_target_context"),
    "a typing context": context("_toplevel_typing_context"),
    "NumPy's generator": (drawing, draw),
    "cloudpickle": (lambda: cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_LOCK, send_by_value),
    "Numba's cloudpickle": (
        lambda: numba.cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_LOCK,
        lambda: numba.cloudpickle.dumps(type("Mine", (), {"__module__": "__main__"})),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def warmed():
    """What a test of another file would compile in the middle of a fork."""
    fit()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_that_another_thread_has_at_the_fork(name):
    find, meet = LOCKS[name]
    with elsewhere(holding(find())):
        child = fork(meet)
    ends_well(child)
    fit()


@pytest.mark.parametrize("name", ["Numba's compiler", "LLVM"])
def test_multiprocessing_forks_too_and_ends(name):
    find, meet = LOCKS[name]
    with elsewhere(holding(find())):
        fork_by_multiprocessing(meet)


def test_all_at_once_in_any_order():
    """Two threads that take them in opposite orders, as whoever waits with a lock in its hands."""
    locks = [find() for find, _ in LOCKS.values()]
    locks = [lock for lock in locks if hasattr(lock, "__enter__")]

    def take(order):
        def work(is_due):
            with contextlib.ExitStack() as stack:
                stack.enter_context(order[0])
                until(is_due)
                for lock in order[1:]:
                    stack.enter_context(lock)

        return work

    for order in locks, locks[::-1]:
        with elsewhere(take(order)):
            child = fork(fit)
        ends_well(child)


def test_the_thread_that_forks_may_have_them_itself():
    """As a handler's that forks in the middle of a compilation."""
    with contextlib.ExitStack() as stack:
        for _, lock in forks._found():
            lock.acquire()
            stack.callback(lock.release)
        child = fork(first_fit)
        fork_by_multiprocessing(fit)
    ends_well(child)
    with elsewhere(first_fit_of_another):
        pass


def first_fit_of_another(is_due):
    is_due()
    fit()


def test_a_kernel_that_is_being_compiled(monkeypatch):
    """In earnest: Numba and LLVM are at work when this thread forks, and there is half a kernel."""
    values = np.zeros(3)

    @decorators.helper
    def twice(x):
        return 2.0 * x

    @decorators.kernel
    def fresh(values):
        for k in range(len(values)):
            values[k] = twice(k) + np.sqrt(k)

    from hogshare.kernels.jit.compilers import OnlyLinked

    inner = OnlyLinked.run_pass

    def run_pass(self, state):  # of the helper, while the kernel's types are inferred
        if threading.current_thread() is not threading.main_thread():
            until(due[0])
        return inner(self, state)

    monkeypatch.setattr(OnlyLinked, "run_pass", run_pass)
    due = []

    def work(is_due):
        due.append(is_due)
        fresh(values)

    def child_works():
        own = np.zeros(3)
        fresh(own)
        assert own[2] == 4.0 + np.sqrt(2.0)
        first_fit()

    with elsewhere(work):
        child = fork(child_works)
    ends_well(child)
    assert values[2] == 4.0 + np.sqrt(2.0)


def test_libraries_that_are_looked_for(monkeypatch):
    """The C library has a lock on them all, and a child that loads one would wait for it."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    look, due = idle_threads.ThreadpoolController, []

    def looking():
        def seen(*_):
            until(due[0])
            return 1

        ctypes.CDLL(None).dl_iterate_phdr(kind(seen), None)
        return look()

    def work(is_due):
        due.append(is_due)
        idle_threads._known()

    def child_looks():
        idle_threads.ThreadpoolController, idle_threads._modules = look, 0
        idle_threads._known()

    monkeypatch.setattr(idle_threads, "ThreadpoolController", looking)
    monkeypatch.setattr(idle_threads, "_modules", 0)
    with elsewhere(work):
        child = fork(child_looks)
    ends_well(child)


class Slowly:
    """Imports a module of the package that takes until somebody says so."""

    def __init__(self, name):
        self.name, self.due = name, []

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == self.name else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if self.due:
            until(self.due[0])
        module.whole = True

    def get(self, is_due=None):
        if is_due is not None:
            self.due.append(is_due)
        assert importlib.import_module(self.name).whole


def test_a_module_that_is_being_imported(monkeypatch):
    slowly = Slowly("hogshare.imported_by_a_test")
    monkeypatch.setattr(sys, "meta_path", [slowly, *sys.meta_path])
    try:
        with elsewhere(slowly.get):
            child = fork(slowly.get)
        ends_well(child)
    finally:
        sys.modules.pop(slowly.name, None)
        vars(hogshare).pop("imported_by_a_test", None)


def test_an_import_of_the_users_is_not_waited_for(monkeypatch):
    """It may wait for the thread that forks."""
    slowly = Slowly("a_module_of_the_users")
    monkeypatch.setattr(sys, "meta_path", [slowly, *sys.meta_path])
    over = threading.Event()

    def work(is_due):
        slowly.get(lambda: is_due() and over.is_set())

    with elsewhere(work):
        child = fork(fit)
        over.set()
    ends_well(child)
    del sys.modules[slowly.name]


def test_who_waits_in_vain_forks_and_the_child_says_why(seams):
    """Whoever has the lock may wait for something that the thread has that forks."""
    seams.clock.patience_of_forks = 0.1
    over = threading.Event()

    def work(is_due):
        with global_compiler_lock:
            until(lambda: is_due() and over.is_set())

    def child_works():
        fit([("threads", 2)])  # with what is there
        with pytest.raises(RuntimeError, match="forked while another thread of its parent"):
            first_fit()
        gc.collect()

    with elsewhere(work):
        child = fork(child_works)
        over.set()
    ends_well(child)
    first_fit()


# Signals.


def test_a_child_of_another_thread_has_its_signals(monkeypatch):
    """Though the main thread holds them; and their handlers show as they are."""
    told, before = [], signal.getsignal(signal.SIGINT)

    def handled():
        assert signal.getsignal(signal.SIGINT) is before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    with DeferredSignals():
        thread = threading.Thread(target=lambda: told.append(fork(handled)))
        thread.start()
        thread.join(PATIENCE)
        assert isinstance(signal.getsignal(signal.SIGINT), interrupts._StandIn)
    ends_well(told[0])


def test_a_signal_that_comes_while_a_fork_waits_comes_after_it():
    """A hook cannot raise, so what a handler raises there would be lost."""
    called = []
    before = signal.signal(signal.SIGUSR1, lambda *_: called.append(True))

    def work(is_due):
        with global_compiler_lock:
            until(is_due)
            for number in (signal.SIGUSR1, signal.SIGINT):
                os.kill(os.getpid(), number)

    try:
        with elsewhere(work):
            try:
                child = os.fork()
                if child == 0:
                    os._exit(0)  # a signal of the parent's is not its child's
                pytest.fail("the signal is lost")
            except KeyboardInterrupt:
                pass
        os.wait()
        assert called == [True]
        child = os.fork()  # and comes once
        if child == 0:
            os._exit(0)
        ends_well(child)
        assert called == [True]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("way", [fork, None], ids=["fork", "multiprocessing"])
def test_a_fork_in_a_handler_and_in_a_callback_of_a_fit(way):
    children = []

    def make(*_):
        if way is None:
            fork_by_multiprocessing(fit)
        else:
            children.append(way(fit))

    def told(epoch, _):
        if epoch == 1:
            make()
        if epoch == 2:
            signal.raise_signal(signal.SIGUSR1)
        return False

    before = signal.signal(signal.SIGUSR1, make)
    try:
        for runtime, n_workers in RUNS:
            run = {"runtime": runtime, "n_workers": n_workers}
            assert solve(problem(), stop=Stop(epochs=3), on_epoch=told, **run).n_epochs == 3
    finally:
        signal.signal(signal.SIGUSR1, before)
    for child in children:
        ends_well(child)


# A child that has a run's calls on its stack, and no part in the run.


@pytest.mark.parametrize("runtime", [runtime for runtime, _ in RUNS])
@pytest.mark.parametrize("way", ["returns", "leaves"])
def test_a_child_of_a_callback_ends_and_leaves_the_run_alone(runtime, way):
    """Its shared memory, its members and its threads are the parent's."""
    parent, children = os.getpid(), []
    run = {"n_workers": dict(RUNS)[runtime], "barrier": BSP(), "seed": 0}
    run["stop"] = Stop(epochs=EPOCHS)
    alone = solve(problem(), runtime=runtime, **run)

    def told(epoch, _):
        if epoch == 1:
            children.append(os.fork())
            if not children[0] and way == "leaves":
                sys.exit(3)
        return False

    status = 1
    try:
        report = solve(problem(), runtime=runtime, on_epoch=told, **run)
        status = int(report.n_epochs != EPOCHS)  # the only worker's run is the child's own, wholly
    except SystemExit as error:
        status = int(error.code != 3)
    except RuntimeError as error:
        status = int("forked in the middle of a fit" not in str(error))
    finally:
        if os.getpid() != parent:
            os._exit(status)
    ends_well(children[0])
    assert status == 0 and report.n_epochs == EPOCHS
    np.testing.assert_array_equal(report.model.coef, alone.model.coef)


def test_a_child_of_a_task_ends_with_it():
    """It has one thread, which no other task will come to, and runs no library's destructors."""
    children = queue.SimpleQueue()

    def task():
        child = os.fork()
        if child:
            children.put(child)

    pool.pool().submit(task).result(PATIENCE)
    ends_well(children.get(timeout=PATIENCE))


def test_a_child_of_a_task_that_raises_says_so_and_runs_no_librarys_destructors():
    """C's `exit` would run them, of MPI and LLVM too, which wait for the parent's threads."""
    code = """
        import ctypes, os, sys
        from hogshare.runtimes.pool import pool

        at_exit = ctypes.CFUNCTYPE(None)(lambda: os._exit(9))
        ctypes.CDLL(None).__cxa_atexit(at_exit, None, None)

        def task():
            child = os.fork()
            if child == 0:
                print("the child's own words")
                raise ValueError("in the child")
            return child

        child = pool().submit(task).result(60)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        os._exit(0)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.stdout.split("\n") == ["the child's own words", "1", ""]
    assert "ValueError: in the child" in ended.stderr


def test_a_child_does_not_wait_for_tasks_of_its_parents():
    go_on, children, parent = threading.Event(), [], os.getpid()
    before = signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))

    def work(k, is_over):
        signal.raise_signal(signal.SIGUSR1) if k == 0 else None
        assert go_on.wait(PATIENCE)
        return k

    threading.Timer(0.1, go_on.set).start()
    status = 1
    try:
        assert pool.call_in_queue(work, [0, 1], 2) == [0, 1]
    except RuntimeError as error:
        status = int("forked in the middle" not in str(error))
    finally:
        signal.signal(signal.SIGUSR1, before)
        if os.getpid() != parent:
            os._exit(status)
    ends_well(children[0])


# In earnest: a fork in the middle of a process's first fit, whose kernels nobody has compiled yet.

FIRST = """
    import os, sys, threading, time
    import numpy as np
    from hogshare import BSP, Stop, problems, solve

    X = np.random.default_rng(0).standard_normal((300, 6))
    problem = problems.linear(X, X[:, 0] > 0.0, alpha=0.01)
    coefs = []

    def fit(runtime="caller", n_workers=1):
        run = dict(runtime=runtime, n_workers=n_workers, stop=Stop(epochs=5), seed=0)
        coefs.append(solve(problem, **run).model.coef)

    thread = threading.Thread(target=fit)
    thread.start()

    def frames():
        frame = sys._current_frames().get(thread.ident)
        while frame is not None:
            yield frame.f_code.co_filename
            frame = frame.f_back

    while not any("numba/core/typed_passes" in name for name in frames()):
        assert thread.is_alive()  # till Numba is in the middle of a kernel
        time.sleep(0.001)
    child = os.fork()
    runs = ("caller", 1), ("threads", 2), ("processes", 2)
    for run in runs:
        fit(*run)
    if child:
        thread.join()
        assert all(np.array_equal(coef, coefs[0]) for coef in coefs[:2])
        assert os.waitpid(child, 0)[1] == 0
        print("both are through")
"""


def with_cache(folder):
    """The environment of a process whose kernels are in that folder."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    return {**os.environ, "HOGSHARE_CACHE_DIR": str(folder), "PYTHONPATH": path}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_fork_in_a_first_fit(tmp_path):
    """The child and its parent end as processes do."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FIRST)],
        env=with_cache(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "both are through\n"), done.stderr


# What threads share that compile at the same time, from a process's first kernel on.

BY_THREADS = """
    import os, sys, threading, time, traceback
    import numba
    import numpy as np
    from hogshare.kernels.jit import decorators

    errors, rounds = [], int(sys.argv[1])

    def kernels(number):
        @decorators.helper
        def twice(x):
            return 2.0 * x

        @decorators.kernel
        def one(values):
            for k in range(values.shape[0]):
                values[k] = twice(k) + np.sqrt(k) + number

        @decorators.kernel
        def other(values):
            for k in range(values.size):
                values[k] = twice(np.float64(k)) + np.exp(0.0) + number

        return (one, np.sqrt(2.0)), (other, 1.0)

    def compiled(kernel, last, number):
        values = np.zeros(3)
        kernel(values)
        assert values[2] == 4.0 + last + number, values

    def noting(work, *args):
        def run():
            try:
                work(*args)
            except BaseException:
                errors.append(traceback.format_exc())
        return threading.Thread(target=run)

    def fork(work, *args):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(*args)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        return child

    for number in range(rounds):
        made = kernels(number)
        threads = [noting(compiled, *made[k % 2], number) for k in range(4)]
        if number == 0:  # whoever else begins with Numba in that moment
            threads += [noting(decorators.load_registries), noting(numba.njit(lambda x: x + 1), 1)]
        for thread in threads:
            thread.start()
            time.sleep(0.005)
        children = []
        while any(thread.is_alive() for thread in threads) and len(children) < 4:
            children.append(fork(compiled, *made[len(children) % 2], number))
            time.sleep(0.01)
        for thread in threads:
            thread.join()
        errors += [f"a child: {end}" for end in (os.waitpid(c, 0)[1] for c in children) if end]
    print(*errors, sep="\\n") if errors else print("all are through")
"""


@pytest.mark.timeout(900)
def test_threads_compile_beside_forks(rounds, tmp_path):
    """In two processes, whose one cache is empty."""
    environment = with_cache(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(BY_THREADS))
    command = [sys.executable, "-W", "ignore", str(script), str(rounds(100))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    try:
        for each in both:
            out, err = each.communicate(timeout=800)
            assert (each.returncode, out) == (0, "all are through\n"), out + err
    finally:
        for each in both:
            each.kill()
            each.communicate()


BEGIN_AT_ONCE = """
    import sys, threading, traceback
    import numpy as np
    from hogshare.kernels.jit import decorators

    sys.setswitchinterval(1e-5)
    errors = []

    @decorators.kernel
    def fresh(values):
        for k in range(values.shape[0]):
            values[k] = np.sqrt(k)

    def noting(work, *args):
        def run():
            try:
                work(*args)
            except BaseException:
                errors.append(traceback.format_exc())
        return threading.Thread(target=run, daemon=True)

    works = (decorators.load_registries,), (fresh, np.zeros(3))
    threads = [noting(*work) for work in works * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100.0)
    assert not any(thread.is_alive() for thread in threads), "two threads wait for each other"
    print(*errors, sep="\\n") if errors else print("all are through")
"""


def test_threads_that_begin_with_numba_at_once(tmp_path):
    """One by a gradient of the user's, others by kernels: neither takes what another needs."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(BEGIN_AT_ONCE))
    environment = with_cache(tmp_path)
    for _ in range(2):  # compiled, and loaded
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stdout) == (0, "all are through\n"), done.stdout + done.stderr


# Whatever there is, is known.

KINDS = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    threading.Barrier,
    queue.Queue,
    queue.SimpleQueue,
    events.Bell,
    events.News,
)


def locks_of(owner, depth=3):
    """What is kept by a module, by its classes and by what it has made: `(name, lock)`."""
    for name, value in list(vars(owner).items()):
        if isinstance(value, KINDS):
            yield name, value
        elif isinstance(value, functools.cached_property) and hasattr(value, "lock"):
            yield f"{name}.lock", value.lock
        elif depth and not isinstance(value, types.ModuleType | types.FunctionType):
            ours = value.__module__ if isinstance(value, type) else type(value).__module__
            if str(ours).startswith("hogshare") and hasattr(value, "__dict__"):
                yield from ((f"{name}.{rest}", lock) for rest, lock in locks_of(value, depth - 1))


def test_every_lock_of_the_package_is_known():
    """A lock of a run, or of a fit, is no lock of the child's; what a module keeps is."""
    known = [lock for _, lock in forks._found()]
    unknown = set()
    renewed = {"hogshare.runtimes.user_objects:_lock"}
    for found in pkgutil.walk_packages(hogshare.__path__, "hogshare."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            for name, lock in locks_of(module):
                if not any(lock is one for one in known):
                    unknown.add(f"{found.name}:{name}")
    assert unknown == renewed, "what becomes of them in a fork? See hogshare/system/forks.py"


def test_a_lock_that_nobody_knows_would_be_found():
    module = types.ModuleType("hogshare.some")
    module.lock, module.pool = threading.Lock(), pool.ThreadPool()
    module.pool.condition = threading.Condition()
    assert [name for name, _ in locks_of(module)] == ["lock", "pool.condition"]


def test_everything_that_is_known_is_there():
    """With this Numba and this NumPy: what is not would be left out without a word."""
    assert len(forks._found()) == len(forks.TAKEN)
    for each in forks.RENEWED:
        each.renew(sys.modules[each.module])


def test_locks_may_be_taken_again_by_who_has_them():
    for _, lock in forks._found():
        assert lock.acquire(blocking=False) and lock.acquire(blocking=False)
        lock.release()
        lock.release()
