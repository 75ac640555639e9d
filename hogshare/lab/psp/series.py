"""What PSP's figures measure of clocks and barriers alone: runs over seeds, and series of them.

`hogshare.lab.studies.psp` checks what is asked for and says what the series hold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare import barriers
from hogshare.lab.psp.progressing import Progress, progress, slow
from hogshare.simulation.blocktimes import BlockTime, parse

Result = dict[str, Any]
Advance = Callable[[str], None]

PAPERS_SLOW = 0.05  # share of slow workers in figures 2c and 3
PAPERS_FACTOR = 4.0  # and how slow, in figures 2a and 3
SAMPLES = (0, 1, 2, 4, 8, 16, 32, 64)
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)
PARTS = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the workers, in figure 3
MOMENTS = 41  # at which updates are counted
POLL = 0.05


def strategies(sample: int) -> tuple[str, ...]:
    """Return the five of the paper: a staleness of 4, and so many sampled."""
    return ("bsp", "ssp:4", f"pbsp:{sample}", f"pssp:{sample},4", "asp")


# -- runs


def runs_of(
    barrier: str,
    law: BlockTime,
    settings: Result,
    n_workers: int | None = None,
    stragglers: tuple[float, float] | None = None,
    times: Sequence[float] = (),
) -> list[Progress]:
    """One run for each seed; `stragglers` is the share of slow workers and their factor."""
    n = settings["n_workers"] if n_workers is None else n_workers
    return [
        progress(
            barriers.parse(barrier),
            n,
            block_time=law,
            seconds=settings["seconds"],
            poll=settings["poll"],
            slowness=None if stragglers is None else slow(n, *stragglers, seed),
            seed=seed,
            times=times,
        )
        for seed in range(settings["seed"], settings["seed"] + settings["seeds"])
    ]


def interval(values: Sequence[float], most: float = math.inf) -> dict[str, float | None]:
    """Mean and 95 % interval of the mean, by Student's t, of what is from 0 to `most`.

    Student's interval goes beyond if values are few and far apart; nothing is lost if that part is
    cut off. With an infinite value (an error that has diverged) there is no interval.
    """
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return {"mean": mean, "low": None, "high": None}
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": mean, "low": max(0.0, mean - half), "high": min(most, mean + half)}


def point(runs: Sequence[Progress], x: float | None = None) -> Result:
    """What is told of all runs of a setting."""
    return {
        "x": x,
        "steps": interval([run.mean for run in runs]),
        "sd": interval([run.sd for run in runs]),
        "spread": interval([float(run.spread) for run in runs]),
        "updates": interval([float(run.updates) for run in runs]),
        "control_messages": interval([float(run.control_messages) for run in runs]),
        "waiting_share": interval([run.waiting_share for run in runs], most=1.0),
    }


def clocks_of(runs: Sequence[Progress]) -> Result:
    """How many workers have which clock, all runs together."""
    values, counts = np.unique(np.concatenate([run.clock for run in runs]), return_counts=True)
    return {"clock": values.tolist(), "workers": counts.tolist()}


def one_percent(settings: Result) -> int:
    """The paper's sample."""
    return max(1, round(settings["n_workers"] / 100))


def clocks_behind(names: Sequence[str], settings: Result, advance: Advance) -> list[Result]:
    """A series for every law with every barrier: where the workers are in the end."""
    series = []
    for text, law, name in each_setting(names, settings):
        advance(f"({name}, {text})")
        runs = runs_of(name, law, settings)
        series.append(
            {"law": text, "barrier": name, "points": [point(runs)], "clocks": clocks_of(runs)}
        )
    return series


def each_setting(names: Sequence[str], settings: Result) -> list[tuple[str, BlockTime, str]]:
    """Every law with every barrier."""
    return [(law, parse(law), name) for law in settings["laws"] for name in names]


# -- figures


def distribution(settings: Result, advance: Advance) -> Result:
    """Figure 1a, and the same numbers in 1b: where the workers are."""
    series = clocks_behind(strategies(one_percent(settings)), settings, advance)
    return {
        "title": "Progress of workers behind five barriers",
        "kind": "distribution",
        "axes": {"x": "steps", "y": "share of workers"},
        "series": series,
        "notes": order_notes(series),
    }


def cumulative(settings: Result, advance: Advance) -> Result:
    """Figure 1b: the same, added up."""
    return {
        **distribution(settings, advance),
        "title": "Share of workers that have come so far",
        "kind": "cdf",
    }


def samples(settings: Result, advance: Advance) -> Result:
    """Figure 1c: pBSP with samples of nobody to 64."""
    names = [f"pbsp:{sample}" for sample in SAMPLES if sample < settings["n_workers"]]
    series = clocks_behind(names, settings, advance)
    return {
        "title": "pBSP: the larger the sample, the closer together",
        "kind": "cdf",
        "axes": {"x": "steps", "y": "share of workers"},
        "series": series,
        "notes": ["A sample of nobody is ASP."],
    }


