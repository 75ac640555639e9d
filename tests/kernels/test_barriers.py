"""Barrier predicates on tables made by hand; compiled and with the JIT off."""

import math
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from scipy import stats

from hogshare import barriers
from hogshare.engine.arrays import barrier_streams
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.kernels.schedule.epoch_schedule import EpochPlan
from hogshare.kernels.schedule.epoch_schedule import tick as tick_of

may_pass = kernel(codes.may_pass.py_func if hasattr(codes.may_pass, "py_func") else codes.may_pass)
enter = kernel(codes.enter.py_func if hasattr(codes.enter, "py_func") else codes.enter)
tick = kernel(tick_of.py_func if hasattr(tick_of, "py_func") else tick_of)


def plan(barrier, n_workers, **more):
    fields = dict.fromkeys(EpochPlan._fields, 0) | {"tol": 0.0} | more
    return EpochPlan(**(fields | barriers.numbers_of(barrier, n_workers)))


def world(clocks, states=None, seed=0):
    table = np.zeros((len(clocks), layout.N_TABLE), np.int64)
    table[:, layout.T_CLOCK] = clocks
    table[:, layout.T_STATE] = layout.ACTIVE if states is None else states
    table[:, layout.T_STREAM] = barrier_streams(seed, len(clocks))
    return SimpleNamespace(table=table, control=np.zeros(layout.N_CONTROL * layout.WORD, np.int64))


def passes(barrier, clocks, me, states=None, seed=0):
    made = world(clocks, states, seed)
    numbers = plan(barrier, len(clocks))
    if numbers.barrier == codes.FREE:
        return True
    return bool(may_pass(numbers, made.table, made.control, me))


WORLDS = [
    ([3, 3, 3, 3], None),
    ([3, 4, 3, 5], None),
    ([9, 0, 4, 4, 5], None),
    ([2, 0, 1, 7], [1, 4, 3, 2]),  # the last is dead, another done
    ([2, 0, 1, 7], [1, 0, 2, 2]),  # one is starting
    ([5], None),
]


@pytest.mark.parametrize(("clocks", "states"), WORLDS)
@pytest.mark.parametrize("staleness", [0, 1, 2, 4])
def test_bsp_and_ssp_are_what_the_papers_say(clocks, states, staleness):
    for me in range(len(clocks)):
        if states is not None and states[me] not in (1, 2):
            continue
        want = naive.lag_allows(clocks, states, me, staleness)
        assert passes(barriers.SSP(staleness), clocks, me, states) == want
        if staleness == 0:
            assert passes(barriers.BSP(), clocks, me, states) == want


@pytest.mark.parametrize(("clocks", "states"), WORLDS)
def test_with_everyone_sampled_it_is_the_whole(clocks, states):
    for me in range(len(clocks)):
        if states is not None and states[me] not in (1, 2):
            continue
        for staleness in (0, 2):
            want = passes(barriers.SSP(staleness), clocks, me, states)
            # as many as are left in the run is everyone, even if that is fewer than were started
            for sample in (len(clocks) - 1, len(clocks) + 5):
                for barrier in (
                    barriers.PSSP(sample, staleness),
                    barriers.PSSP(sample, staleness, hold=True),
                    barriers.Fraction(1.0, staleness, sample),
                    barriers.Fraction(1.0, staleness),
                ):
                    assert passes(barrier, clocks, me, states) == want
        want = passes(barriers.BSP(), clocks, me, states)
        assert passes(barriers.PBSP(len(clocks)), clocks, me, states) == want
        assert passes(barriers.PSSP(3, 0), clocks, me, states) == passes(
            barriers.PBSP(3), clocks, me, states
        )


@pytest.mark.parametrize(
    "barrier",
    [
        barriers.ASP(),
        barriers.PBSP(0),
        barriers.PSSP(0, 0),
        barriers.PSSP(3, math.inf),
        barriers.SSP(math.inf),
        barriers.Fraction(0.0),
    ],
)
def test_with_nobody_sampled_or_no_bound_nobody_waits(barrier):
    assert passes(barrier, [100, 0, 0, 0], 0)
    assert plan(barrier, 4).barrier == codes.FREE


@pytest.mark.parametrize("share", [0.2, 0.5, 0.75, 1.0])
def test_a_share_of_the_others(share):
    for near in range(5):
        clocks = [10, *[10] * near, *[0] * (4 - near)]
        assert passes(barriers.Fraction(share), clocks, 0) == (near >= share * 4)


@pytest.mark.parametrize("of", [10, 20, 25, 50, 100])
def test_a_share_is_what_is_written(of):
    """As 0.28, which times 25 is above 7 in floating point, and 0.7 - 0.42."""
    for near in range(1, of + 1):
        share = float(f"{near / of:.2f}")
        for written in (share, share - 0.42 + 0.42):
            assert codes.enough(near, of, written)
            assert not codes.enough(near - 1, of, written)
    for near in (6, 7):
        clocks = [10, *[10] * near, *[0] * (25 - near)]
        for sample in (None, 25):
            assert passes(barriers.Fraction(0.28, sample=sample), clocks, 0) == (near >= 7)


