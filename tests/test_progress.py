"""Progress behind a barrier on a virtual clock: laws, PSP's reference figures, bad input."""

import json
import math

import clockwork
import numpy as np
import pytest
from scipy import stats

from hogshare.barriers import ASP, BSP, PBSP, PSSP, SSP, Fraction, Throttled
from hogshare.simulation import Constant, Exponential, Measured, Uniform, progress, slow

SEEDS = range(5)
NODES, SECONDS = 1000, 40.0

# barrier: mean steps, standard deviation, spread; exponential steps of 1 s, looks every 0.05 s
REFERENCE = {
    BSP(): (5.96, 0.20, 1),
    SSP(4): (21.5, 0.86, 5),
    ASP(): (40.0, 6.28, 39),
    PBSP(1): (35.7, 3.38, 21),
    PBSP(2): (30.9, 2.02, 13),
    PBSP(4): (25.8, 1.11, 7),
    PBSP(10): (19.4, 0.70, 4),
    PBSP(16): (16.9, 0.51, 4),
    PBSP(64): (11.7, 0.46, 2),
    PBSP(1, hold=True): (17.4, None, None),
    PSSP(10, 4): (34.4, 2.62, 18),
}


def runs(barrier, n=NODES, seeds=SEEDS, **settings):
    return [progress(barrier, n, seconds=SECONDS, seed=seed, **settings) for seed in seeds]


def mean_clock(*arguments, **settings):
    return np.mean([run.mean for run in runs(*arguments, **settings)])


# -- the reference figures


@pytest.mark.parametrize("barrier", REFERENCE, ids=repr)
def test_reference_figures(barrier):
    mean, _, spread = REFERENCE[barrier]
    # the reference is one run; with two sampled the spread of single runs is 10 to 19, 13.3 on
    # average, and five seeds are too few to come within 1.3 of 13 with certainty
    done = runs(barrier, seeds=range(40) if barrier == PBSP(2) else SEEDS)
    assert np.mean([run.mean for run in done]) == pytest.approx(mean, rel=0.03)
    if spread is not None:
        ours = np.mean([run.spread for run in done])
        assert abs(ours - spread) <= max(1.0, 0.1 * spread)
    for run in done:
        assert run.updates == run.clock.sum()


def test_the_held_sample_of_ten():
    """The reference says 10.6, of one run: single runs lie between 8.9 and 10.9, around 9.97."""
    means = [run.mean for run in runs(PBSP(10, hold=True), seeds=range(60))]
    assert np.mean(means) == pytest.approx(9.97, abs=4 * 0.42 / math.sqrt(60))
    assert min(means) < 10.6 < max(means)


@pytest.mark.parametrize("sample", [1, 10])
def test_a_sample_that_is_held_gets_half_as_far(sample):
    """The paper does not say which it means; here both have a name."""
    ratio = mean_clock(PBSP(sample)) / mean_clock(PBSP(sample, hold=True))
    assert 1.8 < ratio < 2.1
    assert PBSP(sample) == PBSP(sample, hold=False)


@pytest.mark.parametrize(("delay", "ratio"), [(0.0, 1.0), (1.0, 1.875)])
def test_the_ceiling_of_what_asynchrony_gains_with_one_that_is_late(delay, ratio):
    """Blocks of eight workers, of which one takes 1 + delay times as long: never twice as many."""
    run = {"block_time": Constant(1.0), "seconds": 40.5, "poll": None}
    slowness = [1.0 + delay, *[1.0] * 7]
    free, held = (progress(barrier, 8, slowness=slowness, **run) for barrier in (ASP(), BSP()))
    assert free.updates / held.updates == pytest.approx(ratio, rel=1e-12)


def test_a_sample_of_nobody_is_asp_exactly():
    free, sampled = (progress(b, 100, seconds=20.0, seed=1) for b in (ASP(), PBSP(0)))
    assert free.clock.tolist() == sampled.clock.tolist()
    assert free.control_messages == sampled.control_messages == 0


@pytest.mark.parametrize(
    ("barrier", "ratios"),
    [
        (ASP(), (0.96, 0.89, 0.78)),
        (PBSP(10), (0.90, 0.70, 0.54)),
        (PSSP(10, 4), (0.89, 0.66, 0.45)),
    ],
    ids=repr,
)
def test_stragglers_as_the_reference_has_them(barrier, ratios):
    """5, 15 and 30 % four times as slow, looks every 0.2 s."""
    whole = mean_clock(barrier, poll=0.2)
    for share, ratio in zip((0.05, 0.15, 0.30), ratios, strict=True):
        part = [
            progress(
                barrier,
                NODES,
                seconds=SECONDS,
                poll=0.2,
                seed=seed,
                slowness=slow(NODES, share, 4.0, seed),
            ).mean
            for seed in SEEDS
        ]
        assert np.mean(part) / whole == pytest.approx(ratio, abs=0.02)