def updates(settings: Result, advance: Advance) -> Result:
    """Figure 1e: what the server receives."""
    times = [settings["seconds"] * i / (MOMENTS - 1) for i in range(MOMENTS)]
    series = []
    for text, law, name in each_setting(strategies(one_percent(settings)), settings):
        advance(f"({name}, {text})")
        runs = runs_of(name, law, settings, times=times)
        counts = np.mean([run.updates_by for run in runs], axis=0)
        series.append(
            {
                "law": text,
                "barrier": name,
                "points": [point(runs)],
                "over_time": {"seconds": times, "updates": counts.tolist()},
            }
        )
    return {
        "title": "Updates at the server",
        "kind": "over_time",
        "axes": {"x": "virtual seconds", "y": "updates"},
        "series": series,
        "notes": message_notes(series),
    }


def over(
    what: Sequence[tuple[float, int, tuple[float, float] | None]],
    names: Sequence[str],
    settings: Result,
    advance: Advance,
) -> list[Result]:
    """Series over x: for each its number of workers and stragglers. Ratios are to the first x."""
    series = []
    for text, law, name in each_setting(names, settings):
        points: list[Result] = []
        for x, n, stragglers in what:
            advance(f"({name}, {x:g}, {text})")
            runs = runs_of(name, law, settings, n, stragglers)
            if not points:
                first = runs
            ratios = [run.mean / base.mean for run, base in zip(runs, first, strict=True)]
            points.append({**point(runs, x), "ratio": interval(ratios)})
        series.append({"law": text, "barrier": name, "points": points})
    return series


def stragglers(settings: Result, advance: Advance) -> Result:
    """Figure 2a: more and more slow workers."""
    n = settings["n_workers"]
    what = [(share, n, (share, PAPERS_FACTOR)) for share in SHARES]
    return {
        "title": f"Workers of which some are {PAPERS_FACTOR:g} times as slow",
        "kind": "ratio",
        "axes": {"x": "share of slow workers", "y": "steps, of those without slow ones"},
        "series": over(what, strategies(one_percent(settings)), settings, advance),
        "notes": [
            "BSP and SSP wait for the slowest block of all, so that a run has few rounds and its "
            "ratio varies a lot between seeds."
        ],
    }


def slowness(settings: Result, advance: Advance) -> Result:
    """Figure 2c: a few slow workers, slower and slower."""
    n = settings["n_workers"]
    what = [(factor, n, (PAPERS_SLOW, factor)) for factor in FACTORS]
    return {
        "title": f"{PAPERS_SLOW:.0%} of the workers are slow",
        "kind": "lines",
        "axes": {"x": "times as slow", "y": "steps"},
        "series": over(what, strategies(one_percent(settings)), settings, advance),
        "notes": [],
    }


def sizes(settings: Result, advance: Advance) -> Result:
    """Figure 3: more workers, the sample as large as before."""
    n = settings["n_workers"]
    counts = [max(11, round(part * n)) for part in PARTS]
    what = [(float(m), m, (PAPERS_SLOW, PAPERS_FACTOR)) for m in counts]
    return {
        "title": f"More workers, {PAPERS_SLOW:.0%} of them {PAPERS_FACTOR:g} times as slow",
        "kind": "ratio",
        "axes": {"x": "workers", "y": f"steps, of those with {counts[0]} workers"},
        "series": over(what, strategies(10), settings, advance),
        "notes": ["Samples are of ten, however many workers there are."],
    }


MEASURED: dict[str, Callable[[Result, Advance], Result]] = {
    "1a": distribution,
    "1b": cumulative,
    "1c": samples,
    "1e": updates,
    "2a": stragglers,
    "2c": slowness,
    "3": sizes,
}


# -- what the paper has, and which law has it too


def by_law(series: Sequence[Result], key: str) -> dict[str, dict[str, float]]:
    """For each law, a number of each kind of barrier (without its parameters)."""
    table: dict[str, dict[str, float]] = {}
    for one in series:
        kind = one["barrier"].partition(":")[0]
        table.setdefault(one["law"], {})[kind] = one["points"][0][key]["mean"]
    return table


def order_notes(series: Sequence[Result]) -> list[str]:
    """Figure 1a: in the paper pBSP gets further than SSP."""
    notes = []
    for law, steps in by_law(series, "steps").items():
        above = steps["pbsp"] > steps["ssp"]
        notes.append(
            f"With {law} pBSP gets to {steps['pbsp']:.1f} steps and SSP to {steps['ssp']:.1f}: "
            + ("the paper's order." if above else "the paper has them the other way round.")
        )
    return notes


def message_notes(series: Sequence[Result]) -> list[str]:
    """Figure 1e: in the paper ASP sends almost ten times as many updates as BSP."""
    notes = []
    for law, sent in by_law(series, "updates").items():
        times = sent["asp"] / sent["bsp"]
        notes.append(
            f"With {law} ASP sends {times:.1f} times as many updates as BSP; the paper says almost "
            "10 times" + (", as here." if 8.0 <= times <= 12.0 else ".")
        )
    return notes
