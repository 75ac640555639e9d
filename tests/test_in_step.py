"""Ranks that share no memory, in step: the bits of as many threads, whatever has an order."""

import numpy as np
import pytest
import ranks
from ranks import needs_mpi

from hogshare import SAGA, SDCA, SGD, Adam, Master, Mirrors, Replicas, Shared, Stop, problems
from hogshare.barriers import BSP
from hogshare.engine.arrays import shapes
from hogshare.engine.choices import Choices
from hogshare.engine.description import describe
from hogshare.engine.ownership import OWNED, By, Seen, owned
from hogshare.engine.workspace import ROW_ARRAYS
from hogshare.engine.world import World
from hogshare.rules.steps import StepSize

CHECKS = ranks.checks_of("step_checks.py")
# ranks, workers of each, and checks of a job that every change has; all others are long
JOBS = {(2, 1): CHECKS, (2, 2): CHECKS, (4, 1): CHECKS}
QUICK = {(2, 1): CHECKS}


@needs_mpi
@pytest.mark.timeout(ranks.SECONDS + 10)
@pytest.mark.parametrize(
    ("n_ranks", "n_workers", "check"),
    [
        pytest.param(*job, check, marks=() if check in QUICK.get(job, ()) else pytest.mark.long)
        for job, checks in JOBS.items()
        for check in checks
    ],
)
def test_ranks_in_step(n_ranks, n_workers, check):
    job = ranks.verify(check, "step_checks.py", n_ranks, n_workers)
    assert job.returncode == 0, job.stderr[-2000:]


IN_STEP = (
    "def hear(epoch, snapshot):\n    if epoch == 2 and rank == 1:\n        {}\n"
    "fit(MPI(rows='all', arena=False), barrier='bsp', stop=1_000_000, on_epoch=hear)"
)
FAILURES = {
    "is killed in a run": (IN_STEP.format("os.kill(os.getpid(), signal.SIGKILL)"), ""),
    "is halted in a run": (
        "from hogshare.runtimes.mpi import channel, heart\n"
        "channel.SILENT_SECONDS = heart.SILENT_SECONDS = 2.0\n"
        + IN_STEP.format("os.kill(os.getpid(), signal.SIGSTOP)"),
        "has not been heard of",
    ),
    "leaves by sys.exit(0) in a run": (IN_STEP.format("sys.exit(0)"), "SystemExit"),
}


@needs_mpi
@pytest.mark.parametrize("what", FAILURES)
def test_a_job_in_step_ends_when_a_rank(what, tmp_path):
    body, said = FAILURES[what]
    job = ranks.run(2, ranks.script(tmp_path, body), seconds=60)
    assert job.returncode != 0, job.stdout + job.stderr
    assert said in job.stderr, job.stderr


DRAWS = np.random.default_rng(0)
X, Y = DRAWS.standard_normal((60, 3)), DRAWS.integers(0, 2, 60)
LINEAR, NETWORK = problems.linear(X, Y, alpha=0.01), problems.network(X, Y, (3,))


@pytest.mark.quick
@pytest.mark.parametrize("rule", [SGD(), SGD(average=True), SAGA(), SDCA(), Adam()])
@pytest.mark.parametrize(
    "plane", [Shared(), Shared(exchange=None), Master(), Replicas("ring"), Mirrors(2)]
)
def test_every_array_has_an_owner(plane, rule):
    """So that no array is forgotten that another site has to see."""
    problem = NETWORK if isinstance(rule, Adam) else LINEAR
    if rule.remembers and not isinstance(plane, Shared):
        return  # which rules that remember rows are for
    choices = Choices(
        problem=problem,
        rule=rule,
        plane=plane.fitted(problem, problem.n_rows, 2),
        barrier=BSP(),
        step=StepSize("constant", 0.01),
        stop=Stop(epochs=2, tol=None),
        world=World((2,)),
        seed=0,
        trace=1,
    )
    settings, found = describe(choices)
    assert found == shapes(choices, settings)
    for name in (*found, *ROW_ARRAYS):
        one = owned(name)
        assert isinstance(one.by, By) and isinstance(one.seen, Seen)
    for name, ((rows, *_), _) in found.items():
        if owned(name).by is By.WORKER and owned(name).seen is Seen.AT_A_BLOCK and rows:
            assert rows in (1, 2), name


def test_owners_are_of_arrays_that_there_are():
    with pytest.raises(KeyError):
        owned("nothing")
    assert not [name for name in OWNED if name.endswith("*") and "_" not in name]
