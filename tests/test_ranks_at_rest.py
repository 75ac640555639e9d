"""Ranks that share no memory when all of them rest: what they evaluate, decide and save."""

import ast
import functools

import pytest
import ranks
from ranks import HERE, needs_mpi

CHECKS = [
    node.name
    for node in ast.parse((HERE / "rest_checks.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@functools.cache
def told_by(n):
    """What each check has come to on each rank of one job: started once for all."""
    job = ranks.run(n, HERE / "rest_checks.py")
    found = {(line["check"], line["rank"]): line["failure"] for line in ranks.told(job.stdout)}
    return found, job


@needs_mpi
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("check", CHECKS)
def test_on_ranks_at_rest(check, n):
    found, job = told_by(n)
    for rank in range(n):
        assert (check, rank) in found, f"rank {rank} has not come to it: {job.stderr[-2000:]}"
        assert found[check, rank] is None, f"on rank {rank}: {found[check, rank]}"
