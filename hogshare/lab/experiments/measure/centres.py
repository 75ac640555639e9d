"""Measure mirrored centres on links of several speeds: time and bytes to a target.

`measure` runs, `tabulate` turns runs into one row for each contestant, `show` prints them. What
passes between them is one dictionary of plain data, which is also the JSON output:

    settings, data, versions, machine, warm_up_seconds, target
    runs     one for each round and contestant, with its trace
    table    one row for each contestant: medians over rounds

A contestant is a method and links, as in "gaia, wan". "bsp" sends every change in step, "ssp" every
change with gaia's clock difference, "gaia" what is significant: ssp over gaia is what the filter
alone gains. `speedup` is how many times sooner than bsp on the same links a method comes to the
target, and `of_lan` how many times as long as on the first links it takes.
"""

from __future__ import annotations

from typing import Any

from hogshare.cli import console
from hogshare.lab.experiments.measure.trials import (
    default_target,
    has_own_steps,
    median,
    name_of,
    race_of,
    tell_of_targets,
    trace_of,
)
from hogshare.report import Report

SETTINGS = (
    *("problem", "data", "loss", "penalty", "alpha", "l1_ratio", "dtype", "batch"),
    *("methods", "links", "centres", "runtime", "workers", "threshold", "soft"),
    *("clock_difference", "delay", "queue", "every", "block_ms", "step"),
    *("epochs", "target", "rounds", "points", "seed"),
)
STEP = 0.1  # of a linear problem, of one model's: changes of all centres are summed, and come late
JITTER = 0.2  # sigma of a block's log-normal time


