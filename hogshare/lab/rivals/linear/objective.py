"""The objective that everybody is judged by, in float64 whatever the contestants compute in.

F(w) = mean over rows of loss(y_i x_i . w) + alpha / 2 |w|^2, without an intercept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

LOSSES = ("log_loss", "hinge")


def signs(y: Any) -> np.ndarray:
    """Labels of two classes as -1.0 and 1.0; the larger label is 1.0."""
    classes = np.unique(np.asarray(y))
    if len(classes) != 2:
        raise ValueError(f"a race needs labels of two classes; these have {len(classes)}")
    return np.where(np.asarray(y) == classes[1], 1.0, -1.0)


class Objective:
    """Value and, for the log loss, derivatives of the objective on given rows.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_columns)
        Kept as float64.
    y : ndarray of shape (n_rows,)
        -1.0 or 1.0.
    loss : {"log_loss", "hinge"}
    alpha : float
        Positive: without a penalty the optimum may not exist.
    """

    def __init__(self, X: Any, y: np.ndarray, loss: str, alpha: float) -> None:
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}")
        if not alpha > 0.0:
            raise ValueError(f"alpha must be positive; got {alpha!r}")
        self.X = X.astype(np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        self.y = y
        self.loss = loss
        self.alpha = float(alpha)
        self.n_rows, self.n_columns = X.shape

    def __call__(self, w: np.ndarray) -> float:
        """Return F(w); infinity for a model that is not finite."""
        w = np.asarray(w, dtype=np.float64)
        if not np.isfinite(w).all():
            return float("inf")
        # a model of 1e200 is finite and its penalty is not
        with np.errstate(over="ignore", invalid="ignore"):
            margin = self.y * (self.X @ w)
            if self.loss == "hinge":
                losses = np.maximum(0.0, 1.0 - margin)
            else:
                losses = np.logaddexp(0.0, -margin)
            value = float(losses.mean() + 0.5 * self.alpha * (w @ w))
        return value if np.isfinite(value) else float("inf")

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Gradient of the log loss's objective."""
        slope = -self.y * expit(-self.y * (self.X @ w))
        return self.X.T @ slope / self.n_rows + self.alpha * w

    def hessian_times(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Hessian of the log loss's objective at w, times v."""
        p = expit(self.X @ w)
        return self.X.T @ (p * (1.0 - p) * (self.X @ v)) / self.n_rows + self.alpha * v
