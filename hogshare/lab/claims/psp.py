"""Claims of Wang, Catterall and Mortier 2017 (PSP), from the figures on the virtual clock."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from hogshare.lab import bounds
from hogshare.lab.claims.claim import DIFFERS, IN_PART, NONE, Claim, ClaimNumber, Found, near
from hogshare.lab.studies import model_error, psp_figures

PAPER = "Wang et al. 2017"
NODES = "1,000 nodes for 40 virtual seconds, a sample of 1 %, staleness 4, exponential step times"
# laws of `hogshare.lab.studies.psp_figures`; the second has more long steps
LAWS = {"exponential": "exponential:1", "gamma": "gamma:1,0.6"}
BARRIERS = {
    "bsp": "BSP",
    "ssp:4": "SSP(4)",
    "pbsp:10": "pBSP",
    "pssp:10,4": "pSSP",
    "asp": "ASP",
}
SAMPLED = ("pbsp:10", "pssp:10,4")
FACTORS = (1, 4, 16)  # slowness of 5 % of the nodes
RANDOM_LAWS = 2000
# nodes, parameters and seconds of a quick figure with gradients; a sample is 1 % of the nodes
SMALL = {"1d": (200, 100, 20.0), "2b": (100, 100, 20.0)}
STEPS = {
    "long": model_error.LONG,
    "short": model_error.SHORT,
}  # in units of 1 / (parameters + nodes)


@functools.cache
def figure(name: str, seed: int) -> dict[str, Any]:
    """Make a figure with one seed; the result is cached, because several claims use it."""
    return psp_figures.figure(name, seeds=1, seed=seed)


def along(
    name: str, seed: int, what: str = "steps", law: str = LAWS["exponential"]
) -> dict[tuple[str, Any], float]:
    """Return a quantity of a figure's points for one law of step times, by barrier and x."""
    return {
        (series["barrier"], point["x"]): point[what]["mean"]
        for series in figure(name, seed)["series"]
        if series["law"] == law
        for point in series["points"]
    }


def by_law(name: str, seed: int, what: str) -> Found:
    """Return a quantity of every barrier, for both laws of `LAWS`."""
    return {
        f"{short} {barrier}": value
        for short, law in LAWS.items()
        for (barrier, _), value in along(name, seed, what, law).items()
    }


def numbers_by_law(what: str) -> dict[str, ClaimNumber]:
    """Make the claim's numbers, for every barrier and law."""
    return {
        f"{short} {barrier}": ClaimNumber(f"{what}, {written}, {short}")
        for short in LAWS
        for barrier, written in BARRIERS.items()
    }


def _in_order(law: str, found: Found) -> bool:
    bsp, ssp, pbsp, pssp, asp = (found[f"{law} {barrier}"] for barrier in BARRIERS)
    return bsp < ssp < min(pbsp, pssp) and max(pbsp, pssp) < asp


def _spread_in_order(law: str, found: Found) -> bool:
    bsp, *others, asp = (found[f"{law} {barrier}"] for barrier in BARRIERS)
    return bsp < min(others) and max(others) < asp


def samples(seed: int, quick: bool) -> Found:
    """Measure figure 1c: the mean step by sample size, relative to ASP and SSP of figure 1a."""
    steps, sd, others = along("1c", seed), along("1c", seed, "sd"), along("1a", seed)
    mean = {x: steps[f"pbsp:{x}", None] for x in psp_figures.SAMPLES}
    return {
        "0 / asp": mean[0] / others["asp", None],
        "16 / ssp": mean[16] / others["ssp:4", None],
        "rises": sum(b >= a for a, b in itertools.pairwise(mean.values())),
        "64": mean[64],
        **{f"sd {x}": sd[f"pbsp:{x}", None] for x in (0, 1, 2)},
    }


def updates(seed: int, quick: bool) -> Found:
    """Measure figure 1e: updates with ASP over updates with BSP, by law of step times."""
    found = {}
    for short, law in {**LAWS, "uniform": "uniform:0.5,1.5"}.items():
        sent = along("1e", seed, "updates", law)
        found[short] = sent["asp", None] / sent["bsp", None]
    return found


def slow_nodes(seed: int, quick: bool) -> Found:
    """Measure figure 2a: progress with some nodes four times as slow, over progress without."""
    found = along("2a", seed, "ratio")
    return {f"{b} {share}": found[b, share / 100] for b in BARRIERS for share in (5, 15, 30)}


def slower_and_slower(seed: int, quick: bool) -> Found:
    """Measure figure 2c: mean steps with 5 % of the nodes 1, 4 and 16 times as slow."""
    steps = along("2c", seed)
    return {f"{b} {x}": steps[b, float(x)] for b in BARRIERS for x in FACTORS}


