"""``hogshare fit``: train a model on a file and store it."""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

from hogshare.cli import (
    command_rows,
    console,
    encoded_tables,
    evaluation,
    kinds,
    options,
    outputs,
    penalty_scales,
    rank_command,
    rating_files,
)
from hogshare.io.tables import cell

CHECKPOINT_SECONDS = 1.0
SOON_FITTED = (kinds.AUTO, "sgd", "logistic")  # fast on few rows, see `estimators.few_rows`
PENALISED = (kinds.AUTO, "logistic", "ridge")  # estimators with a penalty by the l2 norm
SCORES = {
    "classification": "training accuracy",
    "regression": "training R2",
    "topics": "training perplexity",
}

DESCRIPTION = """\
Train a model on every usable core and store it.

estimators:
  auto           logistic for classes, ridge for numbers; sgd if an option is given that only
                 sgd has, such as --loss or --learning-rate
  sgd            SGDClassifier or SGDRegressor: any loss, a rough model in a few epochs
  logistic       LogisticRegression: classes with probabilities, to a tolerance
  ridge          RidgeClassifier or Ridge: least squares with an l2 penalty
  lasso          Lasso: least squares with an l1 penalty
  elastic-net    ElasticNet: least squares with both
  mlp            MLPClassifier or MLPRegressor: a network of a few layers, by Adam
  topics         LatentDirichletAllocation: topics of documents from word counts; no labels
  factorisation  MatrixFactorization: recommendations; a line of DATA is user, item and rating

Options that are not given have the estimator's defaults, which are scikit-learn's. Topics are
fitted with learning_method="online".

Labels that are text or few different whole numbers are classes; fractions are numbers; for many
different whole numbers, --task decides. CSV may have column names in its first line: the model
stores them, and predict finds its columns by them."""


