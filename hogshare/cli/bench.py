"""``hogshare bench``: measurements that a user can repeat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hogshare.cli import console, experiments, options, outputs, ranks, rows

if TYPE_CHECKING:
    from hogshare.rivals.discipline import Discipline

STEP = "1 / mean squared norm of a row"

SPEEDUP = """\
Run the same problem with several numbers of workers and compare what each needs to come down to a
target objective: iterations (steps on --batch rows, all workers together; with --algorithm con,
updates by the master of --gradients times as many) and seconds. With p
workers the iteration speedup is p * iterations(1) / iterations(p): it tells what asynchrony costs
in progress per step. The time speedup is seconds(1) / seconds(p): it tells what a user gains.
Crossings are interpolated on a trace finer than an epoch, whose objective is evaluated after each
run. Medians over repeats, with the worker counts in turn. Compiling and starting workers happen in
a warm-up run, which is told apart and not counted."""

ASYSG_STEP = 0.01
LAW = "lognormal:1,0.2"
ALPHA = 1e-4
PASSES = ("factorisation", "topics")  # which take rows' steps by themselves

SPEEDUP_EXAMPLES = """\
examples:
  hogshare bench speedup --data zipf --workers 1,2 --exchange none
  hogshare bench speedup --problem factorisation --workers 1,2 --exchange none
  hogshare bench speedup --problem network:400-100-50-20-10 --algorithm incon --runtime simulator
  hogshare bench speedup --problem lenet --data mnist-digits --algorithm con --gradients 2"""

BARRIERS = """\
Run the same problem behind several barriers with workers of which some are slow on purpose, and
compare progress, waiting, staleness and the time to a target objective. Workers are threads that
sleep --base-ms in every block, so that many can be measured on few cores. Waiting is what a worker
waits in the mean, per push of anybody and per round (one block of each worker). Medians over
rounds, with the barriers in turn."""

REDUCES = """\
Run the same problem on replicas over several graphs, with several ways of waiting, and compare
rounds, bytes, waiting and the time to a target objective. Every worker has rows and a model of its
own, and averages it with its in-neighbours' every so many rows. Workers are threads that sleep
--base-ms in every block, or on a virtual clock with links between them (--runtime simulator).
Medians over rounds, with the contestants in turn."""

REDUCES_EXAMPLES = """\
examples:
  hogshare bench reduce --workers 8 --graphs ring root all
  hogshare bench reduce --workers 25 --stragglers lognormal:0.5 --graphs root --syncs notify-ack bsp
  hogshare bench reduce --workers 64 --runtime simulator --link 0.001,1e6 --graphs ring root all"""

CENTRES = """\
Train the same problem in several centres with links between them, and compare the time and the
bytes to a target objective: bsp sends every change in step, gaia those that are significant. On a
virtual clock, with real gradients. Medians over rounds."""

CENTRES_EXAMPLES = """\
examples:
  hogshare bench centres --every 100 --threshold 0.1 --clock-difference 2
  hogshare bench centres --centres 11 --links lan regions --block-ms 50 --soft 0.001
  hogshare bench centres --links links.json --plot centres.png"""

TASKS = """\
Run ASYNC's methods on asynchronous tasks with stragglers among the workers, and compare the time to
a target objective and what a worker waits, per update of the model and per round (one task of each
worker). sgd and saga are in rounds that wait for everybody, asgd and asaga take results as they
come. Every task sleeps --base-ms besides, so that many workers can be measured on few cores; their
steps are the papers'. Medians over rounds, with the contestants in turn."""

TASKS_EXAMPLES = """\
examples:
  hogshare bench tasks --stragglers cds:0 cds:0.3 cds:0.6 cds:1
  hogshare bench tasks --workers 32 --stragglers pcs --available 22 --plot pcs.png"""

RIVALS = """\
Race against other libraries to a relative distance from the optimum, (F(w) - F*) / F*, where F(w) =
mean loss + alpha / 2 |w|^2, without an intercept; or with a network, a factorisation or topics
(--problem). Each contestant is warmed up, tries its settings
once, and then takes its turn in every round: fits from scratch with growing budgets, each timed
alone. Medians over rounds. A library that is not installed, or fails, is told with the reason."""


