"""Warnings that a full-batch method has not reached its criterion, or that no optimum exists."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hogshare.estimators.workers import warn_unconverged
from hogshare.problems.linear.separation import separates
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.callers import warn

ADVICE = (
    "Increase max_iter, or scale the data (StandardScaler). With few features "
    "solver='newton-cholesky' needs the fewest iterations, with many solver='newton-cg'."
)
ROUNDED = (
    "No step improves the model in {dtype}: increase tol or the penalty, scale the data "
    "(StandardScaler){wider}."
)


def warn_of_what_is_left(what: str, iterations: int, left: int, problem: RowProblem) -> None:
    """Give a `ConvergenceWarning` for a fit that does not meet its criterion.

    what : how far the fit is from its criterion, in words
    iterations : number of iterations that were made
    left : number of iterations that were available
    """
    if iterations >= left:
        warn_unconverged(f"{what}. {ADVICE}")
        return
    wider = ", or use float64 rows" if problem.dtype == np.float32 else ""
    advice = ROUNDED.format(dtype=problem.dtype, wider=wider)
    warn(f"The coef_ did not converge: {what}. {advice}", ConvergenceWarning)


def warn_without_optimum(problem: RowProblem, model: Model) -> None:
    """Give a `ConvergenceWarning` if the classes are separated and there is no penalty."""
    if problem.penalty is None and separates(problem, model):
        warn(
            "The model separates the classes and there is no penalty, so the optimum does not "
            "exist: larger coefficients are always better, and tol alone has ended the fit. Choose "
            "a finite C.",
            ConvergenceWarning,
        )
