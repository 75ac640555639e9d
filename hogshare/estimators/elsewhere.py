"""Fits that no workers do: whose report says who did them, and why."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from hogshare.estimators.solver_report import SolverReport
from hogshare.problems.model import Model
from hogshare.solvers import outcome

UNSAID: Any = object()


def report_of(
    estimator: Any,
    by: str,
    reason: str,
    began: float,
    converged: bool | None = None,
    *,
    solver: str | None = None,
    model: Any = UNSAID,
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
    solver : str, default=None
        Who, in a word; None: the estimator's `solver_`.
    model : Any, default=its coefficients and intercepts
        What was fitted.
    """
    seconds = time.perf_counter() - began
    if model is UNSAID:
        model = Model(np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_))
    return SolverReport(
        solver=solver or estimator.solver_,
        by=by,
        reason=reason,
        model=model,
        n_iter=estimator.n_iter_,
        converged=converged,
        seconds={"run": seconds, "total": seconds},
        versions=outcome.versions(),
        machine=outcome.machine(),
    )
