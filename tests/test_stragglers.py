"""Stragglers: the laws against their definitions, and runs in which workers are late."""

import math
import os
import pickle
import signal
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from hogshare import (
    ASP,
    BSP,
    SAGA,
    SDCA,
    SGD,
    SSP,
    Master,
    Shared,
    Stop,
    Throttled,
    problems,
    solve,
)
from hogshare.engine.loop import Sleep
from hogshare.kernels import layout
from hogshare.runtimes import driver
from hogshare.runtimes.processes import WorkerDied
from hogshare.stragglers import (
    FIRST_BLOCKS,
    ControlledDelay,
    LogNormal,
    ProductionCluster,
    Recorded,
    Stragglers,
    parse,
)

RUNTIMES = ["threads", "processes"]


# -- the laws


def test_controlled_delay_is_a_share_of_the_mean():
    law = ControlledDelay(0.6, workers=(1, 3))
    assert [law.sleep(k, 5, 4, 0.5) for k in range(4)] == [0.0, 0.3, 0.0, 0.3]
    assert law.sleep(1, 5, 4) == 0.0  # the mean is not known yet


def test_a_base_is_slept_by_all_and_stands_for_the_mean():
    law = ControlledDelay(0.6, base=0.5)
    assert [law.sleep(k, 5, 4, measured=7.0) for k in range(2)] == [0.8, 0.5]


def test_a_production_cluster_has_six_and_two_of_thirty_two():
    factors = ProductionCluster(seed=3).factors(32)
    assert (factors == 0).sum() == 24
    assert ((factors >= 1.5) & (factors <= 2.5)).sum() == 6
    assert ((factors > 2.5) & (factors <= 10)).sum() == 2
    law = ProductionCluster(seed=3)
    slept = [[law.sleep(k, block, 32, 2.0) for k in range(32)] for block in (0, 9)]
    np.testing.assert_array_equal(slept, [2.0 * factors] * 2)


def test_who_is_late_in_a_production_cluster_is_drawn_fairly_and_uniformly():
    drawn = np.array([ProductionCluster(seed=seed).factors(32) for seed in range(400)])
    assert (drawn > 0).mean(axis=0) == pytest.approx(0.25, abs=0.1)
    short, long = drawn[(drawn > 0) & (drawn <= 2.5)], drawn[drawn > 2.5]
    assert len(short) == 2400 and len(long) == 800
    assert stats.kstest(short, stats.uniform(1.5, 1.0).cdf).pvalue > 1e-3
    assert stats.kstest(long, stats.uniform(2.5, 7.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("n", "late", "worst"), [(8, 2, 0), (16, 4, 1), (32, 8, 2), (1, 0, 0)])
def test_shares_are_rounded_to_whole_workers(n, late, worst):
    factors = ProductionCluster().factors(n)
    assert ((factors > 0).sum(), (factors > 2.5).sum()) == (late, worst)


def test_log_normal_multiples_have_mean_one():
    law = LogNormal(0.4, seed=1)
    drawn = np.array([law.multiple(k, block) for k in range(10) for block in range(500)])
    assert drawn.mean() == pytest.approx(1.0, abs=0.03)
    shifted = (np.log(drawn) + 0.5 * 0.4**2) / 0.4
    assert stats.kstest(shifted, stats.norm.cdf).pvalue > 1e-3
    assert LogNormal(0.4, seed=1, base=3.0).sleep(2, 7, 8) == pytest.approx(3 * law.multiple(2, 7))
    without_base = [law.sleep(0, block, 8, 1.0) for block in range(100)]
    assert min(without_base) == 0.0 < max(without_base)


@pytest.mark.parametrize(
    "make", [lambda seed: LogNormal(0.3, seed), lambda seed: ProductionCluster(seed=seed)]
)
def test_draws_belong_to_seed_worker_and_block(make):
    def slept(law):
        return [[law.sleep(k, block, 32, 1.0) for block in range(5)] for k in range(32)]

    assert slept(make(4)) == slept(pickle.loads(pickle.dumps(make(4))))
    assert slept(make(4)) != slept(make(5))


def test_recorded_seconds_are_repeated():
    law = Recorded([[0.1, 0.2], [], [0.5]], base=1.0)
    assert [law.sleep(0, block, 3) for block in range(4)] == [1.1, 1.2, 1.1, 1.2]
    assert law.sleep(1, 3, 3) == 1.0
    assert law.sleep(2, 3, 3) == 1.5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ControlledDelay(-0.1),
        lambda: ControlledDelay(math.inf),
        lambda: ControlledDelay(0.5, (-1,)),
        lambda: ControlledDelay(0.5, (True,)),
        lambda: ControlledDelay(0.5, base=math.nan),
        lambda: ProductionCluster(share=1.5),
        lambda: ProductionCluster(long_tail=-0.5),
        lambda: ProductionCluster(seed=-1),
        lambda: LogNormal(-1.0),
        lambda: LogNormal(0.3, seed=1.5),
        lambda: Recorded([[0.1, -0.1]]),
    ],
)
def test_impossible_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        wrong()


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("none", ControlledDelay(0.0, (), base=0.1)),
        ("cds:0.6", ControlledDelay(0.6, base=0.1)),
        ("PCS", ProductionCluster(seed=7, base=0.1)),
        ("lognormal:0.3", LogNormal(0.3, seed=7, base=0.1)),
    ],
)
def test_laws_are_read_from_words(text, law):
    assert parse(text, base=0.1, seed=7) == law


