"""``hogshare simulate``: workers on a virtual clock, from a thousand to a million."""

from __future__ import annotations

import time
from typing import Any

from hogshare.cli import console, options, outputs
from hogshare.lab.harness.command import Command, Result
from hogshare.lab.harness.settings import Group, Setting
from hogshare.lab.studies import pictures

FIGURES = ("1a", "1b", "1c", "1d", "1e", "2a", "2b", "2c", "3", "4", "5")
WITH_GRADIENTS = ("1d", "2b")
ALGORITHMS = ("con", "incon")

PSP = """\
Make a figure of Wang, Catterall and Mortier 2017 (PSP) again: 1a progress of workers behind five
barriers, 1b the same added up, 1c sample sizes of pBSP, 1d the error of a linear model, 1e updates
at the server, 2a a growing share of slow workers, 2b their effect on the error, 2c a few workers of
growing slowness, 3 more workers, 4 and 5 the bounds of Theorem 2. 1d and 2b compute gradients,
which takes about half a minute for each seed and step, or share of slow workers, of the five
barriers. Means over seeds, with their 95 % interval. The paper does not state the time of a step;
1a and 1e compare several laws, and say which reproduce the paper's result."""

ASYSG = """\
Speedups of AsySG on a virtual clock (Lian et al. 2015): real gradients of a linear problem, drawn
block times, to the same objective; iteration speedup shows the cost of stale gradients, and time
speedup also that of reading, writing and the links. The output includes the papers' tables."""

PROGRESS = """\
Simulate workers behind a barrier on a virtual clock, without a model: their progress, their spread
and their waiting. A million workers take half a minute."""

SEEDS = (
    Setting("seeds", "runs", 5, options.positive_int),
    Setting("seed", "the first", 0, options.seed),
)
PSP_SETTINGS = (
    Setting("figure", "which one", choices=FIGURES, is_required=True),
    Setting(
        "workers",
        "nodes of the paper",
        1000,
        options.number(int, lambda n: n >= 101, "a whole number of at least 101"),
    ),
    Setting("seconds", "virtual ones", 40.0, options.positive),
    Setting(
        "law",
        "law of the time of a step: constant:SECONDS, exponential:MEAN, lognormal:MEAN,SIGMA, "
        "gamma:MEAN,SHAPE, uniform:LOW,HIGH; several are compared (default: exponential:1; for 1a "
        "and 1e also uniform:0.5,1.5 and gamma:1,0.6; 1d and 2b take one)",
        type=options.block_time,
        several=True,
    ),
    Setting(
        "poll",
        "virtual seconds after which a waiting worker polls again (default: 0.05; 2a and 2c: 0.2)",
        type=options.positive,
    ),
    Setting(
        "parameters", "of the linear model of 1d and 2b (default: 1000)", type=options.positive_int
    ),
    Setting(
        "step",
        "of every barrier in 1d and 2b (default: half of 1 / (parameters + workers); 1d also "
        "shows a long one, and every barrier's best of a grid)",
        type=options.positive,
    ),
    *SEEDS,
)
ASYSG_SETTINGS = (
    Setting(
        "algorithm",
        "con: consistent reads of a master's model; incon: one vector without locks",
        choices=ALGORITHMS,
        is_required=True,
    ),
    Setting(
        "workers",
        "comma-separated numbers (default: 1,2,4,8,16,32)",
        [1, 2, 4, 8, 16, 32],
        options.worker_counts,
    ),
    Setting("law", "law of a gradient's time, as in psp", "lognormal:1,0.2", options.block_time),
    Setting(
        "ceiling",
        "number of workers that fill the links at the model's home (default: none does)",
        type=options.positive,
        metavar="WORKERS",
    ),
    Setting("step", "constant (default: 0.002 con, 0.0001 incon)", type=options.positive),
    *SEEDS,
)


def add_ends(parser: Any) -> None:
    """Add the options for the end of a simulation of one barrier."""
    ends = parser.add_mutually_exclusive_group(required=True)
    ends.add_argument("--seconds", type=options.positive, help="virtual seconds of the run")
    ends.add_argument("--blocks", type=options.positive_int, help="blocks of each worker")


