"""Measure mirrored centres on links of several speeds: time and bytes to a target.

`measure` runs, `tabulate` turns runs into one row for each contestant, `show` prints them. What
passes between them is one dictionary of plain data, which is also the JSON output:

    settings, data, versions, machine, warm_up_seconds, target
    runs     one for each round and contestant, with its trace
    table    one row for each contestant: medians over rounds

A contestant is a method and links, as in "gaia, wan". "bsp" sends every change in step, "gaia" what
is significant. `speedup` is how many times sooner than bsp on the same links a method comes to the
target, and `of_lan` how many times as long as on the first links it takes.
"""

from __future__ import annotations

from typing import Any

from hogshare.cli import console
from hogshare.cli.trials import (
    default_step,
    default_target,
    median,
    name_of,
    problem_of,
    race_of,
    tell_of_targets,
    trace_of,
)
from hogshare.report import Report

SETTINGS = (
    *("data", "loss", "penalty", "alpha", "l1_ratio", "dtype", "methods", "links", "centres"),
    *("workers", "threshold", "soft", "clock_difference", "delay", "every", "block_ms", "step"),
    *("epochs", "target", "rounds", "points", "seed"),
)
STEP = 0.1  # of the default of one model: changes of all centres are summed, and come late
JITTER = 0.2  # sigma of a block's log-normal time


def contestants(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Every method on every link."""
    return [(method, link) for link in settings["links"] for method in settings["methods"]]


def measure(X: Any, y: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Run every contestant in every round, on a virtual clock.

    Parameters
    ----------
    X, y : array-like
        Rows and labels.
    settings : dict
        The values of `SETTINGS`; a target of None is found from the runs themselves.

    Returns
    -------
    dict
        See the head of this file.
    """
    problem = problem_of(X, y, settings)
    settings = {**settings, "step": settings["step"] or STEP * default_step(X)}
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
    from hogshare import Simulator, StepSize, gaia
    from hogshare.clockwork.blocktimes import LogNormal
    from hogshare.planes.mirrors.groups import groups_of
    from hogshare.simulation import regions

    method, name = contestant
    n, workers = settings["centres"], settings["workers"] or settings["centres"]
    links = regions.preset(name, n) if name in regions.PRESETS else regions.read(name)
    network = regions.network(links, groups_of(n, workers).tolist())
    law = LogNormal(mean=1e-3 * settings["block_ms"], sigma=JITTER)
    sends: dict[str, Any] = {"threshold": 0.0, "clock_difference": 0}
    if method == "gaia":
        sends = {name: settings[name] for name in ("threshold", "soft", "clock_difference")}
    return gaia(
        problem,
        centres=n,
        n_workers=workers,
        every=settings["every"] or "auto",
        delay=settings["delay"],
        runtime=Simulator(block_time=law, network=network),
        step=StepSize("constant", eta0=settings["step"]),
        epochs=settings["epochs"],
        trace=settings["points"],
        seed=seed,
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
                "barriers": median([float(run["barriers"]) for run in runs]),
                "blocked_reads": median([float(run["blocked_reads"]) for run in runs]),
                "clock_seconds": median([run["waiting_seconds"][0] for run in runs]),
            }
        )
    return table


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def show(result: dict[str, Any]) -> None:
    """Print the table, and below it what it is about."""
    header = ["method, links", "virtual s", "times bsp", "times the first links", "MB"]
    header += ["significant", "barriers, blocked reads", "s waited for clocks"]
    console.show_table(
        header,
        [line_of(row) for row in result["table"]],
        title=f"to objective {result['target']:.6g}",
    )
    settings = result["settings"]
    workers = settings["workers"] or settings["centres"]
    console.say(
        f"{settings['centres']} centres of {workers} workers, blocks of "
        f"{settings['block_ms']:g} ms; threshold {settings['threshold']:g}; {settings['data']}, "
        f"{settings['loss']}; medians of {settings['rounds']} rounds on a virtual clock"
    )
    tell_of_targets(result["table"])


def line_of(row: dict[str, Any]) -> list[Any]:
    """Return a row's cells."""
    cells = [row["contestant"]]
    cells += ["-" if row[k] is None else row[k] for k in ("seconds", "speedup", "of_lan")]
    return [
        *cells,
        row["megabytes"],
        f"{row['significant_share']:.2%}",
        f"{row['barriers']:.0f}, {row['blocked_reads']:.0f}",
        row["clock_seconds"],
    ]
