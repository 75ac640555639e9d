"""``hogshare bench rivals``: time to sub-optimality against other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hogshare.cli import options, outputs
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.experiments import shared

if TYPE_CHECKING:
    from hogshare.lab.rivals.discipline import Discipline

HELP = "time to sub-optimality against other libraries"

DESCRIPTION = """\
Race against other libraries to a relative distance from the optimum, (F(w) - F*) / F*, where F(w) =
mean loss + alpha / 2 |w|^2, without an intercept; or with a network, a factorisation or topics
(--problem). Each contestant is warmed up, tries its settings
once, and then takes its turn in every round: fits from scratch with growing budgets, each timed
alone. Medians over rounds. A library that is not installed, or fails, is told with the reason."""

EXAMPLES = "example: hogshare bench rivals --data zipf --workers 2 --only hogshare,sklearn"


def add_options(parser: Any) -> None:
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
    parser.set_defaults(dtype="float32")


def run(args: Any) -> int:
    """Race, print, and store what was asked for."""
    from hogshare import figures
    from hogshare.lab.experiments.measure import rivals

    linear = {"--loss": args.loss != "log_loss", "--alpha": args.alpha is not None}
    experiments.check(args, linear)
    race = linear_race if args.problem == experiments.LINEAR else named_race
    kinds, discipline = race(args)
    result = rivals.measure(discipline, kinds, args)
    outputs.store(args, result, rivals.show, figures.save_race)
    return 0


def linear_race(args: Any) -> tuple[Any, Discipline]:
    """Who races with linear models, and for what."""
    from hogshare.lab.rivals import disciplines
    from hogshare.lab.rivals.linear.discipline import LinearRace

    kinds = disciplines.of_linear(args.only, args.loss)  # fail before the work, not after it
    shared.check_files(args)
    args.targets = args.targets or (1e-1, 1e-2, 1e-3)
    return kinds, LinearRace(*shared.rows_of(args), args.loss, args.alpha)


def named_race(args: Any) -> tuple[Any, Discipline]:
    """Who races with a problem that has a name, and for what."""
    from hogshare.lab.rivals import disciplines
    from hogshare.lab.studies.experiments import family_of

    reads = family_of(args.problem).reads
    if reads == "ratings" and args.data is not None:
        raise options.WrongCommandLine(
            "the race of factorisations is on ratings that are made, where everybody's penalty is "
            "the same: leave out --data"
        )
    kinds = disciplines.select(args.only, disciplines.CONTESTANTS[reads])
    shared.check_files(args)
    args.targets = args.targets or disciplines.TARGETS[reads]
    return kinds, disciplines.race_of(*experiments.data_of(args), args.seed)
