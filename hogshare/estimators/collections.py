"""Lazy predictions for Dask collections, with one task per partition; no row moves.

The methods of all estimators that predict accept collections. They return a Dask array, which any
scheduler computes on demand. `score` computes at once and returns a number.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.system.callers import warn
from hogshare.system.clusters import (
    delayed,
    is_collection,
    pieces,
    row_blocks,
    rows_of,
    settle_releases,
)

METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score",
)


def take_collections(cls: type) -> None:
    """Make the predicting methods of an estimator's class accept Dask collections."""
    for name in METHODS:
        found = inspect.getattr_static(cls, name, None)
        if found is None or getattr(found, "takes_collections", False):
            continue
        method = _taking(name, found)
        if not inspect.isfunction(found):  # available with some parameters only
            method = available_if(found.check)(method)
        method.takes_collections = True
        setattr(cls, name, method)


def _taking(name: str, found: Any) -> Any:
    """Return a wrapper of a predicting method that applies the method to a collection's blocks."""

    @functools.wraps(found if inspect.isfunction(found) else found.fn)
    def call(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_collection(X):
            if name == "score":
                return _score(self, X, *args, **kwargs)
            return lazily(self, name, X, *args, **kwargs)
        return found.__get__(self, type(self))(X, *args, **kwargs)

    return call


def lazily(estimator: Any, name: str, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a method's result for the rows of a collection, as a Dask array.

    Columns of data frames may be in any order if their names are the names in the fit.

    args, kwargs : further arguments of the method

    Raises
    ------
    NotFittedError, ValueError, TypeError
        If the estimator is not fitted, if `X` has other columns than in the fit, or if the method
        does not take the arguments.
    """
    check_is_fitted(estimator)
    # a prediction for one row gives the dtype and the number of columns of the Dask array
    how = args, kwargs
    like = _call(estimator, name, _one_row(estimator, X), how=how)[:0]
    model = delayed(_itself, _bare(estimator))
    parts = [delayed(_call, model, name, block, like, how) for block in row_blocks("X", X)]
    return rows_of(parts, X, like)


def _score(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """Return the accuracy or R2 of all rows, computed from sums over the partitions.

    Raises ValueError if there are no rows, if all weights are zero, or if the targets or weights of
    a partition are not valid.
    """
    check_is_fitted(estimator)
    if not (is_classifier(estimator) or is_regressor(estimator)):
        raise TypeError(
            f"score of {type(estimator).__name__} takes no Dask collection: give it an array."
        )
    others = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    for name, one in others.items():
        require_unmasked(name, one)
    model = delayed(_itself, _bare(estimator))
    sums = [
        delayed(_sums, model, *blocks) for blocks in zip(*pieces(X, **others).values(), strict=True)
    ]
    settle_releases()
    found: np.ndarray = delayed(_together, *sums).compute()
    n_rows, weight, *of_targets = found
    if not np.any(n_rows):
        raise ValueError("Found array with 0 sample(s): no partition of X has rows.")
    if not np.any(weight):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if is_classifier(estimator):
        return float(of_targets[0] / weight)
    if n_rows[0] < 2.0:
        warn("R^2 score is not well-defined with less than two samples.", UndefinedMetricWarning)
        return float("nan")
    _, spread, misses = of_targets
    # as in scikit-learn: R2 of constant targets is 1 if all predictions are exact, else 0
    hit = np.where(misses > 0.0, 0.0, 1.0)
    shares = np.divide(misses, spread, out=1.0 - hit, where=spread > 0.0)
    return float(np.mean(1.0 - shares))


def _sums(model: Any, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
    """Return a partition's sums for a score.

    The first two are the number of rows and the sum of their weights. For a classifier follows the
    sum of the weights of correct predictions. For a regressor follow, for each target, the mean,
    the sum of squares about the mean, and the sum of squared errors.
    """
    # not at the top, where it would load the solver
    from hogshare.partitioned.partition_blocks import row_weights_of, targets_of

    n_rows = X.shape[0]
    y = targets_of(y, n_rows)
    weight = np.ones(n_rows)
    if sample_weight is not None:
        weight = row_weights_of(sample_weight, X, np.float64)
    found = _call(model, "predict", X, y[:0])
    y, found = (one if one.ndim > 1 else one[:, np.newaxis] for one in (y, found))
    if found.shape != y.shape:
        raise ValueError(
            f"y has {y.shape[1]} columns, and {type(model).__name__} predicts {found.shape[1]}: "
            "pass as many targets as in fit."
        )
    total = weight.sum()
    if is_classifier(model):
        return np.array([n_rows, total, weight @ (found == y).all(axis=1)])
    y, found = y.astype(np.float64), found.astype(np.float64)
    mean = weight @ y / total if total > 0.0 else np.zeros(y.shape[1])
    misses = weight @ np.square(y - found)
    counts = np.full_like(mean, n_rows), np.full_like(mean, total)
    return np.stack([*counts, mean, weight @ np.square(y - mean), misses])


def _together(*sums: np.ndarray) -> np.ndarray:
    """Return the sums over all partitions, from the sums that `_sums` returns for each."""
    if sums[0].ndim == 1:
        return np.sum(sums, axis=0)
    whole = sums[0]
    for part in sums[1:]:  # differences of means avoid cancellation (Chan, Golub, LeVeque 1983)
        (rows, n, mean, spread, misses), (others, m, other, more, missed) = whole, part
        shift, total = other - mean, np.maximum(n + m, np.finfo(float).tiny)
        spread = spread + more + shift**2 * n * m / total
        whole = np.stack([rows + others, n + m, mean + shift * m / total, spread, misses + missed])
    return whole


def _call(
    model: Any,
    name: str,
    rows: Any,
    like: np.ndarray | None = None,
    how: tuple[tuple[Any, ...], dict[str, Any]] = ((), {}),
) -> np.ndarray:
    """Return a method's result for a block of rows; for an empty block return `like`.

    like : empty result with the dtype and the number of columns
    how : further positional and keyword arguments of the method
    """
    rows = _in_order(model, rows)
    if like is not None and not rows.shape[0]:
        return like
    method: Callable[..., Any] = getattr(model, name)
    args, kwargs = how
    return np.asarray(method(rows, *args, **kwargs))


def _in_order(model: Any, rows: Any) -> Any:
    """Return rows with columns in the order of the fit, if the names are the same in any order."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(rows, "columns") or list(rows.columns) == list(names):
        return rows
    return rows[list(names)] if set(rows.columns) == set(names) else rows


def _one_row(estimator: Any, X: Any) -> Any:
    """Return a row of zeros with the type and columns of X."""
    n_features = X.shape[1] if X.ndim > 1 else 1
    if isinstance(n_features, float) and isnan(n_features):
        n_features = estimator.n_features_in_
    row = np.zeros((1, int(n_features)), getattr(X, "dtype", np.float64))
    if hasattr(X, "columns"):
        row = type(X._meta)(row, columns=list(X.columns))
    return row


def _bare(estimator: Any) -> Any:
    """Return a shallow copy of an estimator without its report, which predictions do not need."""
    bare = copy.copy(estimator)
    vars(bare).pop("report_", None)
    return bare


def _itself(thing: Any) -> Any:
    return thing
