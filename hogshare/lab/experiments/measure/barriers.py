"""Measure what barriers make of stragglers: progress, waiting, staleness, time to a target.

`measure` runs, `tabulate` turns runs into one row for each barrier, `show` prints them. What passes
between them is one dictionary of plain data, which is also the JSON output:

    settings, law, data, versions, machine, warm_up_seconds, target,
    runs   one for each round and barrier, with its trace
    table  one row for each barrier: medians over rounds

Definitions (Soori et al. 2019): a worker waits from its push until it has the next block. The mean
over workers is given in both units that are in use: per iteration of the server, which is a push
(their table III), and per round, which is one block of each worker: as many times that as there are
workers. Every block is pulled for and pushed by itself, also without stragglers.
"""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

from hogshare.cli import console
from hogshare.io.tables import cell
from hogshare.lab.experiments.measure.speedup import machine_warnings
from hogshare.lab.experiments.measure.trials import (
    default_step,
    default_target,
    median,
    problem_of,
    race,
    result_of,
    tell_of_targets,
    trace_of,
)
from hogshare.report import Report

SETTINGS = (
    *("data", "loss", "penalty", "alpha", "l1_ratio", "dtype", "exchange", "adds", "step"),
    *("barriers", "workers", "stragglers", "base_ms", "block", "epochs", "target", "rounds"),
    *("points", "seed"),
)
BLOCKS_PER_WORKER = 32  # per epoch: at most two epochs are open, which must hold nobody up
LARGE_LOAD = 0.25  # share of the cores that computing may take beside sleeping


def default_barriers(workers: int, stragglers: str) -> list[str]:
    """Return the family, with the throttled release of ASYNC's experiments."""
    # one straggler: 93 % of the workers, production pattern: 70 %
    available = max(1, math.floor((0.7 if stragglers == "pcs" else 0.93) * workers))
    return ["asp", "bsp", "ssp:4", "pbsp:1", "pbsp:10", "pssp:10,4", f"throttled:{available}"]


