"""``hogshare bench speedup``: the gain of more workers.

Definitions (as in Lian et al. 2015): an iteration is one step on a mini-batch, counted over all
workers. With p workers, iteration speedup = p * iterations(1) / iterations(p), and time speedup =
seconds(1) / seconds(p), both to the same objective. An iteration of ``incon`` is a write cycle. An
iteration of ``con`` is an update by the master, from `gradients` mini-batches. Departures: (1) With
private copies, a step changes the copy, and one push carries many steps. Iterations therefore count
steps, not pushes; on one shared vector the two numbers are equal. (2) A trace counts computed
blocks. With ``con`` these include blocks whose messages are still under way, up to two for each
worker. On the virtual clock, seconds are virtual.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hogshare.cli import options
from hogshare.lab.experiments import common_options
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.harness import panels
from hogshare.lab.harness.experiment import LAST_PART, Experiment, Settings
from hogshare.lab.harness.settings import Group, Setting
from hogshare.lab.harness.table_numbers import Compared, Row, TableNumber, ratio

if TYPE_CHECKING:
    from hogshare.report import Report

DESCRIPTION = """\
Run the same problem with several numbers of workers and compare the iterations (steps on --batch
rows, all workers together; with --algorithm con, updates by the master of --gradients times as
many) and the seconds to a target objective. With p workers the iteration speedup is
p * iterations(1) / iterations(p): it shows the cost of asynchrony in progress per step. The time
speedup is seconds(1) / seconds(p): it shows the gain for a user. Crossings are interpolated on a
trace finer than an epoch, whose objective is evaluated after each run. Medians over repeats that
alternate the worker counts. Compiling and the start of workers are part of a warm-up run, which is
reported separately and not counted."""

EXAMPLES = """\
examples:
  hogshare bench speedup --data zipf --workers 1,2 --exchange none
  hogshare bench speedup --problem factorisation --workers 1,2 --exchange none
  hogshare bench speedup --problem network:400-100-50-20-10 --algorithm incon --runtime simulator
  hogshare bench speedup --problem lenet --data mnist-digits --algorithm con --gradients 2"""

ASYSG_STEP = 0.01
PASSES = ("factorisation", "topics")  # problems that take the steps of rows themselves
SIMULATOR = "simulator"
VIRTUAL_WORKERS = [1, 2, 4, 8, 16, 32]

# a spread of the repeats' speed, (slowest - fastest) / median, above which medians say little
LARGE_SPREAD = 0.3

# blocks of incon in an epoch: the vector contains writes of unfinished blocks that are not counted
# yet; with large blocks this would favour many workers by a tenth of an epoch
BLOCKS_PER_WORKER = 100

SETTINGS: tuple[Setting | Group, ...] = (
    experiments.PROBLEM,
    common_options.LOSS,
    Setting(
        "algorithm",
        "sgd: descent on the plane of --exchange; incon, con: AsySG of Lian et al. 2015, "
        "lock-free on one vector or with a master",
        "sgd",
        choices=("sgd", "incon", "con"),
    ),
    Setting(
        "gradients",
        "mini-batches that the master of con sums in an update (default: %(default)s); M of "
        "incon is --batch",
        1,
        options.positive_int,
        metavar="M",
    ),
    Setting(
        "coordinate",
        "let incon write one coordinate per mini-batch, by this draw (default: it writes all)",
        choices=("uniform", "support", "unbiased"),
    ),
    Setting(
        "step",
        "constant step size: of sgd and incon for a sum over --batch rows, of con and networks for "
        f"their mean (default: scikit-learn's schedule for sgd, {ASYSG_STEP} for the others; by "
        "the problem if it is named)",
        type=options.positive,
    ),
    *common_options.plane(
        "auto: private copies with the best interval; a number: rows between two exchanges; none: "
        "one vector for all workers, the lock-free algorithm"
    ),
    Setting(
        "barrier",
        "when a worker may go on, such as bsp, ssp:4 or pssp:10,4 (default: %(default)s: "
        "without waiting)",
        "asp",
        options.barrier,
    ),
    Setting(
        "batch",
        "rows of a step (default: 1, or by the problem if it is named)",
        type=options.positive_int,
    ),
    Setting(
        "workers",
        "such as 1,2,4; speedups are against the smallest (default: 1, 2, 4, ... cores; of "
        "the simulator to 32)",
        type=options.worker_counts,
    ),
    Setting(
        "runtime",
        "the workers' runtime; mpi: ranks started by mpiexec; simulator: one process with a "
        "virtual clock, real gradients and drawn block times",
        "threads",
        choices=("threads", "processes", options.RANKS, SIMULATOR),
    ),
    common_options.LAW_OF_BLOCKS,
    Setting(
        "ceiling",
        "of the simulator: number of workers that fill the links of the model's home (default: "
        "none does)",
        type=options.positive,
        metavar="WORKERS",
    ),
    Setting("epochs", "of a run", 10, options.positive_int),
    Setting(
        "target",
        "objective to reach, penalty included (default: where the smallest number of workers has "
        "made 99%% of its gain, in its worst repeat; larger numbers may then run 1.5 times the "
        "epochs)",
        type=options.finite,
    ),
    Setting("repeats", "", 5, options.positive_int),
    common_options.points(8),
    Setting("seed", "of the first repeat", 0, options.seed),
)


def check(args: Any) -> None:
    """Refuse options of one algorithm, problem or runtime with another."""
    experiments.check(
        args, {**common_options.of_linear(args), "--coordinate": args.coordinate is not None}
    )
    others = {
        "--exchange": (args.exchange != "auto", ("sgd",)),
        "--adds atomic": (args.adds != "plain", ("sgd", "incon")),
        "--gradients": (args.gradients != 1, ("con",)),
        "--coordinate": (args.coordinate is not None, ("incon",)),
    }
    for name, (given, algorithms) in others.items():
        if given and args.algorithm not in algorithms:
            raise options.WrongCommandLine(
                f"{name} is for --algorithm {' or '.join(algorithms)}, not {args.algorithm}"
            )
    if args.problem in PASSES and args.adds != "plain":
        raise options.WrongCommandLine(
            f"--adds atomic is not for --problem {args.problem}, which has only plain adds"
        )
    of_the_clock = {"--law": args.law != common_options.LAW, "--ceiling": args.ceiling is not None}
    for name, given in of_the_clock.items():
        if given and args.runtime != SIMULATOR:
            raise options.WrongCommandLine(f"{name} needs --runtime simulator")


def problem_of(args: Any) -> Any:
    """Return the problem to measure; fill in batch and step."""
    if args.problem == experiments.LINEAR:
        args.batch = args.batch or 1
        if args.algorithm != "sgd" and args.step is None:
            args.step = ASYSG_STEP
        return common_options.stated(*common_options.load(args), vars(args))
    family, problem = common_options.named_problem(args, args.algorithm)
    if args.step is None:
        args.step = family.step(problem)
        if args.step is not None and args.algorithm == "con" and not problem.by_mean:
            args.step *= args.batch  # the step is for the mean over a batch, the default for a row
    return problem


def about(problem: Any, settings: Settings) -> dict[str, Any]:
    """Describe the problem, and add the paper's tables."""
    from hogshare.lab.studies.named_problems import family_of
    from hogshare.lab.studies.printed_speedups import tables_of

    name = settings["problem"]
    if name == experiments.LINEAR:
        what = f"{settings['loss']}, {settings['penalty']} {settings['alpha']:g}"
    else:
        what = family_of(name).what(problem)
    return {"what": what, "paper": tables_of(settings["algorithm"], name)}


