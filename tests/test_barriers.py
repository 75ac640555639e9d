"""Barriers in whole runs: what they hold back, what they must not, and what users may get wrong."""

import contextlib
import json
import math
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from hogshare import (
    ASP,
    BSP,
    PBSP,
    PSSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Fraction,
    Shared,
    StepSize,
    Stop,
    Throttled,
    barriers,
    problems,
    solve,
)
from hogshare.engine import loop
from hogshare.engine.participants import Worker
from hogshare.kernels import layout
from hogshare.kernels.exchange.master_updates import OVER
from hogshare.kernels.schedule.barrier_codes import FREE, LAG
from hogshare.kernels.schedule.epoch_schedule import EXCHANGE, LOCK_FREE, MASTER
from hogshare.runtimes import driver
from hogshare.runtimes.driver import drive

RUNTIMES = ["threads", "processes"]


def run(data, runtime="threads", n_workers=3, **settings):
    settings = {"stop": Stop(epochs=6), "block": 10, "seed": 0} | settings
    problem = problems.linear(*data, alpha=0.01)
    return solve(problem, runtime=runtime, n_workers=n_workers, **settings)


def leads(report):
    return [w["largest_lead"] for w in report.workers]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("barrier", "bound"),
    [
        (BSP(), 0),
        (SSP(0), 0),
        (SSP(2), 2),
        (PBSP(5), 0),
        (PSSP(2, 1), 1),
        (Fraction(1.0, 3), 3),
    ],
    ids=str,
)
@pytest.mark.quick
def test_nobody_leads_by_more_than_the_bound_when_passing(cancer, runtime, barrier, bound):
    report = run(cancer, runtime, barrier=barrier)
    assert max(leads(report)) <= bound
    assert report.settings["barrier"] == repr(barrier)
    rows = sum(w["rows"] for w in report.workers)
    assert rows == 6 * 569


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None)], ids=["exchange", "lock-free"])
def test_without_a_bound_somebody_leads(cancer, plane):
    """A run in which one worker is held up in the middle: the others go on only without a bound."""
    held = threading.Event()

    def slow_first(table, me):
        if me != 0:
            return held.is_set()  # else all might be done before the first one comes
        held.set()
        others = table.clock[1:]
        return bool(
            others.max() > table.clock[0] + 5 or (others.any() and not table.in_run[1:].any())
        )

    report = run(cancer, barrier=slow_first, plane=plane)
    assert max(leads(report)) > 5


@pytest.mark.parametrize("barrier", [ASP(), PBSP(0), SSP(math.inf), SSP(3)], ids=str)
def test_who_need_not_look_knows_no_lead(cancer, barrier):
    report = run(cancer, barrier=barrier)
    assert all((lead is None) == (barrier != SSP(3)) for lead in leads(report))
    assert "largest lead" in report.table()
    assert json.loads(report.to_json())["workers"][0]["largest_lead"] == leads(report)[0]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("available", [1, 2, 3, 50])
def test_throttled_release_ends(cancer, runtime, available):
    report = run(cancer, runtime, barrier=Throttled(available))
    assert report.n_epochs == 6
    assert sum(w["blocks"] for w in report.workers) == 6 * 57


