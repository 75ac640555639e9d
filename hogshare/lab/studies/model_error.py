"""Measure the model's error under PSP's five barriers: figures 1d and 2b, with real gradients.

A linear model is fitted by stochastic gradients to rows that it explains exactly, on the master
plane (PSP's server) and on the virtual clock. A block is one row. The error is the distance from
the true model, over the distance at the start (normalised model error).

The comparison of the barriers depends on their step sizes, so each result includes its step size.
A short step size for all barriers shows the value of more updates. A long step size shows the cost
of stale gradients. Each barrier's best step size of a grid, found with another seed, shows its best
result. The paper does not print its step sizes.

Results are plain data as in `hogshare.lab.studies.psp_figures`. A series also has its ``step``, and
``over_time``: the mean error and its interval at each whole virtual second.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hogshare import barriers, problems
from hogshare.engine.stops import Stop
from hogshare.lab.psp.progress import slow
from hogshare.lab.studies.psp_figures import (
    PAPERS_FACTOR,
    POLL,
    Advance,
    Result,
    interval,
    strategies,
)
from hogshare.planes import Master
from hogshare.problems.protocol import RowProblem
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize
from hogshare.simulation import block_times
from hogshare.simulation.simulator import Simulator
from hogshare.solvers import solve
from hogshare.system.interrupts import errstate
from hogshare.system.ranges import count, positive

N_PARAMETERS = 1000
ROWS_PER_WORKER = 40  # of an epoch: enough that the limit of two open epochs delays no worker
GRID = (0.25, 0.5, 1.0, 2.0)  # steps, in units of 1 / (parameters + workers)
SHORT, LONG = 0.5, 1.8  # steps for all, in the same unit; with 2, the oldest gradients prevail
SHARES = (0.0, 0.1, 0.2, 0.3)
SEED_OF_STEPS = 10_000  # added to the first seed when steps are chosen


def figure(
    name: str,
    *,
    n_workers: int = 1000,
    n_parameters: int = N_PARAMETERS,
    seconds: float = 40,
    law: str = "exponential:1",
    poll: float = POLL,
    step: float | None = None,
    seeds: int = 5,
    seed: int = 0,
    advance: Advance | None = None,
) -> Result:
    """Make a figure of the paper.

    Parameters
    ----------
    name : {"1d", "2b"}
    n_workers, poll, seed, advance
        As in `hogshare.lab.studies.psp_figures.figure`.
    n_parameters : int, default=1000
        Number of parameters of the linear model.
    seconds : int, default=40
        Whole number of virtual seconds of a run; the error is computed at each second.
    law : str, default="exponential:1"
        Law of the block time, as parsed by `hogshare.simulation.block_times.parse`.
    step : float, default=None
        Constant step size of every barrier. None: 0.5 in units of 1 / (parameters + workers). In
        figure 1d the result then also has runs with 1.8, and with each barrier's best step size
        from 0.25 to 2, chosen with another seed.
    seeds : int, default=5
        Number of runs of each setting; each has its own rows, block times and slow workers.

    Returns
    -------
    dict
        As in the file heads of this module and `hogshare.lab.studies.psp_figures`.

    Raises
    ------
    ValueError
        If the figure is unknown, or a setting is not valid.

    Examples
    --------
    >>> from hogshare.lab.studies.model_error import figure
    >>> result = figure("1d", n_workers=20, n_parameters=10, seconds=5.0, step=0.02, seeds=1)
    >>> [series["barrier"] for series in result["series"]]
    ['bsp', 'ssp:4', 'pbsp:1', 'pssp:1,4', 'asp']
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; choose from {', '.join(FIGURES)}.")
    count(2, n_workers=n_workers)
    count(1, n_parameters=n_parameters, seeds=seeds)
    count(0, seed=seed)
    positive(poll=poll, **{"the law's mean": block_times.parse(law).mean})
    if seconds != int(seconds) or seconds < 1:
        raise ValueError(f"seconds must be a whole number of at least 1; got {seconds!r}.")
    if step is not None:
        positive(step=step)
    settings = {
        "n_workers": n_workers,
        "n_parameters": n_parameters,
        "seconds": float(seconds),
        "laws": [block_times.written(block_times.parse(law))],
        "poll": float(poll),
        "step": step,
        "seeds": seeds,
        "seed": seed,
    }
    result = FIGURES[name](settings, advance or (lambda what: None))
    return {"figure": name, "settings": settings, **result}


