"""Ranks that share no memory and die at random moments: the job's end, and the resumed run.

Two ranks, a worker each, log loss, a checkpoint after each epoch. At a random moment of the run one
rank is killed, leaves by ``sys.exit(0)``, or raises; the job's time to its end is counted from that
moment. Then the same job is started again, and continues from the checkpoint: its objective is
compared with that of an undisturbed run. Usage::

    python bench/rank_deaths.py --rounds 20 --json bench/results/rank_deaths.json
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import script

PLANES = {"shared": "Shared()", "master": "Master()", "replicas": "Replicas('root', every=200)"}
WAYS = ("kill", "exit", "raise")
EPOCHS, LONGEST_SECONDS, MOST_SECONDS = 60, 1.5, 60.0
JOB = """
import os, sys, time
from pathlib import Path
import numpy as np
from mpi4py import MPI as library
from hogshare import MPI, Master, Replicas, Shared, problems, solve
rank = library.COMM_WORLD.Get_rank()
folder, way, after = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 20))
y = np.sign(X @ rng.standard_normal(20) + rng.standard_normal(4000))
part = problems.linear(X[rank::2], y[rank::2], alpha=1e-3)
began = time.perf_counter()
def ends(epoch, snapshot):
    if epoch == 1:
        (folder / f"pid{rank}").write_text(str(os.getpid()))
    time.sleep(0.02)  # so that a moment may be anywhere in a run
    if rank == 1 and way in ("exit", "raise") and time.perf_counter() - began > after:
        if way == "exit":
            sys.exit(0)
        raise RuntimeError("the callback's own")
run = {"plane": PLANE, "runtime": MPI(arena=False), "n_workers": 1, "stop": EPOCHS, "seed": 0}
path = folder / "run"
resume = path if list(folder.glob("run*")) else None
report = solve(part, **run, on_epoch=ends, checkpoint=path, resume=resume)
if rank == 0:
    whole = problems.linear(X, y, alpha=1e-3)
    value = whole.objective(report.model.coef, report.model.intercept)
    (folder / "value").write_text(repr(value))
"""


def start(folder: Path, plane: str, way: str, after: float) -> subprocess.Popen[bytes]:
    """The job, on its way."""
    program = folder / "job.py"
    program.write_text(JOB.replace("PLANE", PLANES[plane]).replace("EPOCHS", str(EPOCHS)))
    mpiexec = Path(sys.executable).with_name("mpiexec")
    line = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", program, folder, way, str(after)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(list(map(str, line)), stdout=log, stderr=log)


def is_there(pid: int) -> bool:
    """Whether a process lives."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def once(plane: str, way: str, after: float) -> dict[str, float]:
    """One death: seconds to the job's end, what is left of it, and the objective of a resume."""
    left = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = start(folder, plane, way, after)
        pids = [folder / f"pid{rank}" for rank in (0, 1)]
        while job.poll() is None and not all(one.exists() and one.read_text() for one in pids):
            time.sleep(0.01)
        numbers = [int(one.read_text()) for one in pids]
        began = time.perf_counter()
        if way == "kill":
            time.sleep(after)
            began = time.perf_counter()
            if job.poll() is None:
                os.kill(numbers[round(1e6 * after) % 2], signal.SIGKILL)
        try:
            code = job.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            job.kill()
            code = -1
        seconds = time.perf_counter() - began - (0.0 if way == "kill" else after)
        n_left = sum(map(is_there, numbers)) + len(set(os.listdir("/dev/shm")) - left)
        start(folder, plane, "none", 0.0).wait(MOST_SECONDS)
        value = float((folder / "value").read_text())
    return {"seconds": max(0.0, seconds), "code": float(code), "left": n_left, "value": value}


def measure(options: Any) -> dict[str, Any]:
    """Every plane and way."""
    results: dict[str, Any] = {}
    draw = np.random.default_rng(0)
    for plane in PLANES:
        whole = once(plane, "none", 0.0)["value"]
        for way in WAYS:
            moments = draw.uniform(0.0, LONGEST_SECONDS, options.rounds)
            found = [once(plane, way, after) for after in moments]
            results[f"{plane} {way}"] = {
                "seconds to the end, median": float(np.median([one["seconds"] for one in found])),
                "the longest": max(one["seconds"] for one in found),
                "ended with 0": sum(one["code"] == 0 for one in found),
                "hung": sum(one["code"] == -1 for one in found),
                "left behind": sum(one["left"] for one in found),
                "objective, worst ratio": max(one["value"] / whole for one in found),
            }
            script.show([results[f"{plane} {way}"]], f"{plane}, {way}")
    return results


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=20)
