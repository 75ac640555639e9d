"""`MatrixFactorization` by alternating least squares, first of users, then of items."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.estimators.solver_report import SolverReport
from hogshare.optimum.alternation import Alternation, Penalty, usual_penalty
from hogshare.problems.params import Params
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.pool import each_by

BY = "hogshare's alternating least squares"
REASON = "pairs that have met are fitted against all that have not"
# The weight above which sums are computed in float64, and the weight above which a fit is refused.
PLAIN_WEIGHT, LARGEST_WEIGHT = 1e3, 1e6
ROUNDED = 1e-12  # relative decrease of the loss below which another sweep gains nothing


def alternated(
    model: Any,
    lines: list[np.ndarray],
    sizes: list[int],
    strengths: np.ndarray,
    n_factors: int,
    seed: int,
) -> tuple[list[np.ndarray], float, SolverReport]:
    """Fit users' and items' factors; return both, the penalty's strength, and a report.

    With biases, the last column of the factors contains them. The result is in float32.

    model : the estimator, whose parameters are read
    lines : each pair's user, and each pair's item, as row numbers of the factors
    sizes : number of users, and number of items
    strengths : strength of each pair, at least 0; a pair of strength 0 counts as no pair
    n_factors : number of factors, without biases
    seed : seed for the first factors
    """
    began = time.perf_counter()
    extras = sp.coo_array((model.confidence * strengths, tuple(lines)), shape=tuple(sizes)).tocsr()
    extras.sum_duplicates()
    extras.eliminate_zeros()
    most = float(extras.data.max()) if extras.nnz else 0.0
    if not most <= LARGEST_WEIGHT:
        raise ValueError(
            f"confidence={model.confidence:g} times a rating is up to {most:g}; beyond "
            f"{LARGEST_WEIGHT:g} smaller weights are lost in rounding. Divide ratings or "
            "confidence by a number, or take logarithms of ratings (np.log1p)."
        )
    alpha = model.alpha
    if alpha == "auto":
        counts = np.diff(extras.indptr), np.bincount(extras.indices, minlength=sizes[1])
        weight = float(extras.data.mean()) if extras.nnz else 0.0
        alpha = usual_penalty(counts, weight) if extras.nnz else 1.0
    if not alpha <= float(np.finfo(np.float32).max):
        raise ValueError(
            f"alpha={alpha:g} is beyond the range of float32, which leaves no factor: use a "
            "smaller alpha."
        )
    workers = usable_workers(model.n_jobs) if model.runtime != "caller" else 1
    penalty = Penalty(float(alpha), float(model.bias_alpha))
    settings: dict[str, Any] = {"seed": seed, "each": each_by(workers), "n_threads": workers}
    if most > PLAIN_WEIGHT:
        settings["dtype"] = np.float64
    sweeps = Alternation(extras, n_factors, bool(model.biases), penalty, **settings)
    n_iter, converged = _swept(model, sweeps)
    if not all(np.isfinite(one).all() for one in sweeps.lines):
        raise ValueError(
            "Alternating least squares has left the range of float32: use a larger alpha and "
            "bias_alpha, or a smaller confidence."
        )
    seconds = time.perf_counter() - began
    report = SolverReport(
        solver="als",
        by=BY,
        reason=REASON,
        model=Params(np.concatenate([one.ravel() for one in sweeps.lines]), float(n_iter)),
        n_iter=n_iter,
        converged=converged,
        seconds={"run": seconds, "total": seconds},
    )
    return [one.astype(np.float32) for one in sweeps.lines], float(alpha), report


def _swept(model: Any, sweeps: Alternation) -> tuple[int, bool | None]:
    """Sweep until the objective stops improving, at most `max_iter` times.

    Returns the number of sweeps, and whether the objective has stopped improving; None instead if
    `tol` is None.
    """
    best, in_vain = math.inf, 0
    for done in range(1, model.max_iter + 1):
        sweeps.sweep()
        if model._on_epoch is not None:
            model._on_epoch(done, None)
        if model.tol is None:
            continue
        found = sweeps.objective()
        in_vain = in_vain + 1 if found > best - max(model.tol, ROUNDED * best) else 0
        best = min(best, found)
        if in_vain >= model.n_iter_no_change:
            return done, True
    return model.max_iter, None if model.tol is None else False
