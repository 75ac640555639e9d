"""The race of linear models: to a relative distance from the optimum of one objective."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.discipline import Reference, above
from hogshare.lab.rivals.linear import optimum
from hogshare.lab.rivals.linear.objective import Objective, signs
from hogshare.lab.rivals.linear.task import LinearTask


class LinearRace:
    """``F(w) = mean loss + alpha / 2 |w|^2``, without an intercept.

    Parameters
    ----------
    X : ndarray or CSR
        In the precision that the contestants get.
    y : array-like
        Labels of two classes.
    loss : {"log_loss", "hinge"}, default="log_loss"
    alpha : float, default=None
        None: one over the number of rows.
    """

    measure: ClassVar[str] = "a relative distance from the optimum"

    def __init__(self, X: Any, y: Any, loss: str = "log_loss", alpha: float | None = None) -> None:
        self.X, self.y = X, signs(y)
        alpha = 1.0 / X.shape[0] if alpha is None else alpha
        self.objective = Objective(X, self.y, loss, alpha)
        self.what = f"{loss}, alpha {self.objective.alpha:.4g}"

    def task(self, workers: int) -> LinearTask:
        """Sizes, loss and penalty."""
        X = self.X
        squares = X.multiply(X).sum() if sparse.issparse(X) else np.einsum("ij,ij->", X, X)
        return LinearTask(
            workers=workers,
            loss=self.objective.loss,
            alpha=self.objective.alpha,
            n_rows=X.shape[0],
            n_columns=X.shape[1],
            mean_square=max(float(squares) / X.shape[0], 1e-300),
        )

    def judge(self, model: np.ndarray) -> float:
        """The objective."""
        return self.objective(model)

    def find(self) -> Reference:
        """The optimum."""
        found = optimum.find(self.objective)
        if not found.value > 0.0:
            raise ValueError("the optimum is zero, so there is no relative sub-optimality")
        return found

    def distance(self, value: float, lowest: float) -> float:
        """Relative."""
        return above(value, lowest)

    def settings(self) -> dict[str, Any]:
        """Loss and penalty."""
        return {"loss": self.objective.loss, "alpha": self.objective.alpha}

    def facts(self) -> dict[str, Any]:
        """Sizes of the rows."""
        X = self.X
        return {
            "rows": X.shape[0],
            "columns": X.shape[1],
            "nonzeros": int(X.nnz if sparse.issparse(X) else X.size),
            "dtype": str(X.dtype),
            "format": "csr" if sparse.issparse(X) else "dense",
        }

    def at_start(self) -> float:
        """Of zeros."""
        return self.objective(np.zeros(self.X.shape[1]))
