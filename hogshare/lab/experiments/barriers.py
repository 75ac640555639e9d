"""``hogshare bench barriers``: what barriers make of stragglers.

Definitions (Soori et al. 2019): a worker waits from its push until it has the next block. The mean
over workers is given in both units that are in use: per iteration of the server, which is a push
(their table III), and per round, which is one block of each worker: as many times that as there are
workers. Every block is pulled for and pushed by itself, also without stragglers.
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
Run the same problem behind several barriers with workers of which some are slow on purpose, and
compare progress, waiting, staleness and the time to a target objective. Workers are threads that
sleep --base-ms in every block, so that many can be measured on few cores. Waiting is what a worker
waits in the mean, per push of anybody and per round (one block of each worker). Medians over
rounds, with the barriers in turn."""

BLOCKS_PER_WORKER = 32  # per epoch: at most two epochs are open, which must stop nobody
LARGE_LOAD = 0.25  # share of the cores that computing may take while others sleep

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
        "who is slow: none; cds:0.6: worker 0 sleeps 60%% of the mean block time in each of "
        "its blocks; pcs: a quarter of the workers sleep 1.5 to 10 times that; lognormal:0.3: all "
        "blocks vary",
        "none",
        options.stragglers,
    ),
    Setting(
        "base_ms",
        "what every worker sleeps in every block; 0: blocks take what computing takes, and "
        "the mean is that of the first 100",
        20.0,
        options.not_negative,
        metavar="MS",
    ),
    Setting(
        "block",
        "rows of a block (default: by which a worker has 32 of them in an epoch)",
        type=options.positive_int,
    ),
    *common_options.plane("as of speedup; private copies are exchanged after every block"),
    *common_options.trials(epochs=3, count=32),
)


def default_barriers(workers: int, stragglers: str) -> list[str]:
    """Return the family, with the throttled release of ASYNC's experiments."""
    # one straggler: 93 % of the workers, production pattern: 70 %
    available = max(1, math.floor((0.7 if stragglers == "pcs" else 0.93) * workers))
    return ["asp", "bsp", "ssp:4", "pbsp:1", "pbsp:10", "pssp:10,4", f"throttled:{available}"]


def settle(problem: Any, settings: Settings) -> Settings:
    """The settings with the family of barriers, and blocks of which workers have enough."""
    block = max(1, int(problem.n_rows // (BLOCKS_PER_WORKER * settings["workers"])))
    family = default_barriers(settings["workers"], settings["stragglers"])
    return {
        **settings,
        "barriers": settings["barriers"] or family,
        "block": settings["block"] or block,
    }


def run_once(problem: Any, settings: Settings, contestant: tuple[str], seed: int) -> Report:
    """Solve once behind a barrier."""
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
    """What JSON has of a run."""
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
    """Return the seconds that a worker waits in the mean, per push of anybody and per round."""
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
    """Return what makes the measured times doubtful: computing that is not small beside it."""
    cores = result["machine"]["usable_cores"]
    load = max(run["cpu_seconds"] / (run["seconds"] * cores) for run in result["runs"])
    if not result["settings"]["base_ms"] or load <= LARGE_LOAD:
        return []
    return [
        f"computing took {load:.0%} of {cores} core{'s' * (cores != 1)} in a run, which is not "
        "small beside sleeping: take a larger --base-ms or a smaller --block"
    ]


BARRIERS = Experiment(
    name="barriers",
    help="what barriers make of stragglers",
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
        panels.bars("waiting_ms_per_round", "ms that a worker waits a round"),
    ),
    title="{workers} workers, {law}",
)
