"""Ridge by conjugate gradients on the normal equations, each coefficient in its own unit.

scikit-learn's 'sparse_cg' ends when the residual of ``(X'X + alpha I) w = X'y`` is small in the
Euclidean norm. If one column has large values, the component of this column makes up nearly all of
that norm. The method then ends after one step, before any other column is fitted. In this file
coefficients are measured in units of ``1 / sqrt(diagonal)``, so every component of the residual has
the same unit. This is the diagonal (Jacobi) preconditioner, and convergence is checked in its norm.
The final decision is the same criterion as for the workers' fits, evaluated at the model.

The products subtract the means of the columns, so sparse rows stay sparse.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

CLOSER = 10.0  # divisor of the residual's bound after a solution that was not good enough
ROUNDING = 8 * np.finfo(np.float64).eps  # error of means and products in double precision
IN_VAIN = 6  # bounds in succession that the residual already meets: rounding prevents progress


def gradient_at(problem: RowProblem, model: Model) -> float:
    """Return the gradient's largest component in the features' units, to set a tolerance."""
    with errstate(all="ignore"):  # it is infinite or NaN if numbers are too large
        return Optimality(problem, model, with_gap=False).gradient()


def missed(problem: RowProblem, model: Model, enough: float, gap: float, floor: float) -> float:
    """Return the ratio of a model's error to the tolerance: at most 1 if it is good enough.

    The gradient is compared with the gradient at zero. A few rows with large values or weights may
    make up nearly all of the gradient at zero. Then the ratio of the gradients is small as soon as
    these rows are fitted. So the duality gap, divided by the objective, must also be small. All
    ranks that have a part of the rows must call this function.

    enough : largest accepted component of the gradient
    gap : largest accepted relative duality gap, or infinity to ignore the gap
    floor : largest component of the gradient that may be rounding alone
    """
    with errstate(all="ignore"):  # they are infinite or NaN if numbers are too large
        optimality = Optimality(problem, model)
        gradient = optimality.gradient()
        if gradient <= floor:
            return 0.0
        if problem.l2 == 0.0 or np.isinf(gap):
            return gradient / enough
        return max(gradient / enough, optimality.relative_gap() / gap)


def rounding_of(problem: RowProblem, middle: float = 0.0) -> float:
    """Return the part of a gradient's component that may be rounding, in the feature's unit.

    If the target is the same number for all rows, or no feature is related to it, the gradient at
    zero is only rounding, and no method can reach a fraction of it.

    middle : number that has been subtracted from the targets
    """
    (weight, squares), *_ = problem.total(target_sums)
    return ROUNDING * math.hypot(math.sqrt(float(squares / weight)), middle)


def target_sums(problem: RowProblem) -> tuple[np.ndarray]:
    """Return the sums of the weights and of the targets' weighted squares."""
    y, weight = problem.rows.y.astype(np.float64), problem.rows.weight.astype(np.float64)
    if not weight.size:
        return (np.array([float(len(y)), y @ y]),)
    return (np.array([weight.sum(), weight @ (y * y)]),)


class Products:
    """Products with a part of the rows, which are weighted by their shares in the mean.

    problem : problem with one column
    n_all : number of all rows
    """

    def __init__(self, problem: RowProblem, n_all: int) -> None:
        # converted once, because every product would convert it otherwise
        self.X = problem.doubles.matrix.astype(np.float64, copy=False)
        self.y = problem.rows.y.astype(np.float64)
        weight, n = problem.rows.weight, max(1, n_all)
        self.share = weight.astype(np.float64) / n if weight.size else np.full(len(self.y), 1.0 / n)

    def sums(self) -> list[np.ndarray]:
        """Return the sums of the weighted features, of the weights, and of the weighted targets."""
        share, y = self.share, self.y
        return [self.X.T @ share, np.array([share.sum(), share @ y])]

    def with_targets(self, mean: np.ndarray, middle: float) -> list[np.ndarray]:
        """Return the product of the centred features and the centred targets."""
        return self._with(self.share * (self.y - middle), mean)

    def product(self, mean: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
        """Return the product of the centred features' Gram matrix and a vector."""
        return self._with(self.share * (self.X @ w - mean @ w), mean)

    def _with(self, slopes: np.ndarray, mean: np.ndarray) -> list[np.ndarray]:
        return [self.X.T @ slopes - mean * slopes.sum()]


def by_conjugate_gradients(
    problem: RowProblem, enough: float, gap: float, floor: float, start: Model, max_iter: int
) -> tuple[Model, int, float]:
    """Solve a problem with one column, the squared error and an l2 penalty.

    All ranks that have a part of the rows must call this function.

    enough, gap, floor : bounds at which the model is good enough, see `missed`
    start : model at which the iterations begin; only its coefficients are used
    max_iter : largest number of iterations, each of which passes over the rows twice

    Returns
    -------
    model : Model
    n_iter : int
        Number of iterations.
    miss : float
        Ratio of the model's error to the tolerance, see `missed`.
    """
    rows = problem.cached(Products, problem.n_all)
    mean, middle = np.zeros(problem.n_features), 0.0
    if problem.fit_intercept:
        sums, (weight, targets) = problem.total(Products.sums, of=rows)
        mean, middle = sums / weight, float(targets) / float(weight)
    features = problem.features_of_all()
    bend = features.weight * features.share * features.square + problem.l2
    unit = np.divide(1.0, np.sqrt(bend), out=np.zeros_like(bend), where=bend > 0.0)

    def product(v: np.ndarray) -> np.ndarray:
        w = unit * np.ravel(v)
        (found,) = problem.total(Products.product, mean, w, of=rows)
        return np.asarray(unit * found + problem.l2 * unit * w)

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
    right = unit * problem.total(Products.with_targets, mean, middle, of=rows)[0]
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
