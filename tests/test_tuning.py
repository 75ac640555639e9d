"""The tuner: what it finds keeps the wish, and nothing that was left out is better."""

import json
import math

import numpy as np
import pytest

from hogshare import ASP, BSP, PBSP, PSSP, SSP
from hogshare.simulation import (
    Constant,
    Exponential,
    LogNormal,
    Measured,
    Placement,
    progress,
    slow,
    tune,
)

WISHES = [
    {"mean_lead": 0.5},
    {"mean_lead": 2.0},
    {"mean_lead": 4.0},
    {"waiting_share": 0.05},
    {"waiting_share": 0.3},
    {"waiting_share": 0.6},
]


def measured(barrier, n_workers, seeds, law=None, **settings):
    """Mean lead and waiting share of each run, by seeds of our own."""
    law = law or Exponential(1.0)
    settings = {"seconds": 40 * law.mean, "poll": 0.05 * law.mean, **settings}
    runs = [progress(barrier, n_workers, block_time=law, seed=s, **settings) for s in seeds]
    return np.array([[run.mean_lead, run.waiting_share] for run in runs])


@pytest.mark.parametrize("wish", WISHES, ids=str)
@pytest.mark.parametrize("hold", [False, True])
def test_nothing_that_was_left_out_is_better(wish, hold):
    """Against all samples and all bounds, measured with the same seeds."""
    n, bounds = 12, (0, 1, 3)
    found = tune(n, staleness=bounds, hold=hold, n_seeds=5, **wish)
    every = [ASP(), BSP(), SSP(1), SSP(3)]
    every += [PBSP(b, hold) for b in range(1, n - 1)]
    every += [PSSP(b, r, hold) for r in (1, 3) for b in range(1, n - 1)]
    assert {candidate.barrier for candidate in found.candidates} < set(every)
    every = [measured(barrier, n, range(5)).mean(axis=0) for barrier in every]
    if "mean_lead" in wish:
        assert found.best.mean_lead <= wish["mean_lead"]
        least = min(waiting for lead, waiting in every if lead <= wish["mean_lead"])
        assert found.best.waiting_share <= 1.1 * least
    else:
        assert found.best.waiting_share <= wish["waiting_share"]
        least = min(lead for lead, waiting in every if waiting <= wish["waiting_share"])
        assert found.best.mean_lead <= 1.1 * least


@pytest.mark.parametrize("law", [Exponential(0.01), LogNormal(3.0, 0.8)], ids=str)
@pytest.mark.parametrize("wish", WISHES, ids=str)
@pytest.mark.sample(1)
def test_the_wish_is_kept_with_other_seeds(wish, law):
    found = tune(100, block_time=law, n_seeds=20, **wish)
    runs = measured(found.barrier, 100, range(100, 120), law)
    error = np.maximum(runs.std(axis=0) * math.sqrt(2.0 / 20), 1e-3)
    told = np.array([found.best.mean_lead, found.best.waiting_share])
    most = np.array([wish.get("mean_lead", math.inf), wish.get("waiting_share", math.inf)])
    assert (told <= most).all()
    assert (np.abs(runs.mean(axis=0) - told) < 4.0 * error).all()
    assert (error < 0.1 * told + 2e-3).all()  # so that it says something


def test_the_ends():
    assert tune(50, mean_lead=0.0).barrier == BSP()
    assert tune(50, mean_lead=1e9).barrier == ASP()
    assert tune(50, waiting_share=0.0).barrier == ASP()
    assert tune(50, waiting_share=1.0).barrier == BSP()
    assert tune(50, waiting_share=1.0, staleness=(4,)).barrier == SSP(4)
    assert tune(2, mean_lead=0.0).barrier == BSP()
    assert tune(50, mean_lead=1.0, staleness=(1,)).barrier == SSP(1)  # and no sample of nearly all


def test_where_all_are_alike_little_is_waited():
    """Behind BSP for one look at most, and one worker may be the first of those at one moment."""
    best = tune(20, block_time=Constant(2.0), mean_lead=0.0).best
    assert best.barrier == BSP() and 0.0 <= best.waiting_share < 0.05
    assert tune(20, block_time=Constant(2.0), mean_lead=1.0).barrier == ASP()


