"""`LogisticRegression`: scikit-learn's estimator, fitted by workers, then by full batches."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.callback import CallbackSupportMixin
from sklearn.linear_model import LogisticRegression as _LogisticRegression
from sklearn.linear_model._logistic import _check_solver

from hogshare.engine.convergence_checks import Checks
from hogshare.engine.stops import Stop
from hogshare.estimators import few_rows
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.convergence_warnings import (
    ADVICE,
    warn_of_what_is_left,
    warn_without_optimum,
)
from hogshare.estimators.epoch_tasks import EpochTasks
from hogshare.estimators.fits import fits
from hogshare.estimators.linear_models import LinearClassifier, ToTheOptimum
from hogshare.estimators.parameters import LOGISTIC_WORDS
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.validation import check_rows, classes_of, weights_of_part
from hogshare.estimators.workers import (
    Shape,
    chooses_runtime,
    constraints_of,
    may_choose_runtime,
    require_workers,
    strength,
    to_the_optimum,
    warn_unconverged,
    warn_unless_converged,
    with_mean_one,
)
from hogshare.kernels.rows.survey import Survey
from hogshare.optimum.full_batch import Finish, finish, method_for
from hogshare.problems.linear import build
from hogshare.problems.linear.labels import own_type
from hogshare.problems.linear.optimality import Optimality
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import class_weights
from hogshare.report import Report
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.pool import each_by
from hogshare.system.callers import warn
from hogshare.system.clusters import is_collection

FINISHERS = ("lbfgs", "newton-cg", "newton-cholesky", "liblinear")
SHARE = 4  # ``1 / SHARE`` of `max_iter` is reserved for Newton's method
NO_FINISHER = "Increase max_iter, or scale the data (StandardScaler)."
OTHERWISE = (
    " With runtime='auto' and any solver but 'sag' and 'saga', Newton's method finishes the fit if "
    "the workers stop making progress."
)


def may_be_finished(estimator: Any) -> bool:
    """Whether a full-batch method may continue from the workers' model."""
    is_ours = chooses_runtime(estimator) or not all_rows_of(estimator).is_one
    return estimator.solver in FINISHERS and is_ours


def epochs_of(estimator: Any, problem: RowProblem) -> int:
    """Return the workers' maximum number of epochs, which reserves iterations for Newton's method.

    No iterations are reserved for L-BFGS: a few of its iterations gain less than as many epochs.
    """
    most = int(estimator.max_iter)
    if not may_be_finished(estimator) or method_for(problem, estimator.solver) == "lbfgs":
        return most
    return most - most // SHARE


def go_on(estimator: Any, problem: RowProblem, report: Report, stop: Stop) -> Finish:
    """Continue from the workers' model by a full-batch method, for the remaining iterations.

    report : the report of the workers' run
    stop : the criteria at which to stop
    """
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


def warn_unless_good(problem: RowProblem, model: Model, stop: Stop) -> None:
    """Warn that a fit with ``max_iter=0`` has not converged, unless its start meets `stop`."""
    checks = Checks(problem, stop, settles=False)
    checks.note(0, Optimality(problem, model))
    if not checks.met:
        warn_unconverged(f"after 0 epochs {checks.sentence()}. Increase max_iter.")


DRAWS = ("liblinear", "sag", "saga")
GAP_SHARE = 500.0  # required relative duality gap, in units of tol: 1/20 with the default tol


