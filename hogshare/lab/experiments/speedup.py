"""``hogshare bench speedup``: what more workers gain."""

from __future__ import annotations

from typing import Any

from hogshare.cli import console, options, outputs, ranks
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.experiments import shared

ASYSG_STEP = 0.01
PASSES = ("factorisation", "topics")  # which take rows' steps by themselves

HELP = "iteration speedup and time speedup over the number of workers"

DESCRIPTION = """\
Run the same problem with several numbers of workers and compare what each needs to come down to a
target objective: iterations (steps on --batch rows, all workers together; with --algorithm con,
updates by the master of --gradients times as many) and seconds. With p
workers the iteration speedup is p * iterations(1) / iterations(p): it tells what asynchrony costs
in progress per step. The time speedup is seconds(1) / seconds(p): it tells what a user gains.
Crossings are interpolated on a trace finer than an epoch, whose objective is evaluated after each
run. Medians over repeats, with the worker counts in turn. Compiling and starting workers happen in
a warm-up run, which is told apart and not counted."""

EXAMPLES = """\
examples:
  hogshare bench speedup --data zipf --workers 1,2 --exchange none
  hogshare bench speedup --problem factorisation --workers 1,2 --exchange none
  hogshare bench speedup --problem network:400-100-50-20-10 --algorithm incon --runtime simulator
  hogshare bench speedup --problem lenet --data mnist-digits --algorithm con --gradients 2"""


def add_options(parser: Any) -> None:
    """Add the options of ``speedup``."""
    experiments.add_options(parser)
    options.add_loss_options(parser, "log_loss", "log_loss")
    parser.add_argument(
        "--algorithm",
        choices=("sgd", "incon", "con"),
        default="sgd",
        help="sgd: descent on the plane of --exchange; incon, con: AsySG of Lian et al. 2015, "
        "lock-free on one vector or with a master (default: %(default)s)",
    )
    parser.add_argument(
        "--gradients",
        metavar="M",
        type=options.positive_int,
        default=1,
        help="mini-batches that the master of con sums in an update (default: %(default)s); M of "
        "incon is --batch",
    )
    parser.add_argument(
        "--coordinate",
        choices=("uniform", "support", "unbiased"),
        help="let incon write one coordinate per mini-batch, drawn so (default: it writes all)",
    )
    parser.add_argument(
        "--step",
        type=options.positive,
        help="a constant step size: of sgd and incon for a sum over --batch rows, of con and of "
        f"networks for their mean (default: scikit-learn's schedule for sgd, {ASYSG_STEP} for the "
        "others; by the problem where it has a name)",
    )
    shared.add_plane_options(
        parser,
        "auto: private copies, exchanged as often as is best; a number: after so many rows; "
        "none: one vector for all workers, the lock-free algorithm (default: %(default)s)",
    )
    parser.add_argument(
        "--barrier",
        type=options.barrier,
        default="asp",
        help="when a worker may go on, such as bsp, ssp:4 or pssp:10,4 (default: %(default)s: "
        "nobody waits)",
    )
    parser.add_argument(
        "--batch",
        type=options.positive_int,
        help="rows of a step (default: 1, or by the problem where it has a name)",
    )
    parser.add_argument(
        "--workers",
        type=options.worker_counts,
        help="such as 1,2,4; speedups are against the smallest (default: 1, 2, 4, ... cores; of "
        "the simulator to 32)",
    )
    parser.add_argument(
        "--runtime",
        choices=("threads", "processes", options.RANKS, "simulator"),
        default="threads",
        help="who runs the workers; mpi: ranks that mpiexec starts; simulator: one after the other "
        "on a virtual clock, with real gradients and drawn block times (default: %(default)s)",
    )
    add_clock_options(parser)
    parser.add_argument(
        "--epochs", type=options.positive_int, default=10, help="of a run (default: %(default)s)"
    )
    parser.add_argument(
        "--target",
        type=options.finite,
        help="objective to come down to, penalty included (default: where the smallest number of "
        "workers has made 99%% of its gain, in its worst repeat; larger numbers then may run half "
        "as many epochs again)",
    )
    parser.add_argument(
        "--repeats", type=options.positive_int, default=5, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--points",
        type=options.positive_int,
        default=8,
        help="points of the trace in an epoch (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=options.seed, default=0, help="of the first repeat (default: 0)"
    )
    outputs.add_options(parser)
    parser.set_defaults(lent={})


