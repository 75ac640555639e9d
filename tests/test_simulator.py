"""The engine's loop on a virtual clock: the same runs as in threads and processes, only when."""

import gc
import itertools
import json
import weakref

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hogshare import (
    ASP,
    BSP,
    PBSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Fraction,
    Master,
    Shared,
    Simulator,
    StepSize,
    Stop,
    Throttled,
    problems,
    replay,
    solve,
)
from hogshare.barriers import BarrierError
from hogshare.kernels import layout
from hogshare.runtimes import virtual
from hogshare.runtimes.virtual_waits import LeastClock, Parking
from hogshare.simulation import (
    MODEL,
    Churn,
    Constant,
    Exponential,
    Link,
    LogNormal,
    Measured,
    Network,
    Overlay,
    Placement,
    SimulationError,
    Uniform,
    progress,
)
from hogshare.stragglers import ControlledDelay, Recorded

NOTHING = Simulator(block_time=Constant(0.0))
PLANES = {
    "copies": Shared(),
    "one vector": Shared(exchange=None),
    "master": Master(),
    "sums": Master(gradients=3),
}


@pytest.fixture(scope="module")
def problem(cancer):
    return problems.linear(*cancer, alpha=0.01)


@pytest.fixture(scope="module")
def easy(cancer):
    """The same rows with so strong an l2 that the optimum is reached soon."""
    return problems.linear(*cancer, alpha=0.1)


def run(problem, simulator=None, n_workers=8, **settings):
    settings = {
        "step": StepSize("constant", 0.01),
        "stop": Stop(epochs=3),
        "block": 8,
        "seed": 0,
    } | settings
    return solve(problem, runtime=simulator or Simulator(), n_workers=n_workers, **settings)


def bits(report):
    return report.model.coef.tobytes(), report.model.intercept.tobytes()


# -- the same run, again


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize(
    "barrier", [ASP(), BSP(), SSP(1), PBSP(2), PBSP(2, hold=True), Fraction(0.5), Throttled(4)]
)
def test_a_run_repeats_bit_for_bit_and_ends(problem, plane, barrier):
    first, again, other = (
        run(problem, Simulator(seed=seed), plane=PLANES[plane], barrier=barrier)
        for seed in (1, 1, 2)
    )
    assert bits(first) == bits(again)
    assert first.to_dict()["workers"] == again.to_dict()["workers"]
    assert first.traffic == again.traffic
    assert first.seconds["virtual"] == again.seconds["virtual"] != other.seconds["virtual"]
    assert first.n_epochs == 3
    assert sum(worker["rows"] for worker in first.workers) == 3 * problem.n_rows
    if not isinstance(barrier, ASP):
        assert sum(worker["waiting_seconds"] for worker in first.workers) > 0.0
    if not isinstance(barrier, BSP):
        assert bits(first) != bits(other)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("rule", [SGD(), SGD(average=True)], ids=str)
@pytest.mark.quick
def test_one_worker_is_the_run_without_a_simulator_bit_for_bit(problem, plane, rule):
    settings = {"plane": PLANES[plane], "rule": rule, "n_workers": 1}
    simulated = run(problem, **settings)
    real = solve(
        problem,
        step=StepSize("constant", 0.01),
        stop=Stop(epochs=3),
        block=8,
        seed=0,
        **settings,
    )
    assert bits(simulated) == bits(real)
    assert simulated.seconds["virtual"] > 0.0 and "virtual" not in real.seconds
    has_master = real.plane["name"] == "Master"
    assert set(real.traffic) == ({"model", "update"} if has_master else set())


@pytest.mark.parametrize("rule", [SDCA(), SAGA()], ids=str)
def test_rules_that_remember_come_to_the_same_optimum(easy, rule):
    stop = Stop(epochs=800, gradient=1e-6)
    settings = {"rule": rule, "step": None, "block": 4}  # rows between two exchanges
    simulated = run(easy, n_workers=8, stop=stop, **settings)
    alone = run(easy, n_workers=1, stop=stop, **settings)
    assert simulated.converged
    np.testing.assert_allclose(simulated.model.coef, alone.model.coef, atol=1e-4)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("plane", ["copies", "master", "sums"])
def test_behind_bsp_it_is_the_run_of_threads_and_processes_bit_for_bit(problem, plane, runtime):
    settings = {"plane": PLANES[plane], "barrier": BSP(), "n_workers": 3}
    simulated = run(problem, **settings)
    real = run(problem, runtime, **settings)
    assert bits(simulated) == bits(real)
    assert [w["blocks"] for w in simulated.workers] == [w["blocks"] for w in real.workers]