@pytest.mark.parametrize("text", ["", "cds", "cds:x", "pcs:3", "none:1", "lognormal:-1", "late"])
def test_words_that_are_no_law(text):
    with pytest.raises(ValueError, match="is not a law of stragglers"):
        parse(text)


# -- runs


def run(data, law, runtime="threads", n_workers=3, **settings):
    settings = {"stop": Stop(epochs=3), "block": 10, "seed": 0} | settings
    problem = problems.linear(*data, alpha=0.01)
    return solve(problem, runtime=runtime, n_workers=n_workers, stragglers=law, **settings)


def blocks(report):
    return [w["blocks"] for w in report.workers]


@pytest.mark.parametrize(
    "plane",
    [Shared(), Shared(exchange=None), Master()],
    ids=["exchange", "lock-free", "master"],
)
def test_who_is_late_does_less_and_is_staler_without_a_barrier(cancer, plane):
    report = run(cancer, ControlledDelay(2.0, base=0.004), plane=plane, barrier=ASP())
    late, *others = blocks(report)
    assert late + sum(others) == 3 * 57
    assert 0.15 * min(others) < late < 0.7 * min(others)  # a third, in quiet
    assert report.workers[0]["mean_block_seconds"] > 0.012
    assert all(w["mean_block_seconds"] > 0.004 for w in report.workers)
    assert all(w["pushes"] >= w["blocks"] for w in report.workers)  # one a block, and the last
    assert report.settings["stragglers"] == repr(ControlledDelay(2.0, base=0.004))
    # while the late one has a block in hand the others complete about three each
    assert report.staleness_max >= 4


def test_a_barrier_waits_for_who_is_late(cancer):
    held = run(cancer, ControlledDelay(2.0, base=0.004), barrier=BSP())
    assert max(blocks(held)) - min(blocks(held)) <= 3  # one an epoch: its last round may be short
    assert held.workers[0]["waiting_seconds"] < min(w["waiting_seconds"] for w in held.workers[1:])
    assert max(w["largest_lead"] for w in held.workers) == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("plane", [Shared(), Master()], ids=["exchange", "master"])
def test_bsp_repeats_bit_for_bit_however_late_anybody_is(cancer, runtime, plane):
    quick = run(cancer, None, plane=plane, barrier=BSP())
    late = run(cancer, LogNormal(1.0, base=0.001), runtime, plane=plane, barrier=BSP())
    np.testing.assert_array_equal(late.model.coef, quick.model.coef)
    assert blocks(late) == blocks(quick)


def test_throttled_release_leaves_who_is_late_behind(cancer):
    report = run(cancer, ControlledDelay(3.0, base=0.004), barrier=Throttled(2))
    assert blocks(report)[0] < 0.7 * min(blocks(report)[1:])


def test_a_bound_holds_with_stragglers_in_processes(cancer):
    law = ProductionCluster(share=0.4, long_tail=0.0, base=0.003, seed=2)
    report = run(cancer, law, "processes", barrier=SSP(2))
    assert max(w["largest_lead"] for w in report.workers) <= 2
    assert sum(blocks(report)) == 3 * 57


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
@pytest.mark.parametrize("rule", [SGD(), SDCA(), SAGA()], ids=lambda r: type(r).__name__)
def test_sleeping_changes_nothing_for_one_worker(cancer, runtime, rule):
    law = LogNormal(0.5, base=1e-4)
    slow = run(cancer, law, runtime, 1, rule=rule)
    quick = run(cancer, None, runtime, 1, rule=rule)
    np.testing.assert_array_equal(slow.model.coef, quick.model.coef)
    assert slow.staleness_max == 0


def test_the_mean_is_that_of_the_first_blocks(cancer):
    """Nobody is late before it is known; then the late one sleeps multiples of it."""

    def late_one_first(table, me):
        """Else the other might be through with all blocks before that one comes."""
        return me == 0 or bool(table._array[0, layout.T_BLOCKS] > 1)

    law = ControlledDelay(50.0)
    report = run(cancer, law, n_workers=2, stop=Stop(epochs=20), barrier=late_one_first)
    late, other = report.workers
    ratio = late["mean_block_seconds"] / other["mean_block_seconds"]
    assert late["blocks"] > 1 and other["blocks"] > FIRST_BLOCKS / 2
    assert ratio > 2
    few = run(cancer, ControlledDelay(1e6), n_workers=2, stop=Stop(epochs=1))
    assert sum(blocks(few)) == 57 < FIRST_BLOCKS  # else it would sleep for minutes


