"""Estimators on ranks that share no memory: all rows on each rank, and rows of each rank's own."""

import ast
import functools

import pytest
import ranks
from ranks import HERE, needs_mpi

SCRIPT = HERE / "estimator_checks.py"
CHECKS = [
    node.name
    for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]

CASES = [(check, 2) for check in CHECKS] + [(check, 3) for check in CHECKS if "shards" in check]


@functools.cache
def found_by(n):
    """What each check has come to on each rank of one job: started once for all."""
    checks = [check for check, of in CASES if of == n]
    job = ranks.run(n, SCRIPT, *checks, seconds=600)
    found = {(line["check"], line["rank"]): line["failure"] for line in ranks.told(job.stdout)}
    return found, job


@needs_mpi
@pytest.mark.timeout(660)
@pytest.mark.parametrize(("check", "n"), CASES)
def test_on_ranks(check, n):
    found, job = found_by(n)
    for rank in range(n):
        assert (check, rank) in found, f"rank {rank} has not come to it: {job.stderr[-2000:]}"
        assert found[check, rank] is None, f"on rank {rank}: {found[check, rank]}"