EXAMPLES = """\
examples:
  hogshare fit a9a.xz --model a9a.npz --loss log_loss --epochs 20
  hogshare fit houses.csv --label-column price --model m.npz --estimator ridge
  hogshare fit - --format csv --label-column -1 --model m.npz
  hogshare fit counts.svm --model topics.npz --estimator topics --n-topics 20 --epochs 5
  hogshare fit ratings.csv --estimator factorisation --n-factors 16 --model taste.npz
  mpiexec -n 4 hogshare fit big.svm --model m.npz --runtime mpi --n-jobs 1"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "fit",
        help="train a model and store it",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument("data", metavar="DATA", help=options.DATA_HELP)
    parser.add_argument("--model", metavar="OUT.npz", required=True, help="model file to write")
    parser.add_argument(
        "--estimator", choices=kinds.KINDS, default=kinds.AUTO, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--task",
        choices=("auto", "classification", "regression"),
        default="auto",
        help="auto decides by the labels (default: %(default)s)",
    )
    add_estimator_options(parser)
    parser.add_argument(
        "--n-jobs",
        type=options.jobs,
        help="workers at most; -1: every usable core (default: -1; 1 with --runtime caller)",
    )
    parser.add_argument(
        "--runtime",
        choices=options.RUNTIMES,
        default="auto",
        help="the workers' runtime; auto also passes to scikit-learn what it does better; mpi: "
        "ranks started by mpiexec, each of which reads its part of a plain file of LIBSVM text "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--barrier",
        type=options.barrier,
        default=None,
        help="when a worker may go on: asp (without waiting), bsp, ssp:STALENESS, pbsp:SAMPLE, "
        "pssp:SAMPLE,STALENESS, fraction:SHARE,STALENESS, throttled:AVAILABLE; with a final hold, "
        "as in pbsp:SAMPLE,hold, a worker retains its sample until it may pass "
        "(default: bsp for networks, whose workers compute each mini-batch together, else asp)",
    )
    parser.add_argument(
        "--seed", type=options.seed, default=None, help="bitwise repeatable with one worker"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="sgd: file to save the run to, about once a second and at its end",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the run in the file of --checkpoint, if it exists; --epochs includes the "
        "epochs before",
    )
    parser.add_argument(
        "--eval",
        metavar="FILE",
        help="rows with labels, in DATA's format, that are not fitted: the model is scored on "
        "them. sgd and mlp are scored after every epoch, end when the score has not gained --tol "
        "for five (mlp: ten) epochs, and return the best epoch's model",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the report of the run as JSON; -: print it"
    )
    options.add_data_options(parser)
    options.add_table_options(parser)
    options.add_quiet(parser, "and the whole report of the run")
    parser.set_defaults(run=run, assigned={}, prints=lambda args: args.json == outputs.PRINT)


def add_estimator_options(parser: Any) -> None:
    """Add the estimators' parameters; the parsed command line contains only the given ones."""
    losses = options.LOSSES["classification"]

    def add(*names: str, **settings: Any) -> None:
        parser.add_argument(*names, default=argparse.SUPPRESS, **settings)

    add(
        "--loss",
        choices=tuple(dict.fromkeys((*losses, *options.RATINGS_LOSSES))),
        metavar="LOSS",
        help=f"sgd: {', '.join(losses)} (default: hinge for classes, squared_error for numbers); "
        f"factorisation: {', '.join(options.RATINGS_LOSSES)} (default: squared_error): "
        "logistic for ratings from 0 to 1 or pairs only, bpr for pairs",
    )
    add("--penalty", choices=("l2", "l1", "elasticnet", "none"), help="sgd (default: l2)")
    add(
        "--alpha",
        type=options.not_negative,
        help="strength of the penalty: sgd (default: 1e-4), ridge, lasso, elastic-net (default: "
        "1), mlp (default: 1e-4), factorisation (default: by the ratings' number and spread)",
    )
    add("--C", type=options.positive, help="logistic: inverse penalty strength (default: 1)")
    add(
        "--l1-ratio",
        type=options.share,
        help="share of l1: sgd with --penalty elasticnet (default: 0.15), logistic (default: 0), "
        "elastic-net (default: 0.5)",
    )
    add(
        "--epochs",
        "--max-iter",
        dest="epochs",
        type=options.positive_int,
        help="at most (default: 1000, mlp 200, logistic 100, factorisation 20); topics: exactly "
        "that many (default: 10)",
    )
    add(
        "--n-factors",
        type=options.positive_int,
        help="factorisation: factors of each user and each item (default: 8)",
    )
    add(
        "--tol",
        type=options.tolerance,
        help="when to stop: sgd when five epochs gain less than this (default: 1e-3; none: never), "
        "the others by the gradient or the duality gap of the model (default: 1e-4)",
    )
    add(
        "--learning-rate",
        choices=options.LEARNING_RATES,
        help="sgd; auto: needs no tuning; the others are scikit-learn's schedules with its initial "
        "step sizes (default: optimal for classes, invscaling for numbers)",
    )
    add("--average", action="store_true", help="sgd: average the model over all steps")
    add(
        "--class-weight",
        choices=("balanced",),
        help="sgd, logistic, ridge: weight classes by their rarity (default: equal weights)",
    )
    add(
        "--hidden",
        type=options.layers,
        metavar="N[,N...]",
        help="mlp: units of each hidden layer, in order (default: 100)",
    )
    add(
        "--activation",
        choices=("relu", "tanh", "logistic", "identity"),
        help="mlp: activation of the hidden layers (default: relu)",
    )
    add("--n-topics", type=options.positive_int, help="topics: how many (default: 10)")
    add(
        "--batch-size",
        type=options.positive_int,
        help="rows of a step: topics (default: 128), mlp (default: 200)",
    )


def run(args: Any) -> int:
    """Fit, store the model and print a summary; with MPI, together with the other ranks."""
    kinds.check(args)
    if args.runtime != options.RANKS:
        return fit(args)
    if args.data == command_rows.STDIN:
        raise options.WrongCommandLine(
            "--runtime mpi cannot read standard input, which its launcher uses: name a file"
        )
    return rank_command.run(args, fit, section)


