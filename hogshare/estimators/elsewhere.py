"""Fits that no workers do: whose report says who did them, and why."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from hogshare.problems.model import Model
from hogshare.solver_report import SolverReport
from hogshare.solvers import outcome


def report_of(
    estimator: Any, by: str, reason: str, began: float, converged: bool | None = None
) -> SolverReport:
    """Report a fit that is over, from the fitted attributes.

    Parameters
    ----------
    estimator : estimator
    by : str
        Who solved; empty where nobody did.
    reason : str
        Why, in words: what follows "because".
    began : float
        When, by `time.perf_counter`.
    converged : bool or None, default=None
        As of `SolverReport`.
    """
    seconds = time.perf_counter() - began
    return SolverReport(
        solver=estimator.solver_,
        by=by,
        reason=reason,
        model=Model(np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)),
        n_iter=estimator.n_iter_,
        converged=converged,
        seconds={"run": seconds, "total": seconds},
        versions=outcome.versions(),
        machine=outcome.machine(),
    )
