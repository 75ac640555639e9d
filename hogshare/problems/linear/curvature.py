"""Second derivatives of the log loss at a model, and the steps that Newton's method takes by them.

A model is one array (n_columns, n_features + 1) here, the intercepts last; without intercepts there
is no such column. The slopes of a look are all that is needed of the losses: with two classes a
row's slope is its weight times the probability of the wrong class, and with more it is the weight
times the probabilities, less one for the row's own class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

BLOCK_VALUES = 1 << 20  # of dense rows, which are weighted in a copy
THIN = 0.1  # share of values that are stored, below which products of sparse matrices are faster
FLAT = (
    1e-13  # of a coordinate's own curvature is added to it first, and more where that is too little
)
TRIES = 5
FLAT_SIGNS = 1e-11  # the same where many parts of the Hessian are solved with
EXACT = 1e-10  # of the largest slope, which is as good as zero
ROUNDS = 8  # of the search for signs, for each coordinate
INNER = 200  # steps of conjugate gradients, as in scikit-learn's 'newton-cg'


class Curvature:
    """The Hessian of a problem's objective at one model.

    problem : with the log loss of one column or the multinomial loss. Of the penalty its l2 part
        counts.
    look : at the model
    doubles : its rows
    """

    def __init__(self, problem: RowProblem, look: Optimality, doubles: DoubleRows) -> None:
        self.problem = problem
        self.doubles = doubles
        rows = problem.rows
        n_rows = max(1, problem.n_all)
        weight = rows.weight[:, None].astype(np.float64) if rows.weight.size else np.ones((1, 1))
        with errstate(invalid="ignore", divide="ignore"):
            share = np.nan_to_num(look.row_slopes / weight)  # of rows without weight: none
        if problem.n_columns == 1:
            share = np.abs(share)
        else:
            share[np.arange(problem.n_rows), rows.y.astype(np.int64)] += 1.0
        self.probability = share
        self.weight = np.broadcast_to(weight / n_rows, (problem.n_rows, 1))

    def pair(self, k: int, m: int) -> np.ndarray:
        """Second derivative of every row's loss in the predictions of two columns."""
        p = self.probability
        if k == m:
            return self.weight[:, 0] * p[:, k] * (1.0 - p[:, k])
        return -self.weight[:, 0] * p[:, k] * p[:, m]

    def matrix(self) -> np.ndarray:
        """The Hessian, of shape (n_columns * width, n_columns * width)."""
        columns, width = self.problem.n_columns, width_of(self.problem)
        out = np.zeros((columns, width, columns, width))
        for k in range(columns):
            for m in range(k, columns):
                block = self.doubles.weighted_square(self.pair(k, m), self.problem.fit_intercept)
                (block,) = self.problem.totals(block)
                out[k, :, m] = block
                out[m, :, k] = block
        features = np.arange(self.problem.n_features)
        for k in range(columns):
            out[k, features, k, features] += self.problem.l2
        return out.reshape(columns * width, -1)

    def product(self, vector: np.ndarray) -> np.ndarray:
        """The Hessian times an array of the model's shape."""
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
        (out,) = self.problem.totals(out)
        out[:, :features] += self.problem.l2 * vector[:, :features]
        return out

    def diagonal(self) -> np.ndarray:
        """The Hessian's diagonal, in the model's shape."""
        features = self.problem.n_features
        bends = self.weight * self.probability * (1.0 - self.probability)
        out = np.zeros((self.problem.n_columns, width_of(self.problem)))
        for part, x in self.doubles.parts():
            squares = x.multiply(x) if sp.issparse(x) else np.square(x)
            out[:, :features] += (squares.T @ bends[part]).T
        if self.problem.fit_intercept:
            out[:, features] = bends.sum(axis=0)
        (out,) = self.problem.totals(out)
        out[:, :features] += self.problem.l2
        return out


