"""Squared error to a tolerance, target by target: the base of Ridge, Lasso and ElasticNet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import AllRows
from hogshare.estimators.linear_models import ToTheOptimum
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.validation import for_scikit_learn, weights_of_part
from hogshare.estimators.workers import to_the_optimum
from hogshare.kernels.rows.survey import Survey
from hogshare.optimum.compression import MOST_FEATURES, CompressedRows, condensed
from hogshare.optimum.conjugate_gradients import ROUNDING
from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.problems.linear import build
from hogshare.problems.linear.column_units import in_units, moments_of
from hogshare.problems.linear.row_arrays import as_rows, check_sparse
from hogshare.problems.linear.units import Features, features_of, total_of
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import row_weights
from hogshare.report import Report
from hogshare.system.interrupts import errstate

MAX_ITER = 1000
OFF_CENTRE = 0.1  # squared means of features relative to squared deviations, above which to center


class Squares:
    """Rows of one or more least-squares problems, one for each target.

    With an intercept, the targets are centered, in a copy. Dense rows are also centered in a copy
    if the features' means are large relative to their deviations. A feature far from zero is
    nearly constant, like the intercept, and both would converge slowly. Other rows are read in
    place, and the intercept is a coordinate.

    weight : weights of the rows, with mean 1
    seen : the survey from checking the rows, if any
    """

    def __init__(
        self,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
        fit_intercept: bool,
        seen: Survey | None = None,
    ) -> None:
        self.X = X
        self.seen = seen  # used only for sparse rows, which are never centered
        self.weight = weight
        self.fit_intercept = fit_intercept
        self.x_mean: np.ndarray | None = None
        self.features: Features | None = None
        self.y = np.asarray(y, np.float64).reshape(len(y), -1)
        self.y_mean = np.zeros(self.y.shape[1])
        if fit_intercept:
            self.y_mean = np.average(self.y, axis=0, weights=weight)
            self.y = self.y - self.y_mean
            self._centre()

    def _centre(self) -> None:
        X = self.X
        if sp.issparse(X) or not X.size:
            return
        rows = as_rows(X, np.zeros(len(X), X.dtype), self.weight)
        mean, variance, _ = moments_of(rows)
        with errstate(over="ignore"):  # rows with such large values are refused later
            far = float(np.square(mean).sum()) > OFF_CENTRE * float(variance.sum())
        if far:
            self.x_mean = mean
            # units of the uncentered values, in which indicators are 0 and 1, not two fractions
            features = features_of(total_of(rows), X.shape[1], True)
            self.features = features._replace(origin=np.zeros(X.shape[1]))
            self.X = in_units(np.ravel(X), mean).reshape(X.shape)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.y.shape[1])

    def problem(
        self, target: int, penalty: str | None, alpha: float, l1_ratio: float
    ) -> RowProblem:
        """Return the problem of one target.

        Raises
        ------
        ValueError
            If squares of rows or targets overflow.
        """
        problem = least_squares(
            self.X,
            self.y[:, target],
            penalty,
            alpha,
            l1_ratio=l1_ratio,
            fit_intercept=self.fit_intercept and self.x_mean is None,
            sample_weight=self.weight,
            seen=self.seen,
            features=self.features,
        )
        if not np.isfinite(self.spread(target)):
            raise ValueError(
                "Targets are too large: their squares leave the floating-point range, and with "
                "them the objective. Scale them, for example with TransformedTargetRegressor."
            )
        return problem

    def spread(self, target: int) -> float:
        """Return the weighted mean square of a target about its mean."""
        with errstate(over="ignore"):
            return float(np.average(np.square(self.y[:, target]), weights=self.weight))

    def rounding(self, target: int) -> float:
        """Return the rounding error of a component of the gradient, in the feature's unit.

        If a target is constant, or unrelated to all features, the gradient at zero is only a
        rounding error. No fit could meet a criterion relative to this gradient.
        """
        return ROUNDING * float(np.hypot(np.sqrt(self.spread(target)), self.y_mean[target]))

    def intercept(self, target: int, model: Model) -> float:
        """Return a model's intercept for the original rows and targets."""
        value = float(self.y_mean[target]) + float(model.intercept[0])
        if self.x_mean is not None:
            value -= float(self.x_mean @ model.coef[0].astype(np.float64))
        return value

    def start(self, target: int, coef: np.ndarray, intercept: float) -> Model:
        """Return a start for `problem` from coefficients and an intercept for the original rows.

        The start's arrays are copies.
        """
        value = intercept - float(self.y_mean[target])
        if self.x_mean is not None or not self.fit_intercept:
            value = 0.0
        dtype = self.X.dtype
        return Model(coef.reshape(1, -1).astype(dtype), np.array([value], dtype))


def least_squares(
    X: Any,
    y: np.ndarray,
    penalty: str | None,
    alpha: float,
    *,
    l1_ratio: float = 0.0,
    **others: Any,
) -> RowProblem:
    """Return the problem of one target.

    Raises ValueError if squares of rows overflow.

    others : further arguments of `hogshare.problems.linear.build`
    """
    problem = build(
        X,
        y,
        loss="squared_error",
        penalty=penalty if alpha > 0.0 else None,
        alpha=alpha,
        l1_ratio=l1_ratio,
        epsilon=0.0,
        class_weight=None,
        classes=None,
        **others,
    )
    problem.require_norms()
    return problem


def zeros(problem: RowProblem) -> Model:
    """Return a model with coefficients and intercepts of zero."""
    shape = problem.n_columns, problem.n_features
    return Model(np.zeros(shape, problem.dtype), np.zeros(shape[0], problem.dtype))


