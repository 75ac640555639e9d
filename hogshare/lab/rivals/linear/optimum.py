"""The optimum F*, by solvers that are not in the race.

Log loss: SciPy's trust-region Newton with conjugate gradients. The objective is alpha-strongly
convex, so F(w) - F* <= |gradient|^2 / (2 alpha) tells how tight it is.

Hinge, up to `DENSE_COLUMNS` columns: an interior point method on the dual, whose duality gap tells
how tight it is. Beyond that: scikit-learn's dual coordinate descent (LIBLINEAR), without a bound.
Coordinate descent is not taken everywhere, because where the rows are many and the columns few it
stops short: on 20,000 rows of Covertype 100,000 iterations at tol=1e-10 were 0.3 % above the
optimum.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy import optimize, sparse

from hogshare.lab.rivals.discipline import Reference
from hogshare.lab.rivals.linear import interior
from hogshare.lab.rivals.linear.objective import Objective

# up to here a dense matrix of columns by columns is formed and factorised
DENSE_COLUMNS = 2000

# wanted: error of F*, as a share of F(0)
ERROR = 1e-11

COORDINATE_DESCENTS = 3
COORDINATE_DESCENT_ITERATIONS = 5000


def find(objective: Objective) -> Reference:
    """Minimise the objective as tightly as float64 allows."""
    begin = time.perf_counter()
    if objective.loss == "log_loss":
        value, bound, method = newton(objective)
    elif objective.n_columns <= DENSE_COLUMNS:
        value, bound, method = interior_point(objective)
    else:
        value, bound, method = coordinate_descent(objective)
    return Reference(value, bound, method, time.perf_counter() - begin)


def newton(objective: Objective) -> tuple[float, float | None, str]:
    """Trust-region Newton from the model of zeros."""
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


def coordinate_descent(objective: Objective) -> tuple[float, float | None, str]:
    """LIBLINEAR's dual coordinate descent, the best of a few row orders."""
    from sklearn.svm import LinearSVC

    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged: hence the few
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


def interior_point(objective: Objective) -> tuple[float, float | None, str]:
    """Interior point method on the dual; the duality gap is the bound."""
    X, y, alpha = objective.X, objective.y, objective.alpha
    Z = sparse.diags_array(y) @ X if sparse.issparse(X) else X * y[:, None]
    # its objective is F / alpha, and F(0) is one
    above, below = interior.solve(Z, 1.0 / (alpha * objective.n_rows), ERROR / alpha)
    return alpha * above, alpha * (above - below), "interior point"
