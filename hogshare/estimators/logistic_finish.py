"""The finish of a logistic fit by a full-batch method, and the warnings of convergence.

A full-batch method continues if the workers foresee that the remaining epochs will not suffice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hogshare.engine.convergence_checks import Checks
from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.workers import chooses_runtime, warn_unconverged
from hogshare.optimum.full_batch import Finish, finish, method_for
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.linear.separation import separates
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.pool import each_by
from hogshare.system.callers import warn

FINISHERS = ("lbfgs", "newton-cg", "newton-cholesky", "liblinear")
SHARE = 4  # ``1 / SHARE`` of `max_iter` is reserved for Newton's method
ADVICE = (
    "Increase max_iter, or scale the data (StandardScaler). With few features "
    "solver='newton-cholesky' needs the fewest iterations, with many solver='newton-cg'."
)
NO_FINISHER = "Increase max_iter, or scale the data (StandardScaler)."
OTHERWISE = (
    " With runtime='auto' and any solver but 'sag' and 'saga', Newton's method finishes the fit if "
    "the workers stop making progress."
)
ROUNDED = (
    "No step improves the model in {dtype}: increase tol or the penalty, scale the data "
    "(StandardScaler){wider}."
)


def may_be_finished(estimator: Any) -> bool:
    """Whether a full-batch method may continue from the workers' model."""
    is_ours = chooses_runtime(estimator) or not all_rows_of(estimator).is_one
    return estimator.solver in FINISHERS and is_ours


def epochs_of(estimator: Any, problem: RowProblem) -> int:
    """Return the workers' maximum number of epochs, which leaves iterations for Newton's method.

    None are left for L-BFGS, since so few iterations are worth less than as many epochs.
    """
    most = int(estimator.max_iter)
    if not may_be_finished(estimator) or method_for(problem, estimator.solver) == "lbfgs":
        return most
    return most - most // SHARE


def go_on(estimator: Any, problem: RowProblem, report: Report, stop: Stop) -> Finish:
    """Continue from the workers' model, for the remaining iterations."""
    left = estimator.max_iter - report.n_epochs
    workers = usable_workers(estimator.n_jobs)

    method = method_for(problem, estimator.solver)
    return finish(problem, report.model, stop, method, left, each=each_by(workers), n_parts=workers)


def with_finish(report: Report, finished: Finish) -> Report:
    """Return the report of the whole fit, after a method has continued from the workers' model."""
    names = " and ".join(f"{name!r}" for name in finished.iterations)
    count = sum(finished.iterations.values())
    how = f"{names} continued for {count} iterations and {finished.sentence}"
    return replace(
        report,
        model=finished.model,
        converged=finished.converged,
        stop_reason=how,
        checks=[*report.checks, {"epoch": report.n_epochs, **finished.found}],
        notes=[
            *report.notes,
            f"the fit was finished by {names} in {count} iterations, because after "
            f"{report.n_epochs} epochs {report.stop_reason}",
        ],
    )


def warn_of_what_is_left(what: str, iterations: int, left: int, problem: RowProblem) -> None:
    """Give a `ConvergenceWarning` for a fit that does not meet its criterion, described by `what`.

    iterations, left : number of iterations that were made, and that were available
    """
    if iterations >= left:
        warn_unconverged(f"{what}. {ADVICE}")
        return
    wider = ", or use float64 rows" if problem.dtype == np.float32 else ""
    advice = ROUNDED.format(dtype=problem.dtype, wider=wider)
    warn(f"The coef_ did not converge: {what}. {advice}", ConvergenceWarning)


def warn_unless_good(problem: RowProblem, model: Model, stop: Stop) -> None:
    """Give the same warning for the start of a fit with ``max_iter=0``, unless it is good."""
    checks = Checks(problem, stop, settles=False)
    checks.note(0, Optimality(problem, model))
    if not checks.met:
        warn_unconverged(f"after 0 epochs {checks.sentence()}. Increase max_iter.")


def warn_without_optimum(problem: RowProblem, model: Model) -> None:
    """Give a `ConvergenceWarning` if the classes are separated and there is no penalty."""
    if problem.penalty is None and separates(problem, model):
        warn(
            "The model separates the classes and there is no penalty, so the optimum does not "
            "exist: larger coefficients are always better, and tol alone has ended the fit. Choose "
            "a finite C.",
            ConvergenceWarning,
        )