def add_parser(commands: Any) -> None:
    """Add the command and its measurements to the parser."""
    parser = commands.add_parser("bench", help="measure speedups, race against other libraries")
    kinds = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    speedup = kinds.add_parser(
        "speedup",
        help="iteration speedup and time speedup over the number of workers",
        description=SPEEDUP,
        epilog=SPEEDUP_EXAMPLES,
        formatter_class=options.HelpFormatter,
    )
    add_speedup_options(speedup)
    speedup.set_defaults(run=run_speedup, lent={})
    barriers = kinds.add_parser(
        "barriers",
        help="what barriers make of stragglers",
        description=BARRIERS,
        epilog="example: hogshare bench barriers --workers 32 --stragglers pcs --barriers asp bsp",
        formatter_class=options.HelpFormatter,
    )
    add_barriers_options(barriers)
    barriers.set_defaults(run=run_barriers)
    reduces = kinds.add_parser(
        "reduce",
        help="graphs and ways of waiting of replicas",
        description=REDUCES,
        epilog=REDUCES_EXAMPLES,
        formatter_class=options.HelpFormatter,
    )
    add_reduces_options(reduces)
    reduces.set_defaults(run=run_reduces)
    centres = kinds.add_parser(
        "centres",
        help="centres that send each other what matters, on slow links",
        description=CENTRES,
        epilog=CENTRES_EXAMPLES,
        formatter_class=options.HelpFormatter,
    )
    add_centres_options(centres)
    centres.set_defaults(run=run_centres)
    tasks = kinds.add_parser(
        "tasks",
        help="ASYNC's methods on tasks, with stragglers",
        description=TASKS,
        epilog=TASKS_EXAMPLES,
        formatter_class=options.HelpFormatter,
    )
    add_tasks_options(tasks)
    tasks.set_defaults(run=run_tasks)
    rivals = kinds.add_parser(
        "rivals",
        help="time to sub-optimality against other libraries",
        description=RIVALS,
        epilog="example: hogshare bench rivals --data zipf --workers 2 --only hogshare,sklearn",
        formatter_class=options.HelpFormatter,
    )
    add_rivals_options(rivals)
    rivals.set_defaults(run=run_rivals, dtype="float32")


