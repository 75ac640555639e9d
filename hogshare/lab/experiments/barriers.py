"""``hogshare bench barriers``: the effect of barriers with stragglers.

Definitions (Soori et al. 2019): a worker waits from its push until it has the next block. The mean
waiting time over workers is given (1) per iteration of the server, which is one push (table III of
the paper), and (2) per round, which is one block of each worker. The second number is the first one
times the number of workers. Every block has its own pull and push, even without stragglers.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from hogshare.cli import options
from hogshare.lab.experiments import common_options
from hogshare.lab.harness import panels
from hogshare.lab.harness.experiment import Experiment, Settings
from hogshare.lab.harness.settings import Setting
from hogshare.lab.harness.table_numbers import Row, Spread, TableNumber, most

if TYPE_CHECKING:
    from hogshare.report import Report

DESCRIPTION = """\
Run the same problem behind several barriers, with some workers slow on purpose, and compare
progress, waiting, staleness and the time to a target objective. Workers are threads that sleep
--base-ms in every block, so many can be measured on few cores. Waiting is the mean over workers,
per push of any worker and per round (one block of each worker). Medians over rounds that alternate
the barriers."""

BLOCKS_PER_WORKER = 32  # per epoch: enough that the limit of two open epochs stops no worker
LARGE_LOAD = 0.25  # share of the cores that computing may use while other workers sleep

SETTINGS = (
    *common_options.linear_rows("digits"),
    Setting(
        "barriers",
        "such as asp bsp ssp:4 pbsp:1 pbsp:1,hold pssp:10,4 fraction:0.9,2 throttled:7 "
        "(default: asp, bsp, ssp:4, pbsp:1, pbsp:10, pssp:10,4 and a throttled release)",
        type=options.barrier,
        several=True,
    ),
    common_options.WORKERS,
    Setting(
        "stragglers",
        "law of slow workers. none; cds:0.6: worker 0 sleeps 60%% of the mean block time in each "
        "of its blocks; pcs: a quarter of the workers sleep 1.5 to 10 times that; lognormal:0.3: "
        "all blocks vary",
        "none",
        options.stragglers,
    ),
    Setting(
        "base_ms",
        "sleep of every worker in every block; 0: only computing, and the mean block time is "
        "that of the first 100",
        20.0,
        options.not_negative,
        metavar="MS",
    ),
    Setting(
        "block",
        "rows of a block (default: for 32 blocks per worker and epoch)",
        type=options.positive_int,
    ),
    *common_options.plane("as in speedup; private copies are exchanged after every block"),
    *common_options.trials(epochs=3, count=32),
)


def default_barriers(workers: int, stragglers: str) -> list[str]:
    """Return the default barriers, with the throttled release of ASYNC's experiments."""
    # with one straggler release at 93 % of the workers, with the production pattern at 70 %
    available = max(1, math.floor((0.7 if stragglers == "pcs" else 0.93) * workers))
    return ["asp", "bsp", "ssp:4", "pbsp:1", "pbsp:10", "pssp:10,4", f"throttled:{available}"]


