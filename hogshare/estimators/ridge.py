"""`Ridge` and `RidgeClassifier`: scikit-learn's, fitted by every core where rows are wide."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.linear_model import Ridge as _Ridge
from sklearn.linear_model import RidgeClassifier as _RidgeClassifier
from sklearn.linear_model._ridge import _BaseRidge
from sklearn.utils.validation import _check_sample_weight

from hogshare.engine.stops import Stop
from hogshare.estimators.squares import Squares, fit_targets, gradient_at_zero, solver_names, zeros
from hogshare.estimators.workers import (
    WORKER_CONSTRAINTS,
    check_rows,
    require_workers,
    warn_unless_converged,
    with_mean_one,
)
from hogshare.kernels.survey import Survey
from hogshare.problems.linear import LinearProblem
from hogshare.problems.model import Model
from hogshare.problems.rows import check_sparse
from hogshare.report import Report
from hogshare.runtimes.hooks import OnEpoch

DIRECT_SIZE = 400  # rows or features up to which a system is solved sooner than approached
MAX_ITER = 1000
CONSTRAINTS: dict[str, list[Any]] = {**WORKER_CONSTRAINTS, "n_jobs": [None, Integral]}
ADVICE = "Increase max_iter or tol, scale the data (StandardScaler), or use solver='sparse_cg'."


class RidgeMixin:
    """Fitting by the workers for an estimator with scikit-learn's Ridge parameters."""

    coef_: np.ndarray
    report_: Report | list[Report] | None
    _on_epoch: OnEpoch | None = None

    def _is_for_workers(self, X: Any) -> bool:
        """Whether the workers fit these rows; otherwise scikit-learn's solver of that name does."""
        est: Any = self
        if est.positive or est.solver not in ("auto", "sag", "saga"):
            return False
        if est.solver != "auto" or est.runtime != "auto":
            return True
        shape = getattr(X, "shape", None)
        shape = np.asarray(X).shape if shape is None else shape
        return len(shape) == 2 and min(shape) > DIRECT_SIZE

    def _fit_by_workers(
        self, X: Any, y: np.ndarray, sample_weight: Any, seen: Survey | None = None
    ) -> None:
        est: Any = self
        weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        weight, total = with_mean_one(weight)
        squares = Squares(X, y, weight, est.fit_intercept, seen)
        alpha = np.asarray(est.alpha, np.float64).ravel()
        if alpha.size not in (1, squares.n_targets):
            raise ValueError(
                "Number of targets and number of penalties do not correspond: "
                f"{alpha.size} != {squares.n_targets}"
            )
        alpha = np.broadcast_to(alpha, squares.n_targets)
        finish = est.solver == "auto" and est.runtime == "auto"

        def state(target: int) -> LinearProblem:
            # ours is scikit-learn's objective divided by twice the sum of the weights
            return squares.problem(target, "l2", float(alpha[target]) / total, 0.0)

        def begin(target: int, problem: LinearProblem) -> tuple[Stop, Model | None]:
            epochs = MAX_ITER if est.max_iter is None else est.max_iter
            steepest, floor = gradient_at_zero(problem), squares.rounding(target)
            stop = Stop(epochs=epochs, gradient=max(est.tol * steepest, floor), give_up=finish)
            # a start is looked at before anybody moves: zeros that are good already are kept
            return stop, zeros(problem) if steepest <= floor else None

        coef, intercept, reports = fit_targets(
            self, squares, state, begin, draws=est.solver != "auto"
        )
        several = np.ndim(y) > 1
        self.coef_ = coef if several and len(coef) > 1 else coef[0]
        est.intercept_ = intercept if several else intercept[0]
        if not est.fit_intercept:
            est.intercept_ = 0.0
        est.n_iter_ = np.array([report.n_epochs for report in reports], np.int32)
        est.solver_ = solver_names(reports)
        self.report_ = reports[0] if len(reports) == 1 else reports
        failed = next((report for report in reports if not report.converged), None)
        if failed is None:
            return
        if not finish:
            warn_unless_converged(failed, ADVICE, stacklevel=5)
            return
        names = est.solver_
        _BaseRidge.fit(est, X, y, sample_weight=sample_weight)
        est.solver_ = f"{names}, {est.solver_}"
        failed.notes.append(
            f"the fit was done by scikit-learn's {est.solver_.split(', ')[-1]!r} in the end, "
            f"because {failed.stop_reason}"
        )


