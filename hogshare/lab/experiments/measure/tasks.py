"""Measure ASYNC's methods against stragglers: time to a target, and what a worker waits.

`measure` runs, `tabulate` turns runs into one row for each contestant, `show` prints them. What
passes between them is one dictionary of plain data, which is also the JSON output:

    settings, data, versions, machine, warm_up_seconds
    targets   of each family of methods: "sgd" and "asgd" have one, "saga" and "asaga" another
    runs      one for each round and contestant, with its trace
    table     one row for each contestant: medians over rounds

A contestant is a method and a law of stragglers, as in "asgd, cds:0.6". Waiting is what a worker
waits in the mean, per update of the model and per round, which is one task of each worker (Soori et
al. 2019, table III, has the first).
"""

from __future__ import annotations

import statistics
from typing import Any

from hogshare.cli import console
from hogshare.lab.experiments.measure.trials import (
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
    *("data", "loss", "penalty", "alpha", "l1_ratio", "dtype", "methods", "stragglers", "base_ms"),
    *("workers", "runtime", "partitions", "rate", "available", "epochs", "target", "rounds"),
    *("points", "seed"),
)
METHODS = {"sgd": "sgd", "asgd": "sgd", "saga": "saga", "asaga": "saga"}  # and their families


def contestants(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Every method with every law."""
    return [(method, law) for law in settings["stragglers"] for method in settings["methods"]]


def measure(X: Any, y: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Run every contestant in every round.

    Parameters
    ----------
    X, y : array-like
        Rows and labels.
    settings : dict
        The values of `SETTINGS`; targets are found from the runs themselves where it has none.

    Returns
    -------
    dict
        See the head of this file.
    """
    problem = problem_of(X, y, settings)
    racing, briefly = contestants(settings), {"epochs": 1, "base_ms": 0.0}
    result = race_of("tasks", problem, settings, racing, briefly, run_once, facts)
    result["targets"] = targets_of(result)
    result["table"] = tabulate(result)
    return result


def run_once(
    problem: Any, settings: dict[str, Any], contestant: tuple[str, str], seed: int
) -> Report:
    """Solve once by a method on tasks."""
    from hogshare import Throttled, asaga_tasks, asgd, saga_rounds, sgd_rounds
    from hogshare.stragglers import parse

    method, law = contestant
    solve = {"sgd": sgd_rounds, "asgd": asgd, "saga": saga_rounds, "asaga": asaga_tasks}[method]
    waits = {}
    if method != METHODS[method] and settings["available"]:
        waits = {"barrier": Throttled(settings["available"])}
    return solve(
        problem,
        workers=settings["runtime"],
        n_workers=settings["workers"],
        partitions=settings["partitions"] or settings["workers"],
        rate=settings["rate"],
        epochs=settings["epochs"],
        stragglers=parse(law, 1e-3 * settings["base_ms"], settings["seed"]),
        trace=settings["points"],
        seed=seed,
        **waits,
    )


def facts(report: Report, contestant: tuple[str, str], number: int) -> dict[str, Any]:
    """Return what is kept of a run."""
    plain = report.to_dict()
    return {
        "contestant": name_of(contestant),
        "method": contestant[0],
        "law": contestant[1],
        "round": number,
        "seconds": report.run_seconds,
        "tasks": sum(worker["blocks"] for worker in report.workers),
        "updates": int(report.settings["updates"]),
        "waiting_seconds": [worker["waiting_seconds"] for worker in plain["workers"]],
        "trace": plain["trace"],
    }


def targets_of(result: dict[str, Any]) -> dict[str, float]:
    """Return what each family has to come down to: the one that is given, or where all get."""
    families = {METHODS[run["method"]] for run in result["runs"]}
    given = result["settings"]["target"]
    return {
        family: float(given)
        if given is not None
        else default_target([r for r in result["runs"] if METHODS[r["method"]] == family])
        for family in sorted(families)
    }


def tabulate(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each contestant: medians over its rounds.

    Of a method the first law is what the others are compared with: `slower` is how many times as
    long it takes to the target.
    """
    table: list[dict[str, Any]] = []
    first: dict[str, float | None] = {}
    for one in contestants(result["settings"]):
        runs = [run for run in result["runs"] if run["contestant"] == name_of(one)]
        target = result["targets"][METHODS[one[0]]]
        traces = [trace_of(run) for run in runs]
        seconds = median([trace.first(target, "seconds") for trace in traces])
        waits = [waiting(run) for run in runs]
        before = first.setdefault(one[0], seconds)
        table.append(
            {
                "contestant": name_of(one),
                "method": one[0],
                "law": one[1],
                "target": target,
                "seconds": seconds,
                "slower": seconds / before if seconds and before else None,
                "epochs": median([trace.first(target, "epochs") for trace in traces]),
                "tasks_per_second": median([run["tasks"] / run["seconds"] for run in runs]),
                "waiting_ms_per_update": median([1e3 * per_update for per_update, _ in waits]),
                "waiting_ms_per_round": median([1e3 * per_round for _, per_round in waits]),
            }
        )
    return table


def waiting(run: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds that a worker waits in the mean, per update and per round."""
    mean, workers = statistics.mean(run["waiting_seconds"]), len(run["waiting_seconds"])
    return mean / max(1, run["updates"]), mean * workers / max(1, run["tasks"])


def show(result: dict[str, Any]) -> None:
    """Print the table, and below it what it is about."""
    header = ["method, stragglers", "seconds", "times the first", "epochs", "tasks/s"]
    header += ["wait ms/update", "wait ms/round"]
    targets = ", ".join(f"{name} {value:.6g}" for name, value in result["targets"].items())
    console.show_table(
        header, [line_of(row) for row in result["table"]], title=f"to objectives {targets}"
    )
    settings = result["settings"]
    console.say(
        f"{settings['workers']} workers ({settings['runtime']}), tasks on {settings['rate']:g} of "
        f"their rows that sleep {settings['base_ms']:g} ms besides; {settings['data']}, "
        f"{settings['loss']}; medians of {settings['rounds']} rounds"
    )
    tell_of_targets(result["table"])


def line_of(row: dict[str, Any]) -> list[Any]:
    """Return a row's cells."""
    names = ["contestant", "seconds", "slower", "epochs", "tasks_per_second"]
    names += ["waiting_ms_per_update", "waiting_ms_per_round"]
    return ["-" if row[name] is None else row[name] for name in names]
