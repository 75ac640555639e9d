"""What the benches share of the command line: rows, planes, runs, files."""

from __future__ import annotations

from typing import Any

from hogshare.cli import options, outputs, rows
from hogshare.lab.experiments import problems as experiments

STEP = "1 / mean squared norm of a row"
LAW = "lognormal:1,0.2"
ALPHA = 1e-4


def add_rows_options(parser: Any, data: str) -> None:
    """Add what benches of linear problems have in common: rows, loss and penalty."""
    parser.add_argument("--data", default=data, help=f"{options.DATA_HELP} (default: %(default)s)")
    options.add_data_options(parser)
    options.add_loss_options(parser, "log_loss", "log_loss")


def add_plane_options(parser: Any, exchange: str) -> None:
    """Add the options of the shared plane; `exchange` is the help of ``--exchange``."""
    parser.add_argument("--exchange", type=options.exchange, default="auto", help=exchange)
    parser.add_argument(
        "--adds",
        choices=("plain", "atomic"),
        default="plain",
        help="how workers add to the one vector of --exchange none (default: %(default)s)",
    )


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
    add_round_options(parser, points)


def add_round_options(parser: Any, points: int) -> None:
    """Add what benches of contestants in turn have in common: rounds, points, seed, files."""
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
        "--seed", type=options.seed, default=0, help="of law and first round (default: 0)"
    )
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


def named_problem(args: Any, algorithm: str) -> tuple[Any, Any]:
    """The family that ``--problem`` names, and its problem; settles the batch."""
    family, data = experiments.data_of(args)
    args.batch = args.batch or family.batch(algorithm)
    return family, family.state(data)


def of_linear(args: Any) -> dict[str, bool]:
    """Options that are for linear problems, and whether they are given."""
    return {
        "--loss": args.loss != "log_loss",
        "--penalty": args.penalty != "l2",
        "--alpha": args.alpha != ALPHA,
    }


def settings_of(args: Any, wanted: tuple[str, ...]) -> dict[str, Any]:
    """What a measurement takes of the command line."""
    return {name: getattr(args, name) for name in wanted}