@pytest.mark.parametrize("rule", [SGD(), SDCA(), SAGA()], ids=str)
def test_behind_bsp_it_is_the_same_run_if_nobody_says_how_long_blocks_are(problem, rule):
    step = StepSize("constant", 0.01) if isinstance(rule, SGD) else None
    settings = {"rule": rule, "step": step, "barrier": BSP(), "n_workers": 3, "block": None}
    simulated = run(problem, **settings)
    real = run(problem, "threads", **settings)
    assert bits(simulated) == bits(real)
    assert simulated.settings["block_rows"] == real.settings["block_rows"]


# blocks of worker k end at 0.05 (k + 1) seconds and some multiple of 0.15: no two at once
SCHEDULE = Recorded(
    [
        [0.05 * (k + 1), *steps]
        for k, steps in enumerate(
            (
                [0.3, 0.15, 0.15, 0.45, 0.15, 0.3, 0.15, 0.15],
                [0.15, 0.45] * 4,
                [0.15, 0.15, 0.3, 0.15] * 2,
            )
        )
    ]
)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
def test_on_a_schedule_it_is_the_run_of_threads_and_processes_bit_for_bit(problem, runtime):
    settings = {
        "plane": Master(gradients=2),
        "rule": SGD(batch=8),
        "stragglers": SCHEDULE,
        "n_workers": 3,
        "block": 64,
        "stop": Stop(epochs=1),
        "record": True,
    }
    for _ in range(5):  # a very busy machine may swap two that are 50 ms apart
        real = run(problem, runtime, **settings)
        # all begin at once, in an order of their own
        events = real.recording.events
        tickets = {int(me): ticket for me, ticket, _ in events[::-1] if me >= 0}
        order = sorted(tickets, key=lambda me: tickets[me])
        joins = {me: 1e-6 * rank for rank, me in enumerate(order)}
        simulator = Simulator(block_time=Constant(0.0), churn=Churn(joins=joins))
        simulated = run(problem, simulator, **settings)
        if np.array_equal(real.recording.events, simulated.recording.events):
            break
    assert np.diff(sorted(ends_of(simulated))).min() > 0.04
    np.testing.assert_array_equal(simulated.recording.events, real.recording.events)
    assert bits(simulated) == bits(real)
    assert np.array_equal(simulated.staleness, real.staleness)
    assert bits(simulated) == (
        replay(problem, simulated).coef.tobytes(),
        replay(problem, simulated).intercept.tobytes(),
    )


def ends_of(report):
    """When each block of the schedule has ended: by hand, for three workers without a barrier."""
    ends = []
    for worker, line in enumerate(SCHEDULE.seconds):
        blocks = report.workers[worker]["blocks"]
        ends += np.cumsum([line[k % len(line)] for k in range(blocks)]).tolist()
    return ends


# -- time


@pytest.mark.parametrize("plane", ["copies", "one vector", "master"])
def test_a_block_takes_its_parts_one_after_the_other(problem, plane):
    """One worker: every block is the model's way, reading, computing, writing and the way back."""
    simulator = Simulator(
        block_time=Constant(2.0),
        slowness=[1.5],
        read_seconds=0.25,
        write_seconds=0.5,
        network=Network(edges={(MODEL, 0): Link(latency=1.0), (0, MODEL): Link(latency=0.125)}),
    )
    report = run(problem, simulator, n_workers=1, plane=PLANES[plane], stop=Stop(epochs=1))
    blocks = report.workers[0]["blocks"]
    each = 1.0 + 0.25 + 3.0 + 0.125 + (0.0 if plane == "master" else 0.5)
    if plane == "one vector":  # the last part is written at the end, the others before
        each = 1.0 + 0.25 + 3.0 + 0.125 + 0.5
    assert report.seconds["virtual"] == pytest.approx(blocks * each)
    assert report.workers[0]["mean_block_seconds"] == pytest.approx(each)


def test_bytes_take_time_and_are_counted_by_kind(problem):
    network = Network(Link(bandwidth=1e3))
    report = run(
        problem, Simulator(block_time=Constant(0.0), network=network), n_workers=1, barrier=SSP(1)
    )
    blocks = report.workers[0]["blocks"]
    kinds = report.traffic
    size = problem.n_features * 8 + 8 + 32
    counted = {"messages": blocks, "bytes": blocks * size}
    assert kinds["model"] == {**counted, "edges": {"model to 0": counted}}
    assert kinds["update"]["messages"] == blocks
    # question and answer, none in vain, and the first block is free
    assert kinds["control"]["messages"] == 2 * (blocks - 1)
    total = kinds["model"]["bytes"] + kinds["update"]["bytes"]
    assert report.seconds["virtual"] == pytest.approx(total / 1e3)