def more_nodes(seed: int, quick: bool) -> Found:
    """Measure figure 3: change of the mean step from 100 to 1,000 nodes, in per cent."""
    found = along("3", seed, "ratio")
    return {barrier: 100.0 * (found[barrier, 1000.0] - 1.0) for barrier in BARRIERS}


def moments(seed: int, quick: bool) -> Found:
    """Compare exact moments of random lag distributions with bounds (54) and (55) of theorem 2."""
    rng = np.random.default_rng(seed)
    violations, nearest = 0, [0.0, 0.0]
    for _ in range(RANDOM_LAWS if quick else 10 * RANDOM_LAWS):
        run = bounds.SamplingRun(
            sample=int(rng.integers(1, 101)),
            staleness=int(rng.integers(0, 9)),
            n_blocks=int(rng.integers(20, 2000)),
        )
        lags = rng.dirichlet(np.full(run.staleness + 1 + int(rng.integers(1, 12)), 0.5))
        within = float(min(1.0, lags[: run.staleness + 1].sum()))
        pairs = (
            (bounds.psp_mean(lags, run), bounds.psp_mean_bound(within, run)),
            (bounds.psp_second_moment(lags, run), bounds.psp_second_moment_bound(within, run)),
        )
        for k, (exact, bound) in enumerate(pairs):
            violations += exact > bound * (1.0 + 1e-12)
            nearest[k] = max(nearest[k], exact / bound if bound > 0.0 else 0.0)
    return {"violations": violations, "mean": nearest[0], "second moment": nearest[1]}


def errors(name: str, seed: int, quick: bool, step: float | None = None) -> dict[str, Any]:
    """Return the points of a figure with gradients, by barrier; `step` has the unit of `STEPS`."""
    n, parameters, seconds = SMALL[name] if quick else (1000, 1000, 40.0)
    result = model_error.figure(
        name,
        n_workers=n,
        n_parameters=parameters,
        seconds=seconds,
        step=None if step is None else step / (n + parameters),
        seeds=1,
        seed=seed,
    )
    points = [series["points"] for series in result["series"]]
    return dict(zip(BARRIERS.values(), points, strict=True))


def model_errors(seed: int, quick: bool) -> Found:
    """Measure figure 1d: the model's error under each barrier, with a long and a short step."""
    return {
        f"{step} {written}": points[0]["error"]["mean"]
        for step, size in STEPS.items()
        for written, points in errors("1d", seed, quick, size).items()
    }


def error_increases(seed: int, quick: bool) -> Found:
    """Measure figure 2b: the error with 30 % slow nodes, over the error without slow nodes."""
    found = errors("2b", seed, quick)
    return {written: points[-1]["ratio"]["mean"] for written, points in found.items()}


def _some_lose(found: Found) -> bool:
    lost, level = ("bsp", "ssp:4"), ("asp", "pbsp:10")
    return max(found[b] for b in lost) < -10.0 and max(abs(found[b]) for b in level) < 6.0


def _is_least(found: Found, which: str, among: str) -> bool:
    return min((v, k) for k, v in found.items() if k.startswith(among))[1] == f"{among} {which}"