def test_looks_on_the_way_and_records_go_with_sleeping(cancer):
    law = ControlledDelay(1.0, base=0.001)
    report = run(cancer, law, trace=4, stop=Stop(epochs=30, gradient=1e-2), rule=SAGA())
    assert report.converged and len(report.checks) >= 1
    seen = []
    run(cancer, law, on_epoch=lambda epoch, snapshot: seen.append(epoch))
    assert seen == [1, 2, 3]


class EverySecond(Stragglers):
    """A law of the user's: every second block of the last worker is late."""

    def lateness(self, worker, block, n_workers, mean):
        return mean * (worker == n_workers - 1 and block % 2 == 1)


def test_a_law_of_the_users_own(cancer):
    law = EverySecond(base=0.002)
    assert [law.sleep(2, block, 3) for block in range(3)] == [0.002, 0.004, 0.002]
    report = run(cancer, law)
    assert sum(blocks(report)) == 3 * 57


@dataclass(frozen=True)
class Wrong(Stragglers):
    answer: object = None

    def lateness(self, worker, block, n_workers, mean):
        return 1 / 0 if self.answer == "raise" else self.answer


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES, "simulator"])
@pytest.mark.parametrize("answer", ["raise", "late", None, math.nan, 10**400, [0.1]], ids=str)
def test_a_law_that_is_wrong_ends_the_run_with_a_sentence(cancer, runtime, answer):
    n_workers = 1 if runtime == "caller" else 2
    with pytest.raises(RuntimeError, match=r"stragglers Wrong, .* worker \d, raised") as caught:
        run(cancer, Wrong(answer=answer), runtime, n_workers)
    told = "ZeroDivisionError" if answer == "raise" else "not a number of seconds"
    assert told in str(caught.value)


@pytest.mark.parametrize("wrong", [ProductionCluster, 0.3, Stragglers], ids=str)
def test_what_is_no_law_is_refused(cancer, wrong):
    with pytest.raises(TypeError, match="stragglers must be None or a law"):
        run(cancer, wrong)


@pytest.mark.parametrize("law", [ControlledDelay(1.0, (3,)), Recorded([[0.1], [0.1]])], ids=str)
def test_a_law_for_other_workers_is_refused(cancer, law):
    with pytest.raises(ValueError, match="the run has 3"):
        run(cancer, law)


def test_a_sleep_ends_when_the_run_does():
    over = threading.Event()
    woken = []

    def loop():
        woken.append((yield Sleep(3600.0, over.is_set)))

    sleeper = threading.Thread(target=driver.drive, args=(loop(),))
    sleeper.start()
    over.set()
    sleeper.join(timeout=60.0)
    assert not sleeper.is_alive()
    assert 0 <= woken[0] < 3600e9


def sleeps(table, worker):
    """Whether a worker has a block in hand that it has not computed yet."""
    return bool(table._array[worker, layout.T_SLEEPS])


# The last of three workers sleeps for an hour. The second takes 50 ms for each block, or it might
# be through with all the rest before the first one comes, which is to act.
SLEEPER = Recorded([[], [0.05], [3600.0]])


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_ctrl_c_wakes_sleepers(cancer, runtime):
    sent = []

    def interrupt(table, me):
        if me == 0 and not sent and sleeps(table, 2):
            sent.append(True)
            signal.raise_signal(signal.SIGINT)
        return sleeps(table, 2)  # nobody goes on before

    with pytest.raises(KeyboardInterrupt):
        run(cancer, SLEEPER, runtime, barrier=interrupt)
    assert sent


@pytest.mark.parametrize("rule", [SGD(), SDCA()], ids=["sgd", "dual"])
def test_a_sleeper_that_is_killed_loses_its_block_to_others(cancer, rule):
    """Its first block, that is: somebody else computes it."""
    killed = []

    def kill(table, me):
        if me == 0 and not killed and sleeps(table, 2):
            killed.append(int(table._array[2, layout.T_PROCESS]))
            os.kill(killed[0], signal.SIGKILL)
        return sleeps(table, 2)  # nobody goes on before; a dead worker's row stays

    with pytest.warns(WorkerDied, match="worker 2"):
        report = run(cancer, SLEEPER, "processes", barrier=kill, rule=rule)
    assert killed and report.workers[2]["state"] == "dead"
    assert blocks(report)[2] == 0 and sum(blocks(report)) == 3 * 57
    assert sum(w["rows"] for w in report.workers) == 3 * 569
