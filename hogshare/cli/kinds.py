"""The estimators of ``hogshare fit`` by name, and the options of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hogshare.cli import encoded_tables, options

# option of the command -> parameter of the estimators, if the names differ
PARAMETERS = {
    "epochs": "max_iter",
    "n_topics": "n_components",
    "hidden": "hidden_layer_sizes",
}


@dataclass(frozen=True)
class Kind:
    """An estimator of the command, or one estimator for each task."""

    classes: dict[str, str]  # names of public classes by task
    options: tuple[str, ...]  # the kind's options, by their names in the parsed command line
    labelled: bool = True  # whether it learns from labels
    always: dict[str, Any] = field(default_factory=dict)  # parameters that the command sets
    losses: tuple[str, ...] = ()  # values of --loss, if they differ from the task's


AUTO = "auto"
KINDS = {
    AUTO: Kind(
        {"classification": "LogisticRegression", "regression": "Ridge"},
        ("C", "l1_ratio", "epochs", "tol", "class_weight"),
    ),
    "sgd": Kind(
        {"classification": "SGDClassifier", "regression": "SGDRegressor"},
        (
            *("loss", "penalty", "alpha", "l1_ratio", "epochs", "tol", "learning_rate", "average"),
            "class_weight",
        ),
    ),
    "logistic": Kind(
        {"classification": "LogisticRegression"}, ("C", "l1_ratio", "epochs", "tol", "class_weight")
    ),
    "ridge": Kind(
        {"classification": "RidgeClassifier", "regression": "Ridge"},
        ("alpha", "epochs", "tol", "class_weight"),
    ),
    "lasso": Kind({"regression": "Lasso"}, ("alpha", "epochs", "tol")),
    "elastic-net": Kind({"regression": "ElasticNet"}, ("alpha", "l1_ratio", "epochs", "tol")),
    "topics": Kind(
        {"topics": "LatentDirichletAllocation"},
        ("n_topics", "batch_size", "epochs"),
        labelled=False,
        always={"learning_method": "online"},
    ),
    "mlp": Kind(
        {"classification": "MLPClassifier", "regression": "MLPRegressor"},
        ("hidden", "activation", "alpha", "epochs", "tol", "batch_size"),
    ),
    "factorisation": Kind(
        {"regression": "MatrixFactorization"},
        ("loss", "alpha", "epochs", "n_factors"),
        losses=options.RATINGS_LOSSES,
    ),
}
# advice for an option that an estimator does not have
SQUARED = "its loss is the squared error; --estimator sgd has others"
INSTEAD = {
    ("sgd", "C"): "use --alpha, which is 1 / (C * rows)",
    ("logistic", "alpha"): "use --C, which is 1 / (alpha * rows)",
    ("logistic", "penalty"): "--l1-ratio 1 is its l1 penalty, and l2 needs no option",
    ("logistic", "loss"): "its loss is log_loss; --estimator sgd has others",
    ("ridge", "C"): "take --alpha",
    ("ridge", "loss"): SQUARED,
    ("ridge", "penalty"): "its penalty is l2; for l1 use --estimator lasso, or logistic for "
    "classes with --l1-ratio 1",
    ("ridge", "l1_ratio"): "its penalty is l2; --estimator elastic-net has both",
    ("lasso", "C"): "take --alpha",
    ("lasso", "loss"): SQUARED,
    ("lasso", "penalty"): "its penalty is l1; for l2 use --estimator ridge, for both elastic-net",
    ("lasso", "l1_ratio"): "its penalty is l1; --estimator elastic-net has both",
    ("elastic-net", "C"): "take --alpha",
    ("elastic-net", "loss"): SQUARED,
    ("elastic-net", "penalty"): "use --l1-ratio: 1 is l1, 0 is l2",
    ("topics", "tol"): "it makes --epochs passes over the documents",
    ("mlp", "loss"): "it is log_loss for classes and the squared error for numbers",
    ("mlp", "penalty"): "its penalty is l2",
    ("mlp", "learning_rate"): "its steps are Adam's",
    ("factorisation", "penalty"): "its penalty is l2",
    ("factorisation", "tol"): "it ends after --epochs",
}


def given(args: Any) -> dict[str, Any]:
    """Return the estimator options given on the command line."""
    every = {name for kind in KINDS.values() for name in kind.options}
    return {name: value for name, value in vars(args).items() if name in every}


def settled(args: Any, named: dict[str, Any]) -> str:
    """Return the estimator of a command line; auto becomes sgd if an option needs sgd.

    Without such an option auto depends on the labels: logistic for classes, ridge for numbers.
    """
    own, of_sgd = KINDS[AUTO].options, KINDS["sgd"].options
    needs_sgd = any(name in of_sgd and name not in own for name in named)
    needs_sgd |= named.get("tol", 0.0) is None or bool(args.checkpoint)
    return "sgd" if args.estimator == AUTO and needs_sgd else str(args.estimator)


def check(args: Any) -> None:
    """Refuse a command line whose options contradict each other, before rows are read.

    `args.estimator` becomes the estimator that `settled` returns.
    """
    named = given(args)
    args.estimator = settled(args, named)
    kind = KINDS[args.estimator]
    for name, value in named.items():
        flag = options.flag_of(name)
        if name not in kind.options:
            others = [other for other, k in KINDS.items() if name in k.options]
            raise options.WrongCommandLine(
                f"{flag} is not for --estimator {args.estimator}, but for {', '.join(others)}"
                + (f"; {INSTEAD[key]}" if (key := (args.estimator, name)) in INSTEAD else "")
            )
        if name == "tol" and value is None and args.estimator != "sgd":
            raise options.WrongCommandLine(
                f"--tol none is for --estimator sgd; {args.estimator} ends by its tolerance"
            )
    if args.estimator == "sgd" and "l1_ratio" in named:
        penalty = named.get("penalty", "l2")
        if penalty != "elasticnet":
            raise options.WrongCommandLine(f"--l1-ratio needs --penalty elasticnet, not {penalty}")
    if args.checkpoint and args.estimator != "sgd":
        raise options.WrongCommandLine(
            f"--checkpoint is for --estimator sgd; {args.estimator} cannot save a run"
        )
    if args.resume and not args.checkpoint:
        raise options.WrongCommandLine("--resume needs --checkpoint, which names the file")
    if args.task != "auto" and args.task not in kind.classes:
        others = [other for other, k in KINDS.items() if args.task in k.classes]
        raise options.WrongCommandLine(
            f"--estimator {args.estimator} is not for {args.task}; use {', '.join(others)}"
        )
    if args.runtime == "caller" and args.n_jobs not in (None, 1):
        raise options.WrongCommandLine(
            f"--runtime caller runs one worker, but --n-jobs is {args.n_jobs}; use --runtime "
            "threads or processes for several"
        )
    _check_tasks(args)
    encoded_tables.check(args, args.estimator != options.FACTORISATION, not kind.labelled)
    if args.labels and not kind.labelled:
        raise options.WrongCommandLine(
            f"--labels is not for --estimator {args.estimator}, which learns without labels"
        )
    if args.eval and (not kind.labelled or args.estimator == options.FACTORISATION):
        raise options.WrongCommandLine(
            f"--eval is not for --estimator {args.estimator}, whose epochs have no score of rows; "
            "score the model with hogshare predict"
        )
    if args.labels and args.missing == "drop":
        raise options.WrongCommandLine(
            "--missing drop is not for --labels, whose file has a label for each row: put the "
            "labels into a column, or use --missing mean or indicator"
        )
    if args.labels and args.label_column:
        raise options.WrongCommandLine("--labels and --label-column exclude each other: give one")


def _check_tasks(args: Any) -> None:
    """Refuse options that do not apply to any task that is still possible."""
    task = _said_task(args)
    refused = []
    for one in KINDS[args.estimator].classes if task is None else (task,):
        try:
            check_task(args, one)
            return
        except options.WrongCommandLine as error:
            refused.append(error)
    raise refused[0]


def check_task(args: Any, task: str) -> None:
    """Refuse options that belong to the other task."""
    named = given(args)
    if task == "regression" and "class_weight" in named:
        raise options.WrongCommandLine("--class-weight is for classes, and this is a regression")
    if task == "regression" and args.estimator == AUTO:
        for name, instead in (("C", "--alpha"), ("l1_ratio", "--estimator elastic-net")):
            if name in named:
                raise options.WrongCommandLine(
                    f"{options.flag_of(name)} is for classes, and this is a regression; "
                    f"take {instead}"
                )
    own = KINDS[args.estimator].losses
    losses = own or options.LOSSES.get(task, ())
    if "loss" in named and named["loss"] not in losses:
        what = f"--estimator {args.estimator}" if own else task
        raise options.WrongCommandLine(
            f"--loss {named['loss']} is not for {what}; choose from {', '.join(losses)}"
        )
    if args.estimator == "sgd":
        _check_rate(named, task)


def _check_rate(named: dict[str, Any], task: str) -> None:
    """Refuse options that do not suit the learning rate."""
    is_class = task == "classification"
    rate = named.get("learning_rate", "optimal" if is_class else "invscaling")
    loss = named.get("loss", "hinge" if is_class else "squared_error")
    of_rate = "hinge" if is_class else "epsilon_insensitive"
    if rate in ("pa1", "pa2") and loss != of_rate:
        raise options.WrongCommandLine(
            f"--learning-rate {rate} goes with --loss {of_rate} in a {task}, not {loss}"
        )
    if rate == "auto" and named.get("average"):
        raise options.WrongCommandLine(
            "--average is not for --learning-rate auto, which leaves no noise to average out"
        )
    if rate == "auto" and loss == "perceptron":
        raise options.WrongCommandLine(
            "--loss perceptron is not for --learning-rate auto: a model of zeros is its optimum; "
            "use --loss hinge, or --learning-rate constant"
        )
    if rate == "optimal" and named.get("alpha") == 0:
        raise options.WrongCommandLine(
            "--alpha 0 is not for --learning-rate optimal, whose steps depend on it; use auto, or "
            "constant"
        )


def _said_task(args: Any) -> str | None:
    """Return the given task, or the estimator's only task; None if the labels decide."""
    if args.task != "auto":
        return str(args.task)
    tasks = list(KINDS[args.estimator].classes)
    return tasks[0] if len(tasks) == 1 else None


def task_of(args: Any, y: Any, data: str) -> str:
    """Return the given task, the estimator's only task, or the task that the labels imply.

    Raises
    ------
    ValueError
        If the labels of `data` do not decide the task.
    WrongCommandLine
        If an option is for the other task.
    """
    from hogshare.cli import label_tasks

    if (task := _said_task(args)) is None:
        task = label_tasks.task_of(y, data)
        check_task(args, task)
    return task


def parameters(args: Any) -> dict[str, Any]:
    """Return the given parameters for the estimator and the model file, without defaults."""
    params = {PARAMETERS.get(name, name): value for name, value in given(args).items()}
    params |= KINDS[args.estimator].always
    if args.estimator == "sgd" and params.get("penalty") == "none":
        params["penalty"] = None
    if args.estimator in ("logistic", AUTO) and params.get("l1_ratio"):
        params["solver"] = "saga"  # scikit-learn accepts l1 only with this name
    return params