class LeastSquares(ToTheOptimum):
    """Base of Ridge, Lasso and ElasticNet, which the workers or scikit-learn's solvers fit.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Determines the order of the rows. If scikit-learn's solver of the same name draws no random
        numbers, None gives the same order in every call, and fits by one worker are repeatable.

    Attributes
    ----------
    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts.
    """

    coef_: Any
    intercept_: Any
    solver_: str

    @property
    def _most_epochs(self) -> int:
        most: int = MAX_ITER if self.max_iter is None else self.max_iter
        return most

    def _fit_by_scikit_learn(self, X: Any, y: Any, sample_weight: Any, **others: Any) -> float:
        """Fit by scikit-learn's solver, which sets the fitted attributes.

        Returns the time at which the solver began, from `time.perf_counter`.

        others : further arguments of scikit-learn's `fit`
        """
        check_sparse(X)
        require_unmasked("y", y)
        if sample_weight is not None:
            row_weights(sample_weight, X)
        began = time.perf_counter()
        theirs = for_scikit_learn(X)  # if None, scikit-learn refuses X with its own message
        X = X if theirs is None else theirs
        self._hand_over(X, y, sample_weight=sample_weight, **others)
        return began

    def _hand_over(self, X: Any, y: Any, **others: Any) -> None:
        """Call scikit-learn's own `fit`."""
        super().fit(X, y, **others)  # type: ignore[misc]

    def _reads_parts(self, n_features: int) -> bool:
        """Whether each of several ranks without shared memory needs only its own rows."""
        return n_features <= MOST_FEATURES

    def _fit_parts(
        self,
        everybody: AllRows,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
        theirs: Callable[[CompressedRows], Any],
    ) -> tuple[Any, CompressedRows]:
        """Fit rows in several processes exactly, on a few rows with the same moments as all rows.

        Collective: all ranks must call it. Returns the fitted estimator ``theirs(few)``, and the
        compressed rows `few`. Sets coef_, intercept_, n_iter_, solver_ and report_.

        theirs : ``theirs(few)`` returns scikit-learn's estimator, without an intercept, for the
            compressed rows
        """
        began = time.perf_counter()
        weight = weights_of_part(everybody, sample_weight, X)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        few = condensed(X, targets, weight, self.fit_intercept, everybody)
        return self._fit_few(few, theirs, np.ndim(y), X.dtype, "of all ranks", began), few

    def _fit_few(
        self,
        few: CompressedRows,
        theirs: Callable[[CompressedRows], Any],
        n_dim: int,
        dtype: np.dtype,
        whose: str,
        began: float,
    ) -> Any:
        """Fit the estimator ``theirs(few)`` to the compressed rows, and return it.

        Sets coef_, intercept_, n_iter_, solver_ and report_ of `self`.

        n_dim : number of dimensions of the targets
        dtype : dtype of the coefficients
        whose : words for the report, such as "of all ranks"
        began : time at which the fit began, from `time.perf_counter`
        """
        found = theirs(few)
        found.fit(few.X, few.y if n_dim > 1 else few.y[:, 0])
        coef = np.atleast_2d(found.coef_).astype(dtype)
        intercept = few.moments.y_mean - coef.astype(np.float64) @ few.moments.x_mean
        self._set_attributes(n_dim, coef, intercept.astype(dtype))
        self.n_iter_ = found.n_iter_
        self.solver_ = getattr(found, "solver_", "cd")
        by = f"scikit-learn's {self.solver_!r}"
        reason = (
            f"with {few.X.shape[1]:,} features, {len(few.X):,} rows represent those {whose} "
            "to the last digit"
        )
        self.report_ = report_of(self, by, reason, began, True)
        return found

    def _fit_targets(
        self,
        y: np.ndarray,
        squares: Squares,
        state: Callable[[int], RowProblem],
        begin: Callable[[int, RowProblem], tuple[Stop, Model | None]],
        *,
        draws: bool,
    ) -> list[Report]:
        """Solve each target's problem, and return each target's report.

        Sets coef_, intercept_, solver_ and report_. `self._on_epoch` is called after epochs, as
        the argument `on_epoch` of `hogshare.solve`; these estimators do not have scikit-learn's
        callbacks.

        state : ``state(target)`` returns the problem of the target with that index
        begin : ``begin(target, problem)`` returns the criterion at which to stop, and the model to
            start from; if the model is None, the solver chooses the start
        draws : whether scikit-learn's solver of the same name draws random numbers
        """
        coef, intercept, reports = [], [], []
        for target in range(squares.n_targets):
            problem = state(target)
            stop, start = begin(target, problem)
            report = to_the_optimum(self, problem, stop, start, self._on_epoch, draws=draws)
            coef.append(report.model.coef[0])
            intercept.append(squares.intercept(target, report.model))
            reports.append(report.without_memory())
        self._set_attributes(np.ndim(y), np.array(coef), np.array(intercept, dtype=squares.X.dtype))
        names = dict.fromkeys(report.settings["rule"]["name"].lower() for report in reports)
        self.solver_ = ", ".join(names)
        self.report_ = reports[0] if len(reports) == 1 else reports
        return reports

    def _set_attributes(self, n_dim: int, coef: np.ndarray, intercept: np.ndarray) -> None:
        """Set coef_ and intercept_ from all targets' values, in scikit-learn's shapes.

        n_dim : number of dimensions of the targets
        coef : coefficients, of shape (n_targets, n_features)
        intercept : intercepts, of shape (n_targets,)
        """
        self.coef_ = coef if len(coef) > 1 else coef[0]
        self.intercept_ = intercept if n_dim > 1 else intercept[0]
        if not self.fit_intercept:
            self.intercept_ = 0.0