def test_all_share_the_models_end(problem):
    """With a ceiling in bytes eight workers are not quicker than the ceiling lets them be."""
    network = Network(ceiling=1e3)
    simulator = Simulator(block_time=Constant(0.001), network=network)
    report = run(problem, simulator, n_workers=8)
    total = sum(report.traffic[kind]["bytes"] for kind in ("model", "update"))
    assert report.seconds["virtual"] == pytest.approx(total / 1e3, rel=0.01)
    free = run(problem, Simulator(block_time=Constant(0.001)), n_workers=8)
    assert report.seconds["virtual"] > 100 * free.seconds["virtual"]


def test_a_message_is_in_the_model_when_it_has_been_written(problem):
    """Eight workers post at 1, 2, ... s; the master is done with one at 3 s, with the next at 5.

    Who watches at that time sees the model before.
    """
    seen = []
    simulator = Simulator(
        block_time=Constant(1.0),
        write_seconds=2.0,
        seconds=10.5,
        watch=lambda seconds, model: seen.append(model.coef.copy()),
    )
    report = run(problem, simulator, n_workers=8, plane=Master())
    moved = [bool(np.any(a != b)) for a, b in itertools.pairwise(seen)]
    assert moved == [False, False, False, True, False, True, False, True, False, True]
    assert sum(worker["pushes"] for worker in report.workers) == 4


@pytest.mark.parametrize("gradients", [1, 4])
def test_a_master_writes_one_message_after_the_other(problem, gradients):
    simulator = Simulator(block_time=Constant(0.01), write_seconds=0.5)
    report = run(problem, simulator, n_workers=8, plane=Master(gradients))
    pushes = sum(worker["pushes"] for worker in report.workers)
    assert report.seconds["virtual"] == pytest.approx(0.5 * pushes, rel=0.02)


def test_blocks_are_as_long_as_their_law_says(problem):
    law = LogNormal(0.5, 1.0)
    report = run(problem, Simulator(block_time=law, seed=3), n_workers=2)
    for me, worker in enumerate(report.workers):
        drawn = [law.draw(3, me, block) for block in range(worker["blocks"])]
        assert worker["mean_block_seconds"] == pytest.approx(np.mean(drawn))


def test_slow_workers_do_fewer_blocks(problem):
    simulator = Simulator(block_time=Constant(1.0), slowness=[1.0] * 7 + [4.0])
    blocks = [w["blocks"] for w in run(problem, simulator, n_workers=8).workers]
    assert blocks[7] == pytest.approx(blocks[0] / 4, abs=1)


def test_stragglers_are_late_on_top(problem):
    law = ControlledDelay(3.0, workers=(2,), base=1.0)
    blocks = [w["blocks"] for w in run(problem, NOTHING, n_workers=4, stragglers=law).workers]
    assert blocks[2] == pytest.approx(blocks[0] / 4, abs=1)


def test_the_trace_is_in_virtual_seconds(problem):
    report = run(problem, Simulator(block_time=Constant(10.0)), n_workers=4, trace=4)
    seconds = report.trace.seconds
    assert seconds[0] == 0.0 and seconds[-1] <= report.seconds["virtual"]
    np.testing.assert_allclose(seconds % 10.0, 0.0, atol=1e-6)
    assert len(np.unique(seconds)) > 5
    assert report.trace.objective[-1] < report.trace.objective[0]
    assert "virtual s" in repr(report)
    json.loads(report.to_json())


def test_who_watches_sees_the_model_at_its_times(problem):
    seen = []
    simulator = Simulator(
        block_time=Constant(1.0),
        watch=lambda seconds, model: seen.append(
            (seconds, problem.objective(model.coef, model.intercept))
        ),
        watch_seconds=2.5,
    )
    report = run(problem, simulator, trace=2)
    seconds, objectives = np.array(seen).T
    np.testing.assert_allclose(seconds, 2.5 * np.arange(len(seen)))
    assert seconds[-1] <= report.seconds["virtual"] < seconds[-1] + 2.5
    assert objectives[0] == pytest.approx(np.log(2.0)) and objectives[-1] < objectives[0]
    assert bits(report) == bits(run(problem, Simulator(block_time=Constant(1.0)), trace=2))
    with pytest.raises(TypeError, match="watch must be a function"):
        Simulator(watch=3)