def add_clock_options(parser: Any) -> None:
    """Add the options of ``--runtime simulator``."""
    parser.add_argument(
        "--law",
        type=options.block_time,
        default=shared.LAW,
        help="of the simulator: how long a block takes, such as exponential:1 "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--ceiling",
        type=options.positive,
        metavar="WORKERS",
        help="of the simulator: so many workers keep the model's end of the links busy (default: "
        "no number does)",
    )


def run(args: Any) -> int:
    """Measure, print, and store what was asked for; with others, if there are ranks of MPI."""
    return (
        ranks.run(args, by_this_process) if args.runtime == options.RANKS else by_this_process(args)
    )


def by_this_process(args: Any) -> int:
    """As `run_speedup`, by this process."""
    from hogshare import figures
    from hogshare.lab.experiments.measure import speedup
    from hogshare.lab.studies.papers import tables_of

    check_algorithm(args)
    shared.check_files(args)
    problem, what = problem_of(args)
    settings = shared.settings_of(args, speedup.SETTINGS)
    settings["workers"] = args.workers or speedup.default_workers(args.runtime)
    if args.runtime != speedup.SIMULATOR:
        for warning in speedup.machine_warnings(settings["workers"]):
            console.say(f"hogshare: warning: {warning}")
    result = speedup.measure(problem, settings, args.lent.get("runtime"))
    result |= {"what": what, "paper": tables_of(args.algorithm, args.problem)}
    for warning in speedup.noise_warnings(result):
        console.say(f"hogshare: warning: {warning}")
    outputs.store(args, result, speedup.show, figures.save_speedup)
    return 0


def problem_of(args: Any) -> tuple[Any, str]:
    """The problem that speedups are of, and what it is in words; settles batch and step."""
    from hogshare.lab.experiments.measure import trials

    if args.problem == experiments.LINEAR:
        args.batch = args.batch or 1
        if args.algorithm != "sgd" and args.step is None:
            args.step = ASYSG_STEP
        problem = trials.problem_of(*shared.rows_of(args), vars(args))
        return problem, f"{args.loss}, {args.penalty} {args.alpha:g}"
    family, problem = shared.named_problem(args, args.algorithm)
    what = family.what(problem)
    if args.step is None:
        args.step = family.step(problem)
        if args.step is not None and args.algorithm == "con" and not problem.by_mean:
            args.step *= args.batch  # for the mean over a batch, as of one row for itself
    return problem, what


def check_algorithm(args: Any) -> None:
    """Refuse options of one algorithm, problem or runtime with another."""
    experiments.check(args, {**shared.of_linear(args), "--coordinate": args.coordinate is not None})
    elsewhere = {
        "--exchange": (args.exchange != "auto", ("sgd",)),
        "--adds atomic": (args.adds != "plain", ("sgd", "incon")),
        "--gradients": (args.gradients != 1, ("con",)),
        "--coordinate": (args.coordinate is not None, ("incon",)),
    }
    for name, (given, algorithms) in elsewhere.items():
        if given and args.algorithm not in algorithms:
            raise options.WrongCommandLine(
                f"{name} goes with --algorithm {' or '.join(algorithms)}, not {args.algorithm}"
            )
    if args.problem in PASSES and args.adds != "plain":
        raise options.WrongCommandLine(
            f"--adds atomic is not for --problem {args.problem}, whose rows are added plainly"
        )
    of_the_clock = {"--law": args.law != shared.LAW, "--ceiling": args.ceiling is not None}
    for name, given in of_the_clock.items():
        if given and args.runtime != "simulator":
            raise options.WrongCommandLine(f"{name} goes with --runtime simulator")