class Ridge(RidgeMixin, _Ridge):
    """Least squares with an l2 penalty, on every core where that pays.

    A drop-in replacement of `sklearn.linear_model.Ridge`, and a subclass of it: the same problem,
    ``|y - Xw|^2 + alpha |w|^2``, parameters, defaults and attributes, plus `n_jobs`, `plane`,
    `barrier`, `runtime` and `report_`.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Factor of the penalty; an array has one for each target.

    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.

    copy_X : bool, default=True
        For scikit-learn's solvers; the workers never write to `X`.

    max_iter : int or None, default=None
        Passes over the rows (epochs) at the most for each target; None is 1000. For
        scikit-learn's solvers as there.

    tol : float, default=1e-4
        The workers end when the largest component of the gradient is at most `tol` times what it
        is where all coefficients are zero, which is the criterion of 'sparse_cg' in the maximum
        norm. For scikit-learn's solvers as there.

    solver : {'auto', 'svd', 'cholesky', 'lsqr', 'sparse_cg', 'sag', 'saga', 'lbfgs'}, \
            default='auto'
        'auto', 'sag' and 'saga' are the workers, with whichever of dual coordinate ascent and SAGA
        suits the rows; with 'auto', rows of which there are at most 400, or that have at most 400
        features, are left to scikit-learn's 'auto' ('cholesky', which is exact and faster there,
        for dense rows), unless a `runtime` is named. 'auto' also lets scikit-learn finish where
        the workers foresee that `max_iter` epochs will not do. The other names are scikit-learn's
        own solvers.

    positive : bool, default=False
        Whether coefficients must not be negative; scikit-learn's 'lbfgs' does that.

    random_state : int, RandomState or None, default=None
        Of the row order. None is the same order in every call where scikit-learn's solver of that
        name draws nothing, so that fits by one worker are repeatable.

    n_jobs : int or None, default=None
        Workers that fit the model together; see `LogisticRegression`.

    plane : "shared", Shared or None, default="shared"
        Where the model lives while several workers fit it. "shared" (and None) is
        ``hogshare.Shared()``: private copies that are exchanged. ``Shared(exchange=None)`` is
        refused.

    barrier : Barrier or callable, default=None
        When a worker may go on after a block of rows: `ASP` (and None: nobody waits), `BSP`, `SSP`,
        `PBSP`, `PSSP`, `Fraction`, `Throttled`, or a function ``(table, me) -> bool``; see
        `hogshare.barriers`. One worker alone never waits.

    runtime : {"auto", "caller", "threads", "processes"}, default="auto"
        Who runs the workers.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.

    intercept_ : float or ndarray of shape (n_targets,)
        Intercepts.

    n_iter_ : None or ndarray of shape (n_targets,)
        Epochs for each target; None after a solver that has no iterations.

    solver_ : str
        What fitted the model: 'sdca', 'saga', or the name of a solver of scikit-learn's.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during `fit`, where `X` has names that are all strings.

    report_ : Report, list of Report or None
        How the workers' run went, one for each target; None where scikit-learn did it all.

    See Also
    --------
    ElasticNet : With an l1 part.

    Notes
    -----
    Sparse rows with an intercept are accepted with 'saga' too, which scikit-learn refuses.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from hogshare import Ridge
    >>> X, y = make_regression(2000, 500, noise=1.0, random_state=0)
    >>> model = Ridge(n_jobs=-1, random_state=0).fit(X, y)
    >>> model.coef_.shape, model.solver_
    ((500,), 'saga')
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_Ridge._parameter_constraints,
        **CONSTRAINTS,
    }

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            copy_X=copy_X,
            max_iter=max_iter,
            tol=tol,
            solver=solver,
            positive=positive,
            random_state=random_state,
        )
        self.n_jobs = n_jobs
        self.plane = plane
        self.barrier = barrier
        self.runtime = runtime

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. float32 and float64 are kept.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows. The workers refuse negative ones.

        Returns
        -------
        self : Ridge
        """
        self.report_ = None
        require_workers(self)
        if not self._is_for_workers(X):
            check_sparse(X)
            super().fit(X, y, sample_weight=sample_weight)
            return self
        X, y, seen = check_rows(self, X, y, sizes=True, multi_output=True, y_numeric=True)
        self._fit_by_workers(X, y, sample_weight, seen)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        tags.non_deterministic = self.n_jobs not in (None, 1)
        return tags