def test_watching_does_not_keep_a_dead_run_alive(problem):
    network = Network(edges={(3, MODEL): Link(bandwidth=0.0)})
    simulator = Simulator(network=network, watch=lambda seconds, model: None)
    for barrier in (SSP(1), PBSP(7, hold=True)):
        with pytest.raises(SimulationError, match="worker 3 ever arrives"):
            run(problem, simulator, barrier=barrier)


def test_it_ends_when_the_time_is_over(problem):
    report = run(problem, Simulator(block_time=Constant(1.0), seconds=7.5), stop=Stop(epochs=100))
    assert report.seconds["virtual"] == 7.5
    assert [worker["blocks"] for worker in report.workers] == [7] * 8
    assert any("7.5 virtual seconds" in note for note in report.notes)
    assert all(worker["state"] == "done" for worker in report.workers)


# -- barriers


@pytest.mark.parametrize("poll", [0.0, 0.05])
@pytest.mark.parametrize(
    "barrier", [ASP(), BSP(), SSP(4), Throttled(20), Fraction(0.5, 2)], ids=str
)
def test_progress_is_that_of_the_compiled_study(problem, barrier, poll):
    """Two programs that share the predicate and the block times: every clock and wait agrees."""
    report = run(
        problem,
        Simulator(seconds=20.0, poll=poll, seed=7),
        plane=Shared(exchange=None),
        barrier=barrier,
        n_workers=30,
        block=1,
        stop=Stop(epochs=30),
    )
    study = progress(barrier, 30, seconds=20.0, poll=poll, seed=7)
    np.testing.assert_array_equal([w["blocks"] for w in report.workers], study.clock)
    if not isinstance(barrier, ASP):  # a question and an answer for each look
        assert report.traffic["control"]["messages"] == pytest.approx(2 * study.checks, rel=0.02)
    waited = [worker["waiting_seconds"] for worker in report.workers]
    np.testing.assert_allclose(waited, study.waiting, atol=1e-6)


def test_progress_behind_samples_is_that_of_the_compiled_study_in_law(problem):
    """Samples come from other streams: the same law, here to a tenth."""
    means = []
    for seed in range(6):
        report = run(
            problem,
            Simulator(seconds=20.0, poll=0.05, seed=seed),
            plane=Shared(exchange=None),
            barrier=PBSP(5),
            n_workers=30,
            block=1,
            stop=Stop(epochs=30),
            seed=seed,
        )
        study = progress(PBSP(5), 30, seconds=20.0, poll=0.05, seed=seed)
        means.append([np.mean([w["blocks"] for w in report.workers]), study.mean])
    ours, theirs = np.mean(means, axis=0)
    assert ours == pytest.approx(theirs, rel=0.1)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("staleness", [0, 2])
def test_nobody_leads_by_more_than_ssp_lets(problem, plane, staleness):
    report = run(problem, plane=PLANES[plane], barrier=SSP(staleness), n_workers=12)
    leads = [worker["largest_lead"] for worker in report.workers]
    assert max(leads) == staleness


def test_bsp_takes_the_longest_block_of_each_round(problem):
    """Without updates under way a round is the maximum of its blocks."""
    law = Uniform(0.5, 1.5)
    simulator = Simulator(block_time=law, seconds=60.0)
    report = run(problem, simulator, plane=Shared(exchange=None), barrier=BSP(), n_workers=6)
    rounds = [w["blocks"] for w in report.workers]
    longest = [max(law.draw(0, me, k) for me in range(6)) for k in range(min(rounds))]
    ends = np.cumsum(longest)
    assert max(rounds) - min(rounds) <= 1
    # who was quick in the last round waits for whoever claimed the last block
    assert ends[-1] <= report.seconds["virtual"] <= ends[-1] + 1.5