def add_speedup_options(parser: Any) -> None:
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
    add_plane_options(
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


def add_clock_options(parser: Any) -> None:
    """Add the options of ``--runtime simulator``."""
    parser.add_argument(
        "--law",
        type=options.block_time,
        default=LAW,
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


def add_plane_options(parser: Any, exchange: str) -> None:
    """Add the options of the shared plane; `exchange` is the help of ``--exchange``."""
    parser.add_argument("--exchange", type=options.exchange, default="auto", help=exchange)
    parser.add_argument(
        "--adds",
        choices=("plain", "atomic"),
        default="plain",
        help="how workers add to the one vector of --exchange none (default: %(default)s)",
    )


def add_barriers_options(parser: Any) -> None:
    """Add the options of ``barriers``."""
    add_rows_options(parser, "digits")
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
    add_plane_options(
        parser,
        "as of speedup; private copies are exchanged after every block (default: %(default)s)",
    )
    add_trial_options(parser, epochs=3, points=32)


def add_rows_options(parser: Any, data: str) -> None:
    """Add what benches of linear problems have in common: rows, loss and penalty."""
    parser.add_argument("--data", default=data, help=f"{options.DATA_HELP} (default: %(default)s)")
    options.add_data_options(parser)
    options.add_loss_options(parser, "log_loss", "log_loss")


def add_trial_options(parser: Any, epochs: int, points: int, step: str = STEP) -> None:
    """Add what benches of runs have in common: steps, lengths, targets, rounds."""
    parser.add_argument("--step", type=options.positive, help=f"constant (default: {step})")
    parser.add_argument(
        "--epochs",
        type=options.positive_int,
        default=epochs,
        help="of a run (default: %(default)s)",
    )
    parser.add_argument(
        "--target",
        type=options.finite,
        help="objective to come down to, penalty included (default: where the worst run has made "
        "99%% of its gain)",
    )
    parser.add_argument(
        "--rounds", type=options.positive_int, default=3, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--points",
        type=options.positive_int,
        default=points,
        help="points of the trace in an epoch (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=options.seed,
        default=0,
        help="of law and first round (default: 0)",
    )
    outputs.add_options(parser)


def add_reduces_options(parser: Any) -> None:
    """Add the options of ``reduce``."""
    add_rows_options(parser, "digits")
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
        default=LAW,
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
    add_trial_options(parser, epochs=5, points=16)


def add_centres_options(parser: Any) -> None:
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
        choices=("bsp", "gaia"),
        metavar="METHOD",
        default=["bsp", "gaia"],
        help="bsp, gaia (default: both)",
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
        help="of gaia: by which a centre may be ahead of the slowest (default: %(default)s)",
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
    add_trial_options(parser, epochs=5, points=16, step=f"a tenth of {STEP}")


def add_tasks_options(parser: Any) -> None:
    """Add the options of ``tasks``."""
    add_rows_options(parser, "digits")
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
    parser.add_argument(
        "--rounds", type=options.positive_int, default=3, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--points",
        type=options.positive_int,
        default=8,
        help="points of the trace in an epoch (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=options.seed, default=0, help="of law and first round (default: 0)"
    )
    outputs.add_options(parser)


def add_rivals_options(parser: Any) -> None:
    """Add the options of ``rivals``."""
    experiments.add_options(parser)
    parser.add_argument(
        "--loss", choices=("log_loss", "hinge"), default="log_loss", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--alpha",
        type=options.positive,
        help="strength of the l2 penalty (default: 1 / number of rows)",
    )
    parser.add_argument(
        "--targets",
        type=options.targets,
        help="distances from the best: of linear models relative ones from the optimum (default: "
        "1e-1,1e-2,1e-3), of networks shares of held-out rows that are told wrong (0.1,0.05,0.03), "
        "of factorisations and topics relative ones from the objective and the completion "
        "perplexity after many passes of ours (0.1,0.01 and 0.1,0.05,0.02)",
    )
    parser.add_argument(
        "--workers",
        type=options.positive_int,
        help="threads or processes that contestants may use (default: usable cores)",
    )
    parser.add_argument(
        "--rounds", type=options.positive_int, default=5, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--limit",
        metavar="SECONDS",
        type=options.positive,
        default=20.0,
        help="of a contestant's tuning, and again of its rounds (default: %(default)g)",
    )
    parser.add_argument(
        "--only",
        metavar="NAME,...",
        type=options.names,
        default=(),
        help="contestants whose names contain one of these (default: all)",
    )
    parser.add_argument("--seed", type=options.seed, default=0, help="(default: 0)")
    outputs.add_options(parser)


def check_files(args: Any) -> None:
    """Refuse files that cannot be written, and those that are read as well."""
    outputs.check(args)
    labels = {"--labels": args.labels}
    written = {"--json": args.json, "--plot": args.plot}
    outputs.check_distinct({**rows.files_read(args, "--data", **labels), **written})


def rows_of(args: Any) -> tuple[Any, Any]:
    """Load what is measured on."""
    X, y, *_ = rows.load(args, args.data)
    return X, rows.need_labels(y, args.data)


def run_speedup(args: Any) -> int:
    """Measure, print, and store what was asked for; with others, if there are ranks of MPI."""
    return ranks.run(args, speedup_by) if args.runtime == options.RANKS else speedup_by(args)


def speedup_by(args: Any) -> int:
    """As `run_speedup`, by this process."""
    from hogshare import figures
    from hogshare.cli import speedup
    from hogshare.studies.papers import tables_of

    check_algorithm(args)
    check_files(args)
    problem, what = problem_of(args)
    settings = {name: value for name, value in vars(args).items() if name in speedup.SETTINGS}
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


def named_problem(args: Any, algorithm: str) -> tuple[Any, Any]:
    """The family that ``--problem`` names, and its problem; settles the batch."""
    family, data = experiments.data_of(args)
    args.batch = args.batch or family.batch(algorithm)
    return family, family.state(data)


def problem_of(args: Any) -> tuple[Any, str]:
    """The problem that speedups are of, and what it is in words; settles batch and step."""
    from hogshare.cli import trials

    if args.problem == experiments.LINEAR:
        args.batch = args.batch or 1
        if args.algorithm != "sgd" and args.step is None:
            args.step = ASYSG_STEP
        problem = trials.problem_of(*rows_of(args), vars(args))
        return problem, f"{args.loss}, {args.penalty} {args.alpha:g}"
    family, problem = named_problem(args, args.algorithm)
    what = family.what(problem)
    if args.step is None:
        args.step = family.step(problem)
        if args.step is not None and args.algorithm == "con" and not problem.by_mean:
            args.step *= args.batch  # for the mean over a batch, as of one row for itself
    return problem, what


def run_barriers(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.cli import barriers

    check_files(args)
    X, y = rows_of(args)
    settings = {name: value for name, value in vars(args).items() if name in barriers.SETTINGS}
    if not args.barriers:
        settings["barriers"] = barriers.default_barriers(args.workers, args.stragglers)
    for warning in barriers.warnings_before(settings):
        console.say(f"hogshare: warning: {warning}")
    result = barriers.measure(X, y, settings)
    for warning in barriers.warnings_after(result):
        console.say(f"hogshare: warning: {warning}")
    outputs.store(args, result, barriers.show, figures.save_barriers)
    return 0


def run_reduces(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.cli import reduces

    if args.runtime != "simulator" and args.link:
        raise options.WrongCommandLine("--link is of --runtime simulator")
    if args.workers < 2:
        raise options.WrongCommandLine("--workers 1: a worker alone averages with nobody")
    check_files(args)
    X, y = rows_of(args)
    settings = {name: value for name, value in vars(args).items() if name in reduces.SETTINGS}
    result = reduces.measure(X, y, settings)
    outputs.store(args, result, reduces.show, figures.save_reduces)
    return 0


def run_centres(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.cli import centres
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
    experiments.check(args, of_linear(args))
    if args.queue < 2:
        raise options.WrongCommandLine("--queue 1: the last place is for words, take at least 2")
    if args.problem == experiments.LINEAR and args.batch:
        raise options.WrongCommandLine("--batch is not for --problem linear: see --every")
    check_files(args)
    problem = centred_problem_of(args)
    settings = {name: value for name, value in vars(args).items() if name in centres.SETTINGS}
    outputs.store(args, centres.measure(problem, settings), centres.show, figures.save_centres)
    return 0


def centred_problem_of(args: Any) -> Any:
    """The problem that centres train; settles batch and step."""
    from hogshare.cli import centres, trials

    if args.problem == experiments.LINEAR:
        X, y = rows_of(args)
        args.step = args.step or centres.STEP * trials.default_step(X)
        return trials.problem_of(X, y, vars(args))
    family, problem = named_problem(args, "sgd")
    if args.step is None:
        args.step = centres.step_in_centres(problem, family.step(problem), args.centres)
    return problem


def run_tasks(args: Any) -> int:
    """Measure, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.cli import tasks

    if args.available and args.available > args.workers:
        raise options.WrongCommandLine(
            f"--available {args.available} is more than --workers {args.workers}: they would wait "
            "for ever"
        )
    check_files(args)
    X, y = rows_of(args)
    settings = {name: value for name, value in vars(args).items() if name in tasks.SETTINGS}
    outputs.store(args, tasks.measure(X, y, settings), tasks.show, figures.save_tasks)
    return 0


def of_linear(args: Any) -> dict[str, bool]:
    """Options that are for linear problems, and whether they are given."""
    return {
        "--loss": args.loss != "log_loss",
        "--penalty": args.penalty != "l2",
        "--alpha": args.alpha != ALPHA,
    }


def check_algorithm(args: Any) -> None:
    """Refuse options of one algorithm, problem or runtime with another."""
    experiments.check(args, {**of_linear(args), "--coordinate": args.coordinate is not None})
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
    of_the_clock = {"--law": args.law != LAW, "--ceiling": args.ceiling is not None}
    for name, given in of_the_clock.items():
        if given and args.runtime != "simulator":
            raise options.WrongCommandLine(f"{name} goes with --runtime simulator")


def run_rivals(args: Any) -> int:
    """Race, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.cli import rivals

    linear = {"--loss": args.loss != "log_loss", "--alpha": args.alpha is not None}
    experiments.check(args, linear)
    race = linear_race if args.problem == experiments.LINEAR else named_race
    kinds, discipline = race(args)
    result = rivals.measure(discipline, kinds, args)
    outputs.store(args, result, rivals.show, figures.save_race)
    return 0


def linear_race(args: Any) -> tuple[Any, Discipline]:
    """Who races with linear models, and for what."""
    from hogshare.rivals import contestants
    from hogshare.rivals.linear.discipline import LinearRace

    kinds = contestants.of_linear(args.only, args.loss)  # fail before the work, not after it
    check_files(args)
    args.targets = args.targets or (1e-1, 1e-2, 1e-3)
    return kinds, LinearRace(*rows_of(args), args.loss, args.alpha)


def named_race(args: Any) -> tuple[Any, Discipline]:
    """Who races with a problem that has a name, and for what."""
    from hogshare.rivals import contestants, disciplines
    from hogshare.studies.experiments import family_of

    reads = family_of(args.problem).reads
    if reads == "ratings" and args.data is not None:
        raise options.WrongCommandLine(
            "the race of factorisations is on ratings that are made, where everybody's penalty is "
            "the same: leave out --data"
        )
    kinds = contestants.select(args.only, disciplines.CONTESTANTS[reads])
    check_files(args)
    args.targets = args.targets or disciplines.TARGETS[reads]
    return kinds, disciplines.race_of(*experiments.data_of(args), args.seed)
