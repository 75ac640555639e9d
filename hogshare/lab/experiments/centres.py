"""``hogshare bench centres``: centres that send each other what matters, on slow links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hogshare.cli import options, outputs
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.experiments import shared

HELP = "centres that send each other what matters, on slow links"

DESCRIPTION = """\
Train the same problem in several centres with links between them, and compare the time and the
bytes to a target objective: bsp sends every change in step, gaia those that are significant, and
ssp every change with gaia's clock difference, which gaia's filter alone is measured against. On a
virtual clock, with real gradients. Medians over rounds."""

EXAMPLES = """\
examples:
  hogshare bench centres --every 100 --threshold 0.1 --clock-difference 2
  hogshare bench centres --centres 11 --links lan regions --block-ms 50 --soft 0.001
  hogshare bench centres --links links.json --plot centres.png"""


def add_options(parser: Any) -> None:
    """Add the options of ``centres``."""
    experiments.add_options(parser)
    options.add_loss_options(parser, "log_loss", "log_loss")
    parser.add_argument(
        "--batch",
        type=options.positive_int,
        metavar="ROWS",
        help="of a gradient, where the problem is not linear (default: by the problem)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=("bsp", "ssp", "gaia"),
        metavar="METHOD",
        default=["bsp", "gaia"],
        help="bsp, ssp, gaia (default: bsp gaia)",
    )
    parser.add_argument(
        "--links",
        nargs="+",
        metavar="LINKS",
        default=["lan", "wan", "slowest"],
        help="lan; wan and slowest: 15 and 60 times slower; regions: as on a globe; such as "
        "15x:100ms; or a JSON file with matrices of latency and bandwidth (default: lan wan "
        "slowest)",
    )
    parser.add_argument(
        "--runtime",
        choices=("simulator", "threads", "processes"),
        default="simulator",
        help="a virtual clock, or links emulated between workers (default: %(default)s)",
    )
    parser.add_argument(
        "--centres", type=options.positive_int, default=3, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--workers", type=options.positive_int, help="of all centres (default: one for each)"
    )
    parser.add_argument(
        "--threshold",
        type=options.not_negative,
        default=0.01,
        help="of gaia: a change matters that is more than so much of the value, over the root of "
        "the clock (default: %(default)g)",
    )
    parser.add_argument(
        "--soft", type=options.not_negative, help="of gaia: on links that are idle (default: none)"
    )
    parser.add_argument(
        "--clock-difference",
        type=options.not_negative_int,
        default=0,
        metavar="CLOCKS",
        help="of gaia and ssp: by which a centre may be ahead of the slowest "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--delay",
        type=options.not_negative,
        default=0.1,
        metavar="SECONDS",
        help="that a link may be busy before it names what is to come (default: %(default)g)",
    )
    parser.add_argument(
        "--queue",
        type=options.positive_int,
        default=3,
        metavar="MESSAGES",
        help="of a link that may be under way, at least 2 (default: %(default)s)",
    )
    parser.add_argument(
        "--every",
        type=options.positive_int,
        metavar="ROWS",
        help="rows of a worker in a clock (default: by the curvature)",
    )
    parser.add_argument(
        "--block-ms",
        type=options.positive,
        default=20.0,
        metavar="MS",
        help="of a block: virtual ones, or slept besides (default: %(default)g)",
    )
    shared.add_trial_options(parser, epochs=5, points=16, step=f"a tenth of {shared.STEP}")


def run(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.experiments.measure import centres
    from hogshare.links import regions

    if args.centres < 2:
        raise options.WrongCommandLine("--centres 1: a centre alone sends nothing")
    if args.workers and args.workers < args.centres:
        raise options.WrongCommandLine(
            f"--workers {args.workers} is less than --centres {args.centres}: each needs one"
        )
    for name in args.links:
        if not regions.is_preset(name):
            if not Path(name).is_file():
                raise options.WrongCommandLine(
                    f"--links {name}: no such file, and none of {', '.join(regions.PRESETS)}, "
                    "or as in 15x:100ms"
                )
            n = len(regions.read(name))
            if n != args.centres:
                raise options.WrongCommandLine(
                    f"--links {name} is of {n} centres, and there are {args.centres}"
                )
    experiments.check(args, shared.of_linear(args))
    if args.queue < 2:
        raise options.WrongCommandLine("--queue 1: the last place is for words, take at least 2")
    if args.problem == experiments.LINEAR and args.batch:
        raise options.WrongCommandLine("--batch is not for --problem linear: see --every")
    shared.check_files(args)
    problem = problem_of(args)
    settings = shared.settings_of(args, centres.SETTINGS)
    outputs.store(args, centres.measure(problem, settings), centres.show, figures.save_centres)
    return 0


def problem_of(args: Any) -> Any:
    """The problem that centres train; settles batch and step."""
    from hogshare.lab.experiments.measure import centres, trials

    if args.problem == experiments.LINEAR:
        X, y = shared.rows_of(args)
        args.step = args.step or centres.STEP * trials.default_step(X)
        return trials.problem_of(X, y, vars(args))
    family, problem = shared.named_problem(args, "sgd")
    if args.step is None:
        args.step = centres.step_in_centres(problem, family.step(problem), args.centres)
    return problem
