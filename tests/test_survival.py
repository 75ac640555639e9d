"""Whatever dies, a fit ends well and nothing is left behind."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from crews import members

from hogshare import (
    ASP,
    BSP,
    PSSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Master,
    Mirrors,
    Replicas,
    Shared,
    Stop,
    Throttled,
    problems,
    share,
    solve,
)
from hogshare.runtimes.crew import current_crew
from hogshare.runtimes.processes import WorkerDied

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")

ROOT = Path(__file__).parent.parent
PATIENCE = 60  # seconds after which something that should have happened has not


def rows(n=20_000, m=500, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, m), density=0.05, format="csr", random_state=rng)
    signal = X @ rng.standard_normal(m)
    return X, ((signal > 0) ^ (rng.random(n) < 0.05)).astype(int)


@pytest.fixture(scope="module")
def problem():
    X, y = rows()
    return problems.linear(share(X), y, alpha=1e-3)


def value(problem, report):
    return problem.objective(report.model.coef, report.model.intercept)


RUN_SECONDS = 0.2  # of a fit whose workers are killed
killed: list[int] = []  # by process id; the last of a test may be noticed in the next one


def enough_epochs(problem, **run):
    """As many as take three workers about that long here."""
    run |= {"runtime": "processes", "n_workers": 3, "seed": 0}
    deadline = time.monotonic() + PATIENCE
    while any(map(psutil.pid_exists, killed)) and time.monotonic() < deadline:
        time.sleep(0.005)  # a process that was killed dies when it gets a core
    with warnings.catch_warnings():
        # the last kill of the case before may have hit a member at rest
        warnings.simplefilter("ignore", WorkerDied)
        solve(problem, stop=Stop(epochs=1), **run)
    # the least of three: what else begins here makes one of them many times as long
    took = min(solve(problem, stop=Stop(epochs=5), **run).seconds["run"] for _ in range(3))
    return int(np.clip(5 * RUN_SECONDS / took, 8, 5000))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("plane", "rule", "barrier"),
    [
        (Shared(), SGD(), ASP()),
        (Shared(exchange=None), SGD(), ASP()),
        (Shared(), SDCA(), ASP()),
        (Shared(), SAGA(), ASP()),
        (Shared(exchange=None, adds="atomic"), SAGA(), ASP()),
        (Shared(), SGD(), BSP()),
        (Shared(), SDCA(), BSP()),
        (Shared(exchange=None), SGD(), SSP(1)),
        (Shared(), SAGA(), PSSP(1, 1)),
        (Shared(), SGD(), Throttled(3)),
        (Master(2), SGD(batch=64), ASP()),
        (Master(2), SGD(batch=512), BSP()),
        (Replicas("ring"), SGD(), ASP()),
        (Mirrors(2), SGD(), SSP(2)),
        (Mirrors(2, Shared(exchange=None)), SGD(), SSP(2)),
        (Replicas("all", sync="bsp"), SGD(), ASP()),
        (Replicas("one-peer", rows="claimed"), SGD(), SSP(2)),
    ],
    ids=[
        "exchange",
        "lock-free",
        "dual",
        "saga",
        "asaga",
        "bsp",
        "bsp-dual",
        "ssp",
        "pssp",
        "throttled",
        "master",
        "master-bsp",
        "replicas",
        "mirrors",
        "mirrors-direct",
        "replicas-bsp",
        "replicas-claimed",
    ],
)
def test_a_fit_survives_the_death_of_any_worker_at_any_moment(
    problem, rounds, plane, rule, barrier
):
    run = {"runtime": "processes", "n_workers": 3, "plane": plane, "rule": rule}
    run["barrier"] = barrier
    epochs = enough_epochs(problem, plane=plane, rule=rule, barrier=barrier)
    run["stop"] = Stop(epochs=epochs)
    whole = solve(problem, seed=0, **run)
    best, took = value(problem, whole), whole.seconds["run"]
    rng = random.Random(0)
    warned = 0
    for k in range(10 * rounds(50)):
        if k >= rounds(50) and warned:
            break

        def kill(delay):
            time.sleep(delay)
            candidates = members()
            if candidates:
                victim = rng.choice(candidates)
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
                    killed.append(victim.pid)

        killer = threading.Thread(target=kill, args=(rng.uniform(0.0, took),), name="killer")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            killer.start()
            report = solve(problem, seed=k, **run)
            killer.join()
        assert report.n_epochs == epochs
        assert sum(w["blocks"] for w in report.workers) >= epochs  # a dead one's count with it
        assert value(problem, report) <= best * 1.02
        deaths = [w for w in caught if issubclass(w.category, WorkerDied)]
        assert len(deaths) == len(caught), [str(w.message) for w in caught]
        # a worker that was killed between two fits may be noticed in the second
        for death in deaths:
            sentence = r"(?:worker \d+|the master) \(process (\d+)\) was killed by .*SIGKILL"
            pid = re.search(sentence, str(death.message))
            assert pid, str(death.message)
            assert int(pid[1]) in killed
            killed.remove(int(pid[1]))
            assert str(death.message) in report.notes
        workers = [w for w in deaths if "the master" not in str(w.message)]
        assert sum(w["state"] == "dead" for w in report.workers) == len(workers)
        warned += len(deaths)
    assert warned > 0, "no kill hit a fit: this test has seen nothing"


def test_a_fit_survives_the_death_of_all_other_workers(problem):
    epochs = enough_epochs(problem)
    run = {"runtime": "processes", "n_workers": 3, "seed": 0}
    best = value(problem, solve(problem, stop=Stop(epochs=epochs), **run))

    def kill():
        time.sleep(0.1)
        for victim in members():
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()

    for _ in range(6):
        killer = threading.Thread(target=kill, name="killer")
        killer.start()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = solve(problem, stop=Stop(epochs=epochs), **run)
        killer.join()
        assert {w.category for w in caught} <= {WorkerDied}
        assert report.n_epochs == epochs
        assert value(problem, report) <= best * 1.02
        if len(caught) == 2:
            break
        epochs *= 2  # it was over before the kill, or while it came
    else:
        pytest.fail("no kill hit a fit: this test has seen nothing")
    with warnings.catch_warnings():
        # a kill between two fits may be noticed in the next
        warnings.simplefilter("ignore", WorkerDied)
        solve(problem, stop=Stop(epochs=3), **run)
    again = solve(problem, stop=Stop(epochs=3), **run)
    assert [w["state"] for w in again.workers].count("dead") == 0


SCRIPT = """
    import sys, threading, time
    sys.path.insert(0, {tests!r})
    from test_survival import rows
    from hogshare import Stop, problems, solve

    X, y = rows(5_000)
    problem = problems.linear(X, y)
    run = dict(runtime={runtime!r}, n_workers=2, seed=0)
    solve(problem, stop=Stop(epochs=3), **run)
    print("ready", flush=True)