@pytest.mark.parametrize("rule", [SDCA(), SAGA()], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("barrier", [BSP(), Throttled(2)], ids=str)
def test_rules_that_remember_reach_the_optimum_behind_a_barrier(cancer, rule, barrier):
    problem = problems.linear(*cancer, alpha=0.1)
    report = solve(
        problem,
        rule=rule,
        barrier=barrier,
        runtime="threads",
        n_workers=3,
        seed=0,
        stop=Stop(epochs=400, gradient=1e-6),
    )
    assert report.converged


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_barrier_of_the_users_own(cancer, runtime):
    def near(table, me):
        others = table.in_run.copy()
        others[me] = False
        return bool((table.clock[others] >= table.clock[me] - 1).all())

    report = run(cancer, runtime, barrier=near)
    assert max(leads(report)) <= 1
    assert "near" in report.settings["barrier"]


def test_nobody_leads_on_a_worker_that_joined_while_the_barrier_was_asked():
    table = np.zeros((3, layout.N_TABLE), np.int64)
    table[:, layout.T_CLOCK] = 7, 6, 0
    table[:, layout.T_STATE] = layout.ACTIVE, layout.ACTIVE, layout.STARTING

    def joined_meanwhile(view, me):
        table[2, layout.T_STATE] = layout.ACTIVE
        return True

    session = SimpleNamespace(
        private=lambda me: None,
        vector_of=lambda me: None,
        homes=None,
        schedule=SimpleNamespace(table=table),
        barrier=joined_meanwhile,
    )
    assert Worker(session, 0).ask()
    assert table[0, layout.T_LAG] == 1


@pytest.mark.parametrize(
    ("barrier", "clock", "expected"),
    [
        (PBSP(2), 4, 0.025),  # four blocks of half a second, twenty looks in each
        (PSSP(1, 3), 4, 0.025),
        (Fraction(0.5, sample=1), 4, 0.025),
        (PBSP(2), 3, 0.0),  # it has passed, and waits for something else
        (PBSP(2, hold=True), 4, 0.0),
        (PBSP(5), 4, 0.0),  # draws nobody: all are looked at
        (BSP(), 4, 0.0),
        (Throttled(2), 4, 0.0),
        (lambda table, me: False, 4, 0.0),
    ],
    ids=[
        "draws",
        "draws, with staleness",
        "fraction of a sample",
        "has passed",
        "held sample",
        "everybody",
        "bsp",
        "throttled",
        "function",
    ],
)
def test_a_barrier_that_draws_anew_is_looked_at_twenty_times_a_block(barrier, clock, expected):
    table = np.zeros((6, layout.N_TABLE), np.int64)
    table[0, layout.T_CLOCK] = table[0, layout.T_BLOCKS] = clock
    table[0, layout.T_PASSED] = 4
    table[0, layout.T_BUSY] = clock * 500_000_000
    session = SimpleNamespace(
        private=lambda me: None,
        vector_of=lambda me: None,
        homes=None,
        schedule=SimpleNamespace(table=table),
        plan=SimpleNamespace(**barriers.numbers_of(barrier, 6)),
        word=lambda place: 0,
    )
    assert Worker(session, 0).poll_seconds() == expected


def test_a_look_in_vain_is_waiting_and_work_is_not():
    table = np.zeros(layout.N_TABLE, np.int64)
    answers = iter(
        [
            (layout.QUANTUM_WAIT, {}),  # a look, and nothing else
            (layout.QUANTUM_WAIT, {layout.T_ROWS: 5, layout.T_BLOCKS: 1}),  # blocks, then a look
            (layout.QUANTUM_WAIT, {layout.T_BLOCKS: 1}),  # counted what it had computed before
            (layout.QUANTUM_WAIT, {layout.T_PUSHES: 1}),
            (layout.QUANTUM_DONE, {}),
        ]
    )

    def turn(n_blocks):
        answer, done = next(answers)
        for place, number in done.items():
            table[place] += number
        return answer

    wishes = loop.worker_loop(worker_with(turn, table))
    reply, costs = None, iter([100, 1, 10, 1000, 10_000, 100_000])  # joining is not counted
    with contextlib.suppress(StopIteration):
        while True:
            wish = wishes.send(reply)
            if isinstance(wish, loop.Compute):
                reply = wish.call(), next(costs, 0)
            else:
                assert isinstance(wish, loop.Wait) and wish.poll is None
                reply = 0
    assert table[layout.T_WAITING] == 1
    assert table[layout.T_BUSY] == 10 + 1000 + 10_000 + 100_000


def test_waits_are_short_again_once_a_turn_has_done_something():
    table = np.zeros(layout.N_TABLE, np.int64)
    turns = iter([0, 0, 1, 0, 0, 0, 1, 1, None])  # blocks of each, before it has to wait
    attempts = []

    def turn(n_blocks):
        done = next(turns)
        if done is None:
            return layout.QUANTUM_DONE
        table[layout.T_BLOCKS] += done
        return layout.QUANTUM_WAIT

    wishes, reply = loop.worker_loop(worker_with(turn, table)), None
    with contextlib.suppress(StopIteration):
        while True:
            wish = wishes.send(reply)
            if isinstance(wish, loop.Compute):
                reply = wish.call(), 1
            else:
                attempts.append(wish.attempts)
                reply = 0
    assert attempts == [0, 1, 0, 1, 2, 3, 0, 0]


def test_what_a_turn_has_waited_by_itself_is_no_work():
    table = np.zeros(layout.N_TABLE, np.int64)
    turns = iter([(layout.QUANTUM_WAIT, 1), (layout.QUANTUM_WAIT, 0), (layout.QUANTUM_DONE, 0)])

    def turn(n_blocks):
        answer, done = next(turns)
        table[layout.T_BLOCKS] += done
        table[layout.T_WAITING] += 30
        return answer

    wishes, reply = loop.worker_loop(worker_with(turn, table)), None
    with contextlib.suppress(StopIteration):
        while True:
            wish = wishes.send(reply)
            reply = (wish.call(), 100) if isinstance(wish, loop.Compute) else 7
    assert table[layout.T_BUSY] == 70 + 70
    assert table[layout.T_WAITING] == 30 + 7 + 100 + 7 + 30


def test_what_the_master_waits_for_mail_is_no_messages_cost():
    answers, waits, noted = iter([3, 0, 2, OVER]), [], []

    def serve():
        waits.append(30)
        return next(answers)

    side = SimpleNamespace(
        serve=serve,
        waited=lambda: sum(waits),
        note=lambda taken, spent: noted.append((taken, spent)),
    )
    wishes, reply = loop.master_loop(side), None
    with contextlib.suppress(StopIteration):
        while True:
            wish = wishes.send(reply)
            reply = (wish.call(), 100) if isinstance(wish, loop.Compute) else 0
    assert noted == [(3, 70), (2, 70)]


def worker_with(turn, table):
    """A worker whose turns are the test's own, with no more of a session than its loop asks for."""
    session = SimpleNamespace(
        private=lambda me: None,
        vector_of=lambda me: None,
        homes=None,
        schedule=SimpleNamespace(table=table[None]),
        arrays={"quanta": np.zeros((2, 4, 4), np.int64)},
        plan=SimpleNamespace(inline=0, barrier=0, sleeps=0),
        settings=SimpleNamespace(n_workers=1),
        local_workers=range(1),
        patience_ns=None,
        barrier=None,
    )
    worker = Worker(session, 0)
    worker.run_quantum, worker.join, worker.leave = turn, lambda: True, lambda: None
    worker.first_quantum = lambda nanoseconds: 1
    return worker


def test_a_wait_by_the_clock_ends_in_time_or_when_the_run_is_over():
    waited = []

    def wishes():
        waited.append((yield loop.Wait(7, loop.Sleep(0.03, lambda: False))))
        waited.append((yield loop.Wait(7, loop.Sleep(3600.0, lambda: True))))
        waited.append((yield loop.Wait(0)))

    drive(wishes())
    assert waited[0] >= 0.03e9
    assert all(0 <= nanoseconds < 3600e9 for nanoseconds in waited[1:])


def test_who_waits_in_a_crowd_or_has_looked_sleeps_at_once_unless_it_is_held(seams):
    slept = []
    clock = SimpleNamespace(sleep=slept.append, perf_counter_ns=time.perf_counter_ns)
    seams.clock.of_waiting = clock

    def longest_of(n_workers, cores, barrier=FREE, private=EXCHANGE, looks=0):
        here = range(n_workers)
        plan = SimpleNamespace(barrier=barrier, private=private, split=False)
        seams.usable.cores_of_waiting = lambda: cores
        slept.clear()
        session = SimpleNamespace(local_workers=here, plan=plan, n_polls=looks)
        for_others = barrier != FREE or private == MASTER
        may_look = n_workers > 1 and (for_others or n_workers <= cores)
        assert (driver.polls_of(session) > 0) == may_look
        yields = driver.yields_of(session)
        drive((loop.Wait(attempts) for attempts in range(8)), yields=yields)
        return max(slept)

    assert longest_of(2, 2) == longest_of(1, 2) == 0.0
    assert longest_of(2, 2, looks=100) == driver.LONGEST_SLEEP, "it has looked for long"
    assert longest_of(2, 2, LAG, looks=100) == 0.0
    assert longest_of(8, 2, LAG) == longest_of(8, 2, FREE, MASTER) == 0.0
    assert longest_of(3, 2) == longest_of(3, 2, FREE, LOCK_FREE) == driver.LONGEST_SLEEP


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
@pytest.mark.parametrize(
    ("barrier", "sentence"),
    [
        (lambda table, me: 1 / 0, "raised ZeroDivisionError"),
        (lambda table, me: "perhaps", "returned 'perhaps'"),
        (lambda table, me: None, "returned None"),
        (lambda table, me: False, "has let no worker pass"),
    ],
    ids=["raises", "a word", "nothing", "never"],
)
def test_a_barrier_that_is_wrong_ends_the_run_with_a_sentence(
    cancer, seams, runtime, barrier, sentence
):
    seams.clock.until_stuck_ns = 200_000_000
    n_workers = 1 if runtime == "caller" else 2
    with pytest.raises(RuntimeError, match=sentence) as caught:
        run(cancer, runtime, n_workers, barrier=barrier)
    assert "<lambda>" in str(caught.value)


@pytest.mark.parametrize("wrong", [int, 3, object()], ids=["class", "3", "object"])
def test_what_is_no_barrier_is_refused(cancer, wrong):
    with pytest.raises(TypeError, match="barrier must be one of"):
        run(cancer, barrier=wrong)


def test_a_barrier_that_cannot_travel_is_refused_before_anything_starts(cancer):
    lock = threading.Lock()
    with pytest.raises(ValueError, match="runtime='threads'"):
        run(cancer, "processes", barrier=lambda table, me: lock.locked() or True)


def test_impossible_numbers_are_refused():
    for wrong in (
        lambda: SSP(-1),
        lambda: SSP(1.5),
        lambda: SSP(math.nan),
        lambda: PBSP(-1),
        lambda: PBSP(True),
        lambda: PSSP(2, -3),
        lambda: Fraction(1.5),
        lambda: Fraction(math.nan),
        lambda: Throttled(0),
        lambda: Throttled(2.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            wrong()


@pytest.mark.parametrize(
    ("text", "barrier"),
    [
        ("asp", ASP()),
        ("BSP", BSP()),
        ("ssp:4", SSP(4)),
        ("ssp:inf", SSP(math.inf)),
        ("pbsp:10", PBSP(10)),
        ("pbsp:10,hold", PBSP(10, hold=True)),
        ("pssp:10,4", PSSP(10, 4)),
        ("PSSP:10, 4, Hold", PSSP(10, 4, hold=True)),
        ("fraction:0.75,2,5,hold", Fraction(0.75, 2, 5, hold=True)),
        ("fraction:0.75,hold", Fraction(0.75, hold=True)),
        ("fraction:0.75,2", Fraction(0.75, 2)),
        ("throttled:22", Throttled(22)),
    ],
)
def test_barriers_are_read_from_words(text, barrier):
    assert barriers.parse(text) == barrier


@pytest.mark.parametrize(
    "text",
    [
        *("", "csp", "ssp", "ssp:x", "ssp:1,2,3", "pbsp:-1", "bsp:1"),
        *("pbsp:hold", "pbsp:hold,10", "pbsp:10,hold,hold", "ssp:4,hold", "bsp:hold"),
    ],
)
def test_words_that_are_no_barrier(text):
    with pytest.raises(ValueError, match="is not a barrier"):
        barriers.parse(text)


def test_one_worker_is_the_same_behind_any_barrier(cancer):
    settings = {"runtime": "caller", "n_workers": 1, "step": StepSize("constant", 0.01)}
    free = run(cancer, **settings)
    for barrier in (BSP(), SSP(3), PBSP(2), Throttled(4), lambda table, me: True):
        held = run(cancer, barrier=barrier, **settings)
        np.testing.assert_array_equal(held.model.coef, free.model.coef)
        assert held.model.t == free.model.t


def test_what_a_barrier_is_given(cancer):
    seen = []

    def look(table, me):
        seen.append((len(table), me, table))
        return len({me for _, me, _ in seen}) == 2  # else one alone could do it all

    run(cancer, n_workers=2, barrier=look)
    n, _, table = seen[-1]
    assert n == 2
    assert {me for _, me, _ in seen} == {0, 1}
    assert table.blocks.sum() == 6 * 57
    assert table.rows.sum() == 6 * 569
    assert list(table.state) == ["done", "done"]
    assert not table.in_run.any()
    assert table.available_workers == 0
    assert table.max_staleness == 0  # of nobody
    assert (table.mean_block_seconds > 0).all()
    assert (table.waiting_seconds >= 0).all()
    assert (table.heartbeat > 0).all()
    assert (table.staleness >= 0).all() and (table.version > 0).all()
    with pytest.raises(ValueError, match="read-only"):
        table.clock[0] = 3


BITWISE = {
    "sgd": {},
    "l1": {"penalty": "elasticnet"},
    "average": {"rule": SGD(average=True)},
    "sdca": {"rule": SDCA()},
    "saga": {"rule": SAGA()},
    "criterion": {"stop": Stop(epochs=30, tol=1e-3, patience=2)},
    "looks": {"rule": SDCA(), "stop": Stop(epochs=60, gradient=1e-5)},
    "blocks of one size only by chance": {"block": 23},
    "fewer blocks than workers": {"block": 300},
}


def fingerprint(report):
    model = report.model
    parts = [model.coef, model.intercept, model.average_coef, model.memory, report.epoch_losses]
    return [None if part is None else part.tobytes() for part in parts] + [report.n_epochs]


@pytest.mark.parametrize("case", BITWISE)
@pytest.mark.parametrize("n_workers", [2, 3])
def test_bsp_repeats_bit_for_bit_in_threads_and_processes(cancer, case, n_workers):
    settings = dict(BITWISE[case])
    penalty = settings.pop("penalty", "l2")
    problem = problems.linear(*cancer, alpha=0.01, penalty=penalty)
    settings = {"stop": Stop(epochs=5), "block": 16, "seed": 3} | settings
    settings |= {"barrier": BSP(), "n_workers": n_workers}
    first = solve(problem, runtime="threads", **settings)
    assert sum(w["rows"] for w in first.workers) == first.n_epochs * 569
    assert [w["state"] for w in first.workers] == ["done"] * n_workers
    for runtime in ("threads", "processes"):
        assert fingerprint(solve(problem, runtime=runtime, **settings)) == fingerprint(first)
    other = solve(problem, runtime="threads", **(settings | {"seed": 4}))
    assert fingerprint(other) != fingerprint(first)


def test_without_bsp_runs_differ(cancer):
    """So that the test above says something: the order in which workers come can be seen."""

    def in_turns(table, me):
        other = 1 - me
        near = table.in_run[other] and table.clock[me] <= table.clock[other]
        return bool(near or table.state[other] == "done")

    def the_second_alone(table, me):
        return bool(me == 1 or table.state[1] == "done")

    first, second = (
        fingerprint(run(cancer, n_workers=2, barrier=barrier))
        for barrier in (in_turns, the_second_alone)
    )
    assert first != second
