"""What every problem, rule, plane, barrier and runtime has to do, whatever it is together with.

Who adds a member adds a row to its table in `contract.py`, a runtime to the one here. Every pair
that can be chosen either runs, keeps its promises and comes nearer to the optimum, or is refused in
a sentence before anything is allocated.
"""

import itertools

import numpy as np
import pytest
from contract import (
    BARRIERS,
    HOMES,
    PLANES,
    PROBLEMS,
    RULES,
    N,
    first_objective,
    step_for,
    words,
)

from hogshare import BSP, Simulator, solve
from hogshare.engine.loop import Compute, loop_of
from hogshare.runtimes.hooks import EpochHook
from hogshare.runtimes.protocol import Outcome, Runtime


class ByTurns(Runtime):
    """All workers in the calling thread, each for a wish at a time."""

    name = "by turns"

    def prepare(self, session):
        session.set_up_quanta(n_polls=0)  # another worker needs the thread

    def run(self, session, on_epoch, checks=None):
        n = session.settings.n_workers + session.has_master
        loops, replies = [loop_of(session, me) for me in range(n)], [None] * n
        with EpochHook(session, on_epoch, checks) as hook:
            while any(loops):
                for me in [k for k in range(n) if loops[k]]:
                    try:
                        wish = loops[me].send(replies[me])
                    except StopIteration:
                        loops[me] = None
                        continue
                    replies[me] = (wish.call(), 1) if isinstance(wish, Compute) else 1
                hook.poll()
        return Outcome([])


RUNTIMES = {
    "threads": "threads",
    "processes": "processes",
    "simulator": Simulator(seed=1),
    "own": ByTurns(),
}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.sample(2)
@pytest.mark.quick
def test_contract(problem, plane, runtime):
    """Every rule; barriers one after the other, each with every other choice in some.

    Without --long any two of problem, plane and runtime meet, each time with every rule.
    """
    made = PROBLEMS[problem]()
    offset = sum(map(ord, problem + plane + runtime))
    barriers = itertools.islice(itertools.cycle(BARRIERS), offset, None)
    for rule, barrier in zip(RULES, barriers, strict=False):
        chosen = {"problem": problem, "rule": rule, "plane": plane, "runtime": runtime}
        chosen["barrier"] = barrier
        run = {
            "rule": RULES[rule],
            "plane": PLANES[plane],
            "barrier": BARRIERS[barrier],
            "runtime": RUNTIMES[runtime],
            "n_workers": 2,
            "step": None if RULES[rule].remembers else step_for(made),
            "stop": 4,
            "trace": 1,
            "seed": 0,
        }
        told = words(chosen)
        if told:
            with pytest.raises(ValueError, match="|".join(told)):
                solve(made, **run)
            continue
        report = solve(made, **run)
        assert report.n_epochs == 4 and report.n_workers == 2, chosen
        assert sum(worker["rows"] for worker in report.workers) == 4 * N, chosen
        assert report.objective < first_objective(made), chosen
        leads = [worker["largest_lead"] or 0 for worker in report.workers]
        assert max(leads) <= {"bsp": 0, "ssp": 1, "own": 2}.get(barrier, 99), chosen
        assert report.to_json() and str(report), chosen


@pytest.mark.parametrize("plane", ["shared", "master", *HOMES])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_bsp_is_the_same_in_every_runtime(problem, plane):
    if plane in ("mirrors", "direct") and problem == "topics":
        pytest.skip("their steps count the blocks of all workers, and centres have no order")
    vectors = []
    for runtime in RUNTIMES.values():
        made = PROBLEMS[problem]()
        step = None if made.has_rows else step_for(made)
        run = {"plane": PLANES[plane], "barrier": BSP(), "n_workers": 2, "seed": 0, "stop": 3}
        model = solve(made, runtime=runtime, step=step, **run).model
        vectors.append(model.coef if made.has_rows else model.params)
    for other in vectors[1:]:
        np.testing.assert_array_equal(vectors[0], other)