def settle(problem: Any, settings: Settings) -> Settings:
    """Fill in the default barriers, and a block size that gives workers enough blocks."""
    block = max(1, int(problem.n_rows // (BLOCKS_PER_WORKER * settings["workers"])))
    family = default_barriers(settings["workers"], settings["stragglers"])
    return {
        **settings,
        "barriers": settings["barriers"] or family,
        "block": settings["block"] or block,
    }


def run_once(problem: Any, settings: Settings, contestant: tuple[str], seed: int) -> Report:
    """Solve once under a barrier."""
    from hogshare import Shared, StepSize, Stop, barriers, solve

    return solve(
        problem,
        plane=Shared(exchange=settings["exchange"], adds=settings["adds"]),
        barrier=barriers.parse(contestant[0]),
        runtime="threads",
        n_workers=settings["workers"],
        step=StepSize("constant", eta0=settings["step"]),
        stop=Stop(epochs=settings["epochs"], tol=None),
        seed=seed,
        trace=settings["points"],
        block=settings["block"],
        stragglers=common_options.late(settings),
    )


def facts(report: Report) -> Row:
    """Return the facts of a run for JSON."""
    plain = report.to_dict()
    workers = plain["workers"]
    return {
        "seconds": plain["seconds"]["run"],
        "blocks": [worker["blocks"] for worker in workers],
        "waiting_seconds": [worker["waiting_seconds"] for worker in workers],
        "largest_lead": most([worker["largest_lead"] for worker in workers]),
        **{name: plain[name] for name in ("staleness_mean", "staleness_p95", "staleness_max")},
    }


def waiting(run: Row) -> tuple[float, float]:
    """Return a worker's mean waiting seconds: per push of any worker, and per round."""
    pushes, mean = sum(run["blocks"]), statistics.mean(run["waiting_seconds"])
    per_push = mean / max(1, pushes)
    return per_push, per_push * len(run["blocks"])


OF_WORKER, STALENESS = "blocks of a worker", "staleness mean, p95, max"
NUMBERS = (
    Spread("seconds", lambda run: run.first("seconds"), header="seconds"),
    TableNumber("blocks_to_target", lambda run: run.first("blocks"), header="blocks", form=round),
    TableNumber("blocks_per_second", lambda r: sum(r["blocks"]) / r["seconds"], header="blocks/s"),
    TableNumber("blocks_min", lambda run: min(run["blocks"]), header=OF_WORKER),
    TableNumber("blocks_mean", lambda run: statistics.mean(run["blocks"]), header=OF_WORKER),
    TableNumber("blocks_max", lambda run: max(run["blocks"]), header=OF_WORKER),
    TableNumber("waiting_ms_per_push", lambda run: 1e3 * waiting(run)[0], header="wait ms/push"),
    TableNumber("waiting_ms_per_round", lambda run: 1e3 * waiting(run)[1], header="wait ms/round"),
    TableNumber("staleness_mean", header=STALENESS),
    TableNumber("staleness_p95", over=max, header=STALENESS),
    TableNumber("staleness_max", over=max, header=STALENESS),
    TableNumber("largest_lead", over=most, header="largest lead"),
)


def doubts(result: dict[str, Any]) -> list[str]:
    """Return warnings on the measured times if computing is not short relative to sleeping."""
    cores = result["machine"]["usable_cores"]
    load = max(run["cpu_seconds"] / (run["seconds"] * cores) for run in result["runs"])
    if not result["settings"]["base_ms"] or load <= LARGE_LOAD:
        return []
    return [
        f"computing took {load:.0%} of {cores} core{'s' * (cores != 1)} in a run, which is not "
        "small relative to sleeping: use a larger --base-ms or a smaller --block"
    ]


BARRIERS = Experiment(
    name="barriers",
    help="the effect of barriers with stragglers",
    description=DESCRIPTION,
    examples="example: hogshare bench barriers --workers 32 --stragglers pcs --barriers asp bsp",
    settings=SETTINGS,
    axes=("barrier",),
    contestants=lambda settings: [(name,) for name in settings["barriers"]],
    problem=common_options.linear_problem,
    settle=settle,
    about=lambda problem, settings: {"law": repr(common_options.late(settings))},
    run_once=run_once,
    facts=facts,
    numbers=NUMBERS,
    caption="{workers} workers, {law}, blocks of {block} rows; {data}, {loss}; medians of {rounds} "
    "rounds (fastest to slowest); blocks of a worker: least, mean, most",
    doubts=doubts,
    panels=(
        panels.objective("seconds"),
        panels.bars("seconds"),
        panels.bars("waiting_ms_per_round", "ms that a worker waits per round"),
    ),
    title="{workers} workers, {law}",
)
