"""The driver of `tests/chaos`: what it runs comes from its seed, and what goes wrong is told."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")

HERE = Path(__file__).parent


def driver(*arguments):
    return subprocess.run(
        [sys.executable, str(HERE / "chaos"), *arguments], capture_output=True, text=True
    )


def test_a_seed_makes_the_same_cases():
    code = "from case import Case; print([(str(c), c.epochs) for c in {}])"
    code = code.format("(Case(7, k) for k in range(50))")
    path = os.pathsep.join([str(HERE / "chaos"), str(HERE), str(HERE.parent)])
    found = set()
    for hashes in "12":  # whose order must not matter
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hashes}
        found.add(subprocess.check_output([sys.executable, "-c", code], env=environment))
    assert len(found) == 1 and len(set(ast.literal_eval(found.pop().decode()))) == 50


def test_a_case_that_runs_ends_well():
    done = driver("--seed", "7", "--case", "0")
    assert done.returncode == 0 and "1 cases, nothing wrong" in done.stdout, done.stderr
