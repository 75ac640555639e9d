"""Least squares with an l2 penalty: few features by the normal equations, many by their products.

Means are taken out first, which takes a pass of its own, so that nothing cancels that far.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from hogshare.optimum.part_sums import gram_total, moment_total, product_total, right_total
from hogshare.optimum.parts import Parts
from hogshare.system.interrupts import errstate

FEW = 1000  # features whose products with each other a worker sends whole: 8 MB


@dataclass
class Solution:
    """Coefficients and intercept, how they were found, and how near they are.

    miss : the residual of the normal equations, each feature in its unit, over the right-hand side
    n_iter : None of a solution by the equations
    """

    coef: np.ndarray
    intercept: float
    solver: str
    n_iter: int | None
    miss: float
    passes: int
    seconds: float


def least_squares(
    rows: Parts, fit_intercept: bool, strength: float, tol: float, max_iter: int | None
) -> Solution:
    """Minimise ``sum_i weight_i (y_i - x_i w - b)^2 + strength |w|^2``.

    rows : whose problems have the squared error
    tol : of `Solution.miss`, where the solution is approached
    max_iter : None: ten for each feature
    """
    began = time.perf_counter()
    weight, sums, squares, y_sum, _ = rows.total(moment_total)
    x_mean, y_mean = np.zeros(rows.n_features), 0.0
    if fit_intercept:
        x_mean, y_mean = sums / weight, y_sum / weight
    bend = np.maximum(squares - weight * x_mean**2, 0.0) + strength
    unit = np.divide(1.0, np.sqrt(bend), out=np.zeros_like(bend), where=bend > 0.0)
    if rows.n_features <= FEW:
        gram, right = rows.total(gram_total, x_mean, y_mean)
        system = gram * unit * unit[:, None]
        system[np.diag_indices_from(system)] += strength * unit * unit
        w, solver, n_iter, passes = solved(system, unit * right), "cholesky", None, 2
        residual = system @ w - unit * right
    else:
        (right,) = rows.total(right_total, x_mean, y_mean)

        def product(v: np.ndarray) -> np.ndarray:
            w = unit * np.ravel(v)
            (found,) = rows.total(product_total, x_mean, w)
            return np.asarray(unit * (found + strength * w))

        size, steps = rows.n_features, itertools.count()
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        limit = 10 * size if max_iter is None else max_iter
        w, _ = cg(operator, unit * right, rtol=tol, maxiter=limit, callback=lambda _: next(steps))
        solver, n_iter = "cg", next(steps)
        residual = product(w) - unit * right
        passes = n_iter + 3
    largest = float(np.abs(unit * right).max(initial=0.0))
    coef = unit * w
    return Solution(
        coef=coef.astype(rows.dtype),
        intercept=float(y_mean - x_mean @ coef),
        solver=solver,
        n_iter=n_iter,
        miss=float(np.linalg.norm(residual) / np.linalg.norm(unit * right)) if largest else 0.0,
        passes=passes,
        seconds=time.perf_counter() - began,
    )


def solved(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution; of a singular system the shortest."""
    with errstate(all="ignore"):
        values, vectors = scipy.linalg.eigh(system)
        kept = values > len(right) * np.finfo(np.float64).eps * values.max(initial=0.0)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
        return np.asarray(vectors @ (inverse * (vectors.T @ right)))
