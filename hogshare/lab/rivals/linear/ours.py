"""Our own estimators. Their only settings are those of a user who tunes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import TOLERANCES, Setting
from hogshare.lab.rivals.linear.task import Linear

LOOSEST = 0.1  # tolerance of `LogisticRegression`: looser ones are met at its first look too


class HogshareSGD(Linear):
    """`hogshare.SGDClassifier` as it comes."""

    name = "hogshare SGD"
    library = "hogshare"
    extra: ClassVar[Setting] = {}

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        # the estimators import Numba: not before somebody races
        from hogshare.estimators import SGDClassifier
        from hogshare.planes.shared import Shared

        return X, y, SGDClassifier, Shared

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        X, y, kind, _ = prepared
        return self.made(kind, budget, seed, **self.extra).fit(X, y)

    def made(self, kind: Any, budget: float, seed: int, **extra: Any) -> Any:
        """Make an estimator that runs all its epochs."""
        return kind(
            loss=self.task.loss,
            alpha=self.task.alpha,
            fit_intercept=False,
            max_iter=int(budget),
            tol=None,
            n_jobs=self.task.workers,
            random_state=seed,
            **extra,
        )


class HogshareAuto(HogshareSGD):
    """The same with the step size that it chooses by itself."""

    name = "hogshare auto"
    extra: ClassVar[Setting] = {"learning_rate": "auto"}


class HogshareLogistic(HogshareSGD):
    """`hogshare.LogisticRegression`, which looks at the gradient on its way, by its tolerance."""

    name = "hogshare LogisticRegression"
    losses = ("log_loss",)
    unit = "tolerance"

    def ladder(self) -> Sequence[float]:
        return tuple(tolerance for tolerance in TOLERANCES if tolerance <= LOOSEST)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from hogshare.estimators import LogisticRegression

        return X, y, LogisticRegression, None

    def made(self, kind: Any, budget: float, seed: int, **extra: Any) -> Any:
        """Make an estimator that ends by its own criterion."""
        return kind(
            C=self.task.C,
            fit_intercept=False,
            solver="saga",  # nobody else finishes the fit
            max_iter=1000,
            tol=budget,
            n_jobs=self.task.workers,
            random_state=seed,
            **extra,
        )


class HogshareOneVector(HogshareSGD):
    """One vector that all workers write without locks: Hogwild! as published."""

    name = "hogshare exchange=None"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        X, y, kind, Shared = prepared
        extra = {"plane": Shared(exchange=None), "runtime": "threads"}
        return self.made(kind, budget, seed, **extra).fit(X, y)
