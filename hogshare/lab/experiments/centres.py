"""``hogshare bench centres``: centres that exchange significant changes over slow links.

A contestant is a method with links, for example "gaia, wan". "bsp" sends every change in lockstep.
"ssp" sends every change with gaia's clock difference. "gaia" sends only significant changes. The
time of ssp over the time of gaia is therefore the gain of the filter alone. `speedup` is bsp's time
to the target on the same links, divided by the method's time. `of_lan` is the method's time divided
by its time on the first links.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hogshare.cli import options
from hogshare.lab.experiments import common_options
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.harness import panels
from hogshare.lab.harness.experiment import Experiment, Settings
from hogshare.lab.harness.settings import Group, Setting
from hogshare.lab.harness.table_numbers import (
    Compared,
    MeasuredRun,
    Row,
    TableNumber,
    first_of,
    ratio,
)

if TYPE_CHECKING:
    from hogshare.report import Report

DESCRIPTION = """\
Train the same problem in several centres with links between them, and compare the time and the
bytes to a target objective: bsp sends every change in lockstep, gaia only significant changes, and
ssp every change with gaia's clock difference, as a reference for gaia's filter alone. On a virtual
clock, with real gradients. Medians over rounds."""

EXAMPLES = """\
examples:
  hogshare bench centres --every 100 --threshold 0.1 --clock-difference 2
  hogshare bench centres --centres 11 --links lan regions --block-ms 50 --soft 0.001
  hogshare bench centres --links links.json --plot centres.png"""

STEP = 0.1  # of one model's step, for linear problems: summed changes of all centres arrive late

SETTINGS: tuple[Setting | Group, ...] = (
    experiments.PROBLEM,
    common_options.LOSS,
    common_options.BATCH,
    Setting(
        "methods", "bsp, ssp, gaia", ["bsp", "gaia"], choices=("bsp", "ssp", "gaia"), several=True
    ),
    Setting(
        "links",
        "lan; wan and slowest: 15 and 60 times slower; regions: as on a globe; a form such as "
        "15x:100ms; or a JSON file with matrices of latency and bandwidth",
        ["lan", "wan", "slowest"],
        several=True,
        metavar="LINKS",
    ),
    Setting(
        "runtime",
        "a virtual clock, or links emulated between workers",
        "simulator",
        choices=("simulator", "threads", "processes"),
    ),
    Setting("centres", "", 3, options.positive_int),
    Setting("workers", "of all centres (default: one per centre)", type=options.positive_int),
    Setting(
        "threshold",
        "of gaia: a change is significant above this share of the value, over the root of the "
        "clock",
        0.01,
        options.not_negative,
    ),
    Setting(
        "fold",
        "fold of several centres' changes: summed as in the paper, weighted, or their mean",
        "sum",
        choices=("sum", "weighted", "momentum", "mean"),
    ),
    Setting("soft", "of gaia: threshold on idle links (default: none)", type=options.not_negative),
    Setting(
        "clock_difference",
        "of gaia and ssp: clocks by which a centre may be ahead of the slowest",
        0,
        options.not_negative_int,
        metavar="CLOCKS",
    ),
    Setting(
        "delay",
        "seconds that a link may be busy before the centre announces changes by index",
        0.1,
        options.not_negative,
        metavar="SECONDS",
    ),
    Setting(
        "queue",
        "messages of a link that may be under way, at least 2",
        3,
        options.positive_int,
        metavar="MESSAGES",
    ),
    Setting(
        "every",
        "rows of a worker in a clock (default: by the curvature)",
        type=options.positive_int,
        metavar="ROWS",
    ),
    Setting(
        "block_ms",
        "of a block: virtual, or slept in addition to computing",
        20.0,
        options.positive,
        metavar="MS",
    ),
    *common_options.trials(epochs=5, count=16, step=f"a tenth of {common_options.STEP}"),
)


def check(args: Any) -> None:
    """Refuse options that do not fit together, and unknown links."""
    from hogshare.links import regions

    if args.centres < 2:
        raise options.WrongCommandLine("--centres 1: a single centre sends nothing; use 2 or more")
    if args.workers and args.workers < args.centres:
        raise options.WrongCommandLine(
            f"--workers {args.workers} is less than --centres {args.centres}: each needs one"
        )
    for name in (name for name in args.links if not regions.is_preset(name)):
        if not Path(name).is_file():
            raise options.WrongCommandLine(
                f"--links {name}: no such file, and none of {', '.join(regions.PRESETS)}, "
                "or as in 15x:100ms"
            )
        n = len(regions.read(name))
        if n != args.centres:
            raise options.WrongCommandLine(
                f"--links {name} is for {n} centres, and --centres is {args.centres}"
            )
    experiments.check(args, common_options.of_linear(args))
    if args.queue < 2:
        raise options.WrongCommandLine(
            "--queue 1: the last slot is for control messages; use at least 2"
        )
    if args.problem == experiments.LINEAR and args.batch:
        raise options.WrongCommandLine("--batch is not for --problem linear: see --every")


def problem_of(args: Any) -> Any:
    """Return the problem to train; fill in workers, batch and step."""
    args.workers = args.workers or args.centres
    if args.problem == experiments.LINEAR:
        return common_options.linear_problem(args, STEP)
    family, problem = common_options.named_problem(args, "sgd")
    if args.step is None:
        args.step = step_in_centres(problem, family.step(problem), args.centres)
    return problem


def step_in_centres(problem: Any, step: float | None, n_centres: int) -> float | None:
    """Return the step size of a centre, given the step size of a single model.

    The mean gradients of all centres are summed, so the step size is divided by the number of
    centres. The step size for single rows is not divided, because the changes of single rows mostly
    do not overlap.
    """
    return step / n_centres if step is not None and problem.by_mean else step


def run_once(problem: Any, settings: Settings, contestant: tuple[str, str], seed: int) -> Report:
    """Solve once on centres."""
    from hogshare import SGD, Simulator, StepSize, gaia
    from hogshare.problems.protocol import has_rows
    from hogshare.simulation.block_times import LogNormal

    method, name = contestant
    n, workers = settings["centres"], settings["workers"] or settings["centres"]
    seconds, step = 1e-3 * settings["block_ms"], settings["step"]
    where: dict[str, Any] = {"runtime": settings["runtime"]}
    if settings["runtime"] == "simulator":
        where["runtime"] = Simulator(
            block_time=LogNormal(mean=seconds, sigma=common_options.JITTER)
        )
    else:
        where["stragglers"] = common_options.slept(settings["block_ms"], seed)
    if common_options.has_own_steps(problem):
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
        fold=settings["fold"],
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


def facts(report: Report) -> Row:
    """Return the facts of a run for JSON."""
    exchanges = report.exchanges
    if exchanges is None:
        raise ValueError("one worker in one centre sends nothing: use more --centres")
    return {
        "seconds": report.run_seconds,
        "blocks": sum(worker["blocks"] for worker in report.workers),
        "bytes": exchanges.bytes,
        "barriers": exchanges.traffic["barrier"]["messages"],
        "significant_share": exchanges.significant_share,
        "small_share": exchanges.small_share,
        "blocked_reads": int(exchanges.holds[:, 1].sum()),
        "passes": int(exchanges.passes.sum()),
        "waiting_seconds": exchanges.waits.mean(axis=0).tolist(),
    }


def over_bsp(row: Row, rows: Sequence[Row], result: Row) -> float | None:
    """Return the speedup of a method over bsp on the same links."""
    bsp = (one["seconds"] for one in rows if (one["method"], one["links"]) == ("bsp", row["links"]))
    return ratio(next(bsp, None), row["seconds"])


def of_lan(row: Row, rows: Sequence[Row], result: Row) -> float | None:
    """Return the slowdown of a method relative to the first links."""
    return ratio(row["seconds"], first_of("method", row, rows)["seconds"])


def megabytes(run: MeasuredRun) -> float | None:
    """Return the megabytes sent up to the target, in proportion to the blocks."""
    blocks = run.first("blocks")
    return None if blocks is None else 1e-6 * run["bytes"] * blocks / run["blocks"]


DELAYS = "barriers, blocked reads"
NUMBERS = (
    TableNumber("seconds", lambda run: run.first("seconds"), header="{clock}s"),
    Compared("speedup", by=over_bsp, header="times bsp"),
    Compared("of_lan", by=of_lan, header="times the first links"),
    TableNumber("megabytes", megabytes, header="MB"),
    TableNumber("significant_share", header="significant", form=".1%"),
    TableNumber("small_share", header="at most 1 %", form=".1%"),
    TableNumber("barriers", lambda run: float(run["barriers"]), header=DELAYS, form=".0f"),
    TableNumber(
        "blocked_reads", lambda run: float(run["blocked_reads"]), header=DELAYS, form=".0f"
    ),
    TableNumber(
        "clock_seconds", lambda run: run["waiting_seconds"][0], header="s waited for clocks"
    ),
)


CENTRES = Experiment(
    name="centres",
    help="centres that exchange significant changes over slow links",
    description=DESCRIPTION,
    examples=EXAMPLES,
    settings=SETTINGS,
    check=check,
    axes=("method", "links"),
    contestants=lambda settings: [
        (method, link) for link in settings["links"] for method in settings["methods"]
    ],
    problem=problem_of,
    about=lambda problem, settings: {
        "what": settings["loss" if settings["problem"] == experiments.LINEAR else "problem"]
    },
    run_once=run_once,
    facts=facts,
    numbers=NUMBERS,
    caption="{centres} centres of {workers} workers, blocks of {block_ms:g} ms; threshold "
    "{threshold:g}; {data}, {what}; medians of {rounds} rounds, {runtime}",
    panels=(
        panels.objective("seconds", "{clock}seconds", scale="symlog"),
        panels.objective("blocks", "MB between centres", of=panels.megabytes),
        panels.bars("seconds"),
    ),
    title="{centres} centres, {data}",
)
