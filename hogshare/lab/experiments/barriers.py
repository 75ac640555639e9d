"""``hogshare bench barriers``: what barriers make of stragglers."""

from __future__ import annotations

from typing import Any

from hogshare.cli import console, options, outputs
from hogshare.lab.experiments import shared

HELP = "what barriers make of stragglers"

DESCRIPTION = """\
Run the same problem behind several barriers with workers of which some are slow on purpose, and
compare progress, waiting, staleness and the time to a target objective. Workers are threads that
sleep --base-ms in every block, so that many can be measured on few cores. Waiting is what a worker
waits in the mean, per push of anybody and per round (one block of each worker). Medians over
rounds, with the barriers in turn."""

EXAMPLES = "example: hogshare bench barriers --workers 32 --stragglers pcs --barriers asp bsp"


def add_options(parser: Any) -> None:
    """Add the options of ``barriers``."""
    shared.add_rows_options(parser, "digits")
    parser.add_argument(
        "--barriers",
        nargs="+",
        type=options.barrier,
        metavar="BARRIER",
        help="such as asp bsp ssp:4 pbsp:1 pbsp:1,hold pssp:10,4 fraction:0.9,2 throttled:7 "
        "(default: asp, bsp, ssp:4, pbsp:1, pbsp:10, pssp:10,4 and a throttled release)",
    )
    parser.add_argument(
        "--workers", type=options.positive_int, default=8, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--stragglers",
        type=options.stragglers,
        default="none",
        help="who is slow: none; cds:0.6: worker 0 sleeps 60%% of the mean block time in each of "
        "its blocks; pcs: a quarter of the workers sleep 1.5 to 10 times that; lognormal:0.3: all "
        "blocks vary (default: %(default)s)",
    )
    parser.add_argument(
        "--base-ms",
        type=options.not_negative,
        default=20.0,
        metavar="MS",
        help="what every worker sleeps in every block; 0: blocks take what computing takes, and "
        "the mean is that of the first 100 (default: %(default)g)",
    )
    parser.add_argument(
        "--block",
        type=options.positive_int,
        help="rows of a block (default: by which a worker has 32 of them in an epoch)",
    )
    shared.add_plane_options(
        parser,
        "as of speedup; private copies are exchanged after every block (default: %(default)s)",
    )
    shared.add_trial_options(parser, epochs=3, points=32)


def run(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.experiments.measure import barriers

    shared.check_files(args)
    X, y = shared.rows_of(args)
    settings = shared.settings_of(args, barriers.SETTINGS)
    if not args.barriers:
        settings["barriers"] = barriers.default_barriers(args.workers, args.stragglers)
    for warning in barriers.warnings_before(settings):
        console.say(f"hogshare: warning: {warning}")
    result = barriers.measure(X, y, settings)
    for warning in barriers.warnings_after(result):
        console.say(f"hogshare: warning: {warning}")
    outputs.store(args, result, barriers.show, figures.save_barriers)
    return 0
