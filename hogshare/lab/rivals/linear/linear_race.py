"""The race of linear models, to a relative distance from the optimum of one objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import Contestant, RaceTask
from hogshare.lab.rivals.discipline import Discipline, Reference
from hogshare.lab.rivals.linear import optimum
from hogshare.lab.rivals.linear.optimum import Objective


@dataclass(frozen=True)
class LinearTask(RaceTask):
    """The task of a contestant: the objective, and facts about the rows.

    `mean_square` is the mean squared norm of a row: step sizes are in units of its inverse.
    """

    loss: str
    alpha: float
    n_rows: int
    n_columns: int
    mean_square: float

    @property
    def C(self) -> float:
        """Factor C of the summed loss in F / alpha = C sum(loss) + |w|^2 / 2."""
        return 1.0 / (self.alpha * self.n_rows)


class Linear(Contestant):
    """A contestant that fits rows and labels (-1.0 or 1.0); its model is the coefficients."""

    losses: ClassVar[tuple[str, ...]] = ("log_loss", "hinge")
    task: LinearTask

    def model(self, fitted: Any) -> np.ndarray:
        return np.ravel(fitted.coef_).astype(np.float64)


class LinearRace(Discipline):
    """The discipline of ``F(w) = mean loss + alpha / 2 |w|^2``, without an intercept.

    Parameters
    ----------
    X : ndarray or CSR
        Rows in the precision of the contestants.
    y : array-like
        Labels of two classes.
    loss : {"log_loss", "hinge"}, default="log_loss"
    alpha : float, default=None
        Strength of the penalty; None: one over the number of rows.
    """

    measure = "a relative distance from the optimum"

    def __init__(self, X: Any, y: Any, loss: str = "log_loss", alpha: float | None = None) -> None:
        self.X, self.y = X, signs(y)
        alpha = 1.0 / X.shape[0] if alpha is None else alpha
        self.objective = Objective(X, self.y, loss, alpha)
        self.what = f"{loss}, alpha {self.objective.alpha:.4g}"
        self.settings = {"loss": loss, "alpha": self.objective.alpha}
        self.facts = {
            "rows": X.shape[0],
            "columns": X.shape[1],
            "nonzeros": int(X.nnz if sparse.issparse(X) else X.size),
            "dtype": str(X.dtype),
            "format": "csr" if sparse.issparse(X) else "dense",
        }

    def task(self, workers: int) -> LinearTask:
        X = self.X
        squares = X.multiply(X).sum() if sparse.issparse(X) else np.einsum("ij,ij->", X, X)
        mean_square = max(float(squares) / X.shape[0], 1e-300)
        loss, alpha = self.objective.loss, self.objective.alpha
        return LinearTask(workers, loss, alpha, X.shape[0], X.shape[1], mean_square)

    def judge(self, model: np.ndarray) -> float:
        return self.objective(model)

    def find(self) -> Reference:
        found = optimum.find(self.objective)
        if not found.value > 0.0:
            raise ValueError("the optimum is zero, so there is no relative sub-optimality")
        return found

    def at_start(self) -> float:
        return self.objective(np.zeros(self.X.shape[1]))


def signs(y: Any) -> np.ndarray:
    """Return labels of two classes as -1.0 and 1.0; the larger label becomes 1.0."""
    classes = np.unique(np.asarray(y))
    if len(classes) != 2:
        raise ValueError(f"a race needs labels of two classes; these have {len(classes)}")
    return np.where(np.asarray(y) == classes[1], 1.0, -1.0)