def section(args: Any, place: int, of: int) -> Any:
    """Return the rows of a rank's section of the file, or None (`cli.command_rows.section`)."""
    if args.estimator == rating_files.ESTIMATOR:
        return None
    return command_rows.section(args, kinds.KINDS[args.estimator].labelled, place, of)


def fit(args: Any, gathered: Any = None) -> int:
    """Run the command in this process; `gathered` are LIBSVM rows that were read before."""
    import numpy as np

    from hogshare.io.models import encoders, model_file, save_load

    read = command_rows.files_read(args, "DATA", **{"--labels": args.labels, "--eval": args.eval})
    written = {"--model": args.model, "--checkpoint": args.checkpoint, "--json": args.json}
    outputs.check_all(read, written, "--json")
    loaded = command_rows.Loaded(None, None, None)
    if args.estimator == rating_files.ESTIMATOR:
        task, *given = kinds.task_of(args, None, args.data), *rating_files.load(args, args.data)
    else:
        loaded = command_rows.load(args, args.data, kinds.KINDS[args.estimator].labelled, gathered)
        task, *given = checked(args, loaded)
        small = of_small_numbers(args, task, loaded)
        if small and (again := scaled(args, small)):
            loaded = again
            task, *given = checked(args, loaded)
        say_what(args, task, loaded, small)
    scored = args.eval and evaluation.Evaluation(args, task, loaded, given[1])
    began = time.perf_counter()
    estimator = fitted(task, args, *given, scored=scored or None)
    seconds = time.perf_counter() - began
    if not hasattr(estimator, "report_"):  # fits of networks end at Ctrl-C without an error
        raise KeyboardInterrupt
    saved = save_load.to_saved(estimator, loaded.zero_based)
    saved.label_column = loaded.label
    if loaded.encoder is not None:
        if loaded.names and not hasattr(loaded.encoder, "feature_names_in_"):
            # set after the fit: with names, scaling a matrix without names would warn
            loaded.encoder.feature_names_in_ = np.array(loaded.names, dtype=object)
        saved.encoding = encoders.to_saved(loaded.encoder)
    elif loaded.names:
        # set after the scores: with names, scoring rows without names would warn
        saved.attributes["feature_names_in_"] = np.array(loaded.names, dtype=object)
    outputs.check_distinct({**read, **written})  # again: a file may have become a link
    model_file.save(args.model, saved)
    if args.json:
        found = report_of(estimator)
        if scored:
            found = found if isinstance(found, dict) else {"reports": found}
            found["eval"] = scored.to_dict()
        outputs.write_json(args.json, found)
    if args.json != outputs.PRINT and not args.quiet:
        facts = summary(estimator, task, seconds, given)
        if scored and scored.best_epoch:
            facts.append(("best epoch", cell(scored.best_epoch)))
        if scored:
            facts.append((scored.name, cell(scored.final)))
        outputs.show_fit(args, facts)
    if args.verbose:
        for report in reports_of(estimator):
            for line in str(report).splitlines():
                console.say(line)
    return 0


def checked(args: Any, loaded: command_rows.Loaded) -> tuple[str, Any, Any]:
    """Return the task, the rows and the labels; check them and the memory that the model needs.

    Raises
    ------
    ValueError, WrongCommandLine, MemoryError
        If a check fails.
    """
    import numpy as np

    from hogshare.cli import label_tasks

    X, y, whose = loaded.X, loaded.y, args.labels or args.data
    if kinds.KINDS[args.estimator].labelled:
        y = command_rows.need_labels(y, whose)
        task = kinds.task_of(args, y, whose)
        y = label_tasks.labels_for(task, y, whose)
        check_memory(args.data, X.shape[1], 1 if task == "regression" else len(np.unique(y)))
        return task, X, y
    label_tasks.check_counts(X, args.data)
    label_tasks.report_ignored(y, args.data)
    n_topics = kinds.parameters(args).get("n_components", 10)
    check_memory(args.data, X.shape[1], n_topics, "topics")
    return kinds.task_of(args, None, whose), X, None


