"""Ranks that share no memory when all of them rest: what they evaluate, decide and save."""

import os
import signal
import time

import numpy as np
import psutil
import pytest
import ranks
from ranks import needs_mpi

from hogshare import Stop, problems, solve
from hogshare.engine.checkpoints import load

CHECKS = ranks.checks_of("rest_checks.py")


@needs_mpi
@pytest.mark.timeout(ranks.SECONDS + 60)
@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("check", CHECKS)
def test_on_ranks_at_rest(check, n):
    ranks.verify(check, "rest_checks.py", n)


RESUMES = """
import json
from pathlib import Path
from hogshare import Stop
path = Path(sys.argv[1])
mine = slice(0, 24) if rank == 0 else slice(24, None)
part = problems.linear(X[mine], y[mine], alpha=1e-4)  # a thousand epochs: it is killed first
def hear(epoch, snapshot):
    if epoch % 4 == 1:
        print(f'{{"epoch": {epoch}, "rank": {rank}, "process": {os.getpid()}}}', flush=True)
    time.sleep(float(sys.argv[2]))
    return False
report = solve(
    part, rule="saga", runtime=MPI(arena=False), stop=Stop(epochs=5000, gap=1e-9), seed=0,
    on_epoch=hear, checkpoint=path, resume=path if path.exists() else None,
)
if rank == 0:
    found = {"coef": report.model.coef.tolist(), "intercept": report.model.intercept.tolist()}
    print(json.dumps({"converged": report.converged, **found}), flush=True)
"""
KILLS, MANY = 4, 20
SLOW = 0.1  # seconds between two epochs of those that are killed


@needs_mpi
def test_a_rank_that_is_killed_leaves_a_checkpoint_to_go_on_from(tmp_path, request):
    script, path = ranks.script(tmp_path, RESUMES), tmp_path / "run.npz"
    draws, reached = np.random.default_rng(7), 0
    for _ in range(MANY if request.config.option.long else KILLS):
        with ranks.start(2, script, path, SLOW) as job:
            processes = {}
            while len(processes) < 2:
                line = job.stdout.readline()
                assert line, "the job has ended before it was killed"
                for one in ranks.told(line):
                    processes[one["rank"]] = one["process"]
            below = psutil.Process(job.pid).children(recursive=True)
            time.sleep(draws.random())
            os.kill(processes[int(draws.integers(2))], signal.SIGKILL)
            job.communicate(timeout=30)
        assert job.returncode != 0 and not ranks.ended(below, 10)
        if path.exists():  # with the parts that it names
            saved = load(path).whole()
            assert reached <= saved.epochs and len(saved.state["gradients"]) == len(rows()[0])
            reached = saved.epochs
    assert reached > 1
    job = ranks.run(2, script, path, 0.0, seconds=120)
    assert job.returncode == 0, job.stderr[-2000:]
    found = next(one for one in ranks.told(job.stdout) if "converged" in one)
    problem = problems.linear(*rows(), alpha=1e-4)
    best = solve(problem, rule="saga", stop=Stop(epochs=3000, gradient=1e-10)).model
    least = problem.objective(best.coef, best.intercept)
    value = problem.objective(np.array(found["coef"]), np.array(found["intercept"]))
    assert found["converged"] and value <= least * (1.0 + 1e-6)
    assert len(list(tmp_path.glob("run.npz*"))) == 3, "parts of those that were killed are left"


def rows():
    """Those of `ranks.script`."""
    X = np.random.default_rng(0).standard_normal((240, 5))
    return X, (X @ np.arange(1.0, 6.0) > 0.0).astype(int)
