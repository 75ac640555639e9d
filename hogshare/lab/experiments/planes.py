"""``hogshare bench planes``: all planes against `Shared` and one worker, without sleeping blocks.

A contestant is a plane, for example "mirrors:every=512". The name of emulated links may follow, for
example "mirrors over wan". "one worker" runs first. Its objective at the end of its epochs is the
target of all other contestants, which may take more epochs. Between ranks there are two more
contestants: a plain all-reduce of mini-batch gradients, and local descent with averages
(`hogshare.lab.rivals.collectives`).

Seconds are the seconds of training. They exclude the reading of rows, compiling, and the start of
workers, which are reused between runs. With replicas, snapshots cost a third of the time, so every
contestant runs twice. The seconds, bytes and waits are those of a run without snapshots. The point
at which an objective is reached is that of a run with snapshots; their objectives are evaluated
after the run.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hogshare.cli import console, options
from hogshare.lab.experiments import common_options
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.harness import panels, rank_measurement
from hogshare.lab.harness.command import Result
from hogshare.lab.harness.experiment import Experiment, Settings
from hogshare.lab.harness.settings import Group, Setting
from hogshare.lab.harness.table_numbers import (
    Compared,
    MeasuredRun,
    Row,
    Spread,
    TableNumber,
    median,
    ratio,
)

if TYPE_CHECKING:
    from hogshare.report import Report

DESCRIPTION = """\
Train the same problem on every plane, and compare the time to the objective that one worker has
after --epochs epochs, the objective after as many epochs, bytes and waiting; with ratios to shared
and to one worker. Blocks only compute, unless --block-ms makes workers sleep. Seconds are those of
training only: without reading, compiling, starting workers and evaluating the objective. Between
MPI ranks, which exchange messages even on one machine, a plain all-reduce of mini-batches and local
descent with averages of the models run too. Medians over rounds that alternate the contestants."""

EXAMPLES = """\
examples:
  hogshare bench planes --data zipf --workers 2 --json planes.json --plot planes.png
  hogshare bench planes --data a9a --planes shared mirrors mirrors:every=512,threshold=0
  hogshare bench planes --runtime processes --workers 3 --links lan wan
  mpiexec -n 3 python -m mpi4py -m hogshare bench planes --runtime mpi --links wan"""

ONE = "one worker"
OWN = ("shared", "replicas", "master", "mirrors")
COLLECTIVE = ("all-reduce", "local-sgd")
OVER = " over "  # between the name of a plane and the name of its links
MORE = 2  # limit of the other contestants' epochs, in epochs of one worker
MNIST = "mnist"  # as --data: all its digits, with a network
MNIST_NETWORK, DIGITS_NETWORK = "network:784-100-10", "network:64-100-10"
BETWEEN = re.compile(r",(?=\s*\w+\s*=)")  # options of a plane

SETTINGS: tuple[Setting | Group, ...] = (
    experiments.PROBLEM,
    Group(lambda parser: parser.set_defaults(dtype="float32")),
    common_options.LOSS,
    common_options.BATCH,
    Setting(
        "planes",
        "shared, replicas, master, mirrors, with options as in mirrors:every=512,threshold=0; of "
        "ranks all-reduce and local-sgd, too (default: all)",
        type=lambda text: options.checked(lambda name: plane_of(name, 2), text),
        several=True,
    ),
    Setting(
        "workers",
        "of each rank, or of the run (default: 1, or usable cores); mirrors: a centre per worker",
        type=options.positive_int,
    ),
    Setting(
        "runtime",
        "the workers' runtime; mpi: ranks started by mpiexec",
        "threads",
        choices=("threads", "processes", options.RANKS),
    ),
    Setting(
        "links",
        "links to emulate: lan, wan, slowest, or as in 15x:100ms; between ranks, or between the "
        "centres of mirrors (default: none)",
        (),
        several=True,
        metavar="LINKS",
    ),
    Setting(
        "block_ms",
        "sleep of workers in every block, in addition to computing",
        0.0,
        options.not_negative,
        metavar="MS",
    ),
    Setting("step", "constant (default: by the problem)", type=options.positive),
    Setting("epochs", "of one worker; others may take twice as many", 5, options.positive_int),
    Setting(
        "target",
        "objective to reach, penalty included (default: that of one worker after its epochs, in "
        "its worst round, plus the share --within of it)",
        type=options.finite,
    ),
    Setting(
        "within",
        "share of one worker's objective by which the target is above it: on a flat tail the time "
        "of a crossing is random",
        0.001,
        options.not_negative,
        metavar="SHARE",
    ),
    Setting("rounds", "", 5, options.positive_int),
    Setting(
        "points",
        "points of the trace in an epoch (default: 4; of ranks 1)",
        type=options.positive_int,
    ),
    common_options.SEED,
)


# -- planes by name


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """Parse a plane's name and options.

    Examples
    --------
    >>> from hogshare.lab.experiments.planes import parsed
    >>> parsed("mirrors:every=512,fold=sum,centres=[0, 0, 1]")
    ('mirrors', {'every': 512, 'fold': 'sum', 'centres': [0, 0, 1]})
    """
    name, _, choices = text.partition(":")
    given = {}
    for part in filter(None, map(str.strip, BETWEEN.split(choices))):
        key, is_given, value = part.partition("=")
        if not is_given:
            raise ValueError(f"{text!r}: {part!r} is not an option such as every=512")
        try:
            given[key.strip()] = ast.literal_eval(value.strip().capitalize())
        except (ValueError, SyntaxError):
            given[key.strip()] = value.strip()
    return name.strip().lower(), given


def plane_of(text: str, centres: Any, links: str | None = None) -> Any:
    """Return the plane of a name, or the name itself if it is a collective method.

    text : name and options, as for `parsed`
    centres : centres of mirrors whose options do not include centres
    links : name of the links between the centres

    Raises ValueError if there is no such plane, or if the plane has no such options.
    """
    import hogshare
    from hogshare.system.messages import listed, nearest

    name, given = parsed(text)
    if name in COLLECTIVE and not given:
        return name
    if name not in OWN:
        known = [*OWN, *COLLECTIVE]
        raise ValueError(f"{name!r} is not {listed(known)}.{nearest(name, known)}")
    if name == "mirrors":
        given = {"centres": centres, **({"links": links} if links else {}), **given}
    try:
        return getattr(hogshare, name.capitalize())(**given)
    except TypeError as error:
        raise ValueError(f"{text!r}: {error}") from None


def contestants(settings: Settings) -> list[tuple[str]]:
    """Return "one worker", and every plane with each of the links that apply to it."""
    are_ranks = settings["runtime"] == options.RANKS
    found = [ONE]
    for plane in settings["planes"]:
        is_linked = are_ranks or parsed(plane)[0] == "mirrors"
        names = settings["links"] if is_linked else ()
        found += [f"{plane}{OVER}{link}" for link in names] or [plane]
    return [(name,) for name in found]


# -- the problem


def check(args: Any) -> None:
    """Refuse options that do not fit together."""
    from hogshare.links import regions

    if args.data == MNIST and args.problem == experiments.LINEAR:
        args.problem = MNIST_NETWORK
    experiments.check(args, common_options.of_linear(args))
    if args.runtime != options.RANKS:
        if args.workers == 1:
            raise options.WrongCommandLine(
                "--workers 1: one worker is the reference of all planes; use 2 or more"
            )
        if given := sorted(set(args.planes or ()) & set(COLLECTIVE)):
            raise options.WrongCommandLine(f"--planes {given[0]} needs --runtime {options.RANKS}")
    elif args.points not in (None, 1):
        raise options.WrongCommandLine(
            "--points must be 1 for ranks: they have one model only between epochs"
        )
    for name in args.links:
        if not regions.is_preset(name) or name == "regions":
            raise options.WrongCommandLine(
                f"--links {name} is none of lan, wan, slowest, or as in 15x:100ms"
            )
    if args.problem == experiments.LINEAR and args.batch:
        raise options.WrongCommandLine("--batch is not for --problem linear")


def problem_of(args: Any) -> Any:
    """Return the problem to train; fill in batch and step."""
    if args.problem == experiments.LINEAR:
        return common_options.stated(*common_options.load(args), vars(args))
    if args.data == MNIST:
        return network_of_digits(args)
    family, problem = common_options.named_problem(args, "sgd")
    args.step = args.step or family.step(problem)
    return problem


def network_of_digits(args: Any) -> Any:
    """Return a network on MNIST's digits, or on scikit-learn's if there are no files of MNIST."""
    from hogshare.lab.studies.named_problems import family_of

    args.data = "mnist-digits"
    try:
        X, y = common_options.load(args)
    except ValueError as error:
        from sklearn.datasets import load_digits

        console.say(f"hogshare: scikit-learn's digits in place of MNIST's: {error}")
        X, y = load_digits(return_X_y=True)
        X, args.problem, args.data = (X / 16.0).astype(args.dtype), DIGITS_NETWORK, "digits"
    family = family_of(args.problem)
    args.batch = args.batch or family.batch("sgd")
    problem = family.state(family.data((X, y), 0, args.dtype, args.seed))
    args.step = args.step or family.step(problem)
    return problem


def settle(problem: Any, settings: Settings) -> Settings:
    """Fill in the settings of workers, planes and points."""
    import joblib

    are_ranks = settings["runtime"] == options.RANKS
    known = [*OWN, *(COLLECTIVE if are_ranks and not common_options.has_own_steps(problem) else ())]
    return {
        **settings,
        "workers": settings["workers"] or (1 if are_ranks else max(2, joblib.cpu_count())),
        "planes": settings["planes"] or known,
        "points": settings["points"] or (1 if are_ranks else 4),
    }


def about(problem: Any, settings: Settings) -> dict[str, Any]:
    """Describe the problem."""
    from hogshare.lab.studies.named_problems import family_of

    name = settings["problem"]
    is_linear = name == experiments.LINEAR
    return {"what": settings["loss"] if is_linear else family_of(name).what(problem)}


# -- a run


class Runs:
    """The runs of contestants; a rank caches one collective descent per problem between runs."""

    def __init__(self) -> None:
        self._descent: Any = None

    def once(self, problem: Any, settings: Settings, contestant: tuple[str], seed: int) -> Report:
        """Run a contestant once."""
        from hogshare.lab.rivals.collectives import CollectiveDescent
        from hogshare.links import regions

        name, _, link = contestant[0].partition(OVER)
        by, epochs = settings["runtime"], settings["epochs"]
        ranks = None if isinstance(by, str) else by
        if name == ONE:
            return alone(problem, settings, ranks, seed)
        epochs *= MORE
        if ranks is None:
            n = settings["workers"]
            who: dict[str, Any] = {"plane": plane_of(name, n, link), "n_workers": n}
            return solved(problem, settings, epochs, seed, runtime=by, **who)
        between = regions.between(link, 2)[0][1] if link else None
        if name in COLLECTIVE:
            if self._descent is None or self._descent.problem is not problem:
                self._descent = CollectiveDescent(problem, ranks, settings["step"])
            return self._descent.run(name, epochs, seed, between)
        own = ranks.ranks.workers
        centres = [rank for rank, count in enumerate(own) for _ in range(count)]
        knows = parsed(name)[0] == "mirrors"  # mirrors choose their clocks by their links
        ranks.link = None if knows else between
        plane = plane_of(name, centres, link if knows else None)
        who = {"plane": plane, "n_workers": own[ranks.place()[0]]}
        return solved(problem, settings, epochs, seed, runtime=ranks, **who)


def alone(problem: Any, settings: Settings, ranks: Any, seed: int) -> Report:
    """Run one worker on the first rank while the other ranks wait; every rank must call it."""
    run = {"runtime": "caller", "n_workers": 1}
    if ranks is None:
        return solved(problem, settings, settings["epochs"], seed, **run)
    ranks.gathered(None)
    report = None
    if ranks.place()[0] == 0:
        report = solved(problem, settings, settings["epochs"], seed, **run)
        report = dataclasses.replace(report, again=None)
    found: Report = ranks.gathered(report)[0]
    return found


def solved(problem: Any, settings: Settings, epochs: int, seed: int, **who: Any) -> Report:
    """Solve twice: without snapshots for the report, with snapshots for its trace."""
    from hogshare import SGD, Stop, solve
    from hogshare.problems.protocol import has_rows

    if settings["block_ms"]:
        who["stragglers"] = common_options.slept(settings["block_ms"], seed)
    if not common_options.has_own_steps(problem):
        who["step"] = settings["step"]
        if not has_rows(problem):
            who["rule"] = SGD(batch=settings["batch"])
    who |= {"stop": Stop(epochs=epochs, tol=None), "seed": seed}
    seen = solve(problem, trace=settings["points"], **who)
    return timed_by(solve(problem, **who), seen)


def timed_by(report: Report, seen: Report) -> Report:
    """Return a run's report with the trace of another run, scaled to its own seconds."""
    trace, own, others = seen.trace, report.run_seconds, seen.run_seconds
    assert trace is not None and own is not None and others
    paced = dataclasses.replace(trace, seconds=trace.seconds * (own / others))
    return dataclasses.replace(report, trace=paced)