@pytest.mark.parametrize(
    ("barrier", "steps"),
    [(BSP(), 0.99), (SSP(4), 4.86), (ASP(), 38.2), (PBSP(10), 13.6), (PSSP(10, 4), 28.0)],
    ids=repr,
)
def test_five_percent_at_a_sixteenth_of_the_speed(barrier, steps):
    done = [
        progress(
            barrier,
            NODES,
            seconds=SECONDS,
            poll=0.2,
            seed=seed,
            slowness=slow(NODES, 0.05, 16.0, seed),
        ).mean
        for seed in SEEDS
    ]
    assert np.mean(done) == pytest.approx(steps, rel=0.03)


@pytest.mark.parametrize(
    ("barrier", "change", "room"),
    [(SSP(4), -0.24, 0.02), (ASP(), 0.0, 0.01), (PBSP(10), 0.0, 0.025), (PSSP(10, 4), 0.0, 0.025)],
    ids=repr,
)
def test_from_100_to_1000_nodes(barrier, change, room):
    """With 5 % of them four times as slow."""
    means = [
        np.mean(
            [
                progress(
                    barrier, n, seconds=SECONDS, seed=seed, slowness=slow(n, 0.05, 4.0, seed)
                ).mean
                for seed in SEEDS
            ]
        )
        for n in (100, 1000)
    ]
    assert means[1] / means[0] - 1.0 == pytest.approx(change, abs=room)


def rounds_of_bsp(n, share, factor, rng):
    """Mean clock after 40 s when every round takes as long as its slowest block."""
    factors = np.ones(n)
    factors[: round(share * n)] = factor
    time, done = 0.0, 0
    while True:
        blocks = factors * rng.exponential(size=n)
        if time + blocks.max() > SECONDS:
            return done + np.mean(time + blocks <= SECONDS)
        time += blocks.max()
        done += 1


@pytest.mark.parametrize("share", [0.0, 0.05, 0.30])
@pytest.mark.parametrize("n", [100, 1000])
def test_bsp_is_rounds(n, share):
    """The reference's .33 with stragglers, and -62 % from 100 to 1000 nodes, are of one run each.

    A run has two to six rounds, so that it says little; what many say is a matter of maxima.
    """
    rng = np.random.default_rng(0)
    want = [rounds_of_bsp(n, share, 4.0, rng) for _ in range(200)]
    got = [
        progress(
            BSP(), n, seconds=SECONDS, poll=None, seed=seed, slowness=slow(n, share, 4.0, seed)
        ).mean
        for seed in range(200)
    ]
    assert stats.ks_2samp(want, got).pvalue > 1e-4
    error = math.hypot(np.std(want), np.std(got)) / math.sqrt(200)
    assert abs(np.mean(want) - np.mean(got)) < 4.0 * error


# -- laws


@pytest.mark.parametrize(
    ("sampled", "whole"),
    [
        (PBSP(19), BSP()),
        (PBSP(20), BSP()),
        (PSSP(1000, 2, hold=True), SSP(2)),
        (Fraction(0.3, 1, sample=50), Fraction(0.3, 1)),
    ],
    ids=repr,
)
def test_a_sample_of_all_or_more_is_no_sample(sampled, whole):
    runs = [progress(barrier, 20, seconds=20.0, events=True) for barrier in (sampled, whole)]
    assert runs[0].events == runs[1].events
    assert runs[0].control_messages == runs[1].control_messages


@pytest.mark.parametrize("settings", [{}, {"sample": 25}, {"sample": 25, "hold": True}], ids=str)
def test_a_share_is_met_by_as_many_as_it_says(settings):
    """7 of 25 are 0.28, though 0.28 times 25 is above 7 in floating point."""
    n = 26 if not settings else 27  # else the sample is no sample
    law = {"block_time": Constant(1.0), "slowness": [1.0] * (n - 18) + [50.0] * 18, "seconds": 9.5}
    run = progress(Fraction(0.28, **settings), n, poll=0.01, **law)
    assert (run.clock[: n - 18] >= 8).all()