def test_looks_are_a_poll_apart(problem):
    """With a poll, who is held goes on at a whole number of polls after its block's end."""
    settings = {"plane": Master(), "barrier": SSP(1), "n_workers": 3, "block": 16}
    law = {"block_time": Constant(1.0), "slowness": [1.0, 1.3, 1.7]}
    waits = []
    monitor = {"watch": lambda seconds, model: None}
    for poll in (5.0, 0.0):  # so far apart that the slowest waits too, for who looks late
        report = run(problem, Simulator(poll=poll, **law, **monitor), **settings)
        waits.append([worker["waiting_seconds"] for worker in report.workers])
        looks = report.traffic["control"]["messages"] // 2
        blocks = sum(worker["blocks"] for worker in report.workers)
        # one after each block but for who has ended before; with a poll those in vain besides
        assert looks > blocks if poll else blocks - 3 <= looks <= blocks
    assert all(late > prompt for late, prompt in zip(*waits, strict=True)) and waits[1][0] > 0.0


def test_bsp_that_polls_is_not_kept_in_order_and_looks_at_its_times(problem):
    settings = {"barrier": BSP(), "n_workers": 4}
    quick, slow = (
        run(problem, Simulator(poll=poll, block_time=Constant(1.0)), **settings).seconds["virtual"]
        for poll in (0.0, 0.4)
    )
    late = Simulator(poll=5.0, slowness=[1.0, 1.0, 1.0, 1.5], block_time=Constant(1.0))
    assert quick <= slow < run(problem, late, **settings).seconds["virtual"]


def test_a_barrier_of_ones_own_is_asked(problem):
    seen = []

    def two(table, me):
        seen.append(me)
        others = table.in_run.copy()
        others[me] = False
        return bool((table.clock[me] - table.clock[others] <= 2).all())

    report = run(problem, barrier=two, n_workers=6)
    assert report.n_epochs == 3 and set(seen) == set(range(6))
    assert max(worker["largest_lead"] for worker in report.workers) <= 2


def test_a_barrier_that_lets_nobody_pass_ends_the_run(problem):
    with pytest.raises(BarrierError, match="let no worker pass for"):
        run(problem, barrier=lambda table, me: False)


def test_least_clock_is_the_least_clock():
    rng = np.random.default_rng(0)
    table = np.zeros((7, layout.N_TABLE), np.int64)
    clocks = LeastClock(table)
    for _ in range(2000):
        k = int(rng.integers(7))
        row = table[k]
        if rng.random() < 0.1:
            row[layout.T_STATE] = rng.choice([layout.ACTIVE, layout.WAITING, layout.DEAD])
        row[layout.T_CLOCK] += 1
        before = clocks.least
        clocks.update(k)
        here = np.isin(table[:, layout.T_STATE], [layout.ACTIVE, layout.WAITING])
        here &= np.array(clocks._known) >= 0
        assert clocks.in_run == here.sum()
        if here.any():
            assert clocks.least == min(table[here, layout.T_CLOCK])
        else:
            assert clocks.least == before


def test_a_look_costs_what_the_placement_says(problem):
    apart = Placement(state="distributed")
    network = Network(Link(latency=0.5))
    settings = {"barrier": PBSP(3), "n_workers": 16, "stop": Stop(epochs=1)}
    together = run(problem, Simulator(network=network), **settings)
    known = run(problem, Simulator(network=network, placement=apart), **settings)
    simulator = Simulator(network=network, placement=apart, overlay=Overlay(16))
    found = run(problem, simulator, **settings)
    assert bits(found) == bits(run(problem, simulator, **settings))
    # per look: a question and an answer; three of both; and hops besides
    assert known.traffic["control"]["messages"] % 6 == 0
    hops = simulator.cost_of_poll(PBSP(3), 16)[0] - 6
    assert hops > 0 and found.traffic["control"]["messages"] % (6 + hops) == 0
    # answers from others take a way and back, which those of the model's end do not here
    assert together.seconds["virtual"] < known.seconds["virtual"] < found.seconds["virtual"]


# -- who comes and goes


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("barrier", [ASP(), BSP(), SSP(1)], ids=str)
def test_workers_join_leave_and_die_and_every_row_is_done(problem, plane, barrier):
    churn = Churn(joins={1: 3.0, 2: 1e9}, leaves={3: 5.0}, deaths={4: 6.2})
    report = run(problem, Simulator(churn=churn), plane=PLANES[plane], barrier=barrier)
    workers = report.workers
    assert report.n_epochs == 3
    assert workers[1]["joined_seconds"] == 3.0 and workers[1]["blocks"] > 0
    assert workers[2]["joined_seconds"] is None and workers[2]["blocks"] == 0
    assert workers[3]["state"] == "done"
    assert workers[4]["state"] == "dead"
    # a block that was cut short has been done again
    assert sum(worker["rows"] for worker in workers) >= 3 * problem.n_rows
    assert any("worker 4 died at 6.2" in note for note in report.notes)