def rows(settings: Result, seed: int) -> tuple[RowProblem, np.ndarray]:
    """Draw standard normal rows and the model that explains them."""
    rng = np.random.default_rng(seed)
    n_rows, n_parameters = ROWS_PER_WORKER * settings["n_workers"], settings["n_parameters"]
    X = rng.standard_normal((n_rows, n_parameters), dtype=np.float32)
    truth = rng.standard_normal(n_parameters, dtype=np.float32)
    problem = problems.linear(
        X, X @ truth, loss="squared_error", penalty=None, fit_intercept=False, task="regression"
    )
    return problem, np.asarray(truth, dtype=np.float64)


def errors(
    barrier: str,
    step: float,
    settings: Result,
    data: tuple[RowProblem, np.ndarray],
    seed: int,
    share: float = 0.0,
) -> np.ndarray:
    """Return the error at each whole virtual second of a run; it is infinite after a divergence.

    data : rows and true model, from `rows`
    share : share of slow workers
    """
    n, seconds = settings["n_workers"], settings["seconds"]
    block_time = block_times.parse(settings["laws"][0])
    # twice the blocks of a worker on average, so that the time ends the run
    epochs = math.ceil(2.0 * seconds / block_time.mean / ROWS_PER_WORKER) + 2
    seen: list[float] = []
    problem, truth = data
    size = float(np.linalg.norm(truth))

    def watch(_: float, model: Any) -> None:
        seen.append(float(np.linalg.norm(model.coef[0] - truth)) / size)

    simulator = Simulator(
        block_time=block_time,
        seconds=seconds,
        poll=settings["poll"],
        slowness=slow(n, share, PAPERS_FACTOR, seed).tolist(),
        watch=watch,
        seed=seed,
    )
    run = functools.partial(
        solve,
        problem,
        rule=SGD(),
        plane=Master(fold="sum"),
        barrier=barriers.parse(barrier),
        runtime=simulator,
        n_workers=n,
        block=1,
        step=StepSize("constant", eta0=step),
        stop=Stop(epochs=epochs),
        seed=seed,
    )
    with errstate(all="ignore") as silenced, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an error above 1 shows it
        try:
            silenced.outside(run)
        except ValueError:  # it has diverged
            seen.append(np.inf)
    found = np.full(int(seconds) + 1, seen[-1])
    found[: len(seen)] = seen[: len(found)]
    return np.where(np.isnan(found), np.inf, found)


def unit(settings: Result) -> float:
    """Return the unit of step sizes: about the longest step for these parameters and workers."""
    return 1.0 / float(settings["n_parameters"] + settings["n_workers"])


def best_steps(settings: Result, names: Sequence[str], advance: Advance) -> list[float]:
    """Return each barrier's step of the grid with the smallest final error, by another seed."""
    seed = settings["seed"] + SEED_OF_STEPS
    data = rows(settings, seed)
    chosen = []
    for name in names:
        ends = []
        for factor in GRID:
            advance(f"({name}, {factor:g} of the step)")
            ends.append(errors(name, factor * unit(settings), settings, data, seed)[-1])
        chosen.append(GRID[int(np.argmin(ends))] * unit(settings))
    return chosen


def seeds_of(settings: Result) -> range:
    """Return the seeds of the runs."""
    return range(settings["seed"], settings["seed"] + settings["seeds"])


def common_step(settings: Result) -> float:
    """Return the step for all barriers: the given one, or `SHORT`."""
    return float(settings["step"] or SHORT * unit(settings))