PROGRESS_SETTINGS = (
    Setting(
        "barrier",
        "asp, bsp, ssp:4, pbsp:10, pssp:10,4, fraction:0.9,2 or throttled:7; with pbsp:10,hold "
        "a worker retains its sample until it may pass",
        type=options.barrier,
        is_required=True,
    ),
    Setting("workers", "", 1000, options.positive_int),
    Setting("law", "law of a block's time, as in psp", "exponential:1", options.block_time),
    Group(add_ends),
    Setting(
        "poll",
        "virtual seconds after which a waiting worker polls again; none: it passes as soon as the "
        "barrier allows",
        0.05,
        options.poll,
    ),
    Setting(
        "slow",
        "make a share of the workers slow, such as 0.05,4",
        type=options.slow_workers,
        metavar="SHARE,FACTOR",
    ),
    Setting("seed", "", 0, options.seed),
)


def check_psp(args: Any) -> None:
    """Refuse options of other figures."""
    if args.figure in WITH_GRADIENTS:
        if args.law and len(args.law) > 1:
            raise options.WrongCommandLine(f"--figure {args.figure} takes one --law")
        return
    for name in ("parameters", "step"):
        if getattr(args, name) is not None:
            raise options.WrongCommandLine(f"--{name} is for --figure 1d and 2b")


class PspCommand(Command):
    """The figures of the paper on probabilistic barriers (PSP)."""

    def result(self, args: Any) -> Result:
        """Make a figure."""
        from hogshare.lab.studies import model_error, psp_figures

        common = {
            "n_workers": args.workers,
            "seconds": args.seconds,
            "seeds": args.seeds,
            "seed": args.seed,
        }
        what = f"figure {args.figure}"
        if args.figure not in WITH_GRADIENTS:
            laws = len(args.law or psp_figures.default_laws(args.figure))
            with console.progress(psp_figures.settings_of(args.figure, laws), what) as progress:
                return psp_figures.figure(
                    args.figure, laws=args.law, poll=args.poll, advance=progress.advance, **common
                )
        given = {
            "n_parameters": args.parameters,
            "law": args.law[0] if args.law else None,
            "poll": args.poll,
        }
        common |= {name: value for name, value in given.items() if value is not None}
        most = model_error.most_runs(args.figure, args.seeds, args.step is None)
        with console.progress(most, what) as progress:
            return model_error.figure(
                args.figure, step=args.step, advance=progress.advance, **common
            )

    def show(self, result: Result) -> None:
        """Print a figure's table, and below it its notes."""
        tables = {"bounds": bounds, "error": errors, "error_over_time": errors}
        header, rows, after = tables.get(result["kind"], clocks)(result)
        console.show_table(header, rows, title=f"{result['figure']}: {result['title']}")
        settings = result["settings"]
        if settings:
            console.say(
                f"{settings['n_workers']:,} workers, {after}, polls every {settings['poll']:g} s; "
                f"means over {settings['seeds']} seeds"
            )
        for note in result["notes"]:
            console.say(note)

    draw = staticmethod(pictures.save_psp)


Table = tuple[list[str], list[list[Any]], str]


def clocks(result: Result) -> Table:
    """Make a table of the workers' progress, spread and waiting."""
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
    return header, rows, f"{result['settings'].get('seconds', 0.0):g} virtual seconds"


def errors(result: Result) -> Table:
    """Make a table of the errors at the end of the runs."""
    with_shares = result["kind"] == "error"
    header = ["slow workers" if with_shares else "steps", "barrier", "step", "error", "interval"]
    rows = []
    for series in result["series"]:
        for point in series["points"]:
            error = point["error"]
            begin = f"{point['x']:.0%}" if with_shares else series["panel"]
            row = [begin, series["barrier"], series["step"], error["mean"], between(error, ".3g")]
            rows.append(row + ([point["ratio"]["mean"]] if with_shares else []))
    settings = result["settings"]
    after = f"{settings['n_parameters']:,} parameters, {settings['laws'][0]}, after "
    after += f"{settings['seconds']:g} virtual seconds"
    return header + (["ratio"] if with_shares else []), rows, after


def bounds(result: Result) -> Table:
    """Make a table of theory curves: a column for each curve, a row for each of some samples."""
    series = result["series"]
    samples = series[0]["samples"]
    some = [i for i, sample in enumerate(samples) if sample in (1, 2, 5, 10, 20, 50, 100)]
    header = ["sample", *(f"F(r) = {one['within']:g}" for one in series)]
    return header, [[samples[i], *(one["bound"][i] for one in series)] for i in some], ""