class RidgeClassifier(RidgeMixin, _RidgeClassifier):
    """Classifier by least squares on targets -1 and 1 with an l2 penalty.

    A drop-in replacement of `sklearn.linear_model.RidgeClassifier`, and a subclass of it: the same
    problem, parameters, defaults and attributes, plus `n_jobs`, `plane`, `barrier`, `runtime` and
    `report_`. See `Ridge` for what the workers do and what scikit-learn's solvers do.

    Parameters
    ----------
    alpha : float, default=1.0
        Factor of the penalty.

    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.

    copy_X : bool, default=True
        For scikit-learn's solvers; the workers never write to `X`.

    max_iter : int or None, default=None
        As in `Ridge`.

    tol : float, default=1e-4
        As in `Ridge`.

    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes, multiplied with those of the rows.

    solver : {'auto', 'svd', 'cholesky', 'lsqr', 'sparse_cg', 'sag', 'saga', 'lbfgs'}, \
            default='auto'
        As in `Ridge`.

    positive : bool, default=False
        Whether coefficients must not be negative; scikit-learn's 'lbfgs' does that.

    random_state : int, RandomState or None, default=None
        Of the row order.

    n_jobs : int or None, default=None
        Workers that fit the model together; see `LogisticRegression`.

    plane : "shared", Shared or None, default="shared"
        Where the model lives while several workers fit it. "shared" (and None) is
        ``hogshare.Shared()``: private copies that are exchanged. ``Shared(exchange=None)`` is
        refused.

    barrier : Barrier or callable, default=None
        When a worker may go on after a block of rows: `ASP` (and None: nobody waits), `BSP`, `SSP`,
        `PBSP`, `PSSP`, `Fraction`, `Throttled`, or a function ``(table, me) -> bool``; see
        `hogshare.barriers`. One worker alone never waits.

    runtime : {"auto", "caller", "threads", "processes"}, default="auto"
        Who runs the workers.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients.

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.

    n_iter_ : None or ndarray of shape (n_targets,)
        Epochs for each class; None after a solver that has no iterations.

    classes_ : ndarray of shape (n_classes,)
        The labels.

    solver_ : str
        What fitted the model; see `Ridge`.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during `fit`, where `X` has names that are all strings.

    report_ : Report, list of Report or None
        How the workers' run went, one for each class; None where scikit-learn did it all.

    See Also
    --------
    LogisticRegression : With probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from hogshare import RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RidgeClassifier().fit(X, y)  # few features: solved exactly
    >>> model.solver_, bool(model.score(X, y) > 0.95)
    ('cholesky', True)
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_RidgeClassifier._parameter_constraints,
        **CONSTRAINTS,
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        class_weight: Any = None,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            copy_X=copy_X,
            max_iter=max_iter,
            tol=tol,
            class_weight=class_weight,
            solver=solver,
            positive=positive,
            random_state=random_state,
        )
        self.n_jobs = n_jobs
        self.plane = plane
        self.barrier = barrier
        self.runtime = runtime

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. float32 and float64 are kept.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows. The workers refuse negative ones.

        Returns
        -------
        self : RidgeClassifier
        """
        self.report_ = None
        require_workers(self)
        check_sparse(X)
        if not self._is_for_workers(X):
            super().fit(X, y, sample_weight=sample_weight)
            return self
        X, y, weight, targets = self._prepare_data(X, y, sample_weight, "saga")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if not sp.issparse(X):
            X = np.ascontiguousarray(X)
        self._fit_by_workers(X, targets, weight)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.n_jobs not in (None, 1)
        return tags