@pytest.mark.parametrize("barrier", [PBSP(3), PSSP(4, 1), Fraction(0.6, 0, 5)], ids=repr)
def test_counting_who_is_near_has_the_law_of_drawing_by_name(barrier):
    """Clocks, waiting and leads over many seeds; the twin draws who is in a sample."""
    n, settings = 20, {"poll": 0.3, "seconds": 6.0}
    law = Exponential(1.0)
    ours = [progress(barrier, n, block_time=law, seed=seed, **settings) for seed in range(400)]
    twins = [
        clockwork.simulate(barrier, n, law, seed=seed, identities=seed, **settings)
        for seed in range(400, 800)
    ]
    means = [run.mean for run in ours], [np.mean(twin.clock) for twin in twins]
    waits = [run.waiting.sum() for run in ours], [sum(twin.waited) for twin in twins]
    for one, other in (means, waits):
        assert stats.ks_2samp(one, other).pvalue > 1e-3
    leads = np.zeros((2, 12))
    for run, twin in zip(ours, twins, strict=True):
        np.add.at(leads[0], np.minimum(np.repeat(np.arange(len(run.leads)), run.leads), 11), 1)
        np.add.at(leads[1], np.minimum(twin.leads, 11), 1)
    # passes of one run belong together, so shares are compared and not a chi-square of all
    shares = leads / leads.sum(axis=1, keepdims=True)
    assert np.abs(shares[0] - shares[1]).max() < 0.02


def test_the_first_look_passes_as_often_as_it_should():
    """At one look in a world made by hand: a product of four fractions."""
    n, sample = 21, 4
    # who ends first at 1 s finds 12 of 20 others near; no look comes before the end
    slowness = [0.5] * 12 + [1.0] + [100.0] * 8
    passed = 0
    for seed in range(3000):
        run = progress(
            PBSP(sample),
            n,
            block_time=Constant(1.0),
            slowness=slowness,
            seconds=1.0,
            poll=5.0,
            seed=seed,
            events=True,
        )
        passed += (1.0, 12, "passed") in run.events
    chance = math.prod((12 - i) / (20 - i) for i in range(sample))
    assert stats.binomtest(passed, 3000, chance).pvalue > 1e-4


def test_the_same_seed_is_the_same_run():
    one, again, other = (
        progress(PSSP(3, 1), 50, seconds=20.0, seed=seed, events=True) for seed in (4, 4, 5)
    )
    assert one.events == again.events
    assert one.waiting.tobytes() == again.waiting.tobytes()
    assert one.events != other.events


def test_block_times_do_not_depend_on_the_barrier():
    law = Uniform(0.5, 1.5)
    run = progress(PBSP(2), 10, block_time=law, seconds=9.0, seed=2, events=True)
    started = {(k, 0): 0.0 for k in range(10)}
    clock = dict.fromkeys(range(10), 0)
    for time, k, what in run.events:
        if what == "completed":
            assert time == started[k, clock[k]] + law.draw(2, k, clock[k])
            clock[k] += 1
        else:
            started[k, clock[k]] = time


def test_time_is_spent_waiting_or_computing():
    run = progress(SSP(1), 30, block_time=Constant(1.0), blocks=5, slowness=slow(30, 0.1, 3.0))
    computing = 5 * slow(30, 0.1, 3.0)
    assert run.present == pytest.approx(run.waiting + computing)
    assert run.waiting_share == pytest.approx(1.0 - computing.sum() / run.present.sum())
    assert run.seconds == pytest.approx(15.0)
    assert run.spread == 0


def test_throttled_as_few_as_are_left_release_each_other():
    run = progress(
        Throttled(8),
        8,
        block_time=Constant(1.0),
        blocks=4,
        leaves={0: 2.5, 1: 2.5},
        poll=None,
    )
    assert run.clock.tolist() == [2, 2] + [4] * 6
    assert run.seconds == pytest.approx(4.0)


def test_joining_at_the_least_clock():
    run = progress(BSP(), 4, block_time=Constant(1.0), seconds=9.5, poll=None, joins={3: 4.25})
    # its first block is free, and the others wait for it: 5.25, 6.25, ...
    assert run.clock.tolist() == [9, 9, 9, 9]
    assert run.updates == 3 * 9 + 5
    assert run.present[3] == 5.25


