"""How tests start ranks, and why they may not."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).parent / "ranks"  # scripts that mpiexec runs


def mpiexec():
    """The launcher of this environment, or None."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def why_not():
    """Why no ranks can be started here; None if they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install 'hogshare[mpi]'"
    return None if mpiexec() else "there is no mpiexec: pip install mpich, or your system's MPI"


needs_mpi = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def run_ranks(n_ranks, script, *arguments, seconds=120):
    """What the ranks of a script print; fails with what they wrote if they do."""
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [mpiexec(), "-n", str(n_ranks), sys.executable, "-m", "mpi4py", str(RANKS / script)]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