def default_workers(runtime: str = "threads") -> list[int]:
    """Return 1, 2, 4, ... and the number of usable cores; on the virtual clock 1, 2, 4, ..., 32."""
    import joblib

    if runtime == SIMULATOR:
        return VIRTUAL_WORKERS
    cores = joblib.cpu_count()
    return sorted({2**k for k in range(cores.bit_length()) if 2**k <= cores} | {cores})


def settle(problem: Any, settings: Settings) -> Settings:
    """Fill in the numbers of workers."""
    return {**settings, "workers": settings["workers"] or default_workers(settings["runtime"])}


def run_once(problem: Any, settings: Settings, contestant: tuple[int], seed: int) -> Report:
    """Solve once with a number of workers."""
    from hogshare.problems.gradient import NotFinite

    (count,) = contestant
    try:
        return _solved(problem, settings, count, seed)
    except NotFinite as error:
        raise ValueError(
            f"with {count} worker{'s' * (count != 1)} the model is not finite: use a --step "
            f"below {settings['step']:g}"
        ) from error


def _solved(problem: Any, settings: Settings, count: int, seed: int) -> Report:
    from hogshare import SGD, Stop, asysg_con, asysg_incon, barriers, solve
    from hogshare.lab.studies.clock import virtual

    epochs, by = settings["epochs"], settings["runtime"]
    is_virtual = by == SIMULATOR
    if settings["target"] is None and count != settings["workers"][0]:
        # more epochs than one worker: measures their loss per epoch instead of "not reached"
        epochs += math.ceil(epochs / 2)
    batch, step = settings["batch"], settings["step"]
    if is_virtual:
        by_messages = settings["algorithm"] == "con"
        by = virtual(problem, settings["law"], settings["ceiling"], by_messages, seed)
    common: dict[str, Any] = {
        "barrier": barriers.parse(settings["barrier"]),
        "runtime": by,
        "n_workers": count,
        "stop": Stop(epochs=epochs, tol=None),
        "seed": seed,
        "trace": settings["points"],
    }
    if common_options.has_own_steps(problem):
        return solve(problem, plane=plane_of(settings), block=batch, **common)
    if settings["algorithm"] == "sgd":
        return solve(problem, rule=SGD(batch=batch), plane=plane_of(settings), step=step, **common)
    common |= {"batch": batch, "step": step, "theory": False}
    if settings["algorithm"] == "con":
        return asysg_con(problem, gradients=settings["gradients"], **common)
    drawn, adds = settings["coordinate"], settings["adds"]
    if is_virtual and drawn is None:
        common["block"] = batch  # each block has its own read
    elif drawn is None and problem.has_rows:
        common["block"] = max(batch, problem.n_rows // (BLOCKS_PER_WORKER * count))
    return asysg_incon(problem, coordinate=drawn, adds=adds, **common)


def plane_of(settings: Settings) -> Any:
    """Return the plane of an algorithm."""
    from hogshare import Master, Shared

    if settings["algorithm"] == "con":
        return Master(gradients=settings["gradients"], fold="sum")
    exchange = settings["exchange"] if settings["algorithm"] == "sgd" else None
    return Shared(exchange=exchange, adds=settings["adds"])


def facts(report: Report) -> Row:
    """Return the facts of a run for JSON."""
    plain = report.to_dict()
    seconds = report.seconds.get("virtual", report.seconds["run"])
    return {
        "n_epochs": plain["n_epochs"],
        "seconds": plain["seconds"],
        "seconds_per_epoch": seconds / max(1, report.n_epochs),
        "pushes": sum(int(worker.get("pushes") or 0) for worker in report.workers),
        **{name: plain[name] for name in ("staleness_mean", "staleness_p95", "staleness_max")},
    }


def default_target(runs: Sequence[Row]) -> float:
    """Return the objective at which the worst run with the fewest workers has 99 % of its gain.

    The last objective would be the natural choice. But if a run converges early, its last objective
    is on a flat tail, and the time at which a trace crosses it is random.
    """
    fewest = min(run["workers"] for run in runs)
    traces = [run["trace"]["objective"] for run in runs if run["workers"] == fewest]
    if any(trace[0] is None or trace[-1] is None for trace in traces):
        raise ValueError("the objective of the smallest number of workers is not finite")
    return float(max(end + LAST_PART * (start - end) for start, *_, end in traces))


def iterations(row: Row, rows: Sequence[Row], result: dict[str, Any]) -> float | None:
    """Return the iterations to the target: the iterations of an epoch times the epochs."""
    settings = result["settings"]
    per_epoch = result["data"]["rows"] / (settings["batch"] * settings["gradients"])
    return None if row["epochs"] is None else row["epochs"] * per_epoch


def iteration_speedup(row: Row, rows: Sequence[Row], result: dict[str, Any]) -> float | None:
    """Return the iteration speedup over the smallest number of workers."""
    return ratio(rows[0]["epochs"], row["epochs"], row["workers"] / rows[0]["workers"])


NUMBERS = (
    TableNumber("epochs", lambda run: run.first("epochs")),
    Compared("iterations", by=iterations, header="iterations", form=round),
    Compared("iteration_speedup", by=iteration_speedup, header="iteration speedup"),
    TableNumber("seconds", lambda run: run.first("seconds"), header="seconds"),
    Compared(
        "time_speedup",
        by=lambda row, rows, result: ratio(rows[0]["seconds"], row["seconds"]),
        header="time speedup",
    ),
    TableNumber("seconds_per_epoch"),
    TableNumber("staleness_mean", header="staleness mean"),
    TableNumber("staleness_max", over=max, header="staleness max"),
    TableNumber(
        "objective_at_end", lambda r: r["trace"]["objective"][-1], header="objective at end"
    ),
)


def doubts(result: dict[str, Any]) -> list[str]:
    """Return warnings on the measured times, if the repeats differ too much."""
    found: list[str] = []
    if result["settings"]["runtime"] == SIMULATOR:
        return found
    for count in result["settings"]["workers"]:
        times = [run["seconds_per_epoch"] for run in result["runs"] if run["workers"] == count]
        spread = (max(times) - min(times)) / statistics.median(times)
        if spread > LARGE_SPREAD:
            found.append(
                f"noisy machine: with {count} worker{'s' * (count != 1)} the repeats' speed "
                f"differs by {spread:.0%}; close other programs, or use more --repeats"
            )
    return found


def notes(result: dict[str, Any]) -> Iterable[str]:
    """Describe the table, and the paper's tables."""
    settings = result["settings"]
    yield (
        f"{result['what']}, {algorithm_of(settings)}, {runtime_of(settings)}; medians of "
        f"{settings['repeats']} repeats; warm-up (compiling, starting workers) of "
        f"{result['warm_up_seconds']:.1f} s not counted"
    )
    for table in result["paper"]:
        iterations = table["iteration"] or ["-"] * len(table["workers"])
        cells = zip(table["workers"], iterations, table["time"], strict=True)
        printed = "; ".join(f"{n}: {iteration}, {seconds}" for n, iteration, seconds in cells)
        yield f"the paper's speedups, iterations and time ({table['what']}): {printed}"


def runtime_of(settings: Settings) -> str:
    """Describe the runtime."""
    if settings["runtime"] != SIMULATOR:
        return str(settings["runtime"])
    ceiling, clock = settings["ceiling"], f"virtual clock, blocks of {settings['law']}"
    return clock if ceiling is None else f"{clock}, {ceiling:g} workers fill the master's links"


def algorithm_of(settings: Settings) -> str:
    """Describe the algorithm."""
    if settings["algorithm"] == "con":
        what = f"AsySG-con, M = {settings['gradients']}, batch {settings['batch']}"
    elif settings["algorithm"] == "incon":
        what = f"AsySG-incon, M = {settings['batch']}"
        what += f", coordinate {settings['coordinate']}" if settings["coordinate"] else ""
    else:
        what = f"exchange {settings['exchange'] or 'none'}"
    return what if settings["step"] is None else f"{what}, step {settings['step']:g}"


def draw_speedups(ax: Any, result: dict[str, Any]) -> None:
    """Draw both speedups against the number of workers."""
    workers = [row["workers"] for row in result["table"]]
    ax.plot(workers, workers, color="grey", linewidth=0.8, linestyle="--", label="ideal")
    for key, label in (("iteration_speedup", "iterations"), ("time_speedup", "time")):
        rows = [row for row in result["table"] if row[key] is not None]
        ax.plot([r["workers"] for r in rows], [r[key] for r in rows], marker="o", label=label)
    ax.set_xticks(workers)
    ax.set_xlabel("workers")
    ax.set_ylabel("speedup")
    ax.legend()


SPEEDUP = Experiment(
    name="speedup",
    help="iteration speedup and time speedup over the number of workers",
    description=DESCRIPTION,
    examples=EXAMPLES,
    settings=SETTINGS,
    check=check,
    axes=("workers",),
    contestants=lambda settings: [(count,) for count in settings["workers"]],
    # on the virtual clock all numbers of workers use the same kernels, and no worker starts
    is_warmed=lambda settings, one: settings["runtime"] != SIMULATOR,
    problem=problem_of,
    settle=settle,
    about=about,
    run_once=run_once,
    facts=facts,
    target_of=default_target,
    numbers=NUMBERS,
    notes=notes,
    doubts=doubts,
    rounds="repeats",
    panels=(panels.objective("epochs"), panels.objective("seconds"), draw_speedups),
    title="{data}, {what}",
)