def of_small_numbers(args: Any, task: str, loaded: command_rows.Loaded) -> str:
    """Describe the columns whose coefficients the penalty would shrink most; else return ""."""
    if args.estimator not in PENALISED or args.scale or hasattr(loaded.X, "indptr"):
        return ""
    given = kinds.given(args)
    # the second derivative of log_loss is at most a quarter
    is_logistic = args.estimator == "logistic" or (
        args.estimator == kinds.AUTO and task == "classification"
    )
    weight = 4.0 / given.get("C", 1.0) if is_logistic else given.get("alpha", 1.0)
    if not (found := penalty_scales.shrunk(loaded.X, weight)):
        return ""
    names = encoded_tables.made_names(loaded.encoder, loaded.names)
    first = repr(names[found[0]]) if names else f"{found[0] + 1}"
    more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
    return f"column {first}{more} of small numbers"


def scaled(args: Any, small: str) -> command_rows.Loaded | None:
    """Load the rows again, scaled, and set `args.scale`.

    Return None if an option chooses the estimator or the scaling, with MPI, or if the rows cannot
    be read twice.
    """
    path = command_rows.located(args)
    files = [path, *([args.labels] if args.labels else [])]
    again = args.runtime != options.RANKS and all(map(os.path.isfile, filter(None, files)))
    again = again and path is not None
    if args.estimator != kinds.AUTO or args.scale is not None or not again:
        return None
    console.note(f"{args.data}: {small}: columns are scaled; --no-scale fits them as they are")
    args.scale = True
    console.be_quiet(True)  # the first reading has reported all facts
    try:
        return command_rows.load(args, args.data)
    finally:
        console.be_quiet(args.quiet)


def say_what(args: Any, task: str, loaded: command_rows.Loaded, small: str) -> None:
    """Report the chosen estimator, and rows that do not suit its steps or its penalty."""
    name = kinds.KINDS[args.estimator].classes[task]
    if args.estimator == kinds.AUTO:
        what = "classes" if task == "classification" else "numbers"
        console.note(f"the labels are {what}: fitting {name}; --estimator chooses another")
    if small and not args.scale:
        console.say(
            f"{args.data}: {small}: the penalty removes most of their effect, because they need "
            "large coefficients; --scale gives columns equal scales"
        )
    if args.estimator != "sgd" or kinds.given(args).get("learning_rate") == "auto":
        return
    from hogshare.estimators.column_scales import UnlikeColumns, unlike

    if (found := unlike(loaded.X)) is not None:
        # the command's own message replaces the estimator's warning
        warnings.simplefilter("ignore", UnlikeColumns)
        ratio, *places = found
        names = encoded_tables.made_names(loaded.encoder, loaded.names)
        larger, smaller = (repr(names[k]) if names else k + 1 for k in places)
        other = "logistic" if task == "classification" else "ridge"
        console.say(
            f"columns {larger} and {smaller} differ {ratio:,.0f} times in scale, too much for one "
            f"step size: use --scale to give them equal scales; or --learning-rate auto, or "
            f"{other}"
        )


def check_memory(data: str, n_features: int, n_vectors: int, called: str = "classes") -> None:
    """Refuse a model that does not fit into memory, for any estimator."""
    from hogshare.io import libsvm
    from hogshare.system import memory

    vectors = n_vectors if n_vectors > 2 else 1
    memory.require(
        libsvm.COLUMN_BYTES * n_features * vectors,
        f"{data}: a model of {n_features:,} columns"
        + (f" and {n_vectors:,} {called}" if vectors > 1 else ""),
    )


