"""The figures of Wang, Catterall and Mortier 2017 (PSP), on a virtual clock.

`figure` returns one dictionary of plain data, which is also the JSON output:

    figure, title, kind, settings, notes,
    series   a list; each series has a law of step times, a barrier, and points
    axes     the quantities x and y

A point has x (None if a series is one point), and six numbers over seeds: steps (mean clock), sd,
spread, updates, control_messages and waiting_share. Each number has ``mean``, and ``low`` and
``high``, which are its 95 % interval by Student's t, cut off at 0. They are None with one seed, or
if the mean is infinite. Some kinds of figures add `clocks` (the number of workers at each clock,
over all seeds), `over_time` (updates at the server) or `ratio`.

Figures 4 and 5 show theory, and their `series` are curves. Figures with gradients are in
`hogshare.lab.studies.model_error`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import barriers
from hogshare.lab.psp.progress import Progress, progress, slow
from hogshare.simulation.block_times import parse, written
from hogshare.system.ranges import count, positive

Result = dict[str, Any]
Advance = Callable[[str], None]
# x, workers, share of slow workers, and their slowness
Setting = tuple[float | None, int, tuple[float, float] | None]

# the paper does not print its law: the usual guess, one law with short tails, one with long tails
LAWS = ("exponential:1", "uniform:0.5,1.5", "gamma:1,0.6")
POLL, POLL_WITH_STRAGGLERS = 0.05, 0.2
PAPERS_SLOW = 0.05  # share of slow workers in figures 2c and 3
PAPERS_FACTOR = 4.0  # their slowness in figures 2a and 3
SAMPLES = (0, 1, 2, 4, 8, 16, 32, 64)
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0)
PARTS = (0.1, 0.25, 0.5, 0.75, 1.0)  # shares of the workers, in figure 3
MOMENTS = 41  # times at which updates are counted


def figure(
    name: str,
    *,
    n_workers: int = 1000,
    seconds: float = 40.0,
    laws: Sequence[str] | None = None,
    poll: float | None = None,
    seeds: int = 5,
    seed: int = 0,
    advance: Advance | None = None,
) -> Result:
    """Make a figure of the paper.

    Parameters
    ----------
    name : {"1a", "1b", "1c", "1e", "2a", "2c", "3", "4", "5"}
    n_workers : int, default=1000
        Number of workers, at least 101. A sample is one worker in a hundred. In figure 3 a sample
        of ten must fit into the smallest run, which has a tenth of the workers.
    seconds : float, default=40.0
        Virtual seconds of a run.
    laws : sequence of str, default=None
        Laws (distributions) of the block time, as parsed by
        `hogshare.simulation.block_times.parse`. None: exponential with mean 1; figures 1a and 1e
        also have uniform from 0.5 to 1.5, and gamma with shape 0.6.
    poll : float, default=None
        Virtual seconds after which a waiting worker polls again. None: 0.2 in figures 2a and 2c,
        0.05 in the others.
    seeds : int, default=5
        Number of runs of each setting.
    seed : int, default=0
        Seed of the first run.
    advance : callable, default=None
        Called before each setting, with a text about it.

    Returns
    -------
    dict
        As in the file head. For figures 4 and 5 only the name matters.

    Raises
    ------
    ValueError
        If the figure is unknown, or a setting is not valid.

    Examples
    --------
    >>> from hogshare.lab.studies.psp_figures import figure
    >>> result = figure("1c", n_workers=200, seconds=5.0, seeds=1)
    >>> [series["barrier"] for series in result["series"]][:3]
    ['pbsp:0', 'pbsp:1', 'pbsp:2']
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; choose from {', '.join(FIGURES)}.")
    count(101, n_workers=n_workers)
    count(1, seeds=seeds)
    count(0, seed=seed)
    positive(seconds=seconds)
    if poll is None:
        poll = POLL_WITH_STRAGGLERS if name in ("2a", "2c") else POLL
    settings = {
        "n_workers": n_workers,
        "seconds": float(seconds),
        "laws": [written(parse(law)) for law in laws or default_laws(name)],
        "poll": poll,
        "seeds": seeds,
        "seed": seed,
    }
    figure = FIGURES[name]
    if isinstance(figure, Bound):
        return {"figure": name, "settings": {}, **figure.made()}
    made = figure.made(settings, advance or (lambda what: None))
    return {"figure": name, "settings": settings, **made}


def default_laws(name: str) -> tuple[str, ...]:
    """Return the default laws of the block time of a figure."""
    return LAWS if name in ("1a", "1e") else LAWS[:1]


def settings_of(name: str, laws: int) -> int:
    """Return the number of times that `figure` calls `advance` with `laws` laws."""
    figure, settings = FIGURES[name], {"n_workers": 1000}
    if isinstance(figure, Bound):
        return 0
    return laws * len(figure.barriers(settings)) * len(figure.along(settings))


