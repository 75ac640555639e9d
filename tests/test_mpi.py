"""Ranks of MPI: what they check of themselves, and how a job ends when one of them does."""

import signal

import psutil
import pytest
import ranks
from ranks import needs_mpi

CHECKS = ranks.checks_of("rank_checks.py")
# a job of four ranks takes two cores as long as many files of tests
SIZES = [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(4, marks=pytest.mark.long)]


@needs_mpi
@pytest.mark.timeout(ranks.SECONDS + 60)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("check", CHECKS)
def test_on_ranks(check, n):
    ranks.verify(check, "rank_checks.py", n)


@needs_mpi
@pytest.mark.parametrize("n", SIZES)
def test_the_job_of_all_checks_ends_as_it_should(n):
    _, job = ranks.reported("rank_checks.py", n)
    assert job.returncode == 0, job.stderr[-2000:]


FAILURES = {
    # what one rank does, and what the job then says
    "raises before its first call": (
        "if rank == 1:\n    raise ValueError('odd')\nfit()",
        "ValueError: odd",
    ),
    "raises between two calls": (
        "fit()\nif rank == 1:\n    raise ValueError('odd')\nfit()",
        "ValueError: odd",
    ),
    "raises in what it is called with": (
        "fit(n_workers=0 if rank == 1 else 1)",
        "n_workers",
    ),
    "raises in a callback": (
        "def hear(epoch, snapshot):\n    raise ValueError('odd')\n"
        "fit(stop=1_000_000, on_epoch=hear)",
        "ValueError: odd",
    ),
    "raises in a worker": (
        "def gradient(w, rows, out):\n"
        "    if rank == 1 and w.any():\n        raise ValueError('odd')\n"
        "    out += w - 1.0\n    return 1.0\n"
        "own = problems.user(gradient, 64, 3)\n"
        "solve(own, runtime=ALL, barrier='bsp', block=4, stop=1_000_000)",
        "ValueError: odd",
    ),
    "leaves by sys.exit(0) after a call": (
        "fit()\nif rank == 1:\n    sys.exit(0)\nfit()",
        "Rank 1 has ended",
    ),
    "leaves by sys.exit(3) after a call": ("fit()\nif rank == 1:\n    sys.exit(3)\nfit()", ""),
    "leaves by sys.exit(0) in a run": (
        "def gradient(w, rows, out):\n"
        "    if rank == 1 and w.any():\n        sys.exit(0)\n"
        "    out += w - 1.0\n    return 1.0\n"
        "own = problems.user(gradient, 64, 3)\n"
        "solve(own, runtime=ALL, barrier='bsp', block=4, stop=1_000_000)",
        "SystemExit",
    ),
    "is killed in a run": (
        "def hear(epoch, snapshot):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "fit(stop=1_000_000, on_epoch=hear)",
        "",
    ),
    "leaves by os._exit": ("fit()\nif rank == 1:\n    os._exit(1)\nfit()", ""),
    "never calls": (
        "if rank == 1:\n    time.sleep(60)\nelse:\n    fit(MPI(rows='all', start_timeout=1))",
        "within 1 seconds",
    ),
    "does not call again": (
        "fit()\nif rank == 1:\n    time.sleep(60)\nfit(MPI(rows='all', start_timeout=1))",
        "Rank 1 has not made the call",
    ),
    "is halted in a callback, where ranks share no memory": (
        "from hogshare.runtimes.mpi import heart\nheart.SILENT_SECONDS = 2.0\n"
        "def hear(epoch, snapshot):\n"
        "    if rank == 1:\n        os.kill(os.getpid(), signal.SIGSTOP)\n"
        "fit(MPI(rows='all', arena=False), stop=1_000_000, on_epoch=hear)",
        "Rank 1 has not been heard of",
    ),
    "is halted between two steps of a call": (
        "from hogshare.runtimes.mpi import agreement, heart\nheart.SILENT_SECONDS = 2.0\n"
        "def halt(*given):\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "fit()\nif rank == 1:\n    agreement.versions = halt\nfit()",
        "Rank 1 has not been heard of",
    ),
    "is halted in a run": (
        "from hogshare.runtimes.mpi import pulse\npulse.SILENT_SECONDS = 1.0\n"
        "def hear(epoch, snapshot):\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "fit(stop=1_000_000, on_epoch=hear)",
        "Rank 0 has not been heard of",
    ),
}


# also without mpi4py's launcher, which ends jobs itself; before a first call nobody else does
ALONE = ("raises between two calls", "leaves by sys.exit(0) after a call", "never calls")
WAYS = [(what, True) for what in FAILURES] + [(what, False) for what in ALONE]


@needs_mpi
@pytest.mark.parametrize(("what", "launched"), WAYS)
def test_a_job_ends_when_a_rank(what, launched, tmp_path):
    body, said = FAILURES[what]
    job = ranks.run(2, ranks.script(tmp_path, body), launched=launched, seconds=60)
    assert job.returncode != 0, job.stdout + job.stderr
    assert said in job.stderr, job.stderr


@needs_mpi
@pytest.mark.parametrize("launched", [True, False], ids=["by mpi4py", "by itself"])
def test_ranks_end_normally_after_their_last_common_call(launched, tmp_path):
    body = "fit()\nif rank == 0:\n    time.sleep(0.5)\nprint(f'{{\"rank\": {rank}}}', flush=True)"
    job = ranks.run(2, ranks.script(tmp_path, body), launched=launched, seconds=60)
    assert job.returncode == 0, job.stderr
    assert sorted(line["rank"] for line in ranks.told(job.stdout)) == [0, 1]


@needs_mpi
@pytest.mark.quick
def test_an_error_that_is_caught_on_all_ranks_ends_nothing(tmp_path):
    body = (
        "try:\n    fit(step=0.1 + rank)\nexcept ValueError as error:\n"
        "    assert 'rank 1' in str(error)\nelse:\n    raise SystemExit(1)\n"
        "print(f'{{\"epochs\": {fit().n_epochs}}}', flush=True)"
    )
    job = ranks.run(2, ranks.script(tmp_path, body), seconds=60)
    assert job.returncode == 0, job.stderr
    assert ranks.told(job.stdout) == [{"epochs": 2}] * 2


@needs_mpi
def test_ctrl_c_on_the_launcher_ends_all(tmp_path):
    body = (
        "def hear(epoch, snapshot):\n"
        "    if epoch == 1:\n        print('{\"runs\": true}', flush=True)\n"
        "fit(stop=1_000_000_000, on_epoch=hear)"
    )
    with ranks.start(2, ranks.script(tmp_path, body)) as job:
        while "runs" not in job.stdout.readline():
            assert job.poll() is None
        below = psutil.Process(job.pid).children(recursive=True)
        assert len(below) >= 2
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=30)
    assert job.returncode != 0
    assert not ranks.ended(below, 10)


@needs_mpi
def test_an_idle_rank_leaves_its_core_alone(tmp_path):
    """Of the time in which the other one is busy with something else."""
    body = (
        "fit()\nbegan, spent = time.perf_counter(), time.process_time()\n"
        "if rank == 0:\n    time.sleep(1.0)\nfit()\n"
        "share = (time.process_time() - spent) / (time.perf_counter() - began)\n"
        'print(f\'{{"rank": {rank}, "share": {share}}}\', flush=True)'
    )
    job = ranks.run(2, ranks.script(tmp_path, body), seconds=60)
    assert job.returncode == 0, job.stderr
    shares = {line["rank"]: line["share"] for line in ranks.told(job.stdout)}
    assert shares[1] < 0.3  # 0.03 on free cores; who waits within MPI takes all of one
