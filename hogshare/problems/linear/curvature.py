"""Second derivatives of the log loss at a model, and the steps of Newton's method.

In this module a model is one array of shape (n_columns, n_features + 1), with the intercepts in the
last column. Without intercepts the shape is (n_columns, n_features). The slopes of an evaluation
determine the second derivatives. With two classes, the size of a row's slope is the row's weight
times the probability of the wrong class. With more classes, the slopes are the row's weight times
the probabilities, where one is subtracted from the probability of the row's own class.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from hogshare.problems.linear.optimality import Optimality, OptimalityPass
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

FLAT = 1e-13  # share that is added to each coordinate's curvature; larger if it is not enough
TRIES = 5
FLAT_SIGNS = 1e-11  # FLAT in `by_signs`, which solves with many parts of the Hessian
EXACT = 1e-10  # a slope below this share of the largest slope counts as zero
ROUNDS = 8  # most rounds in `by_signs` per coordinate
INNER = 200  # most steps of conjugate gradients, as in scikit-learn's 'newton-cg'


class Bends:
    """Second derivatives of the losses of a part of the rows, from a pass at the model.

    passed : pass at the model; the problem has the log loss with one column or the multinomial loss
    n_all : number of all rows
    """

    def __init__(self, passed: OptimalityPass, n_all: int) -> None:
        self.problem = problem = passed.problem
        self.doubles = problem.doubles
        rows = problem.rows
        weight = rows.weight[:, None].astype(np.float64) if rows.weight.size else np.ones((1, 1))
        with errstate(invalid="ignore", divide="ignore"):
            share = np.nan_to_num(passed.slopes / weight)  # 0 for rows of weight 0
        if problem.n_columns == 1:
            share = np.abs(share)
        else:
            share[np.arange(problem.n_rows), rows.y.astype(np.int64)] += 1.0
        self.probability = share
        self.weight = np.broadcast_to(weight / max(1, n_all), (problem.n_rows, 1))

    def pair(self, k: int, m: int) -> np.ndarray:
        """Return each row's second derivative with respect to the predictions of two columns."""
        p = self.probability
        if k == m:
            return self.weight[:, 0] * p[:, k] * (1.0 - p[:, k])
        return -self.weight[:, 0] * p[:, k] * p[:, m]

    def blocks(self) -> list[np.ndarray]:
        """Return the block of the Hessian for each pair of columns, in the order of `pairs`."""
        square, ones = self.doubles.weighted_square, self.problem.fit_intercept
        return [square(self.pair(k, m), ones) for k, m in pairs(self.problem.n_columns)]

    def product(self, vector: np.ndarray) -> tuple[np.ndarray]:
        """Return the product of the Hessian and an array of the model's shape."""
        p, features = self.probability, self.problem.n_features
        out = np.zeros_like(vector)
        for part, x in self.doubles.parts():
            moves = x @ vector[:, :features].T
            if self.problem.fit_intercept:
                moves = moves + vector[:, features]
            mine = p[part]
            if len(vector) == 1:
                bent = mine * (1.0 - mine) * moves
            else:
                bent = mine * (moves - (mine * moves).sum(axis=1, keepdims=True))
            bent *= self.weight[part]
            out[:, :features] += (x.T @ bent).T
            if self.problem.fit_intercept:
                out[:, features] += bent.sum(axis=0)
        return (out,)

    def diagonal(self) -> tuple[np.ndarray]:
        """Return the diagonal of the Hessian, in the model's shape."""
        features = self.problem.n_features
        bends = self.weight * self.probability * (1.0 - self.probability)
        out = np.zeros((self.problem.n_columns, width_of(self.problem)))
        for part, x in self.doubles.parts():
            squares = x.multiply(x) if sp.issparse(x) else np.square(x)
            out[:, :features] += (squares.T @ bends[part]).T
        if self.problem.fit_intercept:
            out[:, features] = bends.sum(axis=0)
        return (out,)


