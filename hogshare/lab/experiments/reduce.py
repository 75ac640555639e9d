"""``hogshare bench reduce``: graphs and ways of waiting of replicas."""

from __future__ import annotations

from typing import Any

from hogshare.cli import options, outputs
from hogshare.lab.experiments import shared

HELP = "graphs and ways of waiting of replicas"

DESCRIPTION = """\
Run the same problem on replicas over several graphs, with several ways of waiting, and compare
rounds, bytes, waiting and the time to a target objective. Every worker has rows and a model of its
own, and averages it with its in-neighbours' every so many rows. Workers are threads that sleep
--base-ms in every block, or on a virtual clock with links between them (--runtime simulator).
Medians over rounds, with the contestants in turn."""

EXAMPLES = """\
examples:
  hogshare bench reduce --workers 8 --graphs ring root all
  hogshare bench reduce --workers 25 --stragglers lognormal:0.5 --graphs root --syncs notify-ack bsp
  hogshare bench reduce --workers 64 --runtime simulator --link 0.001,1e6 --graphs ring root all"""


def add_options(parser: Any) -> None:
    """Add the options of ``reduce``."""
    shared.add_rows_options(parser, "digits")
    parser.add_argument(
        "--graphs",
        nargs="+",
        type=options.graph,
        metavar="GRAPH",
        default=["ring", "root", "all"],
        help="who sends to whom: all, star, ring, root, random, exponential, one-peer, hypercube "
        "(default: ring root all)",
    )
    parser.add_argument(
        "--syncs",
        nargs="+",
        choices=("notify-ack", "bsp", "async"),
        metavar="SYNC",
        default=["notify-ack"],
        help="notify-ack, bsp, async: reduces wait for their in-neighbours, for everybody, for "
        "nobody (default: notify-ack)",
    )
    parser.add_argument(
        "--every",
        type=options.positive_int,
        metavar="ROWS",
        help="rows of a worker between two reduces (default: by which it has 16 in an epoch)",
    )
    parser.add_argument(
        "--workers", type=options.positive_int, default=8, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--runtime",
        choices=("threads", "processes", "simulator"),
        default="threads",
        help="who runs the workers (default: %(default)s)",
    )
    parser.add_argument(
        "--law",
        type=options.block_time,
        default=shared.LAW,
        help="of the simulator: how long a block takes (default: %(default)s)",
    )
    parser.add_argument(
        "--link",
        type=options.link,
        metavar="LATENCY,BANDWIDTH",
        help="of the simulator: seconds, and bytes per second, of every edge (default: at once)",
    )
    parser.add_argument(
        "--stragglers",
        type=options.stragglers,
        default="none",
        help="who is slow, as of barriers (default: %(default)s)",
    )
    parser.add_argument(
        "--base-ms",
        type=options.not_negative,
        default=5.0,
        metavar="MS",
        help="what every worker sleeps in every block (default: %(default)g)",
    )
    shared.add_trial_options(parser, epochs=5, points=16)


def run(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.experiments.measure import reduce

    if args.runtime != "simulator" and args.link:
        raise options.WrongCommandLine("--link is of --runtime simulator")
    if args.workers < 2:
        raise options.WrongCommandLine("--workers 1: a worker alone averages with nobody")
    shared.check_files(args)
    X, y = shared.rows_of(args)
    settings = shared.settings_of(args, reduce.SETTINGS)
    result = reduce.measure(X, y, settings)
    outputs.store(args, result, reduce.show, figures.save_reduces)
    return 0