def over_time(settings: Result, advance: Advance) -> Result:
    """Make figure 1d: the error over time, with common steps and with each barrier's best step."""
    names, law = strategies(settings), settings["laws"][0]
    ways = {"a step for all": [common_step(settings)] * len(names)}
    if settings["step"] is None:
        ways = {"a short step for all": ways["a step for all"]}
        ways["a long step for all"] = [LONG * unit(settings)] * len(names)
        ways["each its best step"] = best_steps(settings, names, advance)
    wanted = [(way, *one) for way, steps in ways.items() for one in zip(names, steps, strict=True)]
    found: dict[tuple[str, float], list[np.ndarray]] = {}
    for seed in seeds_of(settings):
        data = rows(settings, seed)
        # if two ways give a barrier the same step, one run serves both
        for name, step in dict.fromkeys((name, step) for _, name, step in wanted):
            advance(f"({name}, seed {seed})")
            run = errors(name, step, settings, data, seed)
            found.setdefault((name, step), []).append(run)
    series = []
    for way, name, step in wanted:
        intervals = [interval(moment.tolist()) for moment in np.array(found[name, step]).T]
        series.append(
            {
                "law": law,
                "panel": way,
                "barrier": name,
                "step": step,
                "points": [{"x": None, "error": intervals[-1]}],
                "over_time": {
                    "seconds": list(range(len(intervals))),
                    **{k: [one[k] for one in intervals] for k in ("mean", "low", "high")},
                },
            }
        )
    return {
        "title": "Normalised model error",
        "kind": "error_over_time",
        "axes": {"x": "virtual seconds", "y": "model error"},
        "series": series,
        "notes": [first_of(series, way) for way in ways],
    }


def first_of(series: Sequence[Result], way: str) -> str:
    """Return a sentence on the barrier that ends with the smallest error."""
    ends = {
        one["barrier"]: one["points"][0]["error"]["mean"] for one in series if one["panel"] == way
    }
    first = min(ends, key=lambda name: ends[name])
    return f"With {way} {first} ends with the least error" + (
        ", as in the paper." if first.startswith("pbsp") else "; in the paper pBSP does."
    )


def with_stragglers(settings: Result, advance: Advance) -> Result:
    """Make figure 2b: the final error, with a growing share of slow workers."""
    names, law, step = strategies(settings), settings["laws"][0], common_step(settings)
    ends: dict[tuple[str, float], list[float]] = {}
    for seed in seeds_of(settings):
        data = rows(settings, seed)
        for name, share in itertools.product(names, SHARES):
            advance(f"({name}, {share:.0%} slow, seed {seed})")
            run = errors(name, step, settings, data, seed, share)
            ends.setdefault((name, share), []).append(float(run[-1]))
    series = []
    for name in names:
        points = []
        for share in SHARES:
            pairs = zip(ends[name, share], ends[name, SHARES[0]], strict=True)
            ratio = interval([end / first for end, first in pairs])
            points.append({"x": share, "error": interval(ends[name, share]), "ratio": ratio})
        series.append({"law": law, "barrier": name, "step": step, "points": points})
    return {
        "title": f"Model error with workers that are {PAPERS_FACTOR:g} times as slow",
        "kind": "error",
        "axes": {"x": "share of slow workers", "y": "model error over that without slow ones"},
        "series": series,
        "notes": [most_sensitive(series)],
    }


def most_sensitive(series: Sequence[Result]) -> str:
    """Return a sentence on the barrier whose error grows most."""
    growth = {one["barrier"]: one["points"][-1]["ratio"]["mean"] for one in series}
    most = max(growth, key=lambda name: growth[name])
    return f"The error of {most} grows most, {growth[most]:.2g} times" + (
        ", as in the paper." if most == "asp" else "; in the paper that of ASP does."
    )


def most_runs(name: str, seeds: int, tuned: bool) -> int:
    """Return the largest number of times that `figure` calls `advance`.

    tuned : whether `figure` chooses the steps, because none is given
    """
    if name == "2b":
        return 5 * len(SHARES) * seeds
    return 5 * seeds * (1 + 2 * tuned) + 5 * len(GRID) * tuned


FIGURES = {"1d": over_time, "2b": with_stragglers}