def test_a_measured_law_is_as_good_as_its_law():
    rng = np.random.default_rng(1)
    trace = Measured(rng.exponential(0.02, 20_000).tolist())
    by_law = tune(200, block_time=Exponential(trace.mean), mean_lead=4.0).best
    by_trace = tune(200, block_time=trace, mean_lead=4.0).best
    assert by_trace.waiting_share == pytest.approx(by_law.waiting_share, rel=0.1)
    assert by_trace.blocks == pytest.approx(by_law.blocks, rel=0.05)


def test_stragglers_change_the_answer():
    """One of a hundred, four times as slow: who watches everybody waits for it."""
    slowness = slow(100, 0.01, 4.0, seed=2)
    plain, slowed = (
        tune(100, waiting_share=0.2, slowness=given).best for given in (None, slowness)
    )
    assert slowed.mean_lead > 1.5 * plain.mean_lead
    assert slowed.waiting_share <= 0.2


def test_distributed_state_leaves_out_who_watches_everybody():
    nowhere = Placement("distributed", "distributed")
    for wish in WISHES[1:]:
        found = tune(40, placement=nowhere, **wish)
        for candidate in found.candidates:
            nowhere.check(candidate.barrier, 40)
    assert tune(40, placement=Placement(), mean_lead=0.0).barrier == BSP()
    with pytest.raises(ValueError, match=r"mean lead of at most 0\.0: the least is .* with PBSP"):
        tune(40, placement=nowhere, mean_lead=0.0)
    with pytest.raises(ValueError, match="no use"):
        tune(40, placement=Placement("distributed", "central"), mean_lead=1.0)


def test_settings_reach_the_runs():
    """A rare look makes a sample that is drawn anew hold more."""
    for name, value in [("poll", 0.5), ("seconds", 10.0), ("seed", 7), ("n_seeds", 2)]:
        plain = tune(30, mean_lead=2.0, staleness=(0,))
        other = tune(30, mean_lead=2.0, staleness=(0,), **{name: value})
        shared = {found.barrier: found for found in plain.candidates}
        pairs = [(shared[c.barrier], c) for c in other.candidates if c.barrier in shared]
        assert any(before != after for before, after in pairs), name


def test_it_repeats_and_is_plain_data():
    found = tune(30, mean_lead=2.0)
    assert found == tune(30, mean_lead=2.0)
    plain = found.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["best"]["barrier"] == repr(found.barrier)
    assert len(plain["candidates"]) == len(found.candidates)
    leads = [candidate.mean_lead for candidate in found.candidates]
    assert leads == sorted(leads) and found.best in found.candidates


BAD = {
    "give either mean_lead or waiting_share; got neither": {},
    "mean_lead or waiting_share; got both": {"mean_lead": 1.0, "waiting_share": 0.1},
    "mean_lead must be a finite number, at least 0": {"mean_lead": -1.0},
    "waiting_share must be a share": {"waiting_share": 1.5},
    "staleness must have a number of blocks": {"mean_lead": 1.0, "staleness": ()},
    "every one of staleness must be a whole number": {"mean_lead": 1.0, "staleness": (0, -1)},
    "n_workers must be a whole number, at least 2": {"mean_lead": 1.0, "n_workers": 1},
    "n_seeds must be a whole number, at least 1": {"mean_lead": 1.0, "n_seeds": 0},
    "seed must be a whole number": {"mean_lead": 1.0, "seed": -1},
    "the mean of block_time must be": {"mean_lead": 1.0, "block_time": Constant(0.0)},
    r"at most 3\.0: the least is .* with SSP\(staleness=8\)": {"mean_lead": 3.0, "staleness": (8,)},
    "slowness must have one factor for each": {"mean_lead": 1.0, "slowness": [1.0]},
    "poll must be": {"mean_lead": 1.0, "poll": -1.0},
    "seconds must be": {"mean_lead": 1.0, "seconds": 0.0},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_told_in_a_sentence(message):
    with pytest.raises(ValueError, match=message):
        tune(**{"n_workers": 200} | BAD[message])


def test_what_is_no_law_is_refused():
    with pytest.raises(TypeError, match="block time must be one of"):
        tune(10, block_time=1.0, mean_lead=1.0)
