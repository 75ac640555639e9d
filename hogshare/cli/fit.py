"""``hogshare fit``: train a linear model on a file and store it."""

from __future__ import annotations

from typing import Any

from hogshare.cli import console, models, options, rows
from hogshare.tables import cell


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "fit",
        help="train a linear model and store it",
        description="Train SGDClassifier or SGDRegressor on every usable core and store the model.",
        epilog="example: hogshare fit a9a.xz --model a9a.npz --loss log_loss --epochs 20",
    )
    parser.add_argument("data", metavar="DATA", help=options.DATA_HELP)
    parser.add_argument("--model", metavar="OUT.npz", required=True, help="model file to write")
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto goes by the labels: fractions mean regression (default: %(default)s)",
    )
    options.add_loss_options(parser, None, "hinge for classification, squared_error for regression")
    parser.add_argument(
        "--epochs", type=options.positive_int, default=1000, help="at most (default: %(default)s)"
    )
    parser.add_argument(
        "--tol",
        type=options.tolerance,
        default=1e-3,
        help="stop when five epochs gain less than this; none: never (default: %(default)s)",
    )
    parser.add_argument(
        "--learning-rate",
        choices=options.LEARNING_RATES,
        help="auto: nothing to tune; the others are scikit-learn's schedules with its first steps "
        "(default: optimal for classification, invscaling for regression)",
    )
    parser.add_argument("--average", action="store_true", help="average the model over all steps")
    parser.add_argument(
        "--n-jobs", type=options.jobs, default=-1, help="workers at most; -1: every usable core"
    )
    parser.add_argument(
        "--runtime", choices=options.RUNTIMES, default="auto", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=options.seed, default=None, help="bitwise repeatable with one worker"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report of the run as JSON")
    options.add_data_options(parser)
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Fit, store the model, print what came out."""
    from hogshare import modelfile

    X, y = rows.load(args, args.data)
    y = rows.need_labels(y, args.data)
    task = rows.task_of(y) if args.task == "auto" else args.task
    if task == "classification":
        y = rows.class_labels(y)
    params = parameters(args, task)
    estimator = fitted(task, params, args, X, y)
    modelfile.save(args.model, models.from_estimator(estimator, params))
    if args.json:
        estimator.report_.to_json(args.json)
    facts = summary(estimator, task, X, y)
    console.show_table(("what", "value"), [*facts, ("model", args.model)])
    return 0


def parameters(args: Any, task: str) -> dict[str, Any]:
    """Return what goes to the estimator and into the model file."""
    loss = args.loss or ("hinge" if task == "classification" else "squared_error")
    if loss not in options.LOSSES[task]:
        raise ValueError(
            f"--loss {loss} is not for {task}; choose from {', '.join(options.LOSSES[task])}"
        )
    schedule = {} if args.learning_rate is None else {"learning_rate": args.learning_rate}
    return {
        **schedule,
        "loss": loss,
        "penalty": None if args.penalty == "none" else args.penalty,
        "alpha": args.alpha,
        "l1_ratio": args.l1_ratio,
        "max_iter": args.epochs,
        "tol": args.tol,
        "average": args.average,
    }


def fitted(task: str, params: dict[str, Any], args: Any, X: Any, y: Any) -> Any:
    """Fit with progress on standard error."""
    import hogshare

    kind = hogshare.SGDClassifier if task == "classification" else hogshare.SGDRegressor
    estimator = kind(**params, n_jobs=args.n_jobs, runtime=args.runtime, random_state=args.seed)
    with console.progress(args.epochs, "fit") as progress:
        return estimator.set_callbacks(EpochProgress(progress)).fit(X, y)


class EpochProgress:
    """A scikit-learn callback that counts finished epochs."""

    def __init__(self, progress: console.Progress) -> None:
        self.progress = progress

    def setup(self, estimator: Any, context: Any) -> None:
        """Prepare nothing."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Clean up nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Wait for the end of the epoch."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Count an epoch; never ask to stop."""
        if context.parent is not None:
            self.progress.advance()
        return False


def summary(estimator: Any, task: str, X: Any, y: Any) -> list[tuple[str, str]]:
    """Return what to tell about a fit, by name."""
    report = estimator.report_
    score = "training accuracy" if task == "classification" else "training R2"
    return [
        ("task", task),
        ("loss", estimator.loss),
        ("workers", cell(len(report.workers))),
        ("epochs", cell(report.n_epochs)),
        ("ended because", report.stop_reason),
        ("seconds", cell(float(report.seconds["total"]))),
        (score, cell(float(estimator.score(X, y)))),
    ]
