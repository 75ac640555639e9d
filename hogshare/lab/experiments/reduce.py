"""``hogshare bench reduce``: graphs and synchronisation of replicas.

A contestant is a graph and a synchronisation, for example "root, notify-ack". Rounds and bytes to
the target are computed in proportion to blocks, because every worker sends equally much in each
block. The result also has ``graphs``: the degree of each graph, its spectral gap, and its rounds to
agreement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hogshare.cli import options
from hogshare.io.tables import cell
from hogshare.lab.experiments import common_options
from hogshare.lab.harness import panels
from hogshare.lab.harness.experiment import Experiment, Settings
from hogshare.lab.harness.settings import Setting
from hogshare.lab.harness.table_numbers import MeasuredRun, Row, TableNumber, median

if TYPE_CHECKING:
    from hogshare.report import Report

DESCRIPTION = """\
Run the same problem on replicas over several graphs, with several kinds of synchronisation, and
compare rounds, bytes, waiting and the time to a target objective. Every worker has its own rows and
model, and averages it with those of its in-neighbours after every --every rows. Workers are threads
that sleep --base-ms in every block, or run on a virtual clock with links between them (--runtime
simulator). Medians over rounds that alternate the contestants."""

EXAMPLES = """\
examples:
  hogshare bench reduce --workers 8 --graphs ring root all
  hogshare bench reduce --workers 25 --stragglers lognormal:0.5 --graphs root --syncs notify-ack bsp
  hogshare bench reduce --workers 64 --runtime simulator --link 0.001,1e6 --graphs ring root all"""

REDUCES_PER_EPOCH = 16  # of a worker, unless --every is given

SETTINGS = (
    *common_options.linear_rows("digits"),
    Setting(
        "graphs",
        "communication graphs: all, star, ring, root, random, exponential, one-peer, hypercube",
        ["ring", "root", "all"],
        options.graph,
        several=True,
    ),
    Setting(
        "syncs",
        "notify-ack, bsp, async: reduces wait for in-neighbours, for all workers, or not at all",
        ["notify-ack"],
        choices=("notify-ack", "bsp", "async"),
        several=True,
    ),
    Setting(
        "every",
        "rows of a worker between two reduces (default: for 16 reduces in an epoch)",
        type=options.positive_int,
        metavar="ROWS",
    ),
    common_options.WORKERS,
    Setting(
        "runtime", "the workers' runtime", "threads", choices=("threads", "processes", "simulator")
    ),
    common_options.LAW_OF_BLOCKS,
    Setting(
        "link",
        "of the simulator: seconds, and bytes per second, of every edge (default: no delay)",
        type=options.link,
        metavar="LATENCY,BANDWIDTH",
    ),
    Setting("stragglers", "law of slow workers, as in barriers", "none", options.stragglers),
    common_options.base_ms("sleep of every worker in every block"),
    *common_options.trials(epochs=5, count=16),
)


def check(args: Any) -> None:
    """Refuse links between threads or processes, and a single worker."""
    if args.runtime != "simulator" and args.link:
        raise options.WrongCommandLine("--link needs --runtime simulator")
    if args.workers < 2:
        raise options.WrongCommandLine(
            "--workers 1: a single worker has no other to average with; use 2 or more"
        )


def settle(problem: Any, settings: Settings) -> Settings:
    """Fill in the rows between two reduces."""
    share = problem.n_rows // settings["workers"]
    return {**settings, "every": settings["every"] or max(1, share // REDUCES_PER_EPOCH)}


def graphs_of(problem: Any, settings: Settings) -> dict[str, Any]:
    """Return the degree, spectral gap and predicted rounds of each graph.

    Raises
    ------
    ValueError
        If a graph does not exist for the number of workers.
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
    return {"graphs": found}


def run_once(problem: Any, settings: Settings, contestant: tuple[str, str], seed: int) -> Report:
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


def who_runs(settings: Settings) -> dict[str, Any]:
    """Return the runtime with stragglers, or a virtual clock with its links."""
    from hogshare import Simulator
    from hogshare.simulation import Link, Network, block_times

    if settings["runtime"] != "simulator":
        return {"runtime": settings["runtime"], "stragglers": common_options.late(settings)}
    law = block_times.parse(settings["law"])
    if not settings["link"]:
        return {"runtime": Simulator(block_time=law)}
    latency, bandwidth = settings["link"]
    network = Network(Link(latency=latency, bandwidth=bandwidth))
    return {"runtime": Simulator(block_time=law, network=network)}


