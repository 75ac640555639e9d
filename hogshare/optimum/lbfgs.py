"""The minimum of a smooth objective, by L-BFGS on sums that the workers add up.

What the rules that converge on one machine remember of each row would have to outlive the worker
that has the row. So here nothing is remembered: every evaluation is a pass in which each partition
answers with its loss and gradient, at a model that came along, and a partition that is lost is
computed again and asked again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from hogshare.optimum.finishing import EVALUATIONS, FLATTEST
from hogshare.optimum.part_sums import gradient_total, moment_total
from hogshare.optimum.parts import Parts
from hogshare.problems.model import Model


@dataclass
class Minimum:
    """What has been found.

    gradient : the largest component of the objective's, in size
    passes : how often all rows were gone through
    """

    model: Model
    n_iter: int
    objective: float
    gradient: float
    converged: bool
    passes: int
    seconds: float


def minimise(
    rows: Parts, l2: float, fit_intercept: bool, start: Model, tol: float, max_iter: int
) -> Minimum:
    """Minimise a smooth objective until no component of its gradient is larger than `tol`.

    Coordinates are scaled by how far their feature spreads, which tells how much they bend.

    rows : whose problems have a loss with a gradient, and a penalty without l1
    l2 : its strength
    """
    began = time.perf_counter()
    weight, _, squares, _, _ = rows.total(moment_total)
    columns = len(start.intercept)
    bends = squares / weight + l2
    bends = np.maximum(bends, FLATTEST * bends.max(initial=1e-300))
    size = np.repeat(1.0 / np.sqrt(bends), columns)
    begin = start.coef.astype(np.float64).T.reshape(-1)
    if fit_intercept:
        size = np.append(size, np.ones(columns))
        begin = np.append(begin, start.intercept.astype(np.float64))
    n, passes = rows.n_rows, 0
    steepest = np.inf

    def value(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal passes
        passes += 1
        loss, gradient = rows.total(gradient_total, scaled * size)
        seen[scaled.tobytes()] = float(np.abs(gradient).max()) / n
        return loss / n, gradient * size / n

    def heard(scaled: np.ndarray) -> None:
        nonlocal steepest
        steepest = seen.get(scaled.tobytes(), steepest)
        seen.clear()
        if steepest <= tol:
            raise StopIteration

    seen: dict[bytes, float] = {}
    limits = {"maxiter": max_iter, "maxfun": EVALUATIONS * (max_iter + 1), "maxls": EVALUATIONS}
    found = scipy.optimize.minimize(
        value,
        begin / size,
        method="L-BFGS-B",
        jac=True,
        callback=heard,
        options={**limits, "gtol": 0.0, "ftol": 0.0},
    )
    w = found.x * size
    steepest = float(np.abs(found.jac / size).max())
    parameters = len(w) // columns
    coef = w[: rows.n_features * columns].reshape(-1, columns).T.astype(rows.dtype)
    intercept = np.zeros(columns, rows.dtype)
    if parameters > rows.n_features:
        intercept = w[rows.n_features * columns :].astype(rows.dtype)
    return Minimum(
        model=Model(np.asfortranarray(coef), intercept),
        n_iter=int(found.nit),
        objective=float(found.fun),
        gradient=steepest,
        converged=steepest <= tol,
        passes=passes,
        seconds=time.perf_counter() - began,
    )