def test_churn_at_random_repeats(problem):
    churn = Churn(leave_rate=0.01, death_rate=0.02, join_seconds=5.0, seed=3)
    first, again = (run(problem, Simulator(churn=churn), n_workers=40) for _ in range(2))
    assert bits(first) == bits(again)
    states = [worker["state"] for worker in first.workers]
    assert {"dead", "done"} <= set(states) and first.n_epochs == 3
    assert churn.schedule(40) == churn.schedule(40) != Churn(death_rate=0.02).schedule(40)


@pytest.mark.parametrize("rule", [SDCA(), SAGA()], ids=str)
@pytest.mark.parametrize("barrier", [ASP(), SSP(1), PBSP(5), Throttled(4)], ids=str)
@pytest.mark.sample(1)
def test_sums_are_put_in_order_after_a_death(easy, rule, barrier):
    """Also where nothing stirs for long: the last death is far away, and must not be waited for."""
    churn = Churn(deaths={1: 4.3, 2: 9.1, 7: 1e6})
    stop = Stop(epochs=400, gradient=1e-6)
    # a worker that dies has done blocks that it has not folded
    settings = {"rule": rule, "step": None, "stop": stop, "block": 4, "plane": Shared(exchange=24)}
    report = run(easy, Simulator(churn=churn), barrier=barrier, **settings)
    alone = run(easy, n_workers=1, **settings)
    assert report.converged and report.seconds["virtual"] < 1e5
    np.testing.assert_allclose(report.model.coef, alone.model.coef, atol=1e-4)


def test_when_nobody_is_left_the_run_ends_and_says_so(problem):
    churn = Churn(deaths={0: 2.0, 1: 3.0})
    report = run(problem, Simulator(churn=churn), n_workers=2)
    assert report.n_epochs < 3 and any("no worker was left" in note for note in report.notes)
    assert report.stop_reason == "the run was cut short"


# -- with the rest of the engine


def test_epochs_are_told_and_looks_are_taken(problem):
    heard = []
    report = run(problem, n_workers=8, on_epoch=lambda epoch, _: heard.append(epoch))
    assert heard == [1, 2, 3] and report.n_epochs == 3
    stopped = run(problem, stop=Stop(epochs=50), on_epoch=lambda epoch, _: epoch == 2)
    assert stopped.n_epochs in (2, 3)


def test_a_checkpoint_of_a_simulated_run_is_one(problem, tmp_path):
    path = tmp_path / "run.ckpt"
    run(problem, n_workers=4, stop=Stop(epochs=2), checkpoint=path)
    report = run(problem, n_workers=4, stop=Stop(epochs=4), resume=path)
    assert report.n_epochs == 4


def test_a_thousand_workers(problem):
    settings = {"block": 1, "barrier": SSP(1), "plane": Master(), "stop": Stop(epochs=4)}
    report = run(problem, n_workers=1000, **settings)
    assert report.n_epochs == 4
    assert sum(worker["blocks"] for worker in report.workers) == 4 * problem.n_rows
    assert max(worker["largest_lead"] for worker in report.workers) <= 1


def test_a_stop_wakes_who_sleeps(problem):
    simulator = Simulator(block_time=Constant(1.0), slowness=[1.0] * 7 + [20.0])
    report = run(problem, simulator, stop=Stop(epochs=50), on_epoch=lambda epoch, _: epoch == 1)
    # the first epoch ends with the slow worker's first block; its second is dropped at once
    assert report.seconds["virtual"] == 20.0 and report.workers[7]["blocks"] == 1


def test_time_does_not_pass_for_who_is_gone(problem):
    churn = Churn(deaths={0: 3.0, 1: 3.0}, leaves={1: 1e6})
    report = run(problem, Simulator(block_time=Constant(1000.0), churn=churn), n_workers=2)
    assert report.seconds["virtual"] == 3.0


def test_who_leaves_in_a_rest_leaves_once(problem, monkeypatch):
    live = []
    loose = virtual.Simulation.release
    monkeypatch.setattr(
        virtual.Simulation,
        "release",
        lambda self: (live.append(self.session.word(layout.LIVE)), loose(self)),
    )
    settings = {"stop": Stop(epochs=12, gradient=1e-12), "rule": SAGA(), "step": None}
    for seconds in np.arange(5.0, 60.0, 2.5):
        simulator = Simulator(block_time=Constant(1.0), churn=Churn(leaves={1: float(seconds)}))
        report = run(problem, simulator, barrier=PBSP(2), **settings)
        assert report.workers[1]["state"] == "done"
    assert live == [0] * len(live)


