"""Estimators on ranks that share no memory: all rows on each rank, and rows of each rank's own."""

import pytest
import ranks
from ranks import needs_mpi

CHECKS = ranks.checks_of("estimator_checks.py")
OF = {2: tuple(CHECKS), 3: tuple(check for check in CHECKS if "shards" in check)}
CASES = [
    pytest.param(check, n, marks=[pytest.mark.long] if n > 2 else [])
    for n, checks in OF.items()
    for check in checks
]


@needs_mpi
@pytest.mark.timeout(1260)
@pytest.mark.parametrize(("check", "n"), CASES)
def test_on_ranks(check, n):
    ranks.verify(check, "estimator_checks.py", n, *OF[n], seconds=1200)
