"""The parameters of all estimators that concern workers, and fits to the optimum by workers."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Options, StrOptions

from hogshare.barriers import barrier_of
from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import ALONE, AllRows, all_rows_of
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report
from hogshare.rules.automatic_rule import automatic_rule
from hogshare.runtimes.choice import RUNTIMES, check_jobs
from hogshare.runtimes.hooks import OnEpoch
from hogshare.runtimes.protocol import Runtime
from hogshare.solvers import choice_names
from hogshare.solvers.solver import solve
from hogshare.system import memory
from hogshare.system.callers import warn

SCALE = "Increase max_iter or tol, or scale the data (StandardScaler)."


class Shape(NamedTuple):
    """The shape and dtype of a model, for the start of a fit whose rows no single process has."""

    n_columns: int
    n_features: int
    dtype: np.dtype


class Meant(Options):
    """The constraint that the function `read` accepts a parameter.

    what : description of the accepted values, for messages
    """

    def __init__(self, read: Callable[[Any], Any], what: str) -> None:
        super().__init__(object, set())
        self.read, self.what = read, what

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether `hogshare.solve` accepts a value."""
        try:
            self.read(val)
        except (TypeError, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return self.what


class NameOptions(StrOptions):
    """scikit-learn's constraint that a parameter is one of some names, in upper or lower case."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is one of the names."""
        return isinstance(val, str) and val.strip().lower() in self.options


WORKER_CONSTRAINTS: dict[str, list[Any]] = {
    "n_jobs": [None, Integral],
    "plane": [
        NameOptions(set(choice_names.PLANES)),
        Meant(choice_names.plane_of, "a plane such as Shared() or Master(4)"),
        None,
    ],
    "barrier": [
        Meant(
            barrier_of,
            "a barrier such as BSP() or SSP(4), the name of one such as 'bsp' or 'ssp:4', a "
            "function (table, me) -> bool",
        ),
        None,
    ],
    "runtime": [NameOptions({*RUNTIMES, choice_names.RANKS}), Runtime],
}


def constraints_of(theirs: Any, **others: list[Any]) -> dict[str, list[Any]]:
    """Return the parameter constraints of an estimator that extends scikit-learn's `theirs`."""
    return {**theirs._parameter_constraints, **WORKER_CONSTRAINTS, **others}


def chooses_runtime(estimator: Any) -> bool:
    """Whether an estimator's `runtime` leaves the choice to this package."""
    return choice_names.runtime_of(estimator.runtime) == choice_names.AUTO


def may_choose_runtime(estimator: Any) -> bool:
    """Whether a message may suggest ``runtime="auto"``; ranks would fit separately with it."""
    return getattr(estimator.runtime, "name", "") != choice_names.RANKS


def require_workers(estimator: Any) -> None:
    """Refuse workers that cannot fit to the optimum, even if a solver of scikit-learn's will fit.

    Raises
    ------
    ValueError
        If `n_jobs` is not a possible number of workers, or if the plane has no private copies.
    """
    check_jobs(estimator.n_jobs)
    plane = choice_names.plane_of(estimator.plane)
    if not plane.has_copies:
        raise ValueError(
            f"{type(estimator).__name__} needs private copies: use plane=Shared() instead of "
            f"{plane}."
        )


def to_the_optimum(
    estimator: Any,
    problem: RowProblem,
    stop: Stop,
    start: Model | None = None,
    on_epoch: OnEpoch | None = None,
    *,
    draws: bool,
) -> Report:
    """Solve a problem with an estimator's workers, by the rule that suits it.

    A nonzero start without row memory needs `SAGA`, which can start from any model. The report's
    model contains the row memory; an estimator stores ``report.without_memory()``.

    start : the model to start from; None for zeros
    draws : whether scikit-learn's solver draws random numbers; if not, the seed is 0 without a
        `random_state`, because scikit-learn's fits are then repeatable
    """
    forgetful = start is not None and start.memory is None and not start.is_zero()
    return solve(
        problem,
        rule=automatic_rule(all_rows_of(estimator).whole(problem), from_anywhere=forgetful),
        plane=estimator.plane,
        barrier=estimator.barrier,
        runtime=estimator.runtime,
        n_workers=estimator.n_jobs,
        stop=stop,
        seed=0 if estimator.random_state is None and not draws else estimator.random_state,
        start=start,
        on_epoch=on_epoch,
    )


def with_mean_one(weight: np.ndarray, everybody: AllRows = ALONE) -> tuple[np.ndarray, float]:
    """Return the weights of the rows divided by their mean, and the sum of the given weights.

    The result is `weight` itself if all weights are 1, and a copy otherwise. Collective: all ranks
    must call it.

    everybody : all rows, over which the mean and the sum are taken

    Raises
    ------
    ValueError
        If all weights are zero.
    """
    total = everybody.added(float(weight.sum(dtype=np.float64)))
    if total == 0.0:
        raise ValueError(
            "The weights of all rows are zero, so there is nothing to fit: in class_weight give a "
            "class that occurs a positive weight, or in sample_weight one of its rows."
        )
    if everybody.every(bool((weight == 1.0).all())):
        return weight, total
    return weight * (everybody.added(len(weight)) / total), total


def strength(C: float, total: float) -> float:
    """Return the penalty's factor relative to the mean loss.

    C : the parameter of `LogisticRegression`
    total : sum of the rows' weights

    Raises
    ------
    ValueError
        If the factor leaves the floating-point range.
    """
    if np.isinf(C):
        return 0.0
    losses = float(C * total)
    if losses == 0.0 or np.isinf(1.0 / losses):
        raise ValueError(
            f"C={C!r} is too small: relative to the penalty the losses leave the floating-point "
            "range. Use a larger C."
        )
    return 1.0 / losses


def require_square(n: int, what: str) -> None:
    """Refuse a solver that needs a dense matrix of `n` rows and `n` columns if memory is too small.

    what : the solver, for the message

    Raises
    ------
    MemoryError
    """
    memory.require(8 * n * n, f"{what} makes a dense matrix of {n:,} rows and columns, which")


def warn_unless_converged(report: Report, advice: str) -> None:
    """Give scikit-learn's warning, with the result of the last check, unless a run converged."""
    if not report.converged:
        warn_unconverged(f"{report.stop_reason}, after {report.n_epochs} epochs. {advice}")


def warn_unconverged(what: str) -> None:
    """Give scikit-learn's warning for a fit that has not converged, with the details."""
    warn(
        f"The max_iter was reached which means the coef_ did not converge: {what}",
        ConvergenceWarning,
    )
