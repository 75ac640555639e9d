"""Whatever raises on one rank, at any step of a call, ends that call on all; the next is clean."""

import pytest
import ranks
from ranks import HERE, needs_mpi

EVERY, FEW = 9, 18  # of the some hundred steps that a call has one in so many; without --long
DEADLINE = 200  # seconds, after which every rank shows where it is


@needs_mpi
@pytest.mark.timeout(DEADLINE + 40)
@pytest.mark.parametrize("call", ["fit", "solve", "across sites", "replicas", "in step"])
def test_an_error_at_a_step_ends_the_call_on_all_ranks(call, request):
    every = EVERY if request.config.option.long else FEW
    job = ranks.run(2, HERE / "rank_steps.py", call, DEADLINE, every, seconds=DEADLINE + 30)
    found = ranks.told(job.stdout)
    assert job.returncode == 0, job.stderr[-3000:]
    assert len(found) > 360 // every
    assert not [one for one in found if one["wrong"]]
