"""``--eval``: score models on rows outside the fit, after the fit and after each epoch.

A fit in epochs ends when the score has not risen by `tol` for `n_iter_no_change` epochs, and
returns the best epoch's model, as with scikit-learn's ``early_stopping``. The rows are in a
separate file; scikit-learn splits off a part of the training rows instead.
"""

from __future__ import annotations

import argparse
import copy
from typing import TYPE_CHECKING, Any

from hogshare.cli import command_rows, console

if TYPE_CHECKING:
    from hogshare.cli.console import ProgressMeter

SCORES = {"classification": "eval accuracy", "regression": "eval R2"}
IN_EPOCHS = ("sgd", "mlp")  # estimators that provide the model of each epoch


class Evaluation:
    """Rows to evaluate models on, and the scores so far.

    Raises
    ------
    ValueError
        If labels are missing, or are of another kind than the labels of the fit.
    """

    def __init__(self, args: Any, task: str, loaded: command_rows.Loaded, y: Any) -> None:
        self.name = SCORES[task]
        self.X, self.y = _read(args, loaded)
        self._check_labels(args.eval, y)
        self.is_verbose = args.verbose
        self.scores: list[float] = []  # one score per epoch
        self.best_epoch: int | None = None
        self.final: float | None = None
        self._best: dict[str, Any] = {}
        self._best_score = float("-inf")
        self._waited = 0

    def _check_labels(self, name: str, y: Any) -> None:
        if self.y is None:
            raise ValueError(f"{name}: a model is scored on labels, and there are none")
        kinds = ("words", "numbers")
        fitted, own = (kinds[values.dtype.kind in "iufb"] for values in (y, self.y))
        if fitted != own:
            raise ValueError(f"{name}: the labels are {own}, but those of the fit are {fitted}")

    def score(self, estimator: Any) -> float:
        """Score a fitted estimator."""
        return float(estimator.score(self.X, self.y))

    def epoch(self, estimator: Any) -> bool:
        """Score the model of an epoch; return whether the fit should end."""
        from hogshare.estimators import fitted_attributes

        score = self.score(estimator)
        self.scores.append(score)
        if self.is_verbose:
            console.say(f"epoch {len(self.scores)}: {self}")
        # gain over the best score so far, as in scikit-learn's networks
        gains = score > self._best_score + (getattr(estimator, "tol", None) or 0.0)
        self._waited = 0 if gains else self._waited + 1
        if score > self._best_score:
            self._best_score, self.best_epoch = score, len(self.scores)
            self._best = copy.deepcopy(fitted_attributes.attributes(estimator))
        return self._waited >= estimator.n_iter_no_change

    def finish(self, estimator: Any) -> None:
        """Set the best epoch's model in an estimator, and compute the final score."""
        for name, value in self._best.items():
            if name != "n_iter_":  # counts all epochs, not only the epochs up to the best one
                setattr(estimator, name, value)
        self.final = self.score(estimator)

    def __str__(self) -> str:
        return f"{self.name} {self.scores[-1]:.4f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as data for JSON."""
        return {
            "score": self.name.removeprefix("eval "),
            "final": self.final,
            "epochs": self.scores,
            "best_epoch": self.best_epoch,
        }


class EpochProgress:
    """A scikit-learn callback that counts finished epochs."""

    def __init__(self, progress: ProgressMeter) -> None:
        self.progress = progress

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing; scikit-learn's callbacks require the method."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing; scikit-learn's callbacks require the method."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing; an epoch counts at its end."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Count an epoch; never request a stop."""
        if context.parent is not None:
            self.progress.advance()
        return False


class Epochs(EpochProgress):
    """A scikit-learn callback that also scores each epoch's model and may end the fit."""

    def __init__(self, progress: ProgressMeter, evaluation: Evaluation) -> None:
        super().__init__(progress)
        self.evaluation = evaluation

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Count and score an epoch; return whether the fit should end."""
        if context.parent is None or fitted_estimator is None:
            return False
        return self.heard(fitted_estimator)

    def heard(self, estimator: Any) -> bool:
        """Count and score an epoch whose model `estimator` has; return whether to end the fit."""
        ends = self.evaluation.epoch(estimator)
        self.progress.advance(str(self.evaluation))
        return ends


def _read(args: Any, loaded: command_rows.Loaded) -> tuple[Any, Any]:
    """Read all rows of the file, in the columns of the fit, and their labels."""
    import numpy as np
    import scipy.sparse as sp

    from hogshare.cli import label_tasks
    from hogshare.cli.csv_columns import Expected

    others = {k: v for k, v in vars(args).items() if k != "located"}
    args = argparse.Namespace(**{**others, "data": args.eval, "format": None, "labels": None})
    encoder = loaded.encoder
    width = loaded.X.shape[1] if encoder is None else encoder.n_features_in_
    expected = Expected(width, loaded.zero_based, "the model", loaded.names, loaded.label, encoder)
    parts = list(command_rows.iterate(args, expected))
    X = [part for part, _ in parts]
    y = [part for _, part in parts]
    if any(part is None for part in y):
        return X, None
    if any(label_tasks.missing(part).size for part in y):
        raise ValueError(f"{args.eval}: a model is scored on labels, and some are missing")
    if len({part.dtype.kind in "iufb" for part in y}) > 1:
        # a label "1" is a number in a part whose labels are all numbers, and text in other parts
        raise ValueError(
            f"{args.eval}: some labels are numbers and others are text: shuffle the rows, or write "
            "all labels as text"
        )
    found = np.concatenate(y)
    whole = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.concatenate(X)
    return whole, label_tasks.class_labels(found)