def facts(report: Report) -> Row:
    """Return the facts of a run for JSON."""
    waits = [float(worker["waiting_seconds"]) for worker in report.workers]
    return {
        "n_epochs": report.n_epochs,
        "seconds": report.run_seconds,
        "seconds_per_epoch": (report.run_seconds or 0.0) / max(1, report.n_epochs),
        "traffic": report.traffic,
        "waiting_seconds": sum(waits) / max(1, len(waits)),
    }


# -- the table


def of_one_worker(runs: Sequence[Row]) -> float:
    """Return the last objective of "one worker" in its worst round."""
    ends = [run["trace"]["objective"][-1] for run in runs if run["plane"] == ONE]
    if any(end is None for end in ends):
        raise ValueError("one worker's model is not finite: use a smaller --step")
    return float(max(ends))


def objective_after(run: MeasuredRun, epochs: int) -> float | None:
    """Interpolate the objective at a number of epochs; None if it is not finite."""
    import numpy as np

    found = float(np.interp(epochs, run.trace.epochs, run.trace.objective))
    return found if np.isfinite(found) else None


def megabytes(run: MeasuredRun) -> float:
    """Return the megabytes sent per epoch."""
    from hogshare.links.traffic import bytes_of

    return 1e-6 * bytes_of(run["traffic"]) / max(1, run["n_epochs"])


