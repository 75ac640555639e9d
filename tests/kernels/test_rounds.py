"""Ordered rounds, worker by worker in one thread: however turns interleave, the bits agree."""

import random

import cases
import numpy as np
import pytest

from hogshare.barriers import BSP, SSP
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import BOUNDSCHECK
from hogshare.kernels.schedule import repair
from hogshare.planes.replicas import Replicas
from hogshare.planes.shared import Shared
from hogshare.rules import SAGA, SDCA, SGD
from hogshare.rules.steps import StepSize
from hogshare.runtimes.monitor import Monitor

RULES = {
    "sgd": {},
    "adaptive": {
        "step": StepSize("adaptive", eta0=0.9),
        "stop": Stop(epochs=12, tol=0.05, patience=1),
    },
    "average": {"rule": SGD(average=True)},
}
if not BOUNDSCHECK:  # a kernel each, whose rows test_dual and test_saga have within bounds
    RULES |= {"sdca": {"rule": SDCA()}, "saga": {"rule": SAGA()}}


def interleave(session, seed, deaths=(), saw=None):
    """Give turns of one step to workers drawn at random until the run is over.

    saw : a function that is called with the number and the row of a worker after each of its steps
    """
    rng = random.Random(seed)
    n = session.settings.n_workers
    monitor = Monitor(session)
    live = {}
    for k in rng.sample(range(n), n):  # they come in any order
        live[k] = session.worker(k)
        assert live[k].join()
    waiting = 0
    for step in range(100_000):
        if not live:
            return session
        k = rng.choice(list(live))
        if step in deaths and len(live) > 1:
            monitor.bury(k)
            del live[k]
            continue
        monitor.tick()
        answer = live[k].run_quantum(1)
        if saw is not None:
            saw(k, session.schedule.table[k])
        waiting = waiting + 1 if answer == layout.QUANTUM_WAIT else 0
        assert waiting < 1000, "all wait for each other"
        if answer == layout.QUANTUM_DONE:
            live.pop(k).leave()
    raise AssertionError("the run does not end")


def bits(session):
    model = session.model()
    sums = session.schedule.history[: session.word(layout.EPOCHS)]
    return model.coef.tobytes(), model.intercept.tobytes(), sums.tobytes()


def made(barrier, **settings):
    problem, *_ = cases.problem("csr", alpha=0.05)
    settings = {"n_workers": 3, "block": 4, "stop": Stop(epochs=3)} | settings
    return cases.session(problem, barrier=barrier, plane=Shared(exchange=4), **settings)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block", [3, 4, 40])
def test_the_bits_do_not_depend_on_the_interleaving(rule, block):
    runs = [interleave(made(BSP(), block=block, **RULES[rule]), seed) for seed in range(6)]
    assert len({bits(run) for run in runs}) == 1
    for run in runs:
        assert run.word(layout.STOP) != layout.RUNNING
        epochs, n = run.word(layout.EPOCHS), run.schedule.order.shape[1]
        assert run.schedule.table[:, layout.T_ROWS].sum() >= epochs * n
        # what each worker computed is settled too
        assert len({tuple(r.schedule.table[:, layout.T_BLOCKS]) for r in runs}) == 1


def test_without_rounds_they_do():
    prints = {bits(interleave(made(SSP(1)), seed)) for seed in range(6)}
    assert len(prints) > 1


@pytest.mark.parametrize("n_workers", [1, 2, 5])
def test_every_block_goes_to_the_worker_whose_it_is(n_workers):
    """Round k gives worker j the block k P + j."""
    session = made(BSP(), n_workers=max(2, n_workers), stop=Stop(epochs=1))
    n, blocks = session.settings.n_workers, session.plan.n_blocks
    interleave(session, 1)
    shares = [len(range(j, blocks, n)) for j in range(n)]
    assert list(session.schedule.table[:, layout.T_BLOCKS]) == shares


@pytest.mark.parametrize("rule", RULES)
def test_deaths_between_turns_stop_nobody(rule):
    for seed in range(5):
        settings = {"n_workers": 4, "stop": Stop(epochs=20)} | RULES[rule]
        session = interleave(made(BSP(), **settings), seed, deaths=(30, 60))
        states = session.schedule.table[:, layout.T_STATE]
        assert (states == layout.DEAD).sum() == 2
        assert session.word(layout.STOP) in (layout.STOPPED_BY_LIMIT, layout.STOPPED_BY_CRITERION)
        epoch = session.word(layout.EPOCHS)
        assert (session.schedule.done[(epoch - 1) % 2] >= epoch).all()


def test_in_a_round_all_claim_their_own_blocks_or_none_does():
    """Else one worker's plane would wait for a message that another sends a round later."""
    differ = 0
    for seed in range(20):
        problem, *_ = cases.problem("csr", alpha=0.05)
        settings = {"n_workers": 4, "block": 2, "stop": Stop(epochs=6)}
        session = cases.session(problem, barrier=BSP(), plane=Replicas("all"), **settings)
        claimed = {}  # the last of each round

        def saw(k, row, claimed=claimed):
            claimed[int(row[layout.T_ROUND]), k] = int(row[layout.T_SHARE])

        interleave(session, seed, (40 + 7 * seed,), saw)
        table = session.schedule.table
        left = np.flatnonzero(table[:, layout.T_STATE] == layout.DONE)
        assert len(left) == 3 and session.word(layout.EPOCHS) == 6
        for number in {number for number, _ in claimed}:
            assert len({claimed.get((number, k)) for k in left} - {None}) <= 1, (seed, number)
        differ += len(set(table[left, layout.T_BLOCKS])) > 1
    assert differ > 0  # a dead worker's blocks are not dealt evenly


def test_a_worker_that_has_to_end_an_epoch_claims_a_block_besides():
    """Else it would have none in that round, and the other workers' planes would wait for it."""
    problem, *_ = cases.problem("csr", alpha=0.05)
    settings = {"n_workers": 3, "block": 2, "stop": Stop(epochs=3)}
    plane = Replicas("all", rows="claimed")
    session = cases.session(problem, barrier=BSP(), plane=plane, **settings)
    schedule, claimed = session.schedule, {}

    def saw(k, row):
        place = int(row[layout.T_ROUND]), k
        claimed[place] = max(claimed.get(place, layout.NO_BLOCK), int(row[layout.T_BLOCK]))
        if len(claimed) % 5 == 0:
            repair.put_back(schedule.returned, schedule.control, k, layout.FINISH_EPOCH)

    interleave(session, 0, saw=saw)
    n_blocks = 3 * session.plan.n_blocks
    rounds = range(1, n_blocks // 3)  # in which all find a block
    assert all(claimed[number, k] >= 0 for number in rounds for k in range(3))
    assert schedule.table[:, layout.T_BLOCKS].sum() == n_blocks
