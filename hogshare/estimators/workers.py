"""What all estimators share: who fits the model, and what may be fitted."""

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
    """What a start needs to know of a problem that is in no single memory."""

    n_columns: int
    n_features: int
    dtype: np.dtype


class Meant(Options):
    """The constraint that a parameter is `what`, which `read` reads: else it raises an error."""

    def __init__(self, read: Callable[[Any], Any], what: str) -> None:
        super().__init__(object, set())
        self.read, self.what = read, what

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether `hogshare.solve` takes it."""
        try:
            self.read(val)
        except (TypeError, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return self.what


class NameOptions(StrOptions):
    """scikit-learn's constraint that a parameter is one of some words, in whatever case."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether it is one of them."""
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
            "a barrier such as BSP() or SSP(4), one in words such as 'bsp' or 'ssp:4', a function "
            "(table, me) -> bool",
        ),
        None,
    ],
    "runtime": [NameOptions({*RUNTIMES, choice_names.RANKS}), Runtime],
}


def constraints_of(theirs: Any, **others: list[Any]) -> dict[str, list[Any]]:
    """Constraints of the parameters of an estimator that goes on from a class of scikit-learn's."""
    return {**theirs._parameter_constraints, **WORKER_CONSTRAINTS, **others}


def chooses_runtime(estimator: Any) -> bool:
    """Whether an estimator's parameter leaves it to us who fits the model."""
    return choice_names.runtime_of(estimator.runtime) == choice_names.AUTO


def may_choose_runtime(estimator: Any) -> bool:
    """Whether ``runtime="auto"`` is a way out; on ranks each would fit its own rows."""
    return getattr(estimator.runtime, "name", "") != choice_names.RANKS


def require_workers(estimator: Any) -> None:
    """Refuse workers that cannot fit to the optimum, also where scikit-learn's solvers will fit.

    Raises
    ------
    ValueError
        If there are none, or if their plane has no private copies.
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

    A start other than zero that remembers nothing is for `SAGA`, which can go on from any model.
    Where scikit-learn's solver of that name draws nothing (`draws` False), its fits are repeatable
    without a `random_state`; so are ours then. The report's model remembers every row; what an
    estimator keeps is ``report.without_memory()``.
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
    """Weights of the rows in the same ratios with mean 1, and the sum that they had before.

    everybody : who has the rows that the mean is of

    Raises
    ------
    ValueError
        If all are zero.
    """
    total = everybody.added(float(weight.sum(dtype=np.float64)))
    if total == 0.0:
        raise ValueError(
            "The weights of all rows are zero, which leaves nothing to fit: give a class that "
            "occurs a positive weight in class_weight, or one of its rows in sample_weight."
        )
    if everybody.every(bool((weight == 1.0).all())):
        return weight, total
    return weight * (everybody.added(len(weight)) / total), total


def strength(C: float, total: float) -> float:
    """The penalty's factor beside the mean loss, given the sum of the rows' weights.

    Raises
    ------
    ValueError
        If it leaves the floating-point range.
    """
    if np.isinf(C):
        return 0.0
    losses = float(C * total)
    if losses == 0.0 or np.isinf(1.0 / losses):
        raise ValueError(
            f"C={C!r} is too small: beside the penalty the losses leave the floating-point range."
        )
    return 1.0 / losses


def require_square(n: int, what: str) -> None:
    """Refuse a solver that makes a dense matrix of `n` rows and columns, if there is no room.

    Raises
    ------
    MemoryError
    """
    memory.require(8 * n * n, f"{what} makes a dense matrix of {n:,} rows and columns, which")


def warn_unless_converged(report: Report, advice: str) -> None:
    """scikit-learn's warning, with what the last convergence check found."""
    if not report.converged:
        warn_unconverged(f"{report.stop_reason}, after {report.n_epochs} epochs. {advice}")


def warn_unconverged(what: str) -> None:
    """scikit-learn's warning of a fit that has not converged, with what is known of it."""
    warn(
        f"The max_iter was reached which means the coef_ did not converge: {what}",
        ConvergenceWarning,
    )