def test_waiting_counts_to_the_end_of_a_life(problem):
    simulator = Simulator(
        block_time=Constant(1.0), slowness=[1.0, 20.0], churn=Churn(leaves={0: 17.5}), poll=0.0
    )
    first = run(problem, simulator, barrier=SSP(1), n_workers=2).workers[0]
    assert first["blocks"] * first["mean_block_seconds"] + first["waiting_seconds"] == 17.5


def test_a_run_frees_its_memory_without_the_garbage_collector(problem, monkeypatch):
    alive = []
    init = virtual.Simulation.__init__

    def remember(self, session, *args):
        alive.append(weakref.ref(session))
        init(self, session, *args)

    monkeypatch.setattr(virtual.Simulation, "__init__", remember)
    gc.disable()
    try:
        run(problem, n_workers=4)
        assert alive[0]() is None
    finally:
        gc.enable()


def test_a_slow_worker_is_no_deadlock(problem, monkeypatch):
    """However often others look meanwhile: its block's end is still to come."""
    monkeypatch.setattr(virtual, "VAIN_POLLS", 1000)
    simulator = Simulator(block_time=Constant(1.0), slowness=[40.0] + [1.0] * 29, poll=0.1)
    report = run(problem, simulator, n_workers=30, barrier=PBSP(20, hold=True), stop=Stop(epochs=2))
    assert report.n_epochs == 2


def test_the_unit_of_time_does_not_matter(problem):
    rng = np.random.default_rng(0)

    def sometimes(table, me):
        return bool(rng.random() < 0.3)

    report = run(problem, Simulator(block_time=Constant(1000.0)), barrier=sometimes)
    assert report.n_epochs == 3


def test_private_copies_are_exchanged_at_a_blocks_end(problem):
    report = run(problem, plane=Shared(exchange=8), block=64, n_workers=8)
    pushes = sum(worker["pushes"] for worker in report.workers)
    blocks = sum(worker["blocks"] for worker in report.workers)
    assert blocks <= pushes <= blocks + 8  # the last of each, when it leaves
    assert report.traffic["update"]["messages"] == blocks
    assert 5.0 < report.staleness_mean < 8.0


def test_the_report_says_what_was_simulated(problem):
    simulator = Simulator(block_time=LogNormal(1.0, 0.5), seed=3, poll=0.1, overlay=None)
    told = run(problem, simulator, n_workers=2).to_dict()["settings"]["simulator"]
    assert told["seed"] == 3 and told["poll"] == 0.1
    assert told["block_time"] == "LogNormal(mean=1.0, sigma=0.5)"
    assert hash(simulator) == hash(simulator)


# -- bad settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seconds": -1.0}, "seconds must be"),
        ({"seconds": float("nan")}, "seconds must be"),
        ({"poll": -0.1}, "poll must be"),
        ({"read_seconds": -1.0}, "read_seconds must be"),
        ({"write_seconds": float("inf")}, "write_seconds must be"),
        ({"slowness": [1.0, 0.0]}, "every entry of slowness"),
        ({"slowness": [1.0, float("nan")]}, "every entry of slowness"),
        ({"parts": 0}, "parts must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 2**32}, "seed must be below"),
        ({"slowness": "fast"}, "slowness must be a sequence"),
        ({"slowness": [[1.0], [2.0]]}, "slowness must be a sequence of numbers"),
        ({"block_time": Exponential(1e10)}, "too long for a clock"),
    ],
)
def test_a_simulator_refuses(settings, words):
    with pytest.raises(ValueError, match=words):
        Simulator(**settings)