def measure(X: Any, y: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Run every barrier in every round.

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
    from hogshare.stragglers import parse

    problem = problem_of(X, y, settings)
    settings = {
        **settings,
        "block": settings["block"] or default_block(problem, settings),
        "step": settings["step"] or default_step(X),
    }
    law = parse(settings["stragglers"], 1e-3 * settings["base_ms"], settings["seed"])
    names = settings["barriers"]
    runs: list[dict[str, Any]] = []
    last: list[Report] = []

    def run(name: str, number: int) -> None:
        began = time.process_time()
        last[:] = [run_once(problem, settings, name, law, settings["seed"] + number)]
        runs.append(facts(last[0], name, number, time.process_time() - began))

    def once() -> None:
        run_once(problem, {**settings, "epochs": 1}, names[0], parse("none"), settings["seed"])

    warm_up = race(names, settings["rounds"], "barriers", once, run)
    result = {**result_of(problem, last[0], settings, warm_up), "law": repr(law)}
    result["runs"] = sorted(runs, key=lambda run: (names.index(run["barrier"]), run["round"]))
    if settings["target"] is None:
        result["target"] = default_target(result["runs"])
    result["table"] = tabulate(result)
    return result


def default_block(problem: Any, settings: dict[str, Any]) -> int:
    """Return the rows of a block by which every worker has enough of them in an epoch."""
    return max(1, int(problem.n_rows // (BLOCKS_PER_WORKER * settings["workers"])))


def run_once(problem: Any, settings: dict[str, Any], barrier: str, law: Any, seed: int) -> Report:
    """Solve once behind a barrier."""
    from hogshare import Shared, StepSize, Stop, barriers, solve

    report: Report = solve(
        problem,
        plane=Shared(exchange=settings["exchange"], adds=settings["adds"]),
        barrier=barriers.parse(barrier),
        runtime="threads",
        n_workers=settings["workers"],
        step=StepSize("constant", eta0=settings["step"]),
        stop=Stop(epochs=settings["epochs"], tol=None),
        seed=seed,
        trace=settings["points"],
        block=settings["block"],
        stragglers=law,
    )
    return report


def facts(report: Report, barrier: str, number: int, cpu_seconds: float) -> dict[str, Any]:
    """Return what is kept of a run."""
    plain = report.to_dict()
    return {
        "barrier": barrier,
        "round": number,
        "seconds": plain["seconds"]["run"],
        "cpu_seconds": cpu_seconds,
        "blocks": [worker["blocks"] for worker in plain["workers"]],
        "waiting_seconds": [worker["waiting_seconds"] for worker in plain["workers"]],
        "largest_lead": max(
            (worker["largest_lead"] for worker in plain["workers"]), key=lambda lead: lead or 0
        ),
        "staleness_mean": plain["staleness_mean"],
        "staleness_p95": plain["staleness_p95"],
        "staleness_max": plain["staleness_max"],
        "trace": plain["trace"],
        "notes": plain["notes"],
    }


def tabulate(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each barrier: medians over its rounds, and the spread of the times.

    A run that does not reach the target counts as infinitely long, so a median is None when half
    of the runs do not, and the slowest when one does not.
    """
    table = []
    for name in result["settings"]["barriers"]:
        runs = [run for run in result["runs"] if run["barrier"] == name]
        traces = [trace_of(run) for run in runs]
        seconds = [trace.first(result["target"], "seconds") for trace in traces]
        blocks = [trace.first(result["target"], "blocks") for trace in traces]
        waits = [waiting(run) for run in runs]
        table.append(
            {
                "barrier": name,
                "seconds": median(seconds),
                "fastest": min((s for s in seconds if s is not None), default=None),
                "slowest": None if None in seconds else max(s for s in seconds if s is not None),
                "blocks_to_target": median(blocks),
                "blocks_per_second": median([sum(r["blocks"]) / r["seconds"] for r in runs]),
                "blocks_min": median([min(run["blocks"]) for run in runs]),
                "blocks_mean": median([statistics.mean(run["blocks"]) for run in runs]),
                "blocks_max": median([max(run["blocks"]) for run in runs]),
                "waiting_ms_per_push": median([1e3 * per_push for per_push, _ in waits]),
                "waiting_ms_per_round": median([1e3 * per_round for _, per_round in waits]),
                "staleness_mean": median([run["staleness_mean"] for run in runs]),
                "staleness_p95": max(run["staleness_p95"] for run in runs),
                "staleness_max": max(run["staleness_max"] for run in runs),
                "largest_lead": max((run["largest_lead"] for run in runs), key=lambda n: n or 0),
            }
        )
    return table


def waiting(run: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds that a worker waits in the mean, per push of anybody and per round."""
    pushes, mean = sum(run["blocks"]), statistics.mean(run["waiting_seconds"])
    per_push = mean / max(1, pushes)
    return per_push, per_push * len(run["blocks"])


def warnings_before(settings: dict[str, Any]) -> list[str]:
    """Return what makes times meaningless before anything has run."""
    return machine_warnings([settings["workers"]]) if not settings["base_ms"] else []


def warnings_after(result: dict[str, Any]) -> list[str]:
    """Return what makes the measured times doubtful: computing that is not small beside it."""
    cores = result["machine"]["usable_cores"]
    load = max(run["cpu_seconds"] / (run["seconds"] * cores) for run in result["runs"])
    if not result["settings"]["base_ms"] or load <= LARGE_LOAD:
        return []
    return [
        f"computing took {load:.0%} of {cores} core{'s' * (cores != 1)} in a run, which is not "
        "small beside sleeping: take a larger --base-ms or a smaller --block"
    ]


def show(result: dict[str, Any]) -> None:
    """Print the table, and below it what it is about."""
    header = ["barrier", "seconds", "blocks", "blocks/s", "blocks of a worker"]
    header += ["wait ms/push", "wait ms/round", "staleness mean, p95, max", "largest lead"]
    console.show_table(
        header,
        [line_of(row) for row in result["table"]],
        title=f"to objective {result['target']:.6g}",
    )
    settings = result["settings"]
    console.say(
        f"{settings['workers']} workers, {result['law']}, blocks of {settings['block']} rows; "
        f"{settings['data']}, {settings['loss']}; medians of {settings['rounds']} rounds (fastest "
        "to slowest); blocks of a worker: least, mean, most"
    )
    tell_of_targets(result["table"])


def line_of(row: dict[str, Any]) -> list[Any]:
    """Return a row's cells."""
    spread = f"{cell(row['seconds'])} ({cell(row['fastest'])} to {cell(row['slowest'])})"
    to_target = row["blocks_to_target"]
    return [
        row["barrier"],
        "-" if row["seconds"] is None else spread,
        None if to_target is None else round(to_target),
        row["blocks_per_second"],
        ", ".join(cell(row[f"blocks_{name}"]) for name in ("min", "mean", "max")),
        row["waiting_ms_per_push"],
        row["waiting_ms_per_round"],
        ", ".join(cell(row[f"staleness_{name}"]) for name in ("mean", "p95", "max")),
        row["largest_lead"],
    ]