# -- runs


def one_percent(settings: Result) -> int:
    """Return the size of the paper's sample: one worker in a hundred."""
    return max(1, round(settings["n_workers"] / 100))


def strategies(settings: Result, sample: int | None = None) -> tuple[str, ...]:
    """Return the paper's five barriers: staleness 4, and by default a sample of 1 in 100."""
    sample = sample or one_percent(settings)
    return ("bsp", "ssp:4", f"pbsp:{sample}", f"pssp:{sample},4", "asp")


def runs_of(
    barrier: str, law: str, settings: Result, one: Setting, times: Sequence[float] = ()
) -> list[Progress]:
    """Run once for each seed."""
    _, n, stragglers = one
    return [
        progress(
            barriers.parse(barrier),
            n,
            block_time=parse(law),
            seconds=settings["seconds"],
            poll=settings["poll"],
            slowness=None if stragglers is None else slow(n, *stragglers, seed),
            seed=seed,
            times=times,
        )
        for seed in range(settings["seed"], settings["seed"] + settings["seeds"])
    ]


def interval(values: Sequence[float], most: float = math.inf) -> dict[str, float | None]:
    """Return the mean and its 95 % interval by Student's t, for values from 0 to `most`.

    If the values are few and scattered, Student's interval may exceed the range; the part outside
    is cut off. If a value is infinite (the error of a run that diverged), the interval is None.
    """
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return {"mean": mean, "low": None, "high": None}
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": mean, "low": max(0.0, mean - half), "high": min(most, mean + half)}


def point(runs: Sequence[Progress], x: float | None) -> Result:
    """Summarise all runs of a setting."""

    def over(values: Iterable[float], most: float = math.inf) -> dict[str, float | None]:
        return interval([float(value) for value in values], most)

    return {
        "x": x,
        "steps": over(run.mean for run in runs),
        "sd": over(run.sd for run in runs),
        "spread": over(run.spread for run in runs),
        "updates": over(run.updates for run in runs),
        "control_messages": over(run.control_messages for run in runs),
        "waiting_share": over((run.waiting_share for run in runs), most=1.0),
    }


def clocks_of(runs: Sequence[Progress]) -> Result:
    """Count the workers at each clock, over all runs."""
    values, counts = np.unique(np.concatenate([run.clock for run in runs]), return_counts=True)
    return {"clocks": {"clock": values.tolist(), "workers": counts.tolist()}}


def updates_of(runs: Sequence[Progress]) -> Result:
    """Return the mean updates at the server over time."""
    counts = np.mean([run.updates_by for run in runs], axis=0)
    return {"over_time": {"seconds": runs[0].times.tolist(), "updates": counts.tolist()}}


# -- figures


@dataclass(frozen=True)
class Figure:
    """A figure of clocks and barriers only, with a series for every pair of a law and a barrier.

    title, kind, x, y : texts; ``{first}`` in y becomes the first x
    barriers : ``barriers(settings)``, the barriers
    notes : ``notes(series)``, sentences on the result
    along : ``along(settings)``, the settings of a series' points; ratios are relative to the first
    more : ``more(runs)``, further keys of a series
    """

    title: str
    kind: str
    x: str
    y: str
    barriers: Callable[[Result], Sequence[str]] = strategies
    notes: Callable[[Sequence[Result]], list[str]] = lambda series: []
    along: Callable[[Result], list[Setting]] = lambda settings: [
        (None, settings["n_workers"], None)
    ]
    more: Callable[[Sequence[Progress]], Result] = lambda runs: {}

    def made(self, settings: Result, advance: Advance) -> Result:
        """Make the figure."""
        times: list[float] = []
        if self.kind == "over_time":
            times = [settings["seconds"] * i / (MOMENTS - 1) for i in range(MOMENTS)]
        series = []
        for law in settings["laws"]:
            for name in self.barriers(settings):
                points: list[Result] = []
                first: list[Progress] = []
                for one in self.along(settings):
                    x = one[0]
                    advance(f"({name}, {law})" if x is None else f"({name}, {x:g}, {law})")
                    runs = runs_of(name, law, settings, one, times)
                    first = first or runs
                    points.append(point(runs, x))
                    if x is not None:
                        ratios = [run.mean / old.mean for run, old in zip(runs, first, strict=True)]
                        points[-1]["ratio"] = interval(ratios)
                more = self.more(first)
                series.append({"law": law, "barrier": name, "points": points, **more})
        return {
            "title": self.title,
            "kind": self.kind,
            "axes": {"x": self.x, "y": self.y.format(first=series[0]["points"][0]["x"])},
            "series": series,
            "notes": self.notes(series),
        }


