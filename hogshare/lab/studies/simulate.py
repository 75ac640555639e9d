"""``hogshare simulate``: workers on a virtual clock, from a thousand to a million."""

from __future__ import annotations

import time
from typing import Any

from hogshare.cli import console, options, outputs

FIGURES = ("1a", "1b", "1c", "1d", "1e", "2a", "2b", "2c", "3", "4", "5")
WITH_GRADIENTS = ("1d", "2b")
ALGORITHMS = ("con", "incon")

PSP = """\
Make a figure of Wang, Catterall and Mortier 2017 (PSP) again: 1a progress of workers behind five
barriers, 1b the same added up, 1c sample sizes of pBSP, 1d the error of a linear model, 1e updates
at the server, 2a a growing share of slow workers, 2b what they do to the error, 2c a few slower and
slower, 3 more workers, 4 and 5 the bounds of Theorem 2. 1d and 2b compute gradients, which takes
half a minute or so for each seed and step, or share of slow workers, of the five barriers.
Means over seeds, with their 95 % interval. The paper does not say how long a step takes; 1a and 1e
show several laws side by side, and say which has what the paper shows."""

ASYSG = """\
Speedups of AsySG on a virtual clock (Lian et al. 2015): real gradients of a linear problem, drawn
block times, up to the same objective; iteration speedup says what stale gradients cost, and time
speedup what reading, writing and the links cost besides. The papers' tables stand beside."""

PROGRESS = """\
Simulate workers behind a barrier on a virtual clock, without a model: how far they get, how far
apart they are, how long they wait. A million take half a minute."""


def add_parser(commands: Any) -> None:
    """Add the command and its studies to the parser."""
    parser = commands.add_parser("simulate", help="workers and barriers on a virtual clock")
    kinds = parser.add_subparsers(title="studies", metavar="WHAT", required=True)
    psp = kinds.add_parser(
        "psp",
        help="the figures of the paper on probabilistic barriers",
        description=PSP,
        epilog="example: hogshare simulate psp --figure 1a --plot progress.png",
        formatter_class=options.HelpFormatter,
    )
    add_psp_options(psp)
    psp.set_defaults(run=run_psp)
    asysg = kinds.add_parser(
        "asysg",
        help="speedups of AsySG-con and AsySG-incon",
        description=ASYSG,
        epilog="example: hogshare simulate asysg --algorithm incon --plot speedup.png",
        formatter_class=options.HelpFormatter,
    )
    add_asysg_options(asysg)
    asysg.set_defaults(run=run_asysg)
    progress = kinds.add_parser(
        "progress",
        help="one barrier",
        description=PROGRESS,
        epilog="example: hogshare simulate progress --barrier pbsp:10 --workers 1000 --seconds 40",
        formatter_class=options.HelpFormatter,
    )
    add_progress_options(progress)
    progress.set_defaults(run=run_progress)


def add_psp_options(parser: Any) -> None:
    """Add the options of ``psp``."""
    parser.add_argument("--figure", choices=FIGURES, required=True, help="which one")
    parser.add_argument(
        "--workers",
        type=options.number(int, lambda n: n >= 101, "a whole number of at least 101"),
        default=1000,
        help="nodes of the paper (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=options.positive, default=40.0, help="virtual ones (default: %(default)g)"
    )
    parser.add_argument(
        "--law",
        nargs="+",
        type=options.block_time,
        help="how long a step takes: constant:SECONDS, exponential:MEAN, lognormal:MEAN,SIGMA, "
        "gamma:MEAN,SHAPE, uniform:LOW,HIGH; several are shown side by side (default: "
        "exponential:1; for 1a and 1e also uniform:0.5,1.5 and gamma:1,0.6; 1d and 2b take one)",
    )
    parser.add_argument(
        "--poll",
        type=options.positive,
        help="virtual seconds after which who may not pass polls again (default: 0.05; 2a and 2c: "
        "0.2)",
    )
    parser.add_argument(
        "--parameters",
        type=options.positive_int,
        help="of the linear model of 1d and 2b (default: 1000)",
    )
    parser.add_argument(
        "--step",
        type=options.positive,
        help="of every barrier in 1d and 2b (default: half of 1 / (parameters + workers); 1d also "
        "shows a long one, and every barrier's best of a grid)",
    )
    add_seeds(parser)
    outputs.add_options(parser)


def add_asysg_options(parser: Any) -> None:
    """Add the options of ``asysg``."""
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        required=True,
        help="con: consistent reads of a master's model; incon: one vector without locks",
    )
    parser.add_argument(
        "--workers",
        type=options.worker_counts,
        default=[1, 2, 4, 8, 16, 32],
        help="numbers with commas between (default: 1,2,4,8,16,32)",
    )
    parser.add_argument(
        "--law",
        type=options.block_time,
        default="lognormal:1,0.2",
        help="how long a gradient takes, as of psp (default: %(default)s)",
    )
    parser.add_argument(
        "--ceiling",
        type=options.positive,
        metavar="WORKERS",
        help="so many workers keep the model's end of the links busy (default: no number does)",
    )
    parser.add_argument(
        "--step", type=options.positive, help="constant (default: 0.002 con, 0.0001 incon)"
    )
    add_seeds(parser)
    outputs.add_options(parser)


