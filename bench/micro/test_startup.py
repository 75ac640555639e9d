"""What a fit costs before and after its rows: a tiny problem with each runtime, everything warm.

The kernels are loaded, the threads started and the processes up before the clock runs.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from hogshare import datasets
from hogshare.engine.stops import Stop
from hogshare.runtimes.crew import current_crew
from hogshare.runtimes.pool import pool
from hogshare.solvers.solver import solve

WORKERS = 2


@pytest.fixture(scope="module")
def tiny(linear):
    X, _ = datasets.dense(64, 4, seed=0, dtype=np.float32)
    return linear(X)


@pytest.fixture(scope="module")
def larger(linear):
    """A problem of some tens of milliseconds: members of the crew join while it runs."""
    X, _ = datasets.dense(100_000, 54, seed=0, dtype=np.float32)
    return linear(X)


def fit(problem, runtime, epochs=1):
    n_workers = 1 if runtime == "caller" else WORKERS
    return solve(problem, runtime=runtime, n_workers=n_workers, stop=Stop(epochs=epochs), seed=0)


def until_members_join(problem):
    """Fit until a process that the caller did not have to wait for has had rows."""
    while fit(problem, "processes", epochs=50).workers[-1]["rows"] == 0:
        pass


@pytest.mark.benchmark(group="start-up: a tiny fit")
@pytest.mark.parametrize("runtime", ["caller", "threads", "processes"])
def test_tiny_fit(benchmark, tiny, larger, runtime):
    if runtime == "processes":
        until_members_join(larger)
    assert benchmark(fit, tiny, runtime).n_epochs == 1


@pytest.mark.benchmark(group="start-up: a second fit with processes")
@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_second_fit(benchmark, larger, runtime):
    """With threads beside it, which need no copy of the rows and nobody to be told."""
    if runtime == "processes":
        until_members_join(larger)
    report = benchmark(fit, larger, runtime, epochs=5)
    shares = [worker["rows"] / sum(w["rows"] for w in report.workers) for worker in report.workers]
    benchmark.extra_info["share_of_rows"] = [round(share, 3) for share in shares]


@pytest.mark.benchmark(group="start-up: waking")
def test_threads_wake(benchmark, note_ns):
    """Two threads of the pool, woken and waited for."""

    def wake():
        tasks = [pool().submit(int) for _ in range(WORKERS)]
        return [task.result() for task in tasks]

    assert benchmark(wake) == [0] * WORKERS
    note_ns("thread", WORKERS)


@pytest.mark.benchmark(group="start-up: waking")
def test_crew_is_hired(benchmark, larger):
    """A member of the crew that is up, hired and released."""
    until_members_join(larger)
    crew = current_crew()

    def hire():
        members = crew.hire(WORKERS - 1)
        crew.release(members)
        return members

    assert len(benchmark(hire)) == WORKERS - 1


@pytest.mark.benchmark(group="start-up: a new process")
@pytest.mark.parametrize("statement", ["import hogshare", "from hogshare import SGDClassifier"])
def test_import(benchmark, statement):
    command = [sys.executable, "-c", statement]
    done = benchmark.pedantic(
        subprocess.run, (command,), {"env": dict(os.environ)}, rounds=3, warmup_rounds=1
    )
    assert done.returncode == 0
