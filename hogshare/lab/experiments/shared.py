"""What experiments share: rows, planes and runs as options, a default step, what is doubtful."""

from __future__ import annotations

from typing import Any

from hogshare.cli import options, outputs, rows
from hogshare.lab.experiments import problems as experiments
from hogshare.lab.harness.settings import Group, Setting

STEP = "1 / mean squared norm of a row"
LAW = "lognormal:1,0.2"
ALPHA = 1e-4
LINEAR = ("loss", "penalty", "alpha", "l1_ratio")

LOSS = Group(lambda parser: options.add_loss_options(parser, "log_loss", "log_loss"), LINEAR)
DATA = Group(options.add_data_options, ("dtype",))
WORKERS = Setting("workers", "", 8, options.positive_int)
ROUNDS = Setting("rounds", "", 3, options.positive_int)
SEED = Setting("seed", "of law and first round", 0, options.seed)


def linear_rows(data: str) -> tuple[Setting | Group, ...]:
    """What experiments of linear problems have in common: rows, loss and penalty."""
    return Setting("data", options.DATA_HELP, data), DATA, LOSS


def plane(exchange: str) -> tuple[Setting, ...]:
    """The shared plane; `exchange` is the help of ``--exchange``."""
    adds = "how workers add to the one vector of --exchange none"
    return (
        Setting("exchange", exchange, "auto", options.exchange),
        Setting("adds", adds, "plain", choices=("plain", "atomic")),
    )


def points(count: int) -> Setting:
    """Of the trace."""
    return Setting("points", "points of the trace in an epoch", count, options.positive_int)


def trials(epochs: int, count: int, step: str = STEP) -> tuple[Setting, ...]:
    """What experiments of runs have in common: steps, lengths, targets, rounds."""
    target = "objective to come down to, penalty included (default: where the worst run has made "
    return (
        Setting("step", f"constant (default: {step})", type=options.positive),
        Setting("epochs", "of a run", epochs, options.positive_int),
        Setting("target", f"{target}99%% of its gain)", type=options.finite),
        *(ROUNDS, points(count), SEED),
    )


def load(args: Any) -> tuple[Any, Any]:
    """Load what is measured on."""
    X, y, *_ = rows.load(args, args.data)
    return X, rows.need_labels(y, args.data)


def stated(X: Any, y: Any, settings: dict[str, Any]) -> Any:
    """Return the linear problem that the settings describe."""
    from hogshare import problems

    return problems.linear(X, y, **{name: settings[name] for name in LINEAR})


def linear_problem(args: Any) -> Any:
    """The linear problem of a command line; settles the step."""
    X, y = load(args)
    args.step = args.step or default_step(X)
    return stated(X, y, vars(args))


def default_step(X: Any) -> float:
    """Return one over the mean squared norm of a row: safe for log loss, whatever the rows."""
    import numpy as np

    values = X.data if hasattr(X, "indptr") else np.asarray(X)
    total = float(np.square(values, dtype=np.float64).sum())
    return X.shape[0] / total if total > 0.0 else 1.0


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


def has_own_steps(problem: Any) -> bool:
    """Whether a problem says its steps itself, each of a block of rows."""
    from hogshare.problems.protocol import by_gradient

    return by_gradient(problem) and problem.has_steps


def machine_doubts(workers: list[int]) -> list[str]:
    """Return what makes time speedups meaningless before anything has run."""
    import joblib

    cores = joblib.cpu_count()
    if workers[-1] <= cores:
        return []
    return [
        f"{workers[-1]} workers on {cores} usable core{'s' * (cores != 1)}: "
        "iteration speedups stay meaningful, time speedups do not"
    ]


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


def settings_of(args: Any, wanted: tuple[str, ...]) -> dict[str, Any]:
    """What a measurement takes of the command line."""
    return {name: getattr(args, name) for name in wanted}