@pytest.mark.parametrize("sample", [1, 2, 3])
def test_the_sample_is_uniform(sample):
    """With one slow worker, it is in the sample with chance sample / others; each alike."""
    n, draws = 6, 4000
    held = np.zeros(n, int)
    numbers = plan(barriers.PBSP(sample), n)
    for slow in range(1, n):
        clocks = np.full(n, 5)
        clocks[slow] = 0
        made = world(clocks, seed=slow)
        for _ in range(draws // 10):
            made.table[0, layout.T_PASSED] = 0
            held[slow] += not may_pass(numbers, made.table, made.control, 0)
    expected = draws / 10 * sample / (n - 1)
    spread = expected * (1 - sample / (n - 1))
    chi2 = float(((held[1:] - expected) ** 2 / spread).sum())
    assert stats.chi2.sf(chi2, n - 1) > 1e-4


def test_a_held_sample_stays_and_a_redrawn_one_changes():
    clocks = [5, 0, 5, 5, 5, 5]
    made = world(clocks, seed=3)
    held = plan(barriers.PBSP(1, hold=True), 6)
    while may_pass(held, made.table, made.control, 0):
        made.table[0, layout.T_PASSED] = 0  # until the slow one is drawn
    assert not any(may_pass(held, made.table, made.control, 0) for _ in range(100))
    redrawn = plan(barriers.PBSP(1), 6)
    assert any(may_pass(redrawn, made.table, made.control, 0) for _ in range(100))


def test_who_has_passed_is_not_asked_again_before_the_next_block():
    made = world([4, 4])
    numbers = plan(barriers.BSP(), 2)
    assert may_pass(numbers, made.table, made.control, 0)
    made.table[1, layout.T_CLOCK] = 0
    assert may_pass(numbers, made.table, made.control, 0)
    made.table[0, layout.T_CLOCK] = 5
    assert not may_pass(numbers, made.table, made.control, 0)
    assert made.table[0, layout.T_LAG] == 0


def test_throttled_release_frees_all_who_wait():
    made = world([1] * 5)
    numbers = plan(barriers.Throttled(3), 5)
    ask = lambda me: bool(may_pass(numbers, made.table, made.control, me))  # noqa: E731
    assert [ask(0), ask(1), ask(0)] == [False] * 3
    assert ask(2)
    assert ask(1) and ask(0)  # though fewer than three wait by now
    for me in (0, 1, 2):
        made.table[me, layout.T_CLOCK] = 2
    assert not ask(0)  # a new generation begins
    assert not ask(3) and ask(4)  # the fourth and fifth of the first one: now three wait
    assert ask(0) and ask(3)


def test_throttled_release_asks_for_no_more_than_are_left():
    made = world([1] * 4)
    numbers = plan(barriers.Throttled(9), 4)
    ask = lambda me: bool(may_pass(numbers, made.table, made.control, me))  # noqa: E731
    assert [ask(0), ask(1), ask(2)] == [False] * 3
    made.table[3, layout.T_STATE] = layout.DEAD
    assert ask(1) and ask(0) and ask(2)


@pytest.mark.parametrize("sample", [1, 2, 4])
def test_the_lead_is_on_the_last_of_all_whoever_was_sampled(sample):
    numbers = plan(barriers.PSSP(sample, 9), 5)
    made = world([8, 6, 1, 8, 3], [1, 1, 1, 1, 0])  # the last has not joined
    assert may_pass(numbers, made.table, made.control, 0)
    assert made.table[0, layout.T_LAG] == 7
    made = world([8, 8, 9, 8, 3], [1, 1, 1, 1, 0])
    assert may_pass(numbers, made.table, made.control, 0)
    assert made.table[0, layout.T_LAG] == 0


def test_who_joins_late_enters_at_the_least_clock():
    made = world([7, 5, 0, 3], [1, 2, 0, 4])
    made.table[2, layout.T_STATE] = layout.ACTIVE
    enter(plan(barriers.BSP(), len(made.table)), made.table, 2)
    assert made.table[2, layout.T_CLOCK] == 5
    numbers = plan(barriers.BSP(), 4)
    assert may_pass(numbers, made.table, made.control, 2)  # the first block is free
    enter(plan(barriers.BSP(), len(made.table)), made.table, 0)  # who was ahead stays there
    assert made.table[0, layout.T_CLOCK] == 7


def shared_out(barrier, n_workers):
    """A plan of workers with rows of their own: four blocks of each in an epoch."""
    return plan(barrier, n_workers, shares=n_workers, n_blocks=4 * n_workers, max_epochs=9)


def test_who_has_rows_of_its_own_joins_where_it_is_itself():
    made, numbers = world([7, 5, 0]), shared_out(barriers.SSP(2), 3)
    made.table[:, layout.T_SHARE] = [7, 5, 0]
    enter(numbers, made.table, 2)
    assert made.table[2, layout.T_CLOCK] == 0
    assert not may_pass(numbers, made.table, made.control, 0)  # as the last one has all to do


def test_blocks_of_the_dead_are_not_on_the_clock():
    made, numbers = world([3, 3, 3]), shared_out(barriers.BSP(), 3)
    for ticket, clock in ((12 + 1, 4), (12 + 2, 4), (12 + 4, 5)):
        made.table[1, layout.T_BLOCK] = ticket
        tick(numbers, made.table[1], 1)
        assert made.table[1, layout.T_CLOCK] == clock
    assert made.table[1, layout.T_BLOCKS] == 3 and made.table[1, layout.T_BLOCK] == layout.NO_BLOCK


def test_throttled_release_does_not_wait_for_who_has_done_its_share():
    """It has passed, and comes to no barrier before the others have done theirs."""
    numbers = shared_out(barriers.Throttled(2), 2)
    made = world([8, 3])
    made.control[[layout.READY, layout.LIMIT]] = 2, 9
    made.table[:, layout.T_SHARE] = [7, 3]
    assert not may_pass(numbers, made.table, made.control, 1)
    made.table[0, layout.T_SHARE] = 8  # two epochs of four blocks
    assert may_pass(numbers, made.table, made.control, 1)
    made.control[layout.EPOCHS] = 1  # and the third may begin
    made.table[1, layout.T_CLOCK] = 4
    assert not may_pass(numbers, made.table, made.control, 1)
