"""What ``hogshare fit`` can fit: estimators by name, and the options that each of them has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hogshare.cli import options

# option of the command -> parameter of the estimators, where the two differ
PARAMETERS = {"epochs": "max_iter"}


@dataclass(frozen=True)
class Kind:
    """An estimator, or one for each task.

    Attributes
    ----------
    classes : dict of str
        Names of public classes by task.
    options : tuple of str
        Options that make sense for it, by their names in the parsed command line.
    """

    classes: dict[str, str]
    options: tuple[str, ...]


KINDS = {
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
}


def given(args: Any) -> dict[str, Any]:
    """Return the options of estimators that the command line names; the others are left out."""
    every = {name for kind in KINDS.values() for name in kind.options}
    return {name: value for name, value in vars(args).items() if name in every}


def check(args: Any) -> None:
    """Refuse a command line that makes no sense for its estimator, whatever the rows are.

    Raises
    ------
    WrongCommandLine
    """
    kind, named = KINDS[args.estimator], given(args)
    for name, value in named.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in kind.options:
            others = [other for other, k in KINDS.items() if name in k.options]
            raise options.WrongCommandLine(
                f"{flag} is not for --estimator {args.estimator}, but for {', '.join(others)}"
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
            f"--checkpoint is for --estimator sgd; {args.estimator} is not saved on its way"
        )
    if args.resume and not args.checkpoint:
        raise options.WrongCommandLine("--resume needs --checkpoint, which names the file")
    if args.task != "auto" and args.task not in kind.classes:
        raise options.WrongCommandLine(f"--estimator {args.estimator} is not for {args.task}")


def task_of(args: Any, y: Any) -> str:
    """Return the task that was named, or the estimator's only one, or what the labels tell."""
    from hogshare.cli import rows

    if args.task != "auto":
        return str(args.task)
    tasks = list(KINDS[args.estimator].classes)
    return tasks[0] if len(tasks) == 1 else rows.task_of(y)


def parameters(args: Any, task: str) -> dict[str, Any]:
    """Return what goes to the estimator and into the model file: what was given, and no defaults.

    Raises
    ------
    ValueError
        If an option is not for the task, which may be what the labels tell.
    """
    named = given(args)
    if task == "regression" and "class_weight" in named:
        raise ValueError("--class-weight is for classes, and this is a regression")
    params = {PARAMETERS.get(name, name): value for name, value in named.items()}
    if args.estimator == "sgd":
        losses = options.LOSSES[task]
        if "loss" in params and params["loss"] not in losses:
            raise ValueError(
                f"--loss {params['loss']} is not for {task}; choose from {', '.join(losses)}"
            )
        if params.get("penalty") == "none":
            params["penalty"] = None
    if args.estimator == "logistic" and params.get("l1_ratio"):
        params["solver"] = "saga"  # the name by which scikit-learn accepts l1
    return params