def test_plain_data():
    run = progress(PBSP(2), 20, seconds=5.0, times=[1.0, 5.0])
    plain = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert plain["mean"] == run.mean
    clocks = np.repeat(plain["clocks"]["clock"], plain["clocks"]["workers"])
    assert sorted(run.clock) == clocks.tolist()
    assert plain["updates_by"][-1] == run.updates
    assert run.mean_lead == pytest.approx(np.average(np.arange(len(run.leads)), weights=run.leads))
    assert plain["control_messages"] == 2 * run.checks
    assert run.events is None


# -- bad input


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "either seconds or blocks.*neither"),
        ({"seconds": 1.0, "blocks": 1}, "either seconds or blocks.*both"),
        ({"seconds": -1.0}, "seconds must be a positive"),
        ({"seconds": math.nan}, "seconds must be a positive"),
        ({"seconds": math.inf}, "seconds must be a positive"),
        ({"blocks": 0}, "blocks must be a whole number"),
        ({"blocks": 2.5}, "blocks must be a whole number"),
        ({"seconds": 1.0, "poll": -0.1}, "poll must be a positive"),
        ({"seconds": 1.0, "barrier": PBSP(2), "poll": 0.0}, "poll must be"),
        ({"seconds": 1.0, "poll": math.nan}, "poll must be a positive"),
        ({"seconds": 1.0, "poll": 1e-15}, "poll must not be below"),
        ({"seconds": 1.0, "block_time": Constant(0.0)}, "would never end; give blocks"),
        ({"seconds": 1.0, "block_time": Measured([0.0, 0.0])}, "would never end"),
        ({"seconds": 1.0, "slowness": [1.0] * 3}, "one factor for each of the 4 workers"),
        ({"seconds": 1.0, "slowness": [1.0, 1.0, 1.0, 0.0]}, "every factor of slowness"),
        ({"seconds": 1.0, "slowness": [1.0, 1.0, 1.0, math.nan]}, "every factor of slowness"),
        ({"seconds": 1.0, "seed": -1}, "seed must be"),
        ({"seconds": 1.0, "seed": 2**32}, "seed must be"),
        ({"seconds": 1.0, "joins": {4: 1.0}}, "joins names worker 4, and there are 4: 0 to 3"),
        ({"seconds": 1.0, "leaves": {0: -1.0}}, r"leaves\[0\] must be"),
        ({"seconds": 1.0, "leaves": {0: math.nan}}, r"leaves\[0\] must be"),
        ({"seconds": 9.0, "joins": {0: 2.0}, "leaves": {0: 2.0}}, "must join before it leaves"),
        ({"seconds": 1.0, "times": [1.0, 0.5]}, "times must be ascending"),
        ({"seconds": 1.0, "times": [-1.0]}, "every one of times"),
        ({"seconds": 1.0, "barrier": PBSP(2), "poll": None}, "poll must be"),
        ({"seconds": 1.0, "n_workers": 0}, "n_workers must be"),
    ],
)
def test_settings_without_a_meaning(settings, words):
    settings = {"barrier": BSP(), "n_workers": 4} | settings
    with pytest.raises(ValueError, match=words):
        progress(settings.pop("barrier"), settings.pop("n_workers"), **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"barrier": lambda table, me: True}, "progress studies are for built-in barriers"),
        ({"barrier": 3}, "barrier must be one of"),
        ({"block_time": 1.0}, "a block time must be one of"),
    ],
)
def test_things_of_another_kind(settings, words):
    settings = {"barrier": BSP()} | settings
    with pytest.raises(TypeError, match=words):
        progress(settings.pop("barrier"), 4, seconds=1.0, **settings)


def test_slow_ones():
    factors = slow(1000, 0.05, 4.0, seed=3)
    assert sorted(set(factors)) == [1.0, 4.0]
    assert (factors == 4.0).sum() == 50
    assert not np.array_equal(factors, slow(1000, 0.05, 4.0, seed=4))
    for bad in ({"share": 1.5}, {"share": math.nan}, {"factor": 0.0}, {"n_workers": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            slow(**({"n_workers": 10, "share": 0.5, "factor": 2.0} | bad))


def test_no_time_between_looks_is_the_very_moment():
    one, other = (progress(SSP(1), 20, seconds=9.0, poll=poll, events=True) for poll in (0, None))
    assert one.events == other.events
    assert one.polls == 0


def test_a_run_that_waits_for_nobody_ends():
    """All leave; nobody is left to release the throttled, and time is over all the same."""
    run = progress(
        Throttled(3), 3, block_time=Constant(1.0), blocks=9, leaves={0: 1.5, 1: 1.5, 2: 2.5}
    )
    assert run.seconds == 2.5
    assert run.clock.tolist() == [1, 1, 2]