def between(value: dict[str, Any], digits: str = ".2f") -> str | None:
    """Format an interval, if there is one."""
    if value["low"] is None:
        return None
    return f"{value['low']:{digits}} to {value['high']:{digits}}"


class AsysgCommand(Command):
    """Speedups of AsySG, and the papers' tables."""

    def result(self, args: Any) -> Result:
        """Measure speedups."""
        from hogshare.lab.studies import asysg_speedups

        names = ("workers", "law", "ceiling", "step", "seeds", "seed")
        runs = len({1, *args.workers}) * args.seeds
        with console.progress(runs, f"asysg {args.algorithm}") as progress:
            given = {name: getattr(args, name) for name in names}
            return asysg_speedups.speedups(args.algorithm, advance=progress.advance, **given)

    def show(self, result: Result) -> None:
        """Print a row for each number of workers, with the papers' speedups."""
        paper: dict[int, list[str]] = {}
        for table in result["paper"]:
            cells = zip(table["workers"], table["iteration"], table["time"], strict=True)
            for n, iteration, seconds in cells:
                paper.setdefault(n, []).append(f"{iteration:g}, {seconds:g}")
        header = ["workers", "iteration speedup", "interval", "time speedup", "interval"]
        header += ["staleness", f"paper: {'; '.join(table['what'] for table in result['paper'])}"]
        rows = []
        for point in result["series"][0]["points"]:
            row = [point["x"]]
            for key in ("iteration", "time"):
                row += [point[key]["mean"], between(point[key])]
            rows.append([*row, point["staleness"], "; ".join(paper.get(point["x"], ["-"]))])
        console.show_table(header, rows, title=result["title"])
        settings = result["settings"]
        console.say(
            f"{settings['rows']:,} x {settings['features']} rows, gradients of "
            f"{settings['batch']}, step {settings['step']:g}, {settings['law']}; means over "
            f"{settings['seeds']} seeds; of the paper: iteration, time"
        )

    draw = staticmethod(pictures.save_virtual_speedups)


class ProgressCommand(Command):
    """Progress of workers under one barrier."""

    def result(self, args: Any) -> Result:
        """Simulate, and measure the seconds that the simulation takes."""
        from hogshare import barriers
        from hogshare.lab.psp.progress import progress, slow
        from hogshare.simulation import block_times

        began = time.perf_counter()
        run = progress(
            barriers.parse(args.barrier),
            args.workers,
            block_time=block_times.parse(args.law),
            seconds=args.seconds,
            blocks=args.blocks,
            poll=args.poll,
            slowness=None
            if args.slow is None
            else slow(args.workers, share=args.slow[0], factor=args.slow[1], seed=args.seed),
            seed=args.seed,
        )
        if args.json != outputs.PRINT:
            console.say(f"{time.perf_counter() - began:.1f} s on this machine")
        return {**run.to_dict(), "poll": args.poll, "slow": args.slow, "seed": args.seed}

    def show(self, result: Result) -> None:
        """Print the numbers by name."""
        names = (
            *("seconds", "mean", "sd", "spread", "mean_lead", "waiting_share"),
            *("updates", "checks", "polls", "passes", "control_messages"),
        )
        console.show_table(
            ["", "value"],
            [[name.replace("_", " "), result[name]] for name in names],
            title=f"{result['barrier']}, {result['n_workers']:,} workers, {result['law']}",
        )


STUDIES = (
    PspCommand(
        name="psp",
        help="the figures of the paper on probabilistic barriers",
        description=PSP,
        examples="example: hogshare simulate psp --figure 1a --plot progress.png",
        settings=PSP_SETTINGS,
        check=check_psp,
    ),
    AsysgCommand(
        name="asysg",
        help="speedups of AsySG-con and AsySG-incon",
        description=ASYSG,
        examples="example: hogshare simulate asysg --algorithm incon --plot speedup.png",
        settings=ASYSG_SETTINGS,
    ),
    ProgressCommand(
        name="progress",
        help="one barrier",
        description=PROGRESS,
        examples="example: hogshare simulate progress --barrier pbsp:10 --workers 100 --seconds 40",
        settings=PROGRESS_SETTINGS,
        is_drawn=False,
    ),
)


def add_parser(commands: Any) -> None:
    """Add the command and its studies to the parser."""
    parser = commands.add_parser("simulate", help="workers and barriers on a virtual clock")
    kinds = parser.add_subparsers(title="studies", metavar="WHAT", required=True)
    for study in STUDIES:
        study.add_to(kinds)
