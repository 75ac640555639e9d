"""hogshare's estimators with default settings, as for a user who tunes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import TOLERANCES, Setting
from hogshare.lab.rivals.linear.linear_race import Linear

LOOSEST = 0.1  # tolerance of `LogisticRegression`: looser ones also end at its first evaluation


class HogshareSGD(Linear):
    """`hogshare.SGDClassifier` with its defaults.

    extra : further parameters of the estimator
    one_vector : whether all workers write one vector without locks, as in the published Hogwild!
    """

    name = "hogshare SGD"
    library = "hogshare"
    extra: ClassVar[Setting] = {}
    one_vector: ClassVar[bool] = False

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        # the estimators import Numba, which only their race needs
        from hogshare.estimators import SGDClassifier
        from hogshare.planes.shared import Shared

        vector = {"plane": Shared(exchange=None), "runtime": "threads"} if self.one_vector else {}
        return X, y, SGDClassifier, {**self.extra, **vector}

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        X, y, kind, extra = prepared
        model = kind(
            loss=self.task.loss,
            alpha=self.task.alpha,
            fit_intercept=False,
            max_iter=int(budget),
            tol=None,
            n_jobs=self.task.workers,
            random_state=seed,
            **extra,
        )
        return model.fit(X, y)


class HogshareLogistic(Linear):
    """`hogshare.LogisticRegression`; a budget is a tolerance, because a fit checks the gradient."""

    name = "hogshare LogisticRegression"
    library = "hogshare"
    losses = ("log_loss",)
    unit = "tolerance"

    def ladder(self) -> Sequence[float]:
        return tuple(tolerance for tolerance in TOLERANCES if tolerance <= LOOSEST)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from hogshare.estimators import LogisticRegression

        return X, y, LogisticRegression

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        X, y, kind = prepared
        model = kind(
            C=self.task.C,
            fit_intercept=False,
            solver="saga",  # with other solvers Newton's method may finish the fit
            max_iter=1000,
            tol=budget,
            n_jobs=self.task.workers,
            random_state=seed,
        )
        return model.fit(X, y)


CONTESTANTS = (
    HogshareSGD,
    HogshareSGD.called("hogshare auto", extra={"learning_rate": "auto"}),
    HogshareLogistic,
    HogshareSGD.called("hogshare exchange=None", one_vector=True),
)
