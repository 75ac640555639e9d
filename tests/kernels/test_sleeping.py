"""Turns of workers that sleep: they end between a block's claim and its computing."""

import cases
import numpy as np
import pytest

from hogshare import SAGA, SDCA, SGD, SSP, Shared, Stop, problems
from hogshare.kernels import layout
from hogshare.kernels.schedule import repair

WAYS = {
    "exchange": (SGD(), Shared(exchange=1000)),
    "lock-free": (SGD(), Shared(exchange=None)),
    "dual": (SDCA(), Shared(exchange=1000)),
    "saga": (SAGA(), Shared(exchange=1000)),
    "asaga": (SAGA(), Shared(exchange=None)),
}


def sleepers(way, n_workers=2, **settings):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    problem = problems.linear(X, (X[:, 0] > 0).astype(int), alpha=0.05)
    rule, plane = WAYS[way]
    settings = {"rule": rule, "plane": plane, "block": 5, "stop": Stop(epochs=3)} | settings
    session = cases.session(problem, n_workers=n_workers, **settings)
    session.plan = session.plan._replace(sleeps=1)
    workers = [session.worker(k) for k in range(n_workers)]
    assert all(worker.join() for worker in workers)
    return session, workers


@pytest.mark.parametrize("way", WAYS)
def test_a_block_is_claimed_then_computed_and_pushed(way):
    session, (first, _) = sleepers(way)
    w = session.vector.w.copy()
    assert first.run_quantum(5) == layout.QUANTUM_SLEEP
    held = first.table[layout.T_BLOCK]
    assert held != layout.NO_BLOCK and first.table[layout.T_STATE] == layout.ACTIVE
    np.testing.assert_array_equal(session.vector.w, w)
    assert first.table[layout.T_CLOCK] == first.table[layout.T_BLOCKS] == 0
    assert first.run_quantum(1) == layout.QUANTUM_OVER
    assert first.table[layout.T_BLOCK] == layout.NO_BLOCK
    assert first.table[layout.T_CLOCK] == first.table[layout.T_BLOCKS] == 1
    assert first.table[layout.T_PUSHES] == 1
    assert np.any(session.vector.w != w)
    # the next block is slept for in its turn, also where many blocks are asked for
    assert first.run_quantum(5) == layout.QUANTUM_SLEEP
    assert first.run_quantum(5) == layout.QUANTUM_SLEEP
    assert first.table[layout.T_BLOCKS] == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_others_push_meanwhile_makes_the_block_stale(way):
    _, (late, other) = sleepers(way)
    assert late.run_quantum(1) == layout.QUANTUM_SLEEP
    for _ in range(3):
        assert other.run_quantum(1) == layout.QUANTUM_SLEEP
        assert other.run_quantum(1) == layout.QUANTUM_OVER
    assert late.run_quantum(1) == layout.QUANTUM_OVER
    assert late.table[layout.T_STALENESS] == 3


def test_the_barrier_comes_before_the_sleep():
    _, (late, other) = sleepers("exchange", barrier=SSP(1))
    assert late.run_quantum(1) == layout.QUANTUM_SLEEP
    answers = [other.run_quantum(1) for _ in range(5)]
    # two blocks, and then its lead would be two: the late one's clock does not tick while it sleeps
    assert answers[:4] == [layout.QUANTUM_SLEEP, layout.QUANTUM_OVER] * 2
    assert answers[4] == layout.QUANTUM_WAIT
    assert late.run_quantum(1) == layout.QUANTUM_OVER
    assert other.run_quantum(1) == layout.QUANTUM_SLEEP


@pytest.mark.parametrize("way", ["dual", "saga"])
def test_a_pause_leaves_the_block_in_hand(way):
    session, (late, _) = sleepers(way)
    assert late.run_quantum(1) == layout.QUANTUM_SLEEP
    held = late.table[layout.T_BLOCK]
    repair.ask_for_repair(session.schedule.control)
    assert late.run_quantum(1) == layout.QUANTUM_WAIT
    assert (late.table[layout.T_BLOCK], late.table[layout.T_BLOCKS]) == (held, 0)
    session.schedule.control[layout.REPAIRED] = session.word(layout.REPAIR_WANTED)
    assert late.run_quantum(1) == layout.QUANTUM_OVER
    assert late.table[layout.T_BLOCKS] == 1


@pytest.mark.parametrize("way", WAYS)
def test_every_block_is_computed_once(way):
    session, workers = sleepers(way, n_workers=3)
    live = list(workers)
    while live:
        live = [worker for worker in live if worker.run_quantum(1) != layout.QUANTUM_DONE]
    table = session.schedule.table
    assert table[:, layout.T_BLOCKS].sum() == 3 * 12
    assert table[:, layout.T_ROWS].sum() == 3 * 60
    assert session.word(layout.EPOCHS) == 3
