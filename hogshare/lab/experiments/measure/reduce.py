"""Measure graphs and ways of waiting of `Replicas` against each other: rounds, bytes, time.

`measure` runs, `tabulate` turns runs into one row for each contestant, `show` prints them. What
passes between them is one dictionary of plain data, which is also the JSON output:

    settings, data, versions, machine, warm_up_seconds, target
    graphs   of each: degree, gap, rounds until workers agree
    runs     one for each round and contestant, with its trace
    table    one row for each contestant: medians over rounds

A contestant is a graph and a way of waiting, as in "root, notify-ack". Rounds and bytes to the
target are those of the run so far, in proportion to its blocks: every worker sends as much in each.
"""

from __future__ import annotations

from typing import Any

from hogshare.cli import console
from hogshare.io.tables import cell
from hogshare.lab.experiments.measure.trials import (
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
    *("data", "loss", "penalty", "alpha", "l1_ratio", "dtype", "graphs", "syncs", "every"),
    *("workers", "runtime", "law", "link", "stragglers", "base_ms", "step", "epochs", "target"),
    *("rounds", "points", "seed"),
)
REDUCES_PER_EPOCH = 16  # of a worker, unless --every says how many rows


def contestants(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Every graph with every way of waiting."""
    return [(graph, sync) for graph in settings["graphs"] for sync in settings["syncs"]]


def graphs_of(settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each graph promises.

    Raises
    ------
    ValueError
        If there is none of so many workers.
    """
    from hogshare import Replicas, topology

    found = {}
    for name in settings["graphs"]:
        weights = Replicas(name).weights_of(settings["workers"])
        graphs = topology.graphs_of(name, settings["workers"])
        found[name] = {
            "degree": max(int(topology.out_degrees(graph).max()) for graph in graphs),
            "gap": float(topology.spectral_gap(weights[0])) if len(weights) == 1 else None,
            "rounds_to_agreement": topology.predicted_rounds(weights),
        }
    return found


def measure(X: Any, y: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Run every contestant in every round.

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
    share = problem.n_rows // settings["workers"]
    settings = {
        **settings,
        "every": settings["every"] or max(1, share // REDUCES_PER_EPOCH),
        "step": settings["step"] or default_step(X),
    }
    graphs = graphs_of(settings)
    racing, briefly = contestants(settings), {"epochs": 1, "base_ms": 0.0}
    raced = race_of("reduces", problem, settings, racing, briefly, run_once, facts)
    result = {**raced, "graphs": graphs}
    if settings["target"] is None:
        result["target"] = default_target(result["runs"])
    result["table"] = tabulate(result)
    return result


def run_once(
    problem: Any, settings: dict[str, Any], contestant: tuple[str, str], seed: int
) -> Report:
    """Solve once on a graph."""
    from hogshare import StepSize, stochastic_reduce

    graph, sync = contestant
    return stochastic_reduce(
        problem,
        graph=graph,
        sync=sync,
        every=settings["every"],
        n_workers=settings["workers"],
        step=StepSize("constant", eta0=settings["step"]),
        epochs=settings["epochs"],
        theory=False,
        seed=seed,
        trace=settings["points"],
        **who_runs(settings),
    )


def who_runs(settings: dict[str, Any]) -> dict[str, Any]:
    """Return runtime and stragglers, or a virtual clock with its links."""
    from hogshare import Simulator, stragglers
    from hogshare.simulation import Link, Network, blocktimes

    if settings["runtime"] != "simulator":
        slow = stragglers.parse(
            settings["stragglers"], 1e-3 * settings["base_ms"], settings["seed"]
        )
        return {"runtime": settings["runtime"], "stragglers": slow}
    law = blocktimes.parse(settings["law"])
    if not settings["link"]:
        return {"runtime": Simulator(block_time=law)}
    latency, bandwidth = settings["link"]
    network = Network(Link(latency=latency, bandwidth=bandwidth))
    return {"runtime": Simulator(block_time=law, network=network)}


def facts(report: Report, contestant: tuple[str, str], number: int) -> dict[str, Any]:
    """Return what is kept of a run."""
    plain = report.to_dict()
    told = report.reduces
    if told is None:
        raise ValueError("one worker averages with nobody: take more --workers")
    return {
        "contestant": name_of(contestant),
        "graph": contestant[0],
        "sync": contestant[1],
        "round": number,
        "seconds": report.run_seconds,
        "rounds": int(told.rounds.max()),
        "bytes": told.bytes,
        "blocks": sum(worker["blocks"] for worker in report.workers),
        "whole_share": told.whole_share,
        "used": told.consistency.sum(axis=0).tolist(),
        "torn": int(told.torn.sum()),
        "missing": int(told.missing.sum()),
        "waiting_seconds": dict(zip(causes(), told.waits.mean(axis=0).tolist(), strict=True)),
        "trace": plain["trace"],
        "notes": plain["notes"],
    }


def causes() -> tuple[str, ...]:
    """Return what workers wait for."""
    from hogshare.planes.replicas import reduces

    return reduces.CAUSES


def tabulate(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each contestant: medians over its rounds.

    A run that does not reach the target counts as infinitely long, so that a median is None when
    half of the runs do not.
    """
    table = []
    for one in contestants(result["settings"]):
        runs = [run for run in result["runs"] if run["contestant"] == name_of(one)]
        traces = [trace_of(run) for run in runs]
        blocks = [trace.first(result["target"], "blocks") for trace in traces]
        parts = [
            None if b is None else b / run["blocks"] for b, run in zip(blocks, runs, strict=True)
        ]
        waits = {
            cause: median([run["waiting_seconds"][cause] for run in runs])
            for cause in runs[0]["waiting_seconds"]
        }
        table.append(
            {
                "contestant": name_of(one),
                "graph": one[0],
                "sync": one[1],
                "seconds": median([trace.first(result["target"], "seconds") for trace in traces]),
                "rounds": median(of_run(parts, runs, "rounds")),
                "megabytes": median(of_run(parts, runs, "bytes", 1e-6)),
                "whole_share": median([run["whole_share"] for run in runs]),
                "torn": max(run["torn"] for run in runs),
                "missing": median([run["missing"] for run in runs]),
                "waiting_seconds": waits,
                "disagreement": median([run["trace"]["disagreement"][-1] for run in runs]),
                "run_seconds": median([run["seconds"] for run in runs]),
            }
        )
    return table


def of_run(
    parts: list[float | None], runs: list[dict[str, Any]], what: str, unit: float = 1.0
) -> list[float | None]:
    """Return what of each run's total falls to its part up to the target."""
    return [
        None if part is None else unit * part * run[what]
        for part, run in zip(parts, runs, strict=True)
    ]


def show(result: dict[str, Any]) -> None:
    """Print the table, and below it what it is about."""
    header = ["graph, sync", "seconds", "rounds", "MB", "whole reduces", "torn"]
    header += ["s waited for messages, acknowledgements, barrier", "disagreement"]
    console.show_table(
        header,
        [line_of(row) for row in result["table"]],
        title=f"to objective {result['target']:.6g}",
    )
    for name, told in result["graphs"].items():
        gap = "" if told["gap"] is None else f", gap {told['gap']:.4g}"
        console.say(
            f"{name}: {told['degree']} messages of a worker in a round{gap}, a thousand times "
            f"nearer to agreement in {told['rounds_to_agreement']:.0f} rounds"
        )
    settings = result["settings"]
    console.say(
        f"{settings['workers']} workers, a reduce every {settings['every']} rows; "
        f"{settings['data']}, {settings['loss']}; medians of {settings['rounds']} rounds; whole "
        "reduces, waits and disagreement of whole runs"
    )
    tell_of_targets(result["table"])


def line_of(row: dict[str, Any]) -> list[Any]:
    """Return a row's cells."""
    rounds = row["rounds"]
    return [
        row["contestant"],
        "-" if row["seconds"] is None else row["seconds"],
        None if rounds is None else round(rounds),
        row["megabytes"],
        f"{row['whole_share']:.2%}",
        row["torn"],
        ", ".join(cell(seconds) for seconds in row["waiting_seconds"].values()),
        row["disagreement"],
    ]
