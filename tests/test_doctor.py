"""`hogshare doctor`: what is wrong with a machine is told, with what to do; what is not, is not."""

import json
import os
import resource
import subprocess
import sys

import pytest
import ranks
from ranks import needs_mpi

from hogshare.cli import doctor as checks
from hogshare.cli.doctor import FINE, NOTE, WRONG
from hogshare.cli.main import main
from hogshare.runtimes.mpi import door
from hogshare.system import extras, machine


def states(check):
    """What a check says: state, and words, by what was looked at."""
    return {one.what: (one.state, f"{one.fact}; {one.advice}") for one in check()}


def doctor(*arguments, **environment):
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "hogshare", "doctor", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_on_a_machine_that_runs_these_tests_processes_and_memory_are_fine():
    done = doctor("--json")
    found = {one["what"]: one for one in json.loads(done.stdout)}
    assert found["shared memory"]["state"] == found["worker processes"]["state"] == FINE
    wrong = [one for one in found.values() if one["state"] == WRONG]
    assert done.returncode == bool(wrong)
    assert all(one["advice"] for one in found.values() if one["state"] != FINE)
    assert done.stderr.startswith(f"hogshare: {len(wrong) or 'nothing'} wrong")


def test_a_table_without_json(capsys, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", (checks.shared_memory,))
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert "shared memory" in out
    assert err == "hogshare: nothing wrong, 0 notes\n"


def test_kernels_that_are_not_compiled_are_wrong():
    done = doctor("--json", NUMBA_DISABLE_JIT="1")
    (found,) = [one for one in json.loads(done.stdout) if one["what"] == "compiled kernels"]
    assert found["state"] == WRONG
    assert found["advice"] == "unset it"
    assert done.returncode == 1


def test_kernels_that_nobody_can_keep_are_wrong(monkeypatch, seams, tmp_path):
    seams.kernels.folder = None
    seams.kernels.no_folder = "the disk is read-only"
    state, words = states(checks.kernels)["compiled kernels"]
    assert state == WRONG
    assert "read-only; set HOGSHARE_CACHE_DIR" in words
    seams.kernels.folder = tmp_path / "none" / "yet"
    assert "hogshare warm" in states(checks.kernels)["compiled kernels"][1]
    monkeypatch.setattr(checks, "FULL", 1 << 80)
    assert states(checks.kernels)["disk"][0] == WRONG


@pytest.mark.parametrize(
    ("there", "bound", "usable", "chosen", "words"),
    [
        (16, 16, 16, "", "16 of 16 can be used; "),
        (16, 4, 4, "", "bound to them; start it without taskset"),
        (16, 16, 2, "", "limited by a control group"),
        (16, 16, 2, "2", "limited by LOKY_MAX_CPU_COUNT; unset it"),
    ],
)
def test_cores_that_are_taken_away(monkeypatch, seams, there, bound, usable, chosen, words):
    import joblib

    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    if chosen:
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", chosen)
    seams.machine.cores = lambda: there
    monkeypatch.setattr(machine, "usable_cores", lambda: bound)
    seams.machine.busy_others = lambda: usable - 1
    monkeypatch.setattr(joblib, "cpu_count", lambda: usable)
    found = states(checks.cores)
    assert words in found["cores"][1]
    assert (found["cores"][0] == FINE) == (usable == there)
    assert "other programs" not in found
    seams.machine.busy_others = lambda: usable
    assert states(checks.cores)["other programs"][0] == NOTE


@pytest.mark.parametrize(
    ("free", "state"), [(None, NOTE), (checks.ENOUGH - 1, WRONG), (1 << 34, FINE)]
)
def test_memory(seams, free, state):
    seams.memory.free = lambda: free
    assert states(checks.memory_left)["memory"][0] == state


def test_more_threads_of_blas_than_cores(monkeypatch):
    import joblib

    monkeypatch.setattr(joblib, "cpu_count", lambda: 0)
    found = states(checks.blas_threads)
    assert found
    assert all(state == WRONG and "OMP_NUM_THREADS" in words for state, words in found.values())


def test_no_shared_memory(monkeypatch):
    from hogshare.shm.arena import Arena

    def refused(arrays):
        raise OSError("no space left")

    monkeypatch.setattr(Arena, "create", refused)
    state, words = states(checks.shared_memory)["shared memory"]
    assert state == WRONG
    assert "no space left; let fits have threads" in words


def test_processes_that_do_not_answer(monkeypatch):
    monkeypatch.setattr(checks, "START_SECONDS", 0.0)
    state, words = states(checks.processes)["worker processes"]
    assert state == WRONG
    assert "ulimit -u" in words


def test_few_open_files(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100, 4096))
    assert states(checks._open_files)["open files"] == (NOTE, "at most 100; ulimit -n 1024")


def test_an_mpi_that_does_not_begin(monkeypatch):
    pytest.importorskip("mpi4py", exc_type=ImportError)
    monkeypatch.setattr(checks, "ASK_MPI", "raise RuntimeError('cannot load libmpi.so')")
    state, words = states(checks.ranks)["MPI"]
    assert state == WRONG
    assert "cannot load libmpi.so; pip install" in words


def asked(monkeypatch, **told):
    """What doctor says of an MPI that says this of itself."""
    known = {"version": "MPI 9", "threads": True, "knows_deaths": True, "memory": "", **told}
    monkeypatch.setattr(checks, "ASK_MPI", f"print('noise'); print('{json.dumps(known)}')")
    return states(checks.ranks)


def test_what_an_mpi_can_is_told(monkeypatch):
    pytest.importorskip("mpi4py", exc_type=ImportError)
    monkeypatch.delenv(door.WITH_SURVIVORS, raising=False)
    found = asked(monkeypatch)
    assert "MPI 9" in found["MPI"][1]
    assert [found[what][0] for what in ("threads of MPI", "memory of ranks")] == [FINE, FINE]
    assert found["a rank that dies"][0] == NOTE
    assert "mpiexec --with-ft ulfm" in found["a rank that dies"][1]
    monkeypatch.setenv(door.WITH_SURVIVORS, "1")
    assert asked(monkeypatch)["a rank that dies"][0] == FINE
    found = asked(monkeypatch, threads=False, knows_deaths=False, memory="permission denied")
    assert found["threads of MPI"][0] == NOTE and "halted" in found["threads of MPI"][1]
    assert found["memory of ranks"][0] == WRONG
    assert "permission denied; start all ranks as one user" in found["memory of ranks"][1]
    assert found["a rank that dies"][0] == NOTE and "resume=" in found["a rank that dies"][1]


@needs_mpi
def test_the_mpi_that_is_installed_says_what_it_can():
    found = states(checks.ranks)
    assert found["memory of ranks"][0] == FINE
    assert set(found) == {"MPI", "threads of MPI", "memory of ranks", "a rank that dies"}
    # of a rank of a job it says the same, once for each
    job = ranks.run(2, "-m", "hogshare", "doctor", "--json", launched=False)
    assert job.stdout.count('"memory of ranks"') == 2, job.stderr


def test_what_is_not_installed_says_how(monkeypatch):
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(extras, "_is_installed", lambda: True)
    state, words = states(checks.ranks)["MPI"]
    assert state == NOTE and words.endswith("; pip install 'hogshare[mpi]' mpich")
    found = states(checks.optional_parts)
    assert set(found) | {"mpi4py"} == set(extras.EXTRAS)
    for library, (_, words) in found.items():
        assert words.endswith(f"; pip install 'hogshare[{extras.EXTRAS[library]}]'")