def contestants(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Every method on every link."""
    return [(method, link) for link in settings["links"] for method in settings["methods"]]


def step_in_centres(problem: Any, step: float | None, n_centres: int) -> float | None:
    """Return the step in centres, of one for a single model.

    Mean gradients of all centres are summed: each takes a share. One of single rows mostly meets
    nobody else's.
    """
    return step / n_centres if step is not None and problem.by_mean else step


def measure(problem: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Run every contestant in every round.

    Parameters
    ----------
    problem : Problem
    settings : dict
        The values of `SETTINGS`; a target of None is found from the runs themselves.

    Returns
    -------
    dict
        See the head of this file.
    """
    racing, briefly = contestants(settings), {"epochs": 1}
    result = race_of("centres", problem, settings, racing, briefly, run_once, facts)
    if settings["target"] is None:
        result["target"] = default_target(result["runs"])
    result["table"] = tabulate(result)
    return result


def run_once(
    problem: Any, settings: dict[str, Any], contestant: tuple[str, str], seed: int
) -> Report:
    """Solve once on centres."""
    from hogshare import SGD, Simulator, StepSize, gaia, stragglers
    from hogshare.problems.protocol import has_rows
    from hogshare.simulation.blocktimes import LogNormal

    method, name = contestant
    n, workers = settings["centres"], settings["workers"] or settings["centres"]
    seconds, step = 1e-3 * settings["block_ms"], settings["step"]
    where: dict[str, Any] = {"runtime": settings["runtime"]}
    if settings["runtime"] == "simulator":
        where["runtime"] = Simulator(block_time=LogNormal(mean=seconds, sigma=JITTER))
    else:
        where["stragglers"] = stragglers.LogNormal(JITTER, base=seconds, seed=seed)
    if has_own_steps(problem):
        where["block"] = settings["every"] or settings["batch"]
    elif not has_rows(problem):
        where["rule"] = SGD(batch=settings["batch"])
    sends: dict[str, Any] = {"threshold": 0.0, "clock_difference": 0}
    if method == "ssp":
        sends["clock_difference"] = settings["clock_difference"]
    if method == "gaia":
        sends = {name: settings[name] for name in ("threshold", "soft", "clock_difference")}
    return gaia(
        problem,
        centres=n,
        n_workers=workers,
        every=settings["every"] or "auto",
        delay=settings["delay"],
        queue=settings["queue"],
        links=name,
        step=None if step is None else StepSize("constant", eta0=step),
        epochs=settings["epochs"],
        trace=settings["points"],
        seed=seed,
        **where,
        **sends,
    )


def facts(report: Report, contestant: tuple[str, str], number: int) -> dict[str, Any]:
    """Return what is kept of a run."""
    plain, told = report.to_dict(), report.exchanges
    if told is None:
        raise ValueError("one worker in one centre sends nothing: take more --centres")
    return {
        "contestant": name_of(contestant),
        "method": contestant[0],
        "links": contestant[1],
        "round": number,
        "seconds": report.run_seconds,
        "blocks": sum(worker["blocks"] for worker in report.workers),
        "bytes": told.bytes,
        "barriers": told.traffic["barrier"]["messages"],
        "significant_share": told.significant_share,
        "small_share": told.small_share,
        "blocked_reads": int(told.holds[:, 1].sum()),
        "passes": int(told.passes.sum()),
        "waiting_seconds": told.waits.mean(axis=0).tolist(),
        "trace": plain["trace"],
    }


def tabulate(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each contestant: medians over its rounds."""
    table: list[dict[str, Any]] = []
    settings = result["settings"]
    found: dict[tuple[str, str], float | None] = {}
    for one in contestants(settings):
        runs = [run for run in result["runs"] if run["contestant"] == name_of(one)]
        traces = [trace_of(run) for run in runs]
        seconds = median([trace.first(result["target"], "seconds") for trace in traces])
        blocks = [trace.first(result["target"], "blocks") for trace in traces]
        megabytes = [
            None if b is None else 1e-6 * run["bytes"] * b / run["blocks"]
            for b, run in zip(blocks, runs, strict=True)
        ]
        found[one] = seconds
        table.append(
            {
                "contestant": name_of(one),
                "method": one[0],
                "links": one[1],
                "seconds": seconds,
                "speedup": _ratio(found.get(("bsp", one[1])), seconds),
                "of_lan": _ratio(seconds, found.get((one[0], settings["links"][0]))),
                "megabytes": median(megabytes),
                "significant_share": median([run["significant_share"] for run in runs]),
                "small_share": median([run["small_share"] for run in runs]),
                "barriers": median([float(run["barriers"]) for run in runs]),
                "blocked_reads": median([float(run["blocked_reads"]) for run in runs]),
                "clock_seconds": median([run["waiting_seconds"][0] for run in runs]),
            }
        )
    return table


def _clock(settings: dict[str, Any]) -> str:
    return "virtual " if settings["runtime"] == "simulator" else ""


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def show(result: dict[str, Any]) -> None:
    """Print the table, and below it what it is about."""
    settings = result["settings"]
    header = ["method, links", f"{_clock(settings)}s", "times bsp", "times the first links", "MB"]
    header += ["significant", "at most 1 %", "barriers, blocked reads", "s waited for clocks"]
    console.show_table(
        header,
        [line_of(row) for row in result["table"]],
        title=f"to objective {result['target']:.6g}",
    )
    workers = settings["workers"] or settings["centres"]
    what = settings["loss"] if settings["problem"] == "linear" else settings["problem"]
    console.say(
        f"{settings['centres']} centres of {workers} workers, blocks of "
        f"{settings['block_ms']:g} ms; threshold {settings['threshold']:g}; {settings['data']}, "
        f"{what}; medians of {settings['rounds']} rounds, {settings['runtime']}"
    )
    tell_of_targets(result["table"])


def line_of(row: dict[str, Any]) -> list[Any]:
    """Return a row's cells."""
    cells = [row["contestant"]]
    cells += ["-" if row[k] is None else row[k] for k in ("seconds", "speedup", "of_lan")]
    return [
        *cells,
        row["megabytes"],
        f"{row['significant_share']:.1%}",
        f"{row['small_share']:.1%}",
        f"{row['barriers']:.0f}, {row['blocked_reads']:.0f}",
        row["clock_seconds"],
    ]
