"""Fits of so few rows that scikit-learn's own solver is as fast as workers.

The choice depends on the rows' shape and the parameters, and not on whether kernels are compiled.
The first call and later calls therefore give the same bits. If scikit-learn fits, nothing is
compiled.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression as _LogisticRegression

from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.column_scales import warn_if_unlike
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.validation import for_scikit_learn
from hogshare.estimators.workers import chooses_runtime
from hogshare.problems.linear.labels import own_type
from hogshare.problems.linear.row_arrays import check_sparse
from hogshare.problems.weights import row_weights
from hogshare.system.clusters import is_collection

MOST_VALUES = 100_000  # with an estimator's defaults both solvers take milliseconds for these
MOST_VISITED = 2e8  # values read in all epochs, in a second or two without handling Ctrl-C
MOST_PARAMS = 200  # for Newton's method, which factors a matrix of this order
NEWTON = "newton-cholesky"
NEWTON_SOLVERS = ("lbfgs", "newton-cg", NEWTON)
TIGHTER = 0.01  # relative to `tol`: it costs one more Newton step, which also makes the gap small
FITTED = ("coef_", "intercept_", "n_iter_", "t_", "classes_", "n_features_in_", "feature_names_in_")
STATES = (  # attributes of an earlier fit by workers, from which `partial_fit` would continue
    "_standard_coef",
    "_standard_intercept",
    "_average_coef",
    "_average_intercept",
    "_run_by",
)


def _shape(X: Any) -> tuple[int, int] | None:
    """Return the shape of rows in memory; None for a Dask collection, and for other input."""
    if is_collection(X):
        return None
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, list | tuple):
        try:
            shape = np.shape(X)
        except ValueError:  # rows of unequal lengths, which the checks refuse later
            return None
    return shape if isinstance(shape, tuple) and len(shape) == 2 else None


def _n_values(X: Any, shape: tuple[int, int]) -> int:
    return int(X.nnz) if sp.issparse(X) else shape[0] * shape[1]


def are_few(X: Any) -> bool:
    """Whether rows are so few that scikit-learn may fit them; such a fit shows no progress."""
    return _n_values(X, X.shape) <= MOST_VALUES


def _n_columns(y: Any) -> int:
    """Return the number of columns of coefficients for labels; 1 if `y` is not labels."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        return 1
    n_classes = len(set(labels.tolist()))
    return 1 if n_classes <= 2 else n_classes


@contextlib.contextmanager
def fitted_by_workers() -> Iterator[None]:
    """Let workers fit few rows within this context, in order to compile their kernels.

    Changes `MOST_VALUES` for all threads of the process.
    """
    global MOST_VALUES
    most, MOST_VALUES = MOST_VALUES, 0
    try:
        yield
    finally:
        MOST_VALUES = most


def _is_ours_to_choose(estimator: Any) -> bool:
    """Whether the parameters leave the choice of the solver to this package."""
    return (
        chooses_runtime(estimator)
        and estimator.plane in (None, "shared")
        and estimator.barrier is None
        and all_rows_of(estimator).is_one
        and not getattr(estimator, "_skl_callbacks", None)
    )


def suit_sgd(estimator: Any, X: Any, y: Any) -> bool:
    """Whether scikit-learn's epochs are as fast as workers, and give the same model as one worker.

    False with early stopping or averages, with which the models differ; the estimators' notes list
    the differences.
    """
    shape = _shape(X)
    if shape is None or not _is_ours_to_choose(estimator):
        return False
    if estimator.early_stopping or estimator.average or estimator.learning_rate == "auto":
        return False
    if estimator._checkpoint is not None or estimator._resume is not None:
        return False
    if _n_values(X, shape) > MOST_VALUES:  # checked first: counting labels takes time
        return False
    n_columns = _n_columns(y) if is_classifier(estimator) else 1
    values = n_columns * (_n_values(X, shape) + shape[0])
    return values <= MOST_VALUES and values * float(estimator.max_iter) <= MOST_VISITED


def fit_sgd(
    estimator: Any, theirs: type, X: Any, y: Any, init: tuple[Any, Any], sample_weight: Any
) -> None:
    """Fit by scikit-learn's class `theirs`, and copy the fitted attributes to `estimator`.

    init : coefficients and intercept from which the fit starts, which are copied; None for zeros

    Raises
    ------
    ValueError
        If rows, targets or weights are not valid, or if the run diverges.
    """
    began = time.perf_counter()
    # scikit-learn's warm start is not used: the estimator has chosen the start `init`
    others = set(theirs().get_params()) - {"n_jobs", "warm_start"}
    inner = theirs(**{name: getattr(estimator, name) for name in others})
    rows = _checked(X, sample_weight)
    # copied, since scikit-learn's steps write to the intercept that they start from
    init = copy.deepcopy(init)
    inner.fit(rows, own_type(y), *init, sample_weight=sample_weight)
    # called before attributes are set, since the user may turn the warning into an error
    warn_if_unlike(inner, _plain(rows))
    for name in (*FITTED, *STATES):
        estimator.__dict__.pop(name, None)
    estimator.__dict__.update({k: getattr(inner, k) for k in FITTED if hasattr(inner, k)})
    by = f"scikit-learn's {theirs.__name__}"
    estimator.report_ = report_of(estimator, by, _reason(rows), began, solver="sgd")


