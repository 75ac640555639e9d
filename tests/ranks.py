"""Jobs of MPI that tests start: a script on so many ranks, and what has come of it."""

import ast
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 560  # in which a job ends, kernels that are compiled included


def mpiexec():
    """The launcher: the environment's own, or the system's."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def why_not():
    """Why there can be no job; "" where there can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    return "" if mpiexec() else "there is no mpiexec: pip install mpich"


needs_mpi = pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is MPI")


def outlives_ranks():
    """Whether the launcher can leave the others alone when a rank has died: Open MPI's."""
    found = mpiexec()
    return found is not None and Path(found).with_name("ompi_info").exists()


needs_survivors = pytest.mark.skipif(
    bool(why_not()) or not outlives_ranks(), reason="mpiexec is not Open MPI's"
)


def command(n, *arguments, launched=True, survive=False):
    """The command of a job."""
    by = ["-m", "mpi4py"] if launched else []
    how = ["--with-ft", "ulfm"] if survive else []
    return [mpiexec(), *how, "-n", str(n), sys.executable, *by, *map(str, arguments)]


def environment():
    """Of ranks, which find the package that is tested, and say nothing of compiling."""
    path = os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    # Open MPI's, which refuses root, and more ranks than cores
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    return {**os.environ, **allowed, "PYTHONPATH": path, "HOGSHARE_QUIET": "1"}


def run(n, *arguments, launched=True, survive=False, seconds=SECONDS):
    """Run a job to its end: what it printed, and its exit status."""
    return subprocess.run(
        command(n, *arguments, launched=launched, survive=survive),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def start(n, *arguments, launched=True):
    """Begin a job."""
    return subprocess.Popen(
        command(n, *arguments, launched=launched),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def told(text):
    """The lines of JSON among what a job has printed; the launcher may join two ranks' lines."""
    found, read = [], json.JSONDecoder()
    for line in text.splitlines():
        at = 0
        while line.startswith("{", at):
            one, at = read.raw_decode(line, at)
            found.append(one)
    return found


def checks_of(file):
    """Names of the checks in a file that a job runs, which only ranks can import."""
    body = ast.parse((HERE / file).read_text(encoding="utf-8")).body
    functions = (node.name for node in body if isinstance(node, ast.FunctionDef))
    return [name for name in functions if name.startswith("check_")]


@functools.cache
def reported(file, n, *arguments, seconds=SECONDS):
    """What each check has come to on each rank of one job, and the job: started once for all."""
    job = run(n, HERE / file, *arguments, seconds=seconds)
    return {(line["check"], line["rank"]): line["failure"] for line in told(job.stdout)}, job


def verify(check, file, n, *arguments, **how):
    """Assert that a check of a file's one job has passed on every rank; return the job."""
    found, job = reported(file, n, *arguments, **how)
    for rank in range(n):
        assert (check, rank) in found, f"rank {rank} has not come to it: {job.stderr[-2000:]}"
        assert found[check, rank] is None, f"on rank {rank}: {found[check, rank]}"
    return job


def report_on(checks, rank, *arguments, together=lambda: None):
    """Call checks by name, and print what each has come to on this rank.

    together : called after each
    """
    for name, check in checks.items():
        failure = None
        try:
            check(*arguments)
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps({"check": name, "rank": rank, "failure": failure}), flush=True)
        together()


def script(folder, body):
    """A script whose ranks have `rank`, `size` and a small problem."""
    path = folder / "script.py"
    path.write_text(PROLOGUE + body, encoding="utf-8")
    return path


PROLOGUE = """
import os, signal, sys, time
import numpy as np
from mpi4py import MPI as library
from hogshare import MPI, problems, solve
rank, size = library.COMM_WORLD.rank, library.COMM_WORLD.size
draws = np.random.default_rng(0)
X = draws.standard_normal((240, 5))
y = (X @ np.arange(1.0, 6.0) > 0.0).astype(int)
problem = problems.linear(X, y, alpha=0.01)
ALL = MPI(rows="all", start_timeout=20)

def fit(runtime=ALL, **settings):
    return solve(problem, runtime=runtime, **{"stop": 2, "seed": 0, **settings})
"""


def ended(process, seconds):
    """Wait for processes of a job to be gone; which are left."""
    deadline = time.monotonic() + seconds
    left = list(process)
    while left and time.monotonic() < deadline:
        left = [one for one in left if one.is_running() and one.status() != "zombie"]
        time.sleep(0.02)
    return left