CLAIMS = (
    Claim(
        name="psp-1a",
        source=f"{PAPER}, figure 1a",
        says="BSP makes the least progress, SSP more, pBSP and pSSP more than SSP, and ASP the "
        "most.",
        workload=f"{NODES}; the same with gamma-distributed step times (mean 1, shape 0.6), "
        "chosen because they have more long steps and give the printed order",
        numbers=numbers_by_law("mean steps"),
        measure=lambda seed, quick: by_law("1a", seed, "steps"),
        agrees=lambda x: all(_in_order(law, x) for law in LAWS),
        when="with both distributions, mean steps are in the order BSP < SSP < pBSP, pSSP < ASP",
        partly=lambda x: any(_in_order(law, x) for law in LAWS),
        verdict=IN_PART,
        why="The paper does not print the distribution of its step times. A distribution that was "
        "chosen because it gives the order is no evidence for the order. The evidence for the "
        "gamma distribution is figure 1e, whose number it also gives. With exponential steps pBSP "
        "stays below SSP(4), because a sample of ten nodes delays a node more often than a "
        "staleness of four steps. A distribution with more long steps delays BSP and SSP most, "
        "and the order is the printed one.",
    ),
    Claim(
        name="psp-1a-spread",
        runs_of="psp-1a",
        source=f"{PAPER}, figures 1a and 1b",
        says="The spread between the nodes' steps is largest with ASP and smallest with BSP.",
        workload=f"{NODES}; the same with gamma-distributed step times (mean 1, shape 0.6)",
        numbers=numbers_by_law("steps from the last to the first node"),
        measure=lambda seed, quick: by_law("1a", seed, "spread"),
        agrees=lambda x: all(_spread_in_order(law, x) for law in LAWS),
        when="with both distributions, spreads are in the order BSP < SSP, pBSP, pSSP < ASP",
    ),
    Claim(
        name="psp-1c",
        source=f"{PAPER}, figure 1c",
        says="pBSP with a sample of 0 nodes is ASP; larger samples slow the nodes down; with 16 "
        "nodes, progress is near that of SSP.",
        workload=f"{NODES}; pBSP with samples of 0, 1, 2, 4, ..., 64 nodes",
        numbers={
            "0 / asp": ClaimNumber("mean steps with a sample of 0, over those with ASP", 1.0),
            "16 / ssp": ClaimNumber(
                "mean steps with a sample of 16, over those with SSP(4)", "near"
            ),
            "rises": ClaimNumber("samples with as many steps as the next smaller sample, or more"),
            "64": ClaimNumber("mean steps with a sample of 64"),
        },
        measure=samples,
        agrees=lambda x: x["0 / asp"] == 1.0 and x["rises"] == 0 and near(x["16 / ssp"], 1.0),
        when="a sample of 0 makes as many steps as ASP, each larger sample makes fewer, and a "
        "sample of 16 is within a fifth of SSP",
        partly=lambda x: x["0 / asp"] == 1.0 and x["rises"] == 0,
    ),
    Claim(
        name="psp-1c-few",
        runs_of="psp-1c",
        source=f"{PAPER}, figure 1c",
        says="A sample of one or two nodes already limits the spread of the nodes' steps.",
        workload=f"{NODES}; pBSP with samples of 0, 1 and 2",
        numbers={
            f"sd {x}": ClaimNumber(f"standard deviation of steps with a sample of {x}")
            for x in (0, 1, 2)
        },
        measure=samples,
        agrees=lambda x: x["sd 1"] < 0.67 * x["sd 0"] and x["sd 2"] < 0.5 * x["sd 0"],
        when="a sample of one node lowers the standard deviation by a third, and a sample of two "
        "by half",
    ),
    Claim(
        name="psp-1d",
        source=f"{PAPER}, figure 1d",
        says="Of the five barriers, pBSP ends with the most accurate model.",
        workload="SGD of a linear model on a server, with real gradients on a virtual clock, and "
        "two step sizes for all barriers; 1,000 nodes and 1,000 parameters for 40 s (quick: 200 "
        "nodes and 100 parameters for 20 s)",
        numbers={
            f"{step} {written}": ClaimNumber(
                f"error over the initial error, {written}, {step} step"
            )
            for step in STEPS
            for written in BARRIERS.values()
        },
        measure=model_errors,
        agrees=lambda x: all(_is_least(x, "pBSP", step) for step in STEPS),
        when="pBSP has the smallest error both with the long step and with the short step",
        partly=lambda x: any(_is_least(x, "pBSP", step) for step in STEPS),
        seconds=(29, 600),
        verdict=IN_PART,
        why="The order depends on the step size, which the paper does not print. A step size that "
        "was chosen because it gives the order is no evidence for the order. With a step near the "
        "longest that converges, stale gradients do more harm than good, and pBSP is the most "
        "accurate. With a short step ASP and pSSP are the most accurate, because they make the "
        "most updates.",
    ),
    Claim(
        name="psp-1e",
        source=f"{PAPER}, figure 1e",
        says="With ASP the server receives almost ten times as many updates as with BSP.",
        workload=f"{NODES}; the same with gamma-distributed step times (mean 1, shape 0.6), "
        "chosen by figure 1a, and with step times uniform from 0.5 to 1.5",
        numbers={
            "gamma": ClaimNumber("updates with ASP over updates with BSP, gamma", 10.0),
            "exponential": ClaimNumber("updates with ASP over updates with BSP, exponential"),
            "uniform": ClaimNumber("updates with ASP over updates with BSP, uniform"),
        },
        measure=updates,
        agrees=lambda x: near(x["gamma"], 10.0),
        when="with the gamma distribution, which was chosen by another figure, the ratio is "
        "within a fifth of 10",
        partly=lambda x: min(x.values()) > 1.0,
        why="With BSP each step takes as long as the slowest of 1,000 nodes. The ratio is "
        "therefore the slowest of 1,000 step times over the mean step time, and depends on the "
        "distribution: it is 6.7 with exponential steps and 1.5 with uniform ones. The paper does "
        "not print its distribution.",
    ),
    Claim(
        name="psp-2a",
        source=f"{PAPER}, figure 2a",
        says="If a few nodes are four times as slow, BSP and SSP stall; the other barriers lose "
        "progress gradually.",
        workload=NODES,
        numbers={
            f"{b} {share}": ClaimNumber(
                f"progress with {share} % slow nodes over progress without, {written}"
            )
            for b, written in BARRIERS.items()
            for share in (5, 15, 30)
        },
        measure=slow_nodes,
        agrees=lambda x: (
            max(x["bsp 5"], x["ssp:4 5"]) < 0.6
            and all(x[f"{b} 5"] > 0.8 for b in ("asp", *SAMPLED))
            and all(x[f"{b} 5"] > x[f"{b} 15"] > x[f"{b} 30"] for b in ("asp", *SAMPLED))
        ),
        when="with 5 % slow nodes BSP and SSP retain less than three fifths of their progress, "
        "and ASP, pBSP and pSSP more than four fifths; the more nodes are slow, the less ASP, "
        "pBSP and pSSP retain",
    ),
    Claim(
        name="psp-2b",
        source=f"{PAPER}, figure 2b",
        says="With slow nodes, the error of ASP grows more than the error of any other barrier.",
        workload="as figure 1d with a short step, 30 % of the nodes four times as slow; quick 100 "
        "nodes",
        numbers={
            written: ClaimNumber(f"error with 30 % slow nodes over error without, {written}")
            for written in BARRIERS.values()
        },
        measure=error_increases,
        agrees=lambda x: max(x, key=lambda key: x[key]) == "ASP",
        when="the ratio is largest for ASP",
        seconds=(14, 1000),
        why="The true model explains these rows exactly. Every update therefore multiplies the "
        "error by a factor below one, and the ratio shows how many updates the slow nodes cost. "
        "SSP waits for slow nodes and loses the most updates; ASP does not wait. The paper prints "
        "neither its step size nor its noise. Both would have to be large for stale gradients to "
        "decide the order.",
        verdict=DIFFERS,
    ),
    Claim(
        name="psp-2c",
        source=f"{PAPER}, figure 2c",
        says="If 5 % of the nodes are slow, BSP and SSP advance at the pace of the slow nodes, "
        "however slow.",
        workload=f"{NODES}; 5 % of the nodes are 1, 4 and 16 times as slow",
        numbers={
            f"{b} {x}": ClaimNumber(f"mean steps, 5 % of the nodes {x} times as slow, {written}")
            for b, written in BARRIERS.items()
            for x in FACTORS
        },
        measure=slower_and_slower,
        agrees=lambda x: (
            all(x[f"{b} 1"] > x[f"{b} 4"] > x[f"{b} 16"] for b in ("bsp", "ssp:4"))
            and 2.0 * max(x["bsp 16"], x["ssp:4 16"]) < min(x[f"{b} 16"] for b in ("asp", *SAMPLED))
        ),
        when="BSP and SSP make fewer steps the slower the nodes are; with nodes 16 times as slow "
        "they make less than half of the steps of any other barrier",
    ),
    Claim(
        name="psp-3",
        source=f"{PAPER}, figure 3",
        says="From 100 to 1,000 nodes, mean steps fall with BSP and SSP, do not change with ASP "
        "and pBSP, and rise with pSSP.",
        workload="100 to 1,000 nodes for 40 virtual seconds, 5 % of them four times as slow, "
        "samples of ten nodes, staleness 4, exponential step times",
        numbers={
            b: ClaimNumber(f"change of mean steps from 100 to 1,000 nodes, {written}, %")
            for b, written in BARRIERS.items()
        },
        measure=more_nodes,
        agrees=lambda x: _some_lose(x) and x["pssp:10,4"] > 0.0,
        when="mean steps fall by more than 10 % with BSP and SSP, change by less than 6 % with "
        "ASP and pBSP, and rise with pSSP",
        partly=lambda x: _some_lose(x),
        verdict=IN_PART,
        why="With pSSP no rise is found beyond the differences between seeds: a node waits for "
        "the slowest of ten sampled nodes, whatever the number of nodes.",
    ),
    Claim(
        name="psp-bounds",
        source=f"{PAPER}, figures 4 and 5, theorem 2",
        says="The lag's mean stays below bound (54) of the paper, and its second moment below "
        "bound (55).",
        workload="random distributions of the lag, samples of 1 to 100, staleness 0 to 8; exact "
        "moments",
        clock=NONE,
        numbers={
            "violations": ClaimNumber("number of moments above their bound", 0.0),
            "mean": ClaimNumber("largest mean, as a share of its bound"),
            "second moment": ClaimNumber("largest second moment, as a share of its bound"),
        },
        measure=moments,
        agrees=lambda x: x["violations"] == 0,
        when="no moment of any distribution exceeds its bound",
        seconds=(1, 30),
        why="The paper calls (55) a bound of the variance; it bounds the second moment.",
    ),
)
