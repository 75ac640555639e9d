"""``hogshare bench tasks``: ASYNC's methods on tasks, with stragglers.

A contestant is a method and a law of stragglers, for example "asgd, cds:0.6". "sgd" and "asgd" have
the same target; "saga" and "asaga" have another one. Waiting times are means over workers. They are
given (1) per update of the model, as in table III of Soori et al. 2019, and (2) per round, which is
one task of each worker.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hogshare.cli import options
from hogshare.lab.experiments import common_options
from hogshare.lab.harness.experiment import Experiment, Settings
from hogshare.lab.harness.settings import Setting
from hogshare.lab.harness.table_numbers import Compared, Row, TableNumber, first_of, ratio

if TYPE_CHECKING:
    from hogshare.report import Report

DESCRIPTION = """\
Run ASYNC's methods on asynchronous tasks with stragglers among the workers, and compare the time to
a target objective and the waiting of a worker, per update of the model and per round (one task of
each worker). sgd and saga run in rounds that wait for all workers, asgd and asaga use results as
they arrive. Every task also sleeps --base-ms, so many workers can be measured on few cores; steps
are those of the papers. Medians over rounds that alternate the contestants."""

EXAMPLES = """\
examples:
  hogshare bench tasks --stragglers cds:0 cds:0.3 cds:0.6 cds:1
  hogshare bench tasks --workers 32 --stragglers pcs --available 22 --plot pcs.png"""

METHODS = {"sgd": "sgd", "asgd": "sgd", "saga": "saga", "asaga": "saga"}  # method -> family

SETTINGS = (
    *common_options.linear_rows("digits"),
    Setting(
        "methods",
        "sgd, asgd, saga, asaga (default: all)",
        list(METHODS),
        choices=tuple(METHODS),
        several=True,
    ),
    common_options.WORKERS,
    Setting("runtime", "runtime of the tasks", "threads", choices=("threads", "processes")),
    Setting(
        "stragglers",
        "laws of slow workers, as in barriers; the others are compared with the first",
        ["cds:0", "cds:1"],
        options.stragglers,
        several=True,
        metavar="LAW",
    ),
    common_options.base_ms("sleep of every task"),
    Setting("rate", "share of its rows that a task draws", 0.1, options.share),
    Setting("partitions", "of the rows (default: one for each worker)", type=options.positive_int),
    Setting(
        "available",
        "asgd and asaga dispatch tasks when so many workers wait (default: 1)",
        type=options.positive_int,
        metavar="WORKERS",
    ),
    Setting("epochs", "of a run", 8.0, options.positive),
    Setting(
        "target",
        "objective to reach, penalty included (default: for sgd and asgd, and for saga "
        "and asaga, where the worst run has made 99%% of its gain)",
        type=options.finite,
    ),
    *(common_options.ROUNDS, common_options.points(8), common_options.SEED),
)


def check(args: Any) -> None:
    """Refuse a release that waits for more workers than the run has."""
    if args.available and args.available > args.workers:
        raise options.WrongCommandLine(
            f"--available {args.available} is more than --workers {args.workers}: they would wait "
            "for ever"
        )


def run_once(problem: Any, settings: Settings, contestant: tuple[str, str], seed: int) -> Report:
    """Solve once by a method on tasks."""
    from hogshare import Throttled, asaga_tasks, asgd, saga_rounds, sgd_rounds

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
        stragglers=common_options.late({**settings, "stragglers": law}),
        trace=settings["points"],
        seed=seed,
        **waits,
    )


def facts(report: Report) -> Row:
    """Return the facts of a run for JSON."""
    return {
        "seconds": report.run_seconds,
        "tasks": sum(worker["blocks"] for worker in report.workers),
        "updates": int(report.settings["updates"]),
        "waiting_seconds": [one["waiting_seconds"] for one in report.to_dict()["workers"]],
    }


def slower(row: Row, rows: Sequence[Row], result: Row) -> float | None:
    """Return the slowdown of a method relative to the first law of stragglers."""
    return ratio(row["seconds"], first_of("method", row, rows)["seconds"])


def per_update(run: Row) -> float:
    """Return a worker's mean waiting milliseconds per update."""
    return 1e3 * (statistics.mean(run["waiting_seconds"]) / max(1, run["updates"]))


def per_round(run: Row) -> float:
    """Return a worker's mean waiting milliseconds per round."""
    mean, workers = statistics.mean(run["waiting_seconds"]), len(run["waiting_seconds"])
    return 1e3 * (mean * workers / max(1, run["tasks"]))


NUMBERS = (
    TableNumber("target", lambda run: run.target),
    TableNumber("seconds", lambda run: run.first("seconds"), header="seconds"),
    Compared("slower", by=slower, header="times the first"),
    TableNumber("epochs", lambda run: run.first("epochs"), header="epochs"),
    TableNumber("tasks_per_second", lambda run: run["tasks"] / run["seconds"], header="tasks/s"),
    TableNumber("waiting_ms_per_update", per_update, header="wait ms/update"),
    TableNumber("waiting_ms_per_round", per_round, header="wait ms/round"),
)


def over_laws(key: str, label: str) -> Any:
    """Make a panel of a number of each method, against the laws of stragglers."""

    def draw(ax: Any, result: dict[str, Any]) -> None:
        laws = result["settings"]["stragglers"]
        for method in result["settings"]["methods"]:
            rows = [r for r in result["table"] if r["method"] == method and r[key] is not None]
            places = [laws.index(row["law"]) for row in rows]
            ax.plot(places, [row[key] for row in rows], marker="o", label=method)
        ax.set_xticks(range(len(laws)), laws)
        ax.set_ylim(bottom=0.0)
        ax.set_ylabel(label)
        ax.legend()

    return draw


TASKS = Experiment(
    name="tasks",
    help="ASYNC's methods on tasks, with stragglers",
    description=DESCRIPTION,
    examples=EXAMPLES,
    settings=SETTINGS,
    check=check,
    axes=("method", "law"),
    heading="method, stragglers",
    contestants=lambda settings: [
        (method, law) for law in settings["stragglers"] for method in settings["methods"]
    ],
    problem=lambda args: common_options.stated(*common_options.load(args), vars(args)),
    run_once=run_once,
    facts=facts,
    family_of=lambda run: METHODS[run["method"]],
    numbers=NUMBERS,
    caption="{workers} workers ({runtime}), tasks on {rate:g} of their rows that sleep {base_ms:g} "
    "ms too; {data}, {loss}; medians of {rounds} rounds",
    panels=(
        over_laws("seconds", "seconds to the target"),
        over_laws("waiting_ms_per_round", "ms that a worker waits per round"),
    ),
)