def add_seeds(parser: Any) -> None:
    """Add how often everything is run."""
    parser.add_argument(
        "--seeds", type=options.positive_int, default=5, help="runs (default: %(default)s)"
    )
    parser.add_argument("--seed", type=options.seed, default=0, help="the first (default: 0)")


def add_progress_options(parser: Any) -> None:
    """Add the options of ``progress``."""
    parser.add_argument(
        "--barrier",
        type=options.barrier,
        required=True,
        help="asp, bsp, ssp:4, pbsp:10, pssp:10,4, fraction:0.9,2 or throttled:7; pbsp:10,hold "
        "keeps a sample until it lets the worker pass",
    )
    parser.add_argument(
        "--workers", type=options.positive_int, default=1000, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--law",
        type=options.block_time,
        default="exponential:1",
        help="how long a block takes, as of psp (default: %(default)s)",
    )
    ends = parser.add_mutually_exclusive_group(required=True)
    ends.add_argument("--seconds", type=options.positive, help="virtual ones, then all is over")
    ends.add_argument("--blocks", type=options.positive_int, help="after which a worker is done")
    parser.add_argument(
        "--poll",
        type=options.poll,
        default=0.05,
        help="virtual seconds after which who may not pass polls again; none: it passes at the "
        "moment from which it may (default: %(default)s)",
    )
    parser.add_argument(
        "--slow",
        type=options.slow_workers,
        metavar="SHARE,FACTOR",
        help="make a share of the workers slow, such as 0.05,4",
    )
    parser.add_argument("--seed", type=options.seed, default=0, help="(default: 0)")
    parser.add_argument("--json", metavar="FILE", help="write everything told; -: print it")


def run_psp(args: Any) -> int:
    """Make the figure, print it, and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.studies import psp

    for name in ("parameters", "step"):
        if args.figure not in WITH_GRADIENTS and getattr(args, name) is not None:
            raise options.WrongCommandLine(f"--{name} goes with --figure 1d and 2b")
    outputs.check(args)
    if args.figure in WITH_GRADIENTS:
        return run_model_error(args)
    laws = len(args.law or psp.default_laws(args.figure))
    with console.progress(psp.settings_of(args.figure, laws), f"figure {args.figure}") as progress:
        result = psp.figure(
            args.figure,
            n_workers=args.workers,
            seconds=args.seconds,
            laws=args.law,
            poll=args.poll,
            seeds=args.seeds,
            seed=args.seed,
            advance=progress.advance,
        )
    outputs.store(
        args, result, show_bounds if result["kind"] == "bounds" else show_psp, figures.save_psp
    )
    return 0


def run_model_error(args: Any) -> int:
    """As `run_psp`, for the figures that take gradients."""
    from hogshare import figures
    from hogshare.lab.studies import model_error

    if args.law and len(args.law) > 1:
        raise options.WrongCommandLine(f"--figure {args.figure} takes one --law")
    given = {
        "n_parameters": args.parameters,
        "law": args.law[0] if args.law else None,
        "poll": args.poll,
    }
    most = model_error.most_runs(args.figure, args.seeds, args.step is None)
    with console.progress(most, f"figure {args.figure}") as progress:
        result = model_error.figure(
            args.figure,
            n_workers=args.workers,
            seconds=args.seconds,
            step=args.step,
            seeds=args.seeds,
            seed=args.seed,
            advance=progress.advance,
            **{name: value for name, value in given.items() if value is not None},
        )
    outputs.store(args, result, show_errors, figures.save_psp)
    return 0


def show_errors(result: dict[str, Any]) -> None:
    """Print the errors at the end of the runs."""
    with_shares = result["kind"] == "error"
    header = ["slow workers" if with_shares else "steps", "barrier", "step", "error", "interval"]
    rows = []
    for series in result["series"]:
        for point in series["points"]:
            error = point["error"]
            begin = f"{point['x']:.0%}" if with_shares else series["panel"]
            row = [begin, series["barrier"], series["step"], error["mean"], between(error, ".3g")]
            rows.append(row + ([point["ratio"]["mean"]] if with_shares else []))
    header += ["ratio"] if with_shares else []
    console.show_table(header, rows, title=f"{result['figure']}: {result['title']}")
    settings = result["settings"]
    console.say(
        f"{settings['n_workers']:,} workers, {settings['n_parameters']:,} parameters, "
        f"{settings['laws'][0]}, after {settings['seconds']:g} virtual seconds, polls every "
        f"{settings['poll']:g} s; means over {settings['seeds']} seeds"
    )
    for note in result["notes"]:
        console.say(note)


def run_asysg(args: Any) -> int:
    """Measure speedups, print them beside the papers', and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.studies import asysg

    outputs.check(args)
    runs = len({1, *args.workers}) * args.seeds
    with console.progress(runs, f"asysg {args.algorithm}") as progress:
        result = asysg.speedups(
            args.algorithm,
            workers=args.workers,
            law=args.law,
            ceiling=args.ceiling,
            step=args.step,
            seeds=args.seeds,
            seed=args.seed,
            advance=progress.advance,
        )
    outputs.store(args, result, show_speedups, figures.save_virtual_speedups)
    return 0


