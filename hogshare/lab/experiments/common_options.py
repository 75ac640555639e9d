"""Shared parts of experiments: options for rows, planes and runs, a default step size, problems."""

from __future__ import annotations

from typing import Any

from hogshare.cli import command_rows, options
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
SEED = Setting("seed", "of the law and the first round", 0, options.seed)
BATCH = Setting(
    "batch",
    "of a gradient, if the problem is not linear (default: by the problem)",
    type=options.positive_int,
    metavar="ROWS",
)
JITTER = 0.2  # sigma of the log-normal time of a block that sleeps
LAW_OF_BLOCKS = Setting(
    "law",
    "of the simulator: law of the block time, such as exponential:1",
    LAW,
    options.block_time,
)


def linear_rows(data: str) -> tuple[Setting | Group, ...]:
    """Return settings of experiments on linear problems: rows, loss and penalty."""
    return Setting("data", options.DATA_HELP, data), DATA, LOSS


def plane(exchange: str) -> tuple[Setting, ...]:
    """Return settings of the shared plane; `exchange` is the help of ``--exchange``."""
    adds = "how workers add to the one vector of --exchange none"
    return (
        Setting("exchange", exchange, "auto", options.exchange),
        Setting("adds", adds, "plain", choices=("plain", "atomic")),
    )


def base_ms(what: str) -> Setting:
    """Return the setting for milliseconds of sleep of a block; sleeping workers need few cores."""
    return Setting("base_ms", what, 5.0, options.not_negative, metavar="MS")


def points(count: int) -> Setting:
    """Return the setting for the number of points of the trace."""
    return Setting("points", "points of the trace in an epoch", count, options.positive_int)


def trials(epochs: int, count: int, step: str = STEP) -> tuple[Setting, ...]:
    """Return settings of experiments with runs: steps, lengths, targets, rounds."""
    target = "objective to reach, penalty included (default: where the worst run has made "
    return (
        Setting("step", f"constant (default: {step})", type=options.positive),
        Setting("epochs", "of a run", epochs, options.positive_int),
        Setting("target", f"{target}99%% of its gain)", type=options.finite),
        *(ROUNDS, points(count), SEED),
    )


def load(args: Any) -> tuple[Any, Any]:
    """Load the rows and labels to measure on."""
    X, y, *_ = command_rows.load(args, args.data)
    return X, command_rows.need_labels(y, args.data)


def stated(X: Any, y: Any, settings: dict[str, Any]) -> Any:
    """Return the linear problem that the settings describe."""
    from hogshare import problems

    return problems.linear(X, y, **{name: settings[name] for name in LINEAR})


def linear_problem(args: Any, share: float = 1.0) -> Any:
    """Return the linear problem of a command line; set a missing step to `share` of the default."""
    X, y = load(args)
    args.step = args.step or share * default_step(X)
    return stated(X, y, vars(args))


def default_step(X: Any) -> float:
    """Return one over the mean squared norm of a row, which is safe for log loss with any rows."""
    import numpy as np

    values = X.data if hasattr(X, "indptr") else np.asarray(X)
    total = float(np.square(values, dtype=np.float64).sum())
    return X.shape[0] / total if total > 0.0 else 1.0


def named_problem(args: Any, algorithm: str) -> tuple[Any, Any]:
    """Return the family that ``--problem`` names, and its problem; set a missing batch."""
    family, data = experiments.data_of(args)
    args.batch = args.batch or family.batch(algorithm)
    return family, family.state(data)


def of_linear(args: Any) -> dict[str, bool]:
    """Return the options that are for linear problems only, and whether each is given."""
    return {
        "--loss": args.loss != "log_loss",
        "--penalty": args.penalty != "l2",
        "--alpha": args.alpha != ALPHA,
    }


def late(settings: dict[str, Any]) -> Any:
    """Return the law of slow workers."""
    from hogshare.stragglers import parse

    return parse(settings["stragglers"], 1e-3 * settings["base_ms"], settings["seed"])


def slept(block_ms: float, seed: int) -> Any:
    """Return a law of stragglers with which blocks sleep about `block_ms` besides computing."""
    from hogshare.stragglers import LogNormal

    return LogNormal(JITTER, base=1e-3 * block_ms, seed=seed)


def has_own_steps(problem: Any) -> bool:
    """Whether a problem computes its own step size for each block of rows."""
    from hogshare.problems.protocol import by_gradient

    return by_gradient(problem) and problem.has_steps