def by_factors(curvature: Curvature, gradient: np.ndarray) -> np.ndarray | None:
    """Newton's step, by Cholesky's factors; None where they are not to be had.

    Coordinates are brought to a curvature of one, so that no units matter. What is added keeps
    directions that do not bend, such as a number added to all intercepts of a softmax, from being
    followed for ever.
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
    """Newton's step with an l1 penalty: to the minimum of the parabola plus the penalty.

    Found exactly, by a search for the coefficients' signs (Lee, Battle, Raina and Ng 2007,
    Efficient sparse coding algorithms, algorithm 1), for several intercepts without a penalty too.

    x : shape (n_columns, width)
    slopes : same shape, of the objective without its l1 part
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
        here = at[where]
        with errstate(divide="ignore", invalid="ignore"):
            crossings = np.where(cost[where] > 0.0, -here / step, np.inf)
        sizes = np.append(crossings[(crossings > 0.0) & (crossings < 1.0)], 1.0)
        bend = 0.5 * float(step @ part @ step)
        along = float(now[where] @ step)
        l1 = np.abs(here + sizes[:, None] * step) @ cost[where]
        best = sizes[(sizes * along + sizes**2 * bend + l1).argmin()]
        at[where] = np.where(crossings == best, 0.0, here + best * step)
        sign = np.sign(at)
        free = (at != 0.0) | (cost == 0.0)
    return ((at - start) * size).reshape(x.shape)


def _evened(curvature: Curvature) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian in coordinates that bend alike, and the length of one of each."""
    hessian = curvature.matrix()
    size = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), np.finfo(np.float64).tiny))
    hessian *= size[:, None]
    hessian *= size
    return hessian, size


def by_products(curvature: Curvature, gradient: np.ndarray, free: np.ndarray) -> np.ndarray | None:
    """Newton's step of the coordinates that are free, as far as conjugate gradients gain much.

    The tolerance is that of scikit-learn's 'newton-cg' (Nocedal and Wright 2006, section 7.1), in
    the norm of coordinates that bend alike.
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
            break  # flat, to rounding
        step = step + size / along * direction
        left = left - size / along * bent
        ahead = left / scale
        before, size = size, float((left * ahead).sum())
        if size <= enough:
            break
        direction = ahead + size / before * direction
    return step if step.any() else None


def width_of(problem: RowProblem) -> int:
    """Numbers of a column of the model: one a feature, and the intercept."""
    return problem.n_features + problem.fit_intercept


class DoubleRows:
    """The rows as matrices in double precision.

    Dense ones so many at a time that copies stay in a cache; sparse ones as a whole, whose copy is
    made once.
    """

    def __init__(self, problem: RowProblem) -> None:
        rows = problem.rows
        shape = problem.n_rows, problem.n_features
        self.matrix: Any = None
        if not problem.is_sparse:
            self.matrix = rows.data.reshape(shape)
        else:
            signed = np.int32 if rows.indices.dtype == np.uint32 else np.int64
            fits = len(rows.data) <= np.iinfo(np.int32).max
            starts = rows.indptr.astype(signed if fits else np.int64)
            parts = rows.data.astype(np.float64, copy=False), rows.indices.view(signed), starts
            self.matrix = sp.csr_array(parts, shape=shape)
        self.is_thin = problem.nnz < THIN * problem.n_rows * problem.n_features

    def parts(self, dense: bool = False) -> Iterator[tuple[slice, Any]]:
        """Which rows, and they."""
        matrix, (n_rows, n_features) = self.matrix, self.matrix.shape
        sparse = sp.issparse(matrix)
        if sparse and not dense:
            yield slice(0, n_rows), matrix
            return
        step = max(1, BLOCK_VALUES // max(1, n_features))
        for first in range(0, n_rows, step):
            x = matrix[first : first + step]
            x = x.toarray() if sparse else x.astype(np.float64, copy=False)
            yield slice(first, first + step), x

    def weighted_square(self, weight: np.ndarray, ones: bool) -> np.ndarray:
        """``X.T @ diag(weight) @ X``, with a feature of ones besides for the intercept."""
        features = self.matrix.shape[1]
        out = np.zeros((features + ones, features + ones))
        for part, x in self.parts(dense=not self.is_thin):
            mine = weight[part]
            if sp.issparse(x):
                values = x.data * np.repeat(mine, np.diff(x.indptr))
                times = sp.csr_array((values, x.indices, x.indptr), shape=x.shape)
                out[:features, :features] += (x.T @ times).toarray()
            else:
                out[:features, :features] += x.T @ (mine[:, None] * x)
            if ones:
                out[:features, features] += x.T @ mine
        if ones:
            out[features, :features] = out[:features, features]
            out[features, features] = weight.sum()
        return out
