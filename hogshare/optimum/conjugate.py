"""Ridge by conjugate gradients on the normal equations, each coefficient in its own unit.

scikit-learn's 'sparse_cg' ends when the residual of ``(X'X + alpha I) w = X'y`` is small in the
Euclidean norm, of which a column in large units is nearly all: it then ends after a step, and no
other column has been fitted. With coefficients counted in ``1 / sqrt(diagonal)`` every component of
the residual has the same unit. (That is the diagonal, Jacobi's, preconditioner, and its norm is the
one that is looked at.) What decides in the end is the criterion of the workers' fits, at the model.

Means are taken out of the columns within the products, so that sparse rows stay sparse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.linear.units import features_of
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

CLOSER = 10.0  # by how much the residual's bound is lowered where it did not do
IN_VAIN = 6  # bounds in a row that the residual was below already: rounding leaves no more


def gradient_at(problem: RowProblem, model: Model) -> float:
    """What is compared with the tolerance: the largest component in the features' units."""
    with errstate(all="ignore"):  # of numbers that are too large it is infinite, or NaN
        return Optimality(problem, model, sides=False).gradient()


def missed(problem: RowProblem, model: Model, enough: float, gap: float, floor: float) -> float:
    """How many times a model misses what is asked for: at most 1 where it is good enough.

    The gradient is compared with what it is at zero, of which a few rows with large values or
    weights may be nearly all: it is small then as soon as they are fitted. So the duality gap is
    asked for too, in proportion to the objective.

    enough : largest component of the gradient
    gap : relative duality gap; infinite where it does not count
    floor : largest component of the gradient that rounding alone may leave
    """
    with errstate(all="ignore"):  # of numbers that are too large they are infinite, or NaN
        look = Optimality(problem, model)
        gradient = look.gradient()
        if gradient <= floor:
            return 0.0
        if problem.l2 == 0.0 or np.isinf(gap):
            return gradient / enough
        return max(gradient / enough, look.relative_gap() / gap)


def by_conjugate_gradients(
    problem: RowProblem,
    X: Any,
    enough: float,
    gap: float,
    floor: float,
    start: Model,
    max_iter: int,
) -> tuple[Model, int, float]:
    """Solve a problem of one column, by the squared error and l2, whose rows are `X`.

    enough, gap, floor : when the model is good enough: see `missed`
    max_iter : iterations at the most, each of which passes over the rows twice

    Returns
    -------
    model : Model
    n_iter : int
    miss : float
        How many times the model misses what is asked for.
    """
    rows, n = problem.rows, problem.n_rows
    y = rows.y.astype(np.float64)
    share = np.full(n, 1.0 / n) if not rows.weight.size else rows.weight.astype(np.float64) / n
    X = X.astype(np.float64, copy=False)  # once, or every product does
    mean, middle = np.zeros(problem.n_features), 0.0
    if problem.fit_intercept:
        mean, middle = (X.T @ share) / share.sum(), float(share @ y) / float(share.sum())
    features = features_of(rows, problem.n_features, problem.fit_intercept)
    bend = features.weight * features.share * features.square + problem.l2
    unit = np.divide(1.0, np.sqrt(bend), out=np.zeros_like(bend), where=bend > 0.0)

    def apart(slopes: np.ndarray) -> np.ndarray:
        return unit * (X.T @ slopes - mean * slopes.sum())

    def product(v: np.ndarray) -> np.ndarray:
        w = unit * np.ravel(v)
        return apart(share * (X @ w - mean @ w)) + problem.l2 * unit * w

    def model_of(v: np.ndarray) -> Model:
        w = unit * v
        intercept = np.array([middle - float(mean @ w)], problem.dtype)
        return Model(w.astype(problem.dtype)[None], intercept)

    n_iter = 0

    def count(_: np.ndarray) -> None:
        nonlocal n_iter
        n_iter += 1

    size = problem.n_features
    system = LinearOperator((size, size), matvec=product, dtype=np.float64)
    right = apart(share * (y - middle))
    v = np.divide(start.coef[0], unit, out=np.zeros_like(unit), where=unit > 0.0)
    bound, in_vain = enough, 0
    while True:
        before, asked = n_iter, max_iter - n_iter
        v, _ = cg(system, right, v, rtol=0.0, atol=bound, maxiter=asked, callback=count)
        model = model_of(v)
        miss = missed(problem, model, enough, gap, floor)
        in_vain = in_vain + 1 if n_iter == before else 0
        if miss <= 1.0 or n_iter == max_iter or in_vain == IN_VAIN:
            return model, n_iter, miss
        bound /= CLOSER
