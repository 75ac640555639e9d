"""``hogshare bench tasks``: ASYNC's methods on tasks, with stragglers."""

from __future__ import annotations

from typing import Any

from hogshare.cli import options, outputs
from hogshare.lab.experiments import shared

HELP = "ASYNC's methods on tasks, with stragglers"

DESCRIPTION = """\
Run ASYNC's methods on asynchronous tasks with stragglers among the workers, and compare the time to
a target objective and what a worker waits, per update of the model and per round (one task of each
worker). sgd and saga are in rounds that wait for everybody, asgd and asaga take results as they
come. Every task sleeps --base-ms besides, so that many workers can be measured on few cores; their
steps are the papers'. Medians over rounds, with the contestants in turn."""

EXAMPLES = """\
examples:
  hogshare bench tasks --stragglers cds:0 cds:0.3 cds:0.6 cds:1
  hogshare bench tasks --workers 32 --stragglers pcs --available 22 --plot pcs.png"""


def add_options(parser: Any) -> None:
    """Add the options of ``tasks``."""
    shared.add_rows_options(parser, "digits")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=("sgd", "asgd", "saga", "asaga"),
        metavar="METHOD",
        default=["sgd", "asgd", "saga", "asaga"],
        help="sgd, asgd, saga, asaga (default: all)",
    )
    parser.add_argument(
        "--workers", type=options.positive_int, default=8, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--runtime",
        choices=("threads", "processes"),
        default="threads",
        help="who runs tasks (default: %(default)s)",
    )
    parser.add_argument(
        "--stragglers",
        nargs="+",
        type=options.stragglers,
        metavar="LAW",
        default=["cds:0", "cds:1"],
        help="who is slow, as of barriers, one after the other; what the first takes is what the "
        "others are compared with (default: cds:0 cds:1)",
    )
    parser.add_argument(
        "--base-ms",
        type=options.not_negative,
        default=5.0,
        metavar="MS",
        help="what every task sleeps (default: %(default)g)",
    )
    parser.add_argument(
        "--rate",
        type=options.share,
        default=0.1,
        help="share of its rows that a task draws (default: %(default)g)",
    )
    parser.add_argument(
        "--partitions",
        type=options.positive_int,
        help="of the rows (default: one for each worker)",
    )
    parser.add_argument(
        "--available",
        type=options.positive_int,
        metavar="WORKERS",
        help="asgd and asaga hand out tasks when so many workers wait (default: to any)",
    )
    parser.add_argument(
        "--epochs", type=options.positive, default=8.0, help="of a run (default: %(default)g)"
    )
    parser.add_argument(
        "--target",
        type=options.finite,
        help="objective to come down to, penalty included (default: for sgd and asgd, and for saga "
        "and asaga, where the worst run has made 99%% of its gain)",
    )
    shared.add_round_options(parser, points=8)


def run(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.experiments.measure import tasks

    if args.available and args.available > args.workers:
        raise options.WrongCommandLine(
            f"--available {args.available} is more than --workers {args.workers}: they would wait "
            "for ever"
        )
    shared.check_files(args)
    X, y = shared.rows_of(args)
    settings = shared.settings_of(args, tasks.SETTINGS)
    outputs.store(args, tasks.measure(X, y, settings), tasks.show, figures.save_tasks)
    return 0
