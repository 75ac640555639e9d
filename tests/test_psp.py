"""The paper's figures as plain data."""

import json
import math
import statistics

import pytest
from scipy import stats

from hogshare import theory
from hogshare.lab.studies import psp_figures
from hogshare.lab.studies.psp_figures import interval
from hogshare.simulation import progress

SMALL = {"n_workers": 120, "seconds": 6.0, "seeds": 2}


def named(result, law="exponential:1"):
    return {one["barrier"]: one for one in result["series"] if one["law"] == law}


@pytest.mark.parametrize("name", psp_figures.FIGURES)
def test_every_figure_is_plain_data_and_says_what_it_does(name):
    told = []
    result = psp_figures.figure(name, **SMALL, advance=told.append)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert len(told) == psp_figures.settings_of(name, len(psp_figures.default_laws(name)))
    assert result == psp_figures.figure(name, **SMALL)


def test_points_are_means_over_seeds_with_their_interval():
    result = psp_figures.figure("1a", n_workers=120, seconds=6.0, seeds=4, seed=3, poll=0.1)
    assert list(named(result)) == ["bsp", "ssp:4", "pbsp:1", "pssp:1,4", "asp"]
    (point,) = named(result)["bsp"]["points"]
    from hogshare import BSP

    means = [progress(BSP(), 120, seconds=6.0, poll=0.1, seed=seed).mean for seed in range(3, 7)]
    half = stats.t.ppf(0.975, 3) * statistics.stdev(means) / 2.0
    assert point["steps"] == {
        "mean": pytest.approx(statistics.mean(means)),
        "low": pytest.approx(statistics.mean(means) - half),
        "high": pytest.approx(statistics.mean(means) + half),
    }
    clocks = named(result)["bsp"]["clocks"]
    assert sum(clocks["workers"]) == 4 * 120


def test_intervals_stay_where_the_values_can_be():
    """Norms, counts and shares: a few that are far apart have a wide interval."""
    few = interval([0.1, 0.1, 4.0])
    half = stats.t.ppf(0.975, 2) * statistics.stdev([0.1, 0.1, 4.0]) / 3**0.5
    assert few["low"] == 0.0 < few["mean"] < few["high"] == pytest.approx(few["mean"] + half)
    shares = interval([0.2, 0.99], most=1.0)
    assert (shares["low"], shares["high"]) == (0.0, 1.0)


def test_a_run_that_has_diverged_has_no_interval():
    assert interval([1.0, math.inf]) == {"mean": math.inf, "low": None, "high": None}


def test_one_seed_has_no_interval():
    result = psp_figures.figure("1c", n_workers=120, seconds=3.0, seeds=1)
    assert result["series"][0]["points"][0]["steps"]["low"] is None


def test_figure_1_order_of_progress_and_of_spread():
    steps, spread = (
        {
            name: one["points"][0][key]["mean"]
            for name, one in named(psp_figures.figure("1a")).items()
        }
        for key in ("steps", "spread")
    )
    assert steps["bsp"] < min(steps["ssp:4"], steps["pbsp:10"])
    assert max(steps["ssp:4"], steps["pbsp:10"]) < steps["pssp:10,4"] < steps["asp"]
    assert spread["bsp"] < spread["ssp:4"] < spread["pssp:10,4"] < spread["asp"]


def test_which_law_has_the_papers_order_and_messages():
    """pBSP above SSP, and almost ten times the messages: block times of a long tail."""
    notes = psp_figures.figure("1a")["notes"]
    assert [note.endswith("the paper's order.") for note in notes] == [False, False, True]
    notes = psp_figures.figure("1e")["notes"]
    assert [note.endswith("which agrees.") for note in notes] == [False, False, True]
    assert "ASP sends 6.8 times" in notes[0]
    assert "ASP sends 1.5 times" in notes[1]


def test_figure_1c_a_sample_of_nobody_is_asp_and_more_is_slower_and_tighter():
    figure = psp_figures.figure("1c")
    steps = [one["points"][0]["steps"]["mean"] for one in figure["series"]]
    sd = [one["points"][0]["sd"]["mean"] for one in figure["series"]]
    assert steps == sorted(steps, reverse=True)
    # with large samples the workers are in step, and it matters where in a step the time is over
    assert sd[:6] == sorted(sd[:6], reverse=True)
    assert max(sd[6:]) < sd[4]
    asp = named(psp_figures.figure("1b"))["asp"]
    assert asp["points"][0]["steps"] == figure["series"][0]["points"][0]["steps"]
    assert asp["clocks"] == figure["series"][0]["clocks"]


@pytest.mark.quick
def test_figure_1e_adds_up():
    for one in psp_figures.figure("1e", **SMALL)["series"]:
        counted = one["over_time"]["updates"]
        assert counted == sorted(counted)
        assert counted[0] == 0.0
        assert one["over_time"]["seconds"][-1] == 6.0
        assert counted[-1] == pytest.approx(one["points"][0]["updates"]["mean"])


def test_figures_2_and_3_whom_stragglers_hurt():
    ratios = {
        name: [point["ratio"]["mean"] for point in one["points"]]
        for name, one in named(psp_figures.figure("2a")).items()
    }
    assert all(values[0] == 1.0 for values in ratios.values())
    for name, least, most in (
        ("bsp", 0.2, 0.5),
        ("ssp:4", 0.2, 0.5),
        ("pbsp:10", 0.85, 0.95),
        ("pssp:10,4", 0.85, 0.95),
        ("asp", 0.93, 0.98),
    ):
        assert least < ratios[name][1] < most  # 5 % slow
    last = {
        name: one["points"][-1]["steps"]["mean"]
        for name, one in named(psp_figures.figure("2c")).items()
    }
    assert last["bsp"] < last["ssp:4"] < last["pbsp:10"] < last["pssp:10,4"] < last["asp"]
    sizes = named(psp_figures.figure("3"))
    assert [point["x"] for point in sizes["asp"]["points"]] == [100, 250, 500, 750, 1000]
    change = {name: one["points"][-1]["ratio"]["mean"] - 1.0 for name, one in sizes.items()}
    assert change["bsp"] < -0.3
    assert change["ssp:4"] == pytest.approx(-0.24, abs=0.02)
    for name in ("pbsp:10", "pssp:10,4", "asp"):
        assert abs(change[name]) < 0.025


def test_figures_4_and_5_are_the_theory():
    run = theory.SamplingRun(sample=5, staleness=4, n_blocks=10_000)
    for name, bound in (("4", theory.psp_mean_bound), ("5", theory.psp_second_moment_bound)):
        for curve in psp_figures.figure(name)["series"]:
            assert len(curve["bound"]) == len(curve["samples"]) == 100
            assert curve["bound"][4] == bound(curve["within"], run)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "1d"}, "there is no figure '1d'; choose from 1a"),
        ({"n_workers": 100}, "n_workers must be a whole number, at least 101"),
        ({"seeds": 0}, "seeds must be"),
        ({"seconds": -1.0}, "seconds must be"),
        ({"laws": ["weibull:1"]}, "not a law of block times"),
        ({"laws": ["constant:0"]}, "would never end"),
    ],
)
def test_settings_without_a_meaning(settings, words):
    with pytest.raises(ValueError, match=words):
        psp_figures.figure(**({"name": "1a"} | SMALL | settings))