class Curvature:
    """The Hessian of a problem's objective at one model, including the penalty's l2 part.

    optimality : evaluation of the model

    If ranks have parts of the rows, all ranks must make the object and call its methods.
    """

    def __init__(self, optimality: Optimality) -> None:
        self.problem = problem = optimality.problem
        self.bends = problem.cached(Bends, problem.n_all, of=optimality.passed)

    def matrix(self) -> np.ndarray:
        """Return the Hessian, of shape (n_columns * width, n_columns * width)."""
        columns, width = self.problem.n_columns, width_of(self.problem)
        out = np.zeros((columns, width, columns, width))
        blocks = self.problem.total(Bends.blocks, of=self.bends)
        for (k, m), block in zip(pairs(columns), blocks, strict=True):
            out[k, :, m] = block
            out[m, :, k] = block
        features = np.arange(self.problem.n_features)
        for k in range(columns):
            out[k, features, k, features] += self.problem.l2
        return out.reshape(columns * width, -1)

    def product(self, vector: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian and an array of the model's shape."""
        (out,) = self.problem.total(Bends.product, vector, of=self.bends)
        return self._with_l2(out, vector)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of the Hessian, in the model's shape."""
        (out,) = self.problem.total(Bends.diagonal, of=self.bends)
        return self._with_l2(out, np.ones_like(out))

    def _with_l2(self, out: np.ndarray, vector: np.ndarray) -> np.ndarray:
        features = self.problem.n_features
        out[:, :features] += self.problem.l2 * vector[:, :features]
        return out


def pairs(columns: int) -> Iterator[tuple[int, int]]:
    """Yield each column paired with itself and with every later column."""
    return itertools.combinations_with_replacement(range(columns), 2)


def by_factors(curvature: Curvature, gradient: np.ndarray) -> np.ndarray | None:
    """Return Newton's step by Cholesky's factorisation, or None if it cannot be computed.

    Coordinates are scaled to a curvature of one, so units do not matter. A small number is added to
    the diagonal. Without this number the step would be infinite along a direction without
    curvature, such as a common shift of all intercepts of a softmax.
    """
    hessian, size = _evened(curvature)
    target = -gradient.reshape(-1) * size
    if not (np.isfinite(hessian).all() and np.isfinite(target).all()):
        return None
    flat = FLAT
    for _ in range(TRIES):
        np.fill_diagonal(hessian, 1.0 + flat)
        try:
            factors = scipy.linalg.cho_factor(hessian, check_finite=False)
        except np.linalg.LinAlgError:
            flat *= 100.0
            continue
        step = scipy.linalg.cho_solve(factors, target, check_finite=False) * size
        return step.reshape(gradient.shape)
    return None


def by_signs(curvature: Curvature, x: np.ndarray, slopes: np.ndarray) -> np.ndarray | None:
    """Return Newton's step with an l1 penalty: the step to the minimum of parabola plus penalty.

    The result is None if the step cannot be computed. The minimum is exact. It is found by a search
    for the signs of the coefficients (Lee, Battle, Raina and Ng 2007, Efficient sparse coding
    algorithms, algorithm 1). The algorithm is extended to several intercepts, which have no
    penalty.

    x : shape (n_columns, width)
    slopes : same shape, gradient of the objective without its l1 part
    """
    hessian, size = _evened(curvature)
    start, slope = x.reshape(-1) / size, slopes.reshape(-1) * size
    if not (np.isfinite(hessian).all() and np.isfinite(slope).all()):
        return None
    np.fill_diagonal(hessian, 1.0 + FLAT_SIGNS)
    cost = np.full(x.shape, curvature.problem.l1)
    cost[:, curvature.problem.n_features :] = 0.0
    cost = cost.reshape(-1) * size
    at = start.copy()
    sign = np.sign(at)
    free = (at != 0.0) | (cost == 0.0)
    for _ in range(ROUNDS * at.size):
        now = slope + hessian @ (at - start)
        if (np.abs(now + cost * sign)[free] <= EXACT * np.abs(slope).max()).all():
            over = np.where(free, 0.0, np.abs(now) - cost)
            worst = int(over.argmax())
            if over[worst] <= EXACT * np.abs(slope).max():
                break
            free[worst], sign[worst] = True, -np.sign(now[worst])
        where = np.flatnonzero(free)
        target = -(now + cost * sign)[where]
        part = hessian[np.ix_(where, where)]
        try:
            factors = scipy.linalg.cho_factor(part, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        step = scipy.linalg.cho_solve(factors, target, check_finite=False)
        begin = at[where]
        with errstate(divide="ignore", invalid="ignore"):
            crossings = np.where(cost[where] > 0.0, -begin / step, np.inf)
        sizes = np.append(crossings[(crossings > 0.0) & (crossings < 1.0)], 1.0)
        bend = 0.5 * float(step @ part @ step)
        along = float(now[where] @ step)
        l1 = np.abs(begin + sizes[:, None] * step) @ cost[where]
        best = sizes[(sizes * along + sizes**2 * bend + l1).argmin()]
        at[where] = np.where(crossings == best, 0.0, begin + best * step)
        sign = np.sign(at)
        free = (at != 0.0) | (cost == 0.0)
    return ((at - start) * size).reshape(x.shape)


def _evened(curvature: Curvature) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian in coordinates of curvature one, and the lengths of their units."""
    hessian = curvature.matrix()
    size = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), np.finfo(np.float64).tiny))
    hessian *= size[:, None]
    hessian *= size
    return hessian, size


def by_products(curvature: Curvature, gradient: np.ndarray, free: np.ndarray) -> np.ndarray | None:
    """Return an approximate Newton step of the free coordinates, by conjugate gradients.

    The tolerance is the same as in scikit-learn's 'newton-cg' (Nocedal and Wright 2006, section
    7.1), in the norm of coordinates with a curvature of one.

    free : mask of the coordinates that may change

    Returns None if no coordinate changes.
    """
    scale = np.maximum(curvature.diagonal(), np.finfo(np.float64).tiny)
    step = np.zeros_like(gradient)
    left = -gradient * free
    ahead = left / scale
    direction = ahead
    size = begun = float((left * ahead).sum())
    enough = min(0.25, math.sqrt(begun)) * begun
    for _ in range(min(INNER, 2 * gradient.size)):
        bent = curvature.product(direction) * free
        along = float((direction * bent).sum())
        if not along > 0.0:
            break  # no curvature, up to rounding
        step = step + size / along * direction
        left = left - size / along * bent
        ahead = left / scale
        before, size = size, float((left * ahead).sum())
        if size <= enough:
            break
        direction = ahead + size / before * direction
    return step if step.any() else None


def width_of(problem: RowProblem) -> int:
    """Return the length of a model's column: the number of features, plus 1 with an intercept."""
    return problem.n_features + problem.fit_intercept
