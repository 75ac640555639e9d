"""Who goes on where the workers foresee that the epochs left will not do, and what is warned of."""

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
SHARE = 4  # one part in so many of `max_iter` is kept for Newton's method
ADVICE = (
    "Increase max_iter, or scale the data (StandardScaler). With few features "
    "solver='newton-cholesky' needs the fewest iterations, with many solver='newton-cg'."
)
NO_FINISHER = "Increase max_iter, or scale the data (StandardScaler)."
OTHERWISE = (
    " With runtime='auto' and any solver but 'sag' and 'saga', Newton's method goes on where the "
    "workers come no further."
)
ROUNDED = (
    "No step makes it better in {dtype}: increase tol or the penalty, scale the data "
    "(StandardScaler){wider}."
)


def may_be_finished(estimator: Any) -> bool:
    """Whether somebody else may go on from the workers' model."""
    is_ours = chooses_runtime(estimator) or not all_rows_of(estimator).is_one
    return estimator.solver in FINISHERS and is_ours


def epochs_of(estimator: Any, problem: RowProblem) -> int:
    """Epochs of the workers, at the most: Newton's method, if it goes on, has to have some left.

    The few that L-BFGS would have are of less use than as many epochs.
    """
    most = int(estimator.max_iter)
    if not may_be_finished(estimator) or method_for(problem, estimator.solver) == "lbfgs":
        return most
    return most - most // SHARE


def go_on(estimator: Any, problem: RowProblem, report: Report, stop: Stop) -> Finish:
    """Go on from the workers' model, in the iterations that they have left."""
    left = estimator.max_iter - report.n_epochs
    workers = usable_workers(estimator.n_jobs)

    method = method_for(problem, estimator.solver)
    return finish(problem, report.model, stop, method, left, each=each_by(workers), n_parts=workers)


def with_finish(report: Report, finished: Finish) -> Report:
    """What the report says once others have gone on from the workers' model."""
    names = " and ".join(f"{name!r}" for name in finished.iterations)
    count = sum(finished.iterations.values())
    how = f"{names} went on for {count} iterations and {finished.sentence}"
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
    """A `ConvergenceWarning` of a fit that does not meet its criterion, as `what` says.

    iterations : that were made, of those that were left
    """
    if iterations >= left:
        warn_unconverged(f"{what}. {ADVICE}")
        return
    wider = ", or use float64 rows" if problem.dtype == np.float32 else ""
    advice = ROUNDED.format(dtype=problem.dtype, wider=wider)
    warn(f"The coef_ did not converge: {what}. {advice}", ConvergenceWarning)


def warn_unless_good(problem: RowProblem, model: Model, stop: Stop) -> None:
    """The same for a model that nothing was done to."""
    checks = Checks(problem, stop, settles=False)
    checks.note(0, Optimality(problem, model))
    if not checks.met:
        warn_unconverged(f"after 0 epochs {checks.sentence()}. Increase max_iter.")


def warn_without_optimum(problem: RowProblem, model: Model) -> None:
    """A `ConvergenceWarning` where the classes are separated and nothing is penalised."""
    if problem.penalty is None and separates(problem, model):
        warn(
            "The model separates the classes and there is no penalty, so that no coef_ is best: "
            "the larger, the better, and tol alone has ended the fit. Choose a finite C.",
            ConvergenceWarning,
        )
