"""The objective that judges all contestants, and its optimum F* by solvers outside the race.

The objective is F(w) = mean over rows of loss(y_i x_i . w) + alpha / 2 |w|^2, without an intercept.
It is computed in float64, whatever the precision of the contestants.

For the log loss, SciPy's trust-region Newton method with conjugate gradients finds the optimum. The
objective is alpha-strongly convex, so F(w) - F* <= |gradient|^2 / (2 alpha) bounds the error.

For the hinge loss with up to `DENSE_COLUMNS` columns, an interior point method on the dual finds
the optimum, and its duality gap bounds the error. With more columns, scikit-learn's dual coordinate
descent (LIBLINEAR) is used, without a bound. It is not used for few columns, because with many rows
it ends too early: on 20,000 rows of Covertype, the result of 100,000 iterations with tol=1e-10 was
0.3 % above the optimum.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import optimize, sparse
from scipy.special import expit

from hogshare.lab.rivals.discipline import Reference
from hogshare.lab.rivals.linear import interior_points

LOSSES = ("log_loss", "hinge")
DENSE_COLUMNS = 2000  # up to so many, a dense matrix of columns by columns is factorised
ERROR = 1e-11  # wanted error of F*, as a share of F(0)
COORDINATE_DESCENTS = 3
COORDINATE_DESCENT_ITERATIONS = 5000
Found = tuple[float, float | None, str]  # value, bound of its error, method


class Objective:
    """The objective on given rows: its value and, for the log loss, its derivatives.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_columns)
        The rows, which are stored as float64.
    y : ndarray of shape (n_rows,)
        Labels, -1.0 or 1.0.
    loss : {"log_loss", "hinge"}
    alpha : float
        Strength of the penalty. It must be positive, because without a penalty the optimum may not
        exist.
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
        """Return F(w); infinity if it is not finite."""
        w = np.asarray(w, dtype=np.float64)
        if not np.isfinite(w).all():
            return float("inf")
        # a model of 1e200 is finite, but its penalty is not
        with np.errstate(over="ignore", invalid="ignore"):
            margin = self.y * (self.X @ w)
            if self.loss == "hinge":
                losses = np.maximum(0.0, 1.0 - margin)
            else:
                losses = np.logaddexp(0.0, -margin)
            value = float(losses.mean() + 0.5 * self.alpha * (w @ w))
        return value if np.isfinite(value) else float("inf")

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient of the log loss's objective."""
        slope = -self.y * expit(-self.y * (self.X @ w))
        return self.X.T @ slope / self.n_rows + self.alpha * w

    def hessian_times(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the Hessian of the log loss's objective at w, times v."""
        p = expit(self.X @ w)
        return self.X.T @ (p * (1.0 - p) * (self.X @ v)) / self.n_rows + self.alpha * v


def find(objective: Objective) -> Reference:
    """Minimise the objective as tightly as float64 allows."""
    begin = time.perf_counter()
    method = newton
    if objective.loss == "hinge":
        is_narrow = objective.n_columns <= DENSE_COLUMNS
        method = interior_point if is_narrow else coordinate_descent
    return Reference(*method(objective), time.perf_counter() - begin)


def newton(objective: Objective) -> Found:
    """Minimise by trust-region Newton from the model of zeros."""
    start = np.zeros(objective.n_columns)
    found = optimize.minimize(
        objective,
        start,
        jac=objective.gradient,
        hessp=objective.hessian_times,
        method="trust-ncg",
        options={
            "gtol": np.sqrt(2.0 * objective.alpha * ERROR * objective(start)),
            "maxiter": 1000,
        },
    )
    slope = objective.gradient(found.x)
    return float(found.fun), float(slope @ slope / (2.0 * objective.alpha)), "scipy trust-ncg"


def coordinate_descent(objective: Objective) -> Found:
    """Minimise by LIBLINEAR's dual coordinate descent, with the best of a few row orders."""
    from sklearn.svm import LinearSVC

    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # non-convergence is expected: several orders are tried
        for seed in range(COORDINATE_DESCENTS):
            model = LinearSVC(
                loss="hinge",
                dual=True,
                C=1.0 / (objective.alpha * objective.n_rows),
                fit_intercept=False,
                tol=1e-10,
                max_iter=COORDINATE_DESCENT_ITERATIONS,
                random_state=seed,
            ).fit(objective.X, objective.y)
            values.append(objective(model.coef_[0]))
    return min(values), None, "scikit-learn LinearSVC"


def interior_point(objective: Objective) -> Found:
    """Minimise by an interior point method on the dual; the duality gap is the bound."""
    X, y, alpha = objective.X, objective.y, objective.alpha
    Z = sparse.diags_array(y) @ X if sparse.issparse(X) else X * y[:, None]
    # its objective is F / alpha, and F(0) is one
    above, below = interior_points.solve(Z, 1.0 / (alpha * objective.n_rows), ERROR / alpha)
    return alpha * above, alpha * (above - below), "interior point"