class LogisticRegression(LinearClassifier, ToTheOptimum, _LogisticRegression):
    """Logistic regression to a tolerance, on every core.

    A drop-in replacement for `sklearn.linear_model.LogisticRegression`, and a subclass of it. The
    problem, parameters, defaults and attributes are the same, except that `n_jobs` workers fit one
    model together. `plane`, `barrier`, `runtime`, `solver_` and `report_` are added. Two classes
    are fitted by dual coordinate ascent or SAGA, and three or more classes by SAGA on the
    multinomial loss, until the gradient is at most `tol`.

    Parameters
    ----------
    penalty : {'l1', 'l2', 'elasticnet', None}, default='deprecated'
        Deprecated in scikit-learn 1.8; use `C` and `l1_ratio`.

    C : float, default=1.0
        Inverse of regularization strength: the objective is ``C * sum of losses + penalty``.
        ``C=np.inf`` means no penalty.

    l1_ratio : float, default=0.0
        The Elastic-Net mixing parameter, ``0 <= l1_ratio <= 1``: 0 is an l2 penalty, 1 is an l1
        penalty, and a value between them is a combination. An l1 penalty sets coefficients to
        exactly zero.

    dual : bool, default=False
        Accepted with ``solver='liblinear'`` and an l2 penalty. It has no effect, because the
        optimum is the same.

    tol : float, default=1e-4
        Tolerance for the stopping criteria. First, the largest component of the gradient of the
        mean objective (with l1, of the gradient mapping) must be at most `tol`; each component is
        in the unit of its feature. Second, with a penalty, the duality gap relative to the
        objective must be at most ``500 * tol``. Both are evaluated at the model itself, by passes
        over all rows. On features of the same size the first criterion is scikit-learn's criterion
        for 'lbfgs'. The formula is in `hogshare.Stop`.

    intercept_scaling : float, default=1
        With ``solver='liblinear'``, the constant value of a synthetic feature, appended to each
        row. The intercept is this value times the feature's coefficient, which is penalized.

    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; a row's weight is multiplied by its class's weight.

    random_state : int, RandomState or None, default=None
        Determines the order of the rows. With one worker an int gives the same model bit for bit in
        every call. None also gives the same model in every call, except with 'liblinear', 'sag' and
        'saga', which also draw random numbers in scikit-learn.

    solver : {'lbfgs', 'liblinear', 'newton-cg', 'newton-cholesky', 'sag', 'saga'}, default='lbfgs'
        All of scikit-learn's names are accepted, each with the penalties that scikit-learn accepts
        for it. The workers solve the problem with every name. The problem is the same for all
        names but 'liblinear', which means a problem with a penalized intercept. If the workers
        foresee that `max_iter` epochs will not suffice, a full-batch method continues from their
        model until it meets `tol`. This method is 'newton-cg' or 'newton-cholesky' if `solver`
        names it; otherwise it is one of these two or 'lbfgs', whichever suits the rows. No method
        continues if `solver` is 'sag' or 'saga', or if a `runtime` is named. `solver_` names the
        methods that fitted the model.

    max_iter : int, default=100
        Maximum number of passes over the rows (epochs), plus iterations of a method that finishes
        the fit; `n_iter_` never exceeds it. A quarter is reserved for Newton's method. If the
        fit has not met `tol` after these, it ends with a `ConvergenceWarning`. With 0 nothing is
        fitted.

    verbose : int, default=0
        If positive, print the model's norm, nonzeros, intercept and objective after each epoch (for
        a Dask collection, after each iteration).

    Attributes
    ----------
    n_iter_ : ndarray of shape (1,)
        Number of completed epochs plus iterations of a method that finished the fit: at most
        `max_iter`.

    solver_ : str
        The methods that fitted the model: 'sdca' or 'saga', then a method that finished the fit, as
        in 'saga, newton-cholesky'. Few dense rows with few features (up to 200 coefficients, and
        rows times coefficients up to 100,000) are fitted by scikit-learn's 'newton-cholesky' alone,
        unless `runtime`, `plane` or `barrier` asks for workers.

    report_ : Report or SolverReport
        The report of the workers' run: workers, epochs, convergence checks, settings, notes. If
        another method finished the fit, the report's model, last check and stop reason are those of
        the whole fit. It is a `SolverReport` if scikit-learn fitted the model, and with
        ``max_iter=0``, which runs nothing.

    See Also
    --------
    SGDClassifier : A rough model in fewer and cheaper epochs; other losses and `partial_fit`.

    Notes
    -----
    - scikit-learn's callbacks are supported for every solver, with a task per epoch of the workers.
    - With more than one worker a fit is repeatable only up to `tol`; the tag ``non_deterministic``
      is then True.
    - Without a penalty (``C=np.inf``) separable classes have no optimum. `tol` ends the fit, which
      gives a `ConvergenceWarning` if the model separates the classes.

    Sources: see `hogshare.SDCA` and `hogshare.SAGA`; ``docs/logistic.md`` has measurements.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hogshare import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression(n_jobs=-1, random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.98)
    True
    >>> model[-1].solver_  # few rows: with runtime="threads" it is 'sdca'
    'newton-cholesky'
    """

    _parameter_constraints = constraints_of(_LogisticRegression)
    _words = LOGISTIC_WORDS

    def __init__(
        self,
        penalty: Any = "deprecated",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        dual: bool = False,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "lbfgs",
        max_iter: int = 100,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    def set_callbacks(self, *callbacks: Any) -> LogisticRegression:
        """Set scikit-learn's callbacks, whose tasks are the workers' epochs with every solver.

        Parameters
        ----------
        *callbacks : callback instances

        Returns
        -------
        self : LogisticRegression
        """
        # scikit-learn's own method warns of solvers that this class does not use
        CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. float32 and float64, dense in C order or CSR, are used without a copy. A Dask
            array or data frame is fitted in place by the workers of a `dask.distributed.Client`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, multiplied by the weights of the classes. Negative weights, which
            scikit-learn accepts, are refused, because the problem may then have no solution.
        """
        require_workers(self)
        penalty = resolve_penalty(self)
        _check_solver(self.solver, penalty, self.dual)
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_logistic

            fit_logistic(self, X, y, sample_weight, penalty)
            return self
        few = few_rows.suit_newton(self, X, penalty)
        X, y, seen = check_rows(self, X, own_type(y), sizes=not few)
        classes = all_rows_of(self).labels(classes_of(y))
        self._check_classes(classes)
        if sample_weight is not None:
            weights_of_part(all_rows_of(self), sample_weight, X)
        self.classes_ = classes  # after the checks: refused input must leave the model unchanged
        few = few and few_rows.suit_newton(self, X, penalty, len(self.classes_))
        if few and few_rows.fit_newton(self, X, y, sample_weight, penalty):
            return self
        self._fit_rows(X, y, sample_weight, penalty, seen=seen)
        return self

    def _fit_rows(
        self,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
        penalty: str | None,
        start: Model | None = None,
        seen: Survey | None = None,
    ) -> Model | None:
        """Fit checked rows, whose labels are among `classes_`, and set the fitted attributes.

        Returns the model, with the rule's row memory, for the next call; None if nothing was run.

        start : the result of an earlier call for the same rows and another `C`; None to start from
            the last solution with `warm_start`, and from zero otherwise
        seen : the survey from checking the rows
        """
        weight, alpha = self._weights(X, y, sample_weight)
        rows, scaling = self._rows(X)
        problem = build(
            rows,
            y,
            loss="multinomial",
            penalty=penalty if alpha > 0.0 else None,
            alpha=alpha,
            l1_ratio=self.l1_ratio or 0.0,
            fit_intercept=self.fit_intercept and not scaling,
            epsilon=0.0,
            sample_weight=weight,
            class_weight=None,
            classes=self.classes_,
            seen=seen if rows is X else None,
        )
        start = self._start(problem) if start is None else start
        whole = all_rows_of(self).whole(problem)

        def attributes(model: Model) -> dict[str, Any]:
            return self._fitted(model, scaling)

        tasks = EpochTasks(self, problem, X, y, sample_weight, self.max_iter, attributes)
        tasks.begin(start)
        may_go_on = may_be_finished(self)
        stop = self._stop(problem, epochs_of(self, whole), may_go_on)
        if self.max_iter == 0:
            self._set_attributes(attributes(start), 0, "none")
            reason = "max_iter=0 leaves the model as it starts"
            self.report_ = report_of(self, "", reason, time.perf_counter(), False)
            tasks.end(None)
            warn_unless_good(whole, start, stop)
            return None
        # a zero model without row memory needs no check before the first epoch
        begun = start.memory is not None or not start.is_zero()
        report = to_the_optimum(
            self,
            problem,
            stop,
            start if begun else None,
            tasks if tasks.wanted else None,
            draws=self.solver in DRAWS,
        )
        name = report.settings["rule"]["name"].lower()
        self._set_attributes(attributes(report.model), report.n_epochs, name)
        self.report_ = summary = report.without_memory()
        tasks.end(report)
        if tasks.stopped:
            return report.model
        left = self.max_iter - report.n_epochs
        if report.converged or not may_go_on or left == 0:
            otherwise = OTHERWISE if may_choose_runtime(self) else ""
            advice = ADVICE if may_go_on else f"{NO_FINISHER}{otherwise}"
            warn_unless_converged(report, advice)
            warn_without_optimum(whole, report.model)
            return report.model
        finished = go_on(self, whole, report, stop)
        count = sum(finished.iterations.values())
        names = ", ".join([name, *finished.iterations])
        self._set_attributes(attributes(finished.model), report.n_epochs + count, names)
        self.report_ = summary = with_finish(summary, finished)
        if not summary.converged:
            what = f"after {summary.n_epochs} epochs {summary.stop_reason}"
            warn_of_what_is_left(what, count, left, problem)
        warn_without_optimum(whole, finished.model)
        return finished.model

    def _reads_parts(self, n_features: int) -> bool:
        """Whether each of several ranks without shared memory needs only its own rows."""
        return True

    def _stop(self, problem: RowProblem, epochs: int, may_give_up: bool) -> Stop:
        """Return the criteria: scikit-learn's for lbfgs, and the gap if the problem has a dual.

        If features are small, the largest component of the gradient is not a sufficient criterion:
        on text with C = 100 it is below 1e-4 when the objective is three times its minimum.
        """
        gap = GAP_SHARE * self.tol if problem.penalty is not None and problem.alpha > 0.0 else None
        return Stop(epochs=max(1, epochs), gradient=self.tol, relative_gap=gap, give_up=may_give_up)

    def _check_classes(self, classes: np.ndarray) -> None:
        """Refuse classes that scikit-learn refuses, with its messages.

        classes : the distinct labels of all rows, sorted
        """
        if self.solver == "liblinear" and len(classes) > 2:
            raise ValueError(
                "The 'liblinear' solver does not support multiclass classification"
                " (n_classes >= 3). Either use another solver or wrap the "
                "estimator in a OneVsRestClassifier to keep applying a "
                "one-versus-rest scheme."
            )
        if len(classes) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {classes.tolist()[0]!r}"
            )

    def _weights(
        self, X: Any, y: np.ndarray, sample_weight: Any
    ) -> tuple[np.ndarray | None, float]:
        """Return weights of the rows with mean 1, and the penalty's factor for these weights.

        scikit-learn's objective is ``C * sum_i weight_i loss_i + penalty``. Divided by C and by the
        sum of the weights, it is the objective of this package,
        ``sum_i weight_i loss_i / n + alpha * penalty`` with weights of mean 1. scikit-learn
        compares the gradient of this quotient with `tol`. The weights are None if all are 1.
        """
        C = np.inf if self.penalty is None else self.C
        everybody = all_rows_of(self)
        if sample_weight is None and self.class_weight is None:
            return None, strength(C, everybody.added(len(y)))
        weight = weights_of_part(everybody, sample_weight, X, copy=True)
        if self.class_weight is not None:
            of_rows = None if sample_weight is None else weight
            by_class = everybody.weights_of_classes(self.class_weight, self.classes_, y, of_rows)
            weight *= class_weights(by_class)[np.searchsorted(self.classes_, y)].astype(X.dtype)
        weight, total = with_mean_one(weight, everybody)
        return weight, strength(C, total)

    def _rows(self, X: Any) -> tuple[Any, float]:
        """Return the rows and the value of liblinear's synthetic feature; 0.0 without the feature.

        With the feature the rows are a copy.
        """
        if self.solver != "liblinear" or not self.fit_intercept:
            return X, 0.0
        scaling = float(self.intercept_scaling)
        column = np.full((X.shape[0], 1), scaling, X.dtype)
        if sp.issparse(X):
            return sp.csr_array(sp.hstack([X, column], format="csr")), scaling
        return np.hstack([X, column]), scaling

    def _start(self, problem: RowProblem | Shape) -> Model:
        """Return the workers' start: zeros, or a copy of the last solution with `warm_start`."""
        shape = problem.n_columns, problem.n_features
        before = getattr(self, "coef_", None) if self.warm_start else None
        if before is None or self.solver == "liblinear":
            return Model(np.zeros(shape, problem.dtype), np.zeros(shape[0], problem.dtype))
        coef = before.toarray() if sp.issparse(before) else np.asarray(before)
        if coef.shape != shape:
            raise ValueError(
                f"Initialization coef is of shape {coef.shape}, expected shape {shape}: with "
                "warm_start=True the classes and features must be those of the previous fit."
            )
        intercept = np.asarray(self.intercept_) * self.fit_intercept
        return Model(coef.astype(problem.dtype), intercept.astype(problem.dtype))

    def _fitted(self, model: Model, scaling: float) -> dict[str, Any]:
        """Return the fitted attributes for a model.

        scaling : value of liblinear's synthetic feature; 0.0 without it
        """
        coef, intercept = model.coef, model.intercept
        if scaling:
            intercept = (scaling * coef[:, -1]).astype(coef.dtype)
            coef = np.ascontiguousarray(coef[:, :-1])
        if len(intercept) > 1:
            # softmax is invariant to a shift of all intercepts; scikit-learn shifts their sum to
            # zero
            intercept = intercept - intercept.mean()
        return {"coef_": coef, "intercept_": intercept}

    def _set_attributes(self, attributes: dict[str, Any], n_iter: int, solver: str) -> None:
        self.__dict__.update(attributes)
        self.n_iter_ = np.asarray([n_iter], dtype=np.int32)
        self.solver_ = solver


def resolve_penalty(estimator: Any) -> str | None:
    """Return the name of the penalty that the parameters stand for; warn as scikit-learn does."""
    est = estimator
    if est.penalty == "deprecated":
        if est.l1_ratio is None:
            warn(
                "'l1_ratio=None' was deprecated in version 1.8 and will trigger an error in 1.10. "
                "Use 0<=l1_ratio<=1 instead.",
                FutureWarning,
            )
        if np.isinf(est.C):
            return None
        return {0.0: "l2", None: "l2", 1.0: "l1"}.get(est.l1_ratio, "elasticnet")
    warn(
        "'penalty' was deprecated in version 1.8 and will be removed in 1.10. To avoid this "
        "warning, leave 'penalty' set to its default value and use 'l1_ratio' or 'C' instead. Use "
        "l1_ratio=0 instead of penalty='l2', l1_ratio=1 instead of penalty='l1', l1_ratio set to "
        "any float between 0 and 1 instead of penalty='elasticnet', and C=np.inf instead of "
        "penalty=None.",
        FutureWarning,
    )
    if est.penalty != "elasticnet" and est.l1_ratio is not None and 0 < est.l1_ratio < 1:
        warn(
            "l1_ratio parameter is only used when penalty is 'elasticnet'. Got "
            f"(penalty={est.penalty})",
        )
    if est.penalty in ("l1", "l2") and est.l1_ratio != {"l1": 1, "l2": 0}[est.penalty]:
        warn(
            f"Inconsistent values: penalty={est.penalty} with l1_ratio={est.l1_ratio}. penalty is "
            "deprecated. Please use l1_ratio only.",
        )
    if est.penalty == "elasticnet" and est.l1_ratio is None:
        raise ValueError("l1_ratio must be specified when penalty is elasticnet.")
    if est.penalty is None and est.C != 1.0:
        warn(
            "Setting penalty=None will ignore the C and l1_ratio parameters",
        )
    return est.penalty