def test_what_is_no_law_or_no_network_is_refused(problem):
    with pytest.raises(TypeError, match="or a Simulator; got 3"):
        run(problem, 3)
    with pytest.raises(TypeError, match="block time must be one of"):
        Simulator(block_time=1.0)
    with pytest.raises(ValueError, match="have the model in one place"):
        Simulator(placement=Placement(model="distributed", state="distributed"))
    with pytest.raises(ValueError, match="remove overlay"):
        Simulator(overlay=Overlay(4))
    with pytest.raises(TypeError, match="network must be a Network"):
        Simulator(network=Link())
    with pytest.raises(ValueError, match="latency of a link"):
        Link(latency=-1.0)
    with pytest.raises(ValueError, match="bandwidth of a link"):
        Link(bandwidth=float("nan"))
    with pytest.raises(TypeError, match="classes must be a mapping"):
        Network(classes=[Link()])
    with pytest.raises(TypeError, match="class 'far' must be"):
        Network(classes={"far": (Link(), 5)})
    with pytest.raises(TypeError, match="joins of Churn must map"):
        Churn(joins=[1])
    assert Link(latency=np.float32(0.5)).delivers
    Churn(deaths={np.int64(1): 2.0}).check(2)
    with pytest.raises(ValueError, match="edges must map"):
        Network(edges={(2, 2): Link()})
    with pytest.raises(TypeError, match="class 'far' must be"):
        Network(classes={"far": Link()})
    with pytest.raises(ValueError, match="ceiling must be"):
        Network(ceiling=0.0)
    with pytest.raises(ValueError, match="before it joins"):
        Churn(joins={1: 5.0}, deaths={1: 2.0}).check(3)
    with pytest.raises(ValueError, match=r"joins\[1\]"):
        Churn(joins={1: -5.0})


@pytest.mark.parametrize(
    ("simulator", "settings", "words"),
    [
        (Simulator(slowness=[1.0, 2.0]), {}, "slowness has 2 entries, but the run has 8"),
        (Simulator(network=Network(edges={(8, MODEL): Link()})), {}, "names worker 8"),
        (Simulator(churn=Churn(joins={9: 1.0})), {}, "names worker 9"),
        (
            Simulator(placement=Placement(state="distributed")),
            {"barrier": SSP(1)},
            "needs everybody's clock",
        ),
        (
            Simulator(placement=Placement(state="distributed"), overlay=Overlay(9)),
            {"barrier": PBSP(1)},
            "the overlay has 9 workers, but the run has 8",
        ),
        (Simulator(poll=0.0), {"barrier": PBSP(2)}, "poll=0 lets a worker pass"),
        (NOTHING, {"barrier": PBSP(2)}, "set poll"),
        (Simulator(), {"n_workers": -1}, "a Simulator runs a whole number of workers"),
        (Simulator(), {"n_workers": 0}, "n_workers == 0 has no meaning"),
        (
            Simulator(),
            {"rule": SAGA(), "step": None, "plane": Shared(exchange=None)},
            "SAGA reads and writes the one vector",
        ),
    ],
)
def test_a_run_that_does_not_fit_is_refused(problem, simulator, settings, words):
    with pytest.raises(ValueError, match=words):
        run(problem, simulator, **settings)


@pytest.mark.parametrize("link", [Link(latency=float("inf")), Link(bandwidth=0.0)], ids=str)
@pytest.mark.parametrize("edge", [(3, MODEL), (MODEL, 3)])
@pytest.mark.parametrize(
    "barrier", [ASP(), BSP(), SSP(1), PBSP(2), PBSP(7, hold=True), Throttled(8)], ids=str
)
def test_a_link_that_never_delivers_ends_in_a_sentence(problem, link, edge, barrier):
    simulator = Simulator(network=Network(edges={edge: link}))
    with pytest.raises(SimulationError, match="between the model and worker 3 ever arrives"):
        run(problem, simulator, barrier=barrier)


def test_with_a_limit_it_ends_there_and_says_why(problem):
    network = Network(edges={(3, MODEL): Link(bandwidth=0.0)})
    report = run(problem, Simulator(network=network, seconds=1000.0), barrier=SSP(1))
    assert report.seconds["virtual"] == 1000.0
    assert any("worker 3 ever arrives" in note for note in report.notes)


def test_a_divergence_is_told(cancer):
    steep = problems.linear(*cancer, loss="squared_error")
    with pytest.warns(ConvergenceWarning, match="has diverged"):
        run(steep, step=StepSize("constant", 1e3), n_workers=4, stop=Stop(epochs=20))


def test_a_call_that_is_missing_does_not_end_a_run(problem, monkeypatch):
    """Should nobody call a worker that may go on, all look once more before the run is given up."""
    monkeypatch.setattr(Parking, "_call_bins", lambda self, now: None)
    report = run(problem, barrier=SSP(1), plane=Shared(exchange=None))
    assert report.n_epochs == 3


def test_measured_times_serve_as_a_law(problem):
    report = run(problem, Simulator(block_time=Measured([0.5, 1.5])), n_workers=4)
    assert report.seconds["virtual"] > 0.0
    assert Simulator().block_time == Exponential(1.0)