"""

INTERRUPTED = (
    SCRIPT
    + """
    try:
        solve(problem, stop=Stop(epochs=10_000_000), **run)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    report = solve(problem, stop=Stop(epochs=3), **run)
    print("then", report.n_epochs, flush=True)
"""
)

ENDLESS = (
    SCRIPT
    + """
    solve(problem, stop=Stop(epochs=10_000_000), **run)
"""
)


def start(tmp_path, text, runtime):
    """Start a script and wait until it fits; what it keeps in temporary files is in `tmp_path`."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text.format(tests=str(ROOT / "tests"), runtime=runtime)))
    path = os.pathsep.join(p for p in [str(ROOT), *sys.path] if p)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline().strip() == "ready"
    time.sleep(0.4)  # well inside the long fit
    return process


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_ctrl_c_ends_a_fit_at_once_and_the_next_one_works(tmp_path, runtime):
    process = start(tmp_path, INTERRUPTED, runtime)
    try:
        began = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        assert process.stdout.readline().strip() == "interrupted"
        assert time.monotonic() - began < 2.0, "0.5 s where the machine is quiet"
        assert process.stdout.readline().strip() == "then 3"
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def files_of(process):
    """Yield what a process has mapped (as text) and the files it has open."""
    folder = Path(f"/proc/{process.pid}")
    with contextlib.suppress(OSError):  # it may end meanwhile
        yield (folder / "maps").read_text()
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield os.readlink(link)


