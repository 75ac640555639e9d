"""The compiled events against a heap that knows everybody by name: every event and every number.

Also with the JIT off, so that the plain form is the compiled one.
"""

import clockwork
import numpy as np
import pytest

from hogshare.barriers import ASP, BSP, PBSP, PSSP, SSP, Fraction, Throttled
from hogshare.kernels.jit.decorators import JIT_DISABLED
from hogshare.simulation import Constant, Exponential, Measured, Uniform, progress

BARRIERS = [
    ASP(),
    BSP(),
    SSP(2),
    PBSP(2),
    PBSP(2, hold=True),
    PSSP(3, 1),
    PSSP(3, 1, hold=True),
    Fraction(0.5, 1),
    Fraction(0.7),
    Fraction(0.5, 1, 3),
    Fraction(0.5, 1, 3, hold=True),
    Throttled(4),
    Throttled(30),
]
# the last two end blocks of several workers at one moment, where others look
LAWS = [Exponential(1.0), Uniform(0.5, 1.5), Constant(1.0), Measured([0.25, 0.5, 1.0])]
N = 8
MOVES = {"joins": {1: 3.0, 2: 3.0, 5: 7.5}, "leaves": {2: 9.0, 3: 4.0, 4: 4.0, 0: 6.5}}
ENDS = {
    "seconds": {"seconds": 12.0},
    "blocks": {"blocks": 8},
    "who comes and goes": {"seconds": 12.0, **MOVES},
    "the last one comes alone": {"blocks": 8, "joins": {1: 3.0, 7: 200.0}, "leaves": {3: 4.0}},
    "slow ones": {"seconds": 12.0, "slowness": [4.0, 4.0] + [1.0] * 6},
    "many clocks": {"blocks": 70},
}
RANK = {"joined": 0, "left": 1, "completed": 2, "passed": 3}


def barrier_seed(seed):
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def in_order(events):
    """What happens at one moment has no order among workers that matters."""
    return sorted(events, key=lambda event: (event[0], event[1], RANK[event[2]]))


def draws_at_looks(barrier):
    sampled = getattr(barrier, "sample", None) is not None
    return sampled and not (barrier.hold and getattr(barrier, "share", 1.0) == 1.0)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("law", LAWS[:2] if JIT_DISABLED else LAWS, ids=repr)
@pytest.mark.parametrize("barrier", BARRIERS, ids=repr)
def test_every_event_is_the_twins(barrier, law, ends):
    for poll in (0.05, 0.25, None):
        if poll is None and draws_at_looks(barrier):
            continue
        settings = {"poll": poll, "seed": 3, **ENDS[ends]}
        run = progress(barrier, N, block_time=law, events=True, **settings)
        twin = clockwork.simulate(barrier, N, law, barrier_seed=barrier_seed(3), **settings)
        assert in_order(run.events) == in_order(twin.events)
        assert [time for time, _, _ in run.events] == sorted(time for time, _, _ in run.events)
        assert run.clock.tolist() == twin.clock
        assert run.waiting.tolist() == twin.waited
        assert run.present.tolist() == twin.present
        assert run.seconds == twin.end
        assert (run.updates, run.passes) == (twin.updates, len(twin.leads))
        assert run.leads.tolist() == np.bincount(twin.leads).tolist()
        assert run.leads.sum() == run.passes
        if poll is not None:
            assert run.checks == twin.checks
            if getattr(barrier, "sample", None) is not None:
                assert run.control_messages == twin.asked


@pytest.mark.parametrize(
    "barrier", [ASP(), BSP(), SSP(2), Fraction(0.5, 1), Throttled(4)], ids=repr
)
@pytest.mark.parametrize("poll", [0.05, None])
def test_simpy_has_the_same_order_of_events(barrier, poll):
    """Block times without ties, so that order is time alone; who is woken is woken in any order."""
    for law in (Exponential(1.0), Uniform(0.5, 1.5)):
        run = progress(barrier, N, block_time=law, poll=poll, seed=5, seconds=15.0, events=True)
        want = clockwork.with_simpy(barrier, N, law, poll=poll, seed=5, seconds=15.0)
        assert len(want) > 50
        assert in_order(run.events) == in_order(want)
        moments = [time for time, _, _ in run.events]
        assert moments == [time for time, _, _ in want]


def test_a_crowd_is_the_twins_too():
    """More workers than a bucket of the calendar holds, and more buckets than one."""
    n = 60 if JIT_DISABLED else 300
    for barrier in (PBSP(5), PBSP(5, hold=True), SSP(3), Throttled(n // 2)):
        settings = {"poll": 0.2, "seed": 1, "seconds": 8.0, "slowness": [30.0] + [1.0] * (n - 1)}
        run = progress(barrier, n, events=True, **settings)
        twin = clockwork.simulate(
            barrier, n, Exponential(1.0), barrier_seed=barrier_seed(1), **settings
        )
        assert in_order(run.events) == in_order(twin.events)
        assert run.waiting.tolist() == twin.waited


def test_a_year_without_an_event_is_skipped():
    settings = {"poll": None, "blocks": 5, "slowness": [1e9] + [1.0] * 19}
    run = progress(SSP(2), 20, **settings)
    twin = clockwork.simulate(SSP(2), 20, Exponential(1.0), **settings)
    assert run.seconds == twin.end > 1e9
    assert run.waiting.tolist() == twin.waited


def test_updates_are_counted_at_given_times():
    times = [0.0, 1.0, 2.5, 7.0, 7.0, 50.0]
    run = progress(PBSP(2), N, seconds=10.0, times=times, events=True)
    ends = np.array([time for time, _, what in run.events if what == "completed"])
    assert run.updates_by.tolist() == [(ends <= time).sum() for time in times]
    assert run.updates_by[-1] == run.updates == run.clock.sum()
