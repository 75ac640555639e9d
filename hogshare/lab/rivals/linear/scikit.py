"""scikit-learn's linear models."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.linear.linear_race import Linear

# step sizes, in units of one over the mean squared norm of a row
STEPS = (1.0, 0.3, 0.1, 0.03, 0.01)


class ScikitSGD(Linear):
    """`SGDClassifier` with each schedule that needs no stop criterion."""

    name = "sklearn SGD"
    library = "scikit-learn"
    average: ClassVar[bool] = False

    def grid(self) -> list[Setting]:
        schedules: list[Setting] = [{"learning_rate": "optimal"}]
        for schedule in ("constant", "invscaling"):
            for step in STEPS:
                schedules.append({"learning_rate": schedule, "eta0": step / self.task.mean_square})
        return schedules

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from sklearn.linear_model import SGDClassifier

        model = SGDClassifier(
            loss=self.task.loss,
            alpha=self.task.alpha,
            fit_intercept=False,
            max_iter=int(budget),
            tol=None,
            average=self.average,
            random_state=seed,
            **setting,
        )
        return model.fit(*prepared)


class ScikitLogistic(Linear):
    """`LogisticRegression` with one of its solvers, limited by the number of iterations."""

    name = "sklearn lbfgs"
    library = "scikit-learn"
    losses = ("log_loss",)
    unit = "iterations"
    solver: ClassVar[str] = "lbfgs"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=self.task.C,
            fit_intercept=False,
            solver=self.solver,
            tol=1e-14,
            max_iter=int(budget),
            random_state=seed,
            **setting,
        )
        return model.fit(*prepared)


class ScikitLiblinear(ScikitLogistic):
    """LIBLINEAR within scikit-learn: Newton, or coordinate descent on the dual."""

    name = "sklearn liblinear"
    solver = "liblinear"

    def grid(self) -> list[Setting]:
        return [{"dual": False}, {"dual": True}]

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return X.astype(np.float64), y


class ScikitCholesky(ScikitLogistic):
    """`LogisticRegression` by Newton with a factorised Hessian, for few columns."""

    name = "sklearn newton-cholesky"
    solver = "newton-cholesky"
    most_columns: ClassVar[int] = 2000

    def refusal(self) -> str:
        if self.task.n_columns <= self.most_columns:
            return ""
        return f"its Hessian is dense: not for more than {self.most_columns:,} columns"


class ScikitLinearSVC(Linear):
    """`LinearSVC`: LIBLINEAR's coordinate descent on the dual of the hinge loss."""

    name = "sklearn LinearSVC"
    library = "scikit-learn"
    losses = ("hinge",)

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        return X.astype(np.float64), y

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from sklearn.svm import LinearSVC

        model = LinearSVC(
            loss="hinge",
            dual=True,
            C=self.task.C,
            fit_intercept=False,
            tol=1e-14,
            max_iter=int(budget),
            random_state=seed,
        )
        return model.fit(*prepared)


CONTESTANTS = (
    ScikitSGD,
    ScikitSGD.called("sklearn averaged SGD", average=True),
    # these two choose their step sizes themselves
    ScikitLogistic.called("sklearn saga", solver="saga", unit="epochs"),
    ScikitLogistic.called("sklearn sag", solver="sag", unit="epochs"),
    ScikitLiblinear,
    ScikitLogistic,
    ScikitCholesky,
    ScikitLinearSVC,
)