class After(TableNumber):
    """The objective after the number of epochs that "one worker" takes."""

    def found(self, runs: Sequence[MeasuredRun], rows: Sequence[Row], result: Row) -> Row:
        """Return the median over rounds."""
        epochs = result["settings"]["epochs"]
        return {self.key: self.over([objective_after(run, epochs) for run in runs])}


def times(of: str) -> Any:
    """Make the ratio of seconds to those of contestant `of`, if possible on the same links."""

    def found(row: Row, rows: Sequence[Row], result: Row) -> float | None:
        link = row["plane"].partition(OVER)[2]
        runs = [MeasuredRun(run, result["target"]) for run in result["runs"]]
        for name in (f"{of}{OVER}{link}", of):
            if seconds := [run.first("seconds") for run in runs if run["plane"] == name]:
                return ratio(row["seconds"], median(seconds))
        return None

    return found


NUMBERS = (
    Spread("seconds", lambda run: run.first("seconds"), header="seconds"),
    Compared("of_shared", by=times("shared"), header="times shared"),
    Compared("of_one", by=times(ONE), header="times one worker"),
    TableNumber("epochs", lambda run: run.first("epochs"), header="epochs", form=".2f"),
    After("objective", header="objective"),
    TableNumber("seconds_per_epoch", header="s/epoch"),
    TableNumber("megabytes", megabytes, header="MB/epoch"),
    TableNumber(
        "waiting_share",
        lambda run: run["waiting_seconds"] / run["seconds"],
        header="waited",
        form=".0%",
    ),
)