def fitted(task: str, args: Any, *given: Any, scored: evaluation.Evaluation | None = None) -> Any:
    """Fit with progress on standard error; score the model of each epoch and the final one."""
    import hogshare
    import hogshare.barriers
    from hogshare.estimators import few_rows

    kind = getattr(hogshare, kinds.KINDS[args.estimator].classes[task])
    workers = options.workers(args)
    estimator = kind(
        **kinds.parameters(args),
        **{**workers, **args.assigned},
        barrier=None if args.barrier is None else hogshare.barriers.parse(args.barrier),
        random_state=args.seed,
    )
    if args.checkpoint:
        save_on_the_way(estimator, args.checkpoint, args.resume)
    with console.progress(estimator.max_iter or 1000, "fit") as progress:
        if scored and args.estimator in evaluation.IN_EPOCHS:
            epochs = evaluation.Epochs(progress, scored)
            if hasattr(estimator, "set_callbacks"):
                estimator.set_callbacks(epochs)
            else:
                estimator._on_epoch = lambda epoch, snapshot: epochs.heard(estimator)
        elif args.estimator in SOON_FITTED and few_rows.are_few(given[0]):
            pass  # with callbacks, workers fit even few rows, and may have to compile kernels first
        elif hasattr(estimator, "set_callbacks"):
            estimator.set_callbacks(evaluation.EpochProgress(progress))
        else:
            estimator._on_epoch = lambda epoch, snapshot: progress.advance()
        estimator.fit(*given).set_params(**workers)
    if scored:
        scored.finish(estimator)
    return estimator


def save_on_the_way(estimator: Any, path: str, resume: bool) -> None:
    """Make an estimator save checkpoints of its fit, and with `resume` continue from the file."""
    import hogshare

    estimator._checkpoint = hogshare.Checkpoint(path, seconds=CHECKPOINT_SECONDS)
    if resume and os.path.exists(path):
        estimator._resume = path
    elif resume:
        console.say(f"{path}: there is no checkpoint yet; the fit begins anew")


def reports_of(estimator: Any) -> list[Any]:
    """Return the reports of a fit: a single one, or one for each class."""
    reports = estimator.report_
    return list(reports) if isinstance(reports, list) else [reports]


def report_of(estimator: Any) -> Any:
    """Return the report of the run as data for JSON; a list if there are several."""
    reports = reports_of(estimator)
    for report in reports:
        if not report.workers:
            console.say(f"no workers ran: {report.headline()}")
    found = [report.to_dict() for report in reports]
    return found[0] if len(found) == 1 else found


def summary(estimator: Any, task: str, seconds: float, given: list[Any]) -> list[tuple[str, str]]:
    """Return the facts of a fit to print, by name."""
    reports = reports_of(estimator)
    name = type(estimator).__name__
    if name == rating_files.CLASS:
        counts = [("users", estimator.users_), ("items", estimator.items_), ("ratings", given[0])]
        facts = [("estimator", name), *((thing, cell(len(those))) for thing, those in counts)]
        facts += [("loss", estimator.loss), ("alpha", cell(estimator.alpha_))]
    else:
        facts = [("task", task), ("estimator", name)]
        of_estimator = {"loss": "loss", "solver": "solver_"}
        facts += [
            (k, getattr(estimator, v)) for k, v in of_estimator.items() if hasattr(estimator, v)
        ]
    if any(report.workers for report in reports):
        n_epochs = max(r.n_epochs for r in reports)
        facts += [
            ("workers", cell(max(report.n_workers for report in reports))),
            ("epochs", cell(n_epochs)),
            ("ended because", "; ".join(dict.fromkeys(r.stop_reason for r in reports))),
        ]
    else:
        facts += [("no workers", "; ".join(report.headline() for report in reports))]
    facts += [("seconds", cell(seconds))]
    if name == rating_files.CLASS and (given[2] is None or estimator.loss == "bpr"):
        return facts  # recommendations from pairs have no score per rating
    score = estimator.bound_ if task == "topics" else estimator.score(*given)
    return [*facts, (SCORES[task], cell(float(score)))]