def suit_newton(estimator: Any, X: Any, penalty: str | None, n_classes: int = 2) -> bool:
    """Whether scikit-learn's Newton method, started at zero, is as fast as workers.

    penalty : name of the penalty; None without one
    n_classes : number of classes of a multinomial fit
    """
    shape = _shape(X)
    if shape is None or sp.issparse(X) or not _is_ours_to_choose(estimator):
        return False
    if estimator.warm_start or estimator.verbose or estimator.max_iter < 1:
        return False
    n_params = (shape[1] + 1) * (1 if n_classes <= 2 else n_classes)
    return (
        estimator.solver in NEWTON_SOLVERS
        and penalty in (None, "l2")
        and n_params <= MOST_PARAMS
        and shape[0] * n_params <= MOST_VALUES
    )


def fit_newton(
    estimator: Any, X: np.ndarray, y: np.ndarray, sample_weight: Any, penalty: str | None
) -> bool:
    """Fit checked rows by scikit-learn's Newton method; return whether this has succeeded.

    The method fails if it does not meet `tol`, or if there is no optimum. The estimator is then
    unchanged, and the workers fit; otherwise its attributes are set. The method computes in
    float64, since second derivatives lose digits in float32; rows of float32 are copied.
    """
    began = time.perf_counter()
    weight, alpha = estimator._weights(X, y, sample_weight)
    inner = _LogisticRegression(
        # alpha is relative to the mean loss, and C to the sum of losses
        C=np.inf if penalty is None else 1.0 / (alpha * len(y)),
        tol=TIGHTER * estimator.tol,
        fit_intercept=estimator.fit_intercept,
        solver=NEWTON,
        max_iter=estimator.max_iter,
    )
    X64 = X.astype(np.float64, copy=False)
    try:
        with _unheard():
            inner.fit(X64, y, sample_weight=weight)
    except (Warning, ArithmeticError, np.linalg.LinAlgError):
        return False
    # `not <=` instead of `>`, since the gradient may be NaN
    if not _steepest(inner, X64, y, weight, alpha) <= estimator.tol:
        return False  # a singular matrix, or too few iterations: the workers fit instead
    if penalty is None and inner.score(X64, y) == 1.0:
        return False  # separable classes have no optimum, of which the workers' fit warns
    estimator.coef_ = inner.coef_.astype(X.dtype, copy=False)
    estimator.intercept_ = inner.intercept_.astype(X.dtype, copy=False)
    estimator.n_iter_ = inner.n_iter_
    estimator.solver_ = NEWTON
    estimator.report_ = report_of(
        estimator, f"scikit-learn's {NEWTON!r}", _reason(X), began, converged=True
    )
    return True


def _unheard() -> contextlib.AbstractContextManager[None]:
    """Return a context that suppresses the warnings of a fit that the workers may repeat.

    The filters of warnings belong to the process. If other threads are running, the context
    suppresses nothing.
    """
    if threading.active_count() > 1:
        return contextlib.nullcontext()
    return _ignored()


@contextlib.contextmanager
def _ignored() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _steepest(
    inner: _LogisticRegression, X: np.ndarray, y: np.ndarray, weight: Any, alpha: float
) -> float:
    """Return the largest component of the gradient of the mean loss plus the penalty.

    inner : scikit-learn's fitted estimator
    weight : weights of the rows, with mean 1; None for equal weights
    alpha : the penalty's factor relative to the mean loss
    """
    # derivatives of the log loss with respect to the scores; with two classes, to the second score
    wrong = inner.predict_proba(X) - (y[:, None] == inner.classes_)
    wrong = wrong[:, -len(inner.coef_) :] / len(y)
    wrong = wrong if weight is None else wrong * weight[:, None]
    slopes = [wrong.T @ X + alpha * inner.coef_]
    if inner.fit_intercept:
        slopes.append(wrong.sum(axis=0))
    return max(float(abs(part).max(initial=0.0)) for part in slopes)


def _plain(X: Any) -> Any:
    """Convert dense rows that scikit-learn has accepted to float64; leave sparse rows unchanged."""
    return X if sp.issparse(X) else np.asarray(X, np.float64)


def _checked(X: Any, sample_weight: Any) -> Any:
    """Return rows for scikit-learn's solvers; refuse errors that these solvers would not notice."""
    check_sparse(X)
    if sample_weight is not None:
        row_weights(sample_weight, X, allow_all_zero_weights=True)
    return for_scikit_learn(X)


def _reason(X: Any) -> str:
    n_rows = _shape(X)[0]  # type: ignore[index]
    return f"the {n_rows:,} rows are few: workers would be no faster, and would compile first"
