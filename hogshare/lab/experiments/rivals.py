"""``hogshare bench rivals``: time to a sub-optimality, compared with other libraries."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hogshare import figures
from hogshare.cli import console, options
from hogshare.io.tables import cell
from hogshare.lab.experiments import common_options
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.harness.command import Command, warn
from hogshare.lab.harness.experiment import crowded
from hogshare.lab.harness.settings import Group, Setting

if TYPE_CHECKING:
    from hogshare.lab.rivals.contestant import Kind
    from hogshare.lab.rivals.discipline import Discipline

DESCRIPTION = """\
Race against other libraries to a relative distance from the optimum, (F(w) - F*) / F*, where F(w) =
mean loss + alpha / 2 |w|^2, without an intercept; or with a network, a factorisation or topics
(--problem). Each contestant is warmed up, tries its settings once, and then runs once in every
round: fits from scratch with growing budgets, each timed separately. Medians over rounds. A library
that is not installed, or fails, is reported with the reason."""

SETTINGS = (
    experiments.PROBLEM,
    Group(lambda parser: parser.set_defaults(dtype="float32")),
    Setting("loss", "", "log_loss", choices=("log_loss", "hinge")),
    Setting(
        "alpha", "strength of the l2 penalty (default: 1 / number of rows)", type=options.positive
    ),
    Setting(
        "targets",
        "distances from the best: for linear models relative to the optimum (default: "
        "1e-1,1e-2,1e-3), for networks shares of misclassified held-out rows (0.1,0.05,0.03), for "
        "factorisations and topics relative to the objective and the completion perplexity after "
        "many passes of hogshare (0.1,0.01 and 0.1,0.05,0.02)",
        type=options.targets,
    ),
    Setting(
        "workers",
        "threads or processes that contestants may use (default: usable cores)",
        type=options.positive_int,
    ),
    Setting("rounds", "", 5, options.positive_int),
    Setting(
        "limit",
        "limit of a contestant's tuning, and again of its rounds",
        20.0,
        options.positive,
        metavar="SECONDS",
    ),
    Setting(
        "only",
        "contestants whose names contain one of these (default: all)",
        (),
        options.names,
        metavar="NAME,...",
    ),
    Setting("seed", "", 0, options.seed),
)


def check(args: Any) -> None:
    """Refuse options that do not fit the problem."""
    linear = {"--loss": args.loss != "log_loss", "--alpha": args.alpha is not None}
    experiments.check(args, linear)


def measure(args: Any) -> dict[str, Any]:
    """Run the race of the options, with progress on standard error."""
    import joblib

    from hogshare.lab.rivals.race import race
    from hogshare.lab.rivals.race_state import RacePlan

    kinds, discipline = (linear if args.problem == experiments.LINEAR else named)(args)
    plan = RacePlan(
        targets=args.targets,
        workers=args.workers or joblib.cpu_count(),
        rounds=args.rounds,
        limit=args.limit,
        seed=args.seed,
    )
    warn(crowded({"workers": plan.workers}))
    # a reference, and for each contestant a warm-up, a tuning and its rounds, if none drops out
    steps = 1 + len(kinds) * (2 + plan.rounds)
    with console.progress(steps, "race") as progress:
        result = race(discipline, kinds, plan, progress.advance)
    result["settings"] |= {"problem": args.problem, "data": args.data}
    warn(result["notes"])
    return result


def linear(args: Any) -> tuple[Sequence[Kind], Discipline]:
    """Return the contestants and the discipline (data and judgement) for linear models."""
    from hogshare.lab.rivals import race_catalogue
    from hogshare.lab.rivals.linear.linear_race import LinearRace

    kinds = race_catalogue.of_linear(args.only, args.loss)  # first, to fail before the work
    args.targets = args.targets or (1e-1, 1e-2, 1e-3)
    return kinds, LinearRace(*common_options.load(args), args.loss, args.alpha)


def named(args: Any) -> tuple[Sequence[Kind], Discipline]:
    """Return the contestants and the discipline for a named problem."""
    from hogshare.lab.rivals import race_catalogue
    from hogshare.lab.studies.named_problems import family_of

    reads = family_of(args.problem).reads
    if reads == "ratings" and args.data is not None:
        raise options.WrongCommandLine(
            "the race of factorisations needs synthetic ratings, on which all libraries' penalties "
            "are the same: leave out --data"
        )
    kinds = race_catalogue.select(args.only, race_catalogue.CONTESTANTS[reads])
    args.targets = args.targets or race_catalogue.TARGETS[reads]
    return kinds, race_catalogue.race_of(*experiments.data_of(args), args.seed)


def show(result: dict[str, Any]) -> None:
    """Print a line for each contestant; the fastest to the tightest target is the first."""
    targets = result["settings"]["targets"]
    lines = sorted((line_of(result, who) for who in result["contestants"]), key=rank)
    console.show_table(
        ["contestant", *(f"to {target:g}" for target in targets), "with", "remark"],
        [
            [line["name"], *map(time_of, line["rows"]), line["with"], line["remark"]]
            for line in lines
        ],
        title=f"seconds to {result['measure']}: {result['settings']['data']}",
    )
    settings, reference = result["settings"], result["reference"]
    console.say(
        f"{result['what']}, {settings['workers']} worker{'s' * (settings['workers'] != 1)}, "
        f"{result['data']['dtype']}; reference {reference['objective']:.9g} by "
        f"{reference['found_by']}; medians of {settings['rounds']} rounds (fastest to slowest); "
        "warm-up and conversion not counted"
    )


def line_of(result: dict[str, Any], who: dict[str, Any]) -> dict[str, Any]:
    """Gather the content of one line of the table."""
    rows = [row for row in result["table"] if row["contestant"] == who["name"]]
    reached = [row for row in rows if row["seconds"] is not None]
    remark = who["reason"]
    if not remark and who["rounds"] < result["settings"]["rounds"]:
        remark = f"time was up after {who['rounds']} of {result['settings']['rounds']} rounds"
    fits = [run for run in result["runs"] if run["contestant"] == who["name"]]
    failures = [run["error"] for run in fits if run["error"]]
    if failures and not who["reason"]:
        failed = f"{len(failures)} of {len(fits)} fits failed: {failures[-1]}"
        remark = f"{remark}; {failed}" if remark else failed
    return {
        "name": who["name"],
        "rows": rows,
        "with": manner(reached[-1], who["unit"]) if reached else "-",
        "remark": remark or "",
    }


def manner(row: dict[str, Any], unit: str) -> str:
    """Describe the setting and the budget for the tightest target that was reached."""
    settings = [f"{name} {cell(value)}" for name, value in row["setting"].items()]
    return ", ".join([*settings, f"{unit} {cell(row['budget'])}"])


def time_of(row: dict[str, Any]) -> str:
    """Format the median, and the spread if there is one."""
    if row["seconds"] is None:
        return "-"
    slowest = "-" if row["slowest"] is None else f"{row['slowest']:.3g}"
    return f"{row['seconds']:.3g} ({row['fastest']:.3g} to {slowest})"


def rank(line: dict[str, Any]) -> tuple[float, ...]:
    """Return the sort key of a line: times to the targets, from the tightest to the easiest."""
    return tuple(
        math.inf if row["seconds"] is None else row["seconds"] for row in reversed(line["rows"])
    )


def draw(result: dict[str, Any], path: str) -> None:
    """Draw the race and write it to a file.

    One panel has the distance from the optimum against seconds. The other panel has the distance
    against epochs, for contestants whose budgets are epochs. A point is the median over rounds for
    a budget, with the setting that the contestant chose for the tightest target that it reached.
    """
    figure, (by_second, by_epoch) = figures.panel_row(2, width=6.0, height=5.0)
    lines = [f"C{colour}{dash}" for dash in ("-", "--", ":") for colour in range(10)]
    for i, who in enumerate(who for who in result["contestants"] if who["kept"]):
        curve = curve_of(result["runs"], who)
        style = {"marker": ".", "label": who["name"]}
        line = lines[i % len(lines)]
        by_second.plot([p[1] for p in curve], [p[2] for p in curve], line, **style)
        if who["unit"] == "epochs":
            by_epoch.plot([p[0] for p in curve], [p[2] for p in curve], line, **style)
    for ax, unit in ((by_second, "seconds"), (by_epoch, "epochs")):
        for target in result["settings"]["targets"]:
            ax.axhline(target, color="black", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_yscale("log")
        figures.label(ax, unit, result["measure"])
    figure.legend(*by_second.get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    figure.suptitle(f"{result['settings']['data']}, {result['what']}")
    figures.save(figure, path)


def curve_of(runs: Sequence[dict[str, Any]], who: dict[str, Any]) -> list[tuple[float, ...]]:
    """Return a contestant's budgets with median seconds and distances, the least work first."""
    setting = min(who["kept"], key=lambda chosen: float(chosen["target"]))["setting"]
    budgets: dict[float, list[dict[str, Any]]] = {}
    for run in runs:
        ours = run["contestant"] == who["name"] and run["setting"] == setting
        if ours and run["round"] >= 0 and run["suboptimality"] is not None:
            budgets.setdefault(run["budget"], []).append(run)
    return [
        (
            budget,
            statistics.median(run["seconds"] for run in fits),
            # the logarithmic axis cannot show the optimum itself
            max(1e-12, statistics.median(run["suboptimality"] for run in fits)),
        )
        for budget, fits in budgets.items()
    ]


class Rivals(Command):
    """The race, as a part of the command."""

    result = staticmethod(measure)
    show = staticmethod(show)
    draw = staticmethod(draw)


RIVALS = Rivals(
    name="rivals",
    help="time to sub-optimality against other libraries",
    description=DESCRIPTION,
    examples="example: hogshare bench rivals --data zipf --workers 2 --only hogshare,sklearn",
    settings=SETTINGS,
    check=check,
)