# names of joblib's pools, with the process's number in them
POOLS = re.compile(r"(?:loky-|joblib_memmapping_folder_)(\d+)")


def nobodys_memory(names):
    """Those of the names in /dev/shm that no living process has open or mapped, and that are not of
    a living process's pool.

    Other tests run at the same time, and joblib keeps semaphores and folders there meanwhile.
    """
    living = list(psutil.process_iter())
    held = "\n".join(text for process in living for text in files_of(process))
    numbers = {str(process.pid) for process in living}
    return {
        name
        for name in names & set(os.listdir("/dev/shm"))
        if f"/dev/shm/{name}" not in held and numbers.isdisjoint(POOLS.findall(name))
    }


def test_memory_without_an_owner_is_found():
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="orphan", delete=False) as file:
        name = Path(file.name).name
        ours = nobodys_memory({name})
    left = nobodys_memory({name})
    os.unlink(file.name)
    assert (ours, left) == (set(), {name})


def test_nothing_is_left_when_everything_is_killed(tmp_path):
    before = set(os.listdir("/dev/shm"))
    process = start(tmp_path, ENDLESS, "processes")
    try:
        deadline = time.monotonic() + PATIENCE
        while len(family := psutil.Process(process.pid).children(recursive=True)) < 2:
            assert time.monotonic() < deadline, "a helper and a worker should be up"
            time.sleep(0.05)
    finally:
        process.kill()
    process.stdout.close()
    process.wait(PATIENCE)
    _, alive = psutil.wait_procs(family, timeout=5.0)
    assert not alive
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
    assert not nobodys_memory(set(os.listdir("/dev/shm")) - before)


def possessions():
    """Descriptors, threads, processes, resident bytes of this process."""
    me = psutil.Process()
    return me.num_fds(), me.num_threads(), len(me.children(recursive=True)), me.memory_info().rss


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runtime", ["caller", "threads", "processes"])
def test_many_fits_leak_nothing(rounds, runtime):
    X, y = rows(2_000, 200)
    problem = problems.linear(X, y)
    n_workers = 1 if runtime == "caller" else 2
    run = {"runtime": runtime, "n_workers": n_workers, "stop": Stop(epochs=2)}
    current_crew().shutdown()  # what earlier tests hired may still be starting
    for _ in range(10):
        solve(problem, **run)
    if runtime == "processes":
        deadline = time.monotonic() + PATIENCE
        while possessions()[2] < 2 and time.monotonic() < deadline:
            solve(problem, **run)
    fds, threads, processes, memory = possessions()
    for _ in range(rounds(1000)):
        solve(problem, **run)
    deadline = time.monotonic() + 5.0
    while True:  # a joined thread may take a moment to be gone from the system's view
        after = possessions()
        if after[1] <= threads or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert after[0] <= fds + 2
    assert after[1] <= threads
    # a member that is still leaving its last run is not hired again: a spare one may be forked
    assert after[2] <= processes + 2
    assert after[3] <= memory + 20e6


def broken(table, me):
    """A barrier that fails, in the caller's worker or in a member's: whoever asks it first."""
    raise OverflowError("too hot")


def unwelcome(epoch, snapshot):
    """A callback that fails, in the caller's thread."""
    raise ArithmeticError("not this one")


def test_fits_in_several_threads_at_once(problem):
    """They share the crew; errors in some leave the others alone."""
    outcomes = {}
    chosen = [{}, {"barrier": broken}, {}, {"on_epoch": unwelcome}, {}]

    def fit(k):
        run = {"runtime": "processes", "n_workers": 2, "stop": Stop(epochs=30), "seed": k}
        try:
            outcomes[k] = solve(problem, **run, **chosen[k])
        except BaseException as error:
            outcomes[k] = error

    threads = [threading.Thread(target=fit, args=(k,), name=f"fit-{k}") for k in range(len(chosen))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert "too hot" in str(outcomes[1]) and isinstance(outcomes[1], (OverflowError, RuntimeError))
    assert isinstance(outcomes[3], ArithmeticError) and "not this one" in str(outcomes[3])
    values = [value(problem, outcomes[k]) for k in (0, 2, 4)]
    assert max(values) <= 1.02 * min(values)