def facts(report: Report) -> Row:
    """Return the facts of a run for JSON."""
    from hogshare.planes.replicas.reduces import CAUSES

    reduces = report.reduces
    if reduces is None:
        raise ValueError("one worker has no other to average with: use more --workers")
    return {
        "seconds": report.run_seconds,
        "rounds": int(reduces.rounds.max()),
        "bytes": reduces.bytes,
        "blocks": sum(worker["blocks"] for worker in report.workers),
        "whole_share": reduces.whole_share,
        "used": reduces.consistency.sum(axis=0).tolist(),
        "torn": int(reduces.torn.sum()),
        "missing": int(reduces.missing.sum()),
        "waiting_seconds": dict(zip(CAUSES, reduces.waits.mean(axis=0).tolist(), strict=True)),
    }


def by_cause(waits: list[dict[str, float]]) -> dict[str, float | None]:
    """Return medians of waiting seconds, by cause."""
    return {cause: median([one[cause] for one in waits]) for cause in waits[0]}


def until_target(run: MeasuredRun, what: str, unit: float = 1.0) -> float | None:
    """Return the part of a run's total up to the target, multiplied by `unit`."""
    blocks = run.first("blocks")
    return None if blocks is None else unit * (blocks / run["blocks"]) * run[what]


NUMBERS = (
    TableNumber("seconds", lambda run: run.first("seconds"), header="seconds"),
    TableNumber("rounds", lambda run: until_target(run, "rounds"), header="rounds", form=round),
    TableNumber("megabytes", lambda run: until_target(run, "bytes", 1e-6), header="MB"),
    TableNumber("whole_share", header="whole reduces", form=".2%"),
    TableNumber("torn", over=max, header="torn"),
    TableNumber("missing"),
    TableNumber(
        "waiting_seconds",
        over=by_cause,
        header="s waited for messages, acknowledgements, barrier",
        form=lambda waits: ", ".join(map(cell, waits.values())),
    ),
    TableNumber("disagreement", lambda r: r["trace"]["disagreement"][-1], header="disagreement"),
    TableNumber("run_seconds", lambda run: run["seconds"]),
)


def notes(result: dict[str, Any]) -> Iterable[str]:
    """Yield a sentence on the degree, spectral gap and rounds of each graph."""
    for name, graph in result["graphs"].items():
        gap = "" if graph["gap"] is None else f", gap {graph['gap']:.4g}"
        yield (
            f"{name}: {graph['degree']} messages of a worker in a round{gap}, a thousand times "
            f"nearer to agreement in {graph['rounds_to_agreement']:.0f} rounds"
        )


def draw_inputs(ax: Any, result: dict[str, Any]) -> None:
    """Draw the share of reduces by number of used inputs, for each contestant's first run."""
    first = [run for run in result["runs"] if run["round"] == 0]
    width = 0.9 / len(first)
    for place, run in enumerate(first):
        total = max(1, sum(run["used"]))
        where = [used + width * place for used in range(len(run["used"]))]
        ax.bar(where, [used / total for used in run["used"]], width=width)
    ax.set_xlabel("in-neighbours' messages that a reduce has used")
    ax.set_ylabel("share of reduces")


REDUCE = Experiment(
    name="reduce",
    help="graphs and synchronisation of replicas",
    description=DESCRIPTION,
    examples=EXAMPLES,
    settings=SETTINGS,
    check=check,
    axes=("graph", "sync"),
    contestants=lambda settings: [
        (graph, sync) for graph in settings["graphs"] for sync in settings["syncs"]
    ],
    problem=common_options.linear_problem,
    settle=settle,
    about=graphs_of,
    run_once=run_once,
    facts=facts,
    numbers=NUMBERS,
    caption="{workers} workers, a reduce every {every} rows; {data}, {loss}; medians of {rounds} "
    "rounds; complete reduces, waits and disagreement are those of whole runs",
    notes=notes,
    panels=(
        panels.objective("seconds"),
        panels.objective("blocks", "MB sent by all workers", of=panels.megabytes),
        draw_inputs,
    ),
)