def show_speedups(result: dict[str, Any]) -> None:
    """Print a row for each number of workers, ours and the papers'."""
    paper: dict[int, list[str]] = {}
    for table in result["paper"]:
        for n, iteration, seconds in zip(
            table["workers"], table["iteration"], table["time"], strict=True
        ):
            paper.setdefault(n, []).append(f"{iteration:g}, {seconds:g}")
    header = ["workers", "iteration speedup", "interval", "time speedup", "interval", "staleness"]
    header.append(f"paper: {'; '.join(table['what'] for table in result['paper'])}")
    rows = []
    for point in result["series"][0]["points"]:
        row = [point["x"]]
        for key in ("iteration", "time"):
            row += [point[key]["mean"], between(point[key])]
        rows.append([*row, point["staleness"], "; ".join(paper.get(point["x"], ["-"]))])
    console.show_table(header, rows, title=result["title"])
    settings = result["settings"]
    console.say(
        f"{settings['rows']:,} x {settings['features']} rows, gradients of {settings['batch']}, "
        f"step {settings['step']:g}, {settings['law']}; means over {settings['seeds']} seeds; of "
        "the paper: iteration, time"
    )


def show_psp(result: dict[str, Any]) -> None:
    """Print the table, and below it what is to be said."""
    along = result["axes"]["x"] if result["series"][0]["points"][0]["x"] is not None else None
    header = ["law", "barrier", *([along] if along else []), "steps", "interval", "sd", "spread"]
    header += ["updates", "waiting", *(["ratio"] if result["kind"] == "ratio" else [])]
    rows = []
    for series in result["series"]:
        for point in series["points"]:
            steps = point["steps"]
            row = [series["law"], series["barrier"], *([point["x"]] if along else [])]
            row += [steps["mean"], between(steps), point["sd"]["mean"], point["spread"]["mean"]]
            row += [round(point["updates"]["mean"]), f"{point['waiting_share']['mean']:.1%}"]
            rows.append(row + ([point["ratio"]["mean"]] if "ratio" in header else []))
    console.show_table(header, rows, title=f"{result['figure']}: {result['title']}")
    settings = result["settings"]
    console.say(
        f"{settings['n_workers']:,} workers, {settings['seconds']:g} virtual seconds, polls every "
        f"{settings['poll']:g} s; means over {settings['seeds']} seeds"
    )
    for note in result["notes"]:
        console.say(note)


def between(value: dict[str, Any], digits: str = ".2f") -> str | None:
    """An interval in words, if there is one."""
    if value["low"] is None:
        return None
    return f"{value['low']:{digits}} to {value['high']:{digits}}"


def show_bounds(result: dict[str, Any]) -> None:
    """Print a theory's curves: a column for each, a row for some samples."""
    series = result["series"]
    samples = series[0]["samples"]
    some = [i for i, sample in enumerate(samples) if sample in (1, 2, 5, 10, 20, 50, 100)]
    console.show_table(
        ["sample", *(f"F(r) = {one['within']:g}" for one in series)],
        [[samples[i], *(one["bound"][i] for one in series)] for i in some],
        title=f"{result['figure']}: {result['title']}",
    )
    for note in result["notes"]:
        console.say(note)


def run_progress(args: Any) -> int:
    """Simulate, print, and store what was asked for."""
    from hogshare import barriers
    from hogshare.lab.psp.progressing import progress, slow
    from hogshare.simulation import blocktimes

    outputs.check_file(args.json)
    began = time.perf_counter()
    run = progress(
        barriers.parse(args.barrier),
        args.workers,
        block_time=blocktimes.parse(args.law),
        seconds=args.seconds,
        blocks=args.blocks,
        poll=args.poll,
        slowness=None
        if args.slow is None
        else slow(args.workers, share=args.slow[0], factor=args.slow[1], seed=args.seed),
        seed=args.seed,
    )
    took = time.perf_counter() - began
    told = {**run.to_dict(), "poll": args.poll, "slow": args.slow, "seed": args.seed}
    if args.json != outputs.PRINT:
        names = (
            *("seconds", "mean", "sd", "spread", "mean_lead", "waiting_share"),
            *("updates", "checks", "polls", "passes", "control_messages"),
        )
        console.show_table(
            ["", "value"],
            [[name.replace("_", " "), told[name]] for name in names],
            title=f"{run.barrier}, {run.n_workers:,} workers, {run.law}",
        )
        console.say(f"{took:.1f} s on this machine")
    outputs.tell_json(args.json, told)
    return 0