def notes(result: dict[str, Any]) -> Iterable[str]:
    """Describe which seconds are counted, and which ends the links have."""
    settings = result["settings"]
    yield (
        f"seconds of training to the objective that one worker has after {settings['epochs']} "
        f"epochs, to {settings['within']:g} of it; objective after as many epochs; "
        f"warm-up (compiling, starting workers) of {result['warm_up_seconds']:.1f} s not counted"
    )
    if settings["links"] and settings["runtime"] != options.RANKS:
        yield "links are between the centres of mirrors; other planes share one memory"


class Planes(Experiment):
    """The experiment; MPI ranks run it together."""

    def run(self, args: Any) -> int:
        """Run as `Experiment.run`, or by all MPI ranks together; return the exit code."""
        if args.runtime == options.RANKS:
            return rank_measurement.run(self, args)
        return self.run_locally(args)

    def targets_of(self, result: Result) -> dict[str, float]:
        """Return the target; the default is slightly above the last objective of "one worker"."""
        settings, found = result["settings"], super().targets_of(result)
        above = settings["within"] if settings["target"] is None else 0.0
        return {name: target + above * abs(target) for name, target in found.items()}


PLANES = Planes(
    name="planes",
    help="all planes against one shared vector and one worker",
    description=DESCRIPTION,
    examples=EXAMPLES,
    settings=SETTINGS,
    check=check,
    axes=("plane",),
    contestants=contestants,
    problem=problem_of,
    settle=settle,
    about=about,
    is_warmed=lambda settings, one: True,
    run_once=Runs().once,
    facts=facts,
    target_of=of_one_worker,
    numbers=NUMBERS,
    notes=notes,
    caption="{workers} workers, {runtime}; {data}, {what}; medians of {rounds} rounds "
    "(fastest to slowest)",
    panels=(
        panels.objective("seconds"),
        panels.bars("seconds"),
        panels.bars("megabytes", "MB in an epoch"),
    ),
    title="{workers} workers, {runtime}, {data}",
)