@dataclass(frozen=True)
class Bound:
    """A figure of theory (4 or 5): a bound of Theorem 2 against the size of the sample."""

    title: str
    name: str

    def made(self) -> Result:
        """Make the figure."""
        from hogshare.lab.bounds import psp_bound_curves

        curves = psp_bound_curves()
        return {
            "title": self.title,
            "kind": "bounds",
            "axes": {"x": "sample", "y": self.title.lower()},
            "series": [
                {"within": within, "samples": curves["samples"], "bound": bound}
                for within, bound in zip(curves["within"], curves[self.name], strict=True)
            ],
            "notes": [
                f"Staleness {curves['staleness']}, {curves['n_blocks']:,} blocks; F(r) is the "
                "probability that a worker's lag is within the staleness."
            ],
        }


def more_workers(settings: Result) -> list[Setting]:
    """Return figure 3's settings: from a tenth of the workers to all, with a constant sample."""
    counts = [max(11, round(part * settings["n_workers"])) for part in PARTS]
    return [(float(n), n, (PAPERS_SLOW, PAPERS_FACTOR)) for n in counts]


# -- the paper's results, and the laws that reproduce them


def by_law(series: Sequence[Result], key: str) -> dict[str, dict[str, float]]:
    """Return a number of each barrier, named without its parameters, for each law."""
    table: dict[str, dict[str, float]] = {}
    for one in series:
        kind = one["barrier"].partition(":")[0]
        table.setdefault(one["law"], {})[kind] = one["points"][0][key]["mean"]
    return table


def order_notes(series: Sequence[Result]) -> list[str]:
    """Compare pBSP with SSP in figure 1a, in sentences; in the paper pBSP makes more progress."""
    return [
        f"With {law} pBSP reaches {steps['pbsp']:.1f} steps and SSP {steps['ssp']:.1f}: "
        + (
            "the paper's order."
            if steps["pbsp"] > steps["ssp"]
            else "the paper has the opposite order."
        )
        for law, steps in by_law(series, "steps").items()
    ]


def message_notes(series: Sequence[Result]) -> list[str]:
    """Compare the updates of figure 1e, in sentences; the paper has 10 times as many with ASP."""
    notes = []
    for law, sent in by_law(series, "updates").items():
        times = sent["asp"] / sent["bsp"]
        notes.append(
            f"With {law} ASP sends {times:.1f} times as many updates as BSP; the paper says almost "
            "10 times" + (", which agrees." if 8.0 <= times <= 12.0 else ".")
        )
    return notes


STEPS, WORKERS = "steps", "share of workers"
SLOW = f"{PAPERS_FACTOR:g} times as slow"
FIGURES: dict[str, Figure | Bound] = {
    "1a": Figure(
        *("Progress of workers behind five barriers", "distribution", STEPS, WORKERS),
        notes=order_notes,
        more=clocks_of,
    ),
    "1b": Figure(
        *("Share of workers that have come so far", "cdf", STEPS, WORKERS),
        notes=order_notes,
        more=clocks_of,
    ),
    "1c": Figure(
        *("pBSP: the larger the sample, the closer together", "cdf", STEPS, WORKERS),
        barriers=lambda settings: [f"pbsp:{n}" for n in SAMPLES if n < settings["n_workers"]],
        notes=lambda series: ["A sample of 0 is ASP."],
        more=clocks_of,
    ),
    "1e": Figure(
        *("Updates at the server", "over_time", "virtual seconds", "updates"),
        notes=message_notes,
        more=updates_of,
    ),
    "2a": Figure(
        *(f"Some workers {SLOW}", "ratio"),
        *("share of slow workers", "steps over those without slow workers"),
        notes=lambda series: [
            "BSP and SSP wait for the slowest block of all, so a run has few rounds and its ratio "
            "varies a lot between seeds."
        ],
        along=lambda settings: [(x, settings["n_workers"], (x, PAPERS_FACTOR)) for x in SHARES],
    ),
    "2c": Figure(
        *(f"{PAPERS_SLOW:.0%} of the workers are slow", "lines", "times as slow", STEPS),
        along=lambda settings: [(x, settings["n_workers"], (PAPERS_SLOW, x)) for x in FACTORS],
    ),
    "3": Figure(
        f"More workers, {PAPERS_SLOW:.0%} of them {SLOW}",
        *("ratio", "workers", "steps over those with {first:.0f} workers"),
        barriers=lambda settings: strategies(settings, sample=10),
        notes=lambda series: ["A sample has ten workers, for any number of workers."],
        along=more_workers,
    ),
    "4": Bound("Bound (54) of the mean lag", "mean_bound"),
    "5": Bound("Bound (55) of the lag's second moment", "second_moment_bound"),
}
