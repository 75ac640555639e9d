"""Whether columns' scales suit steps of one size, which scikit-learn's schedules take."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.rules import step_schedules
from hogshare.system.callers import warn
from hogshare.system.interrupts import errstate

MOST = 100.0  # times by which columns may differ: one step size then suits none of them well
VALUES = 20_000  # of the rows that are read: a tenth of a millisecond
FEW_ROWS, FEW_VALUES = 64, 16  # that are read at least, and of which a column's scale is known
SCHEDULES = ("constant", "optimal", "invscaling", "adaptive")  # passive-aggressive steps have none
assert set(SCHEDULES) < set(step_schedules.CODES)


class UnlikeColumns(UserWarning):
    """Columns differ more in scale than steps of one size suit."""


def unlike(X: Any) -> tuple[float, int, int] | None:
    """By how many times two columns differ most, and which; None if no more than is fit.

    A column's scale is the root mean square of its values that are not zero, so that rare columns,
    such as words, are no smaller than others. Some values are read, from all rows.
    """
    n_columns = X.shape[1]
    if sp.issparse(X):
        X = X.tocsr()
        places: Any = slice(X.nnz)
        if X.nnz > VALUES:  # drawn: every so many would be of one column where rows are alike
            places = np.random.default_rng(0).integers(0, X.nnz, VALUES)
        values, columns = X.data[places].astype(np.float64), X.indices[places]
        counts = np.bincount(columns[values != 0.0], minlength=n_columns)
        with errstate(over="ignore"):
            squares = np.bincount(columns, np.square(values), minlength=n_columns)
    else:
        n_some = max(FEW_ROWS, VALUES // max(1, n_columns))
        some = np.asarray(X[:: max(1, len(X) // n_some)], np.float64)
        counts = np.count_nonzero(some, axis=0)
        with errstate(over="ignore"):
            squares = np.square(some).sum(axis=0)
    # of a handful of values one may be small by chance
    found = np.flatnonzero((counts >= FEW_VALUES) & (squares > 0.0) & (squares < np.inf))
    if not len(found):
        return None
    scales = np.sqrt(squares[found] / counts[found])
    least, largest = int(scales.argmin()), int(scales.argmax())
    ratio = float(scales[largest] / scales[least])
    return (ratio, int(found[largest]), int(found[least])) if ratio > MOST else None


def warn_if_unlike(estimator: Any, X: Any) -> None:
    """Say of checked rows that an estimator's schedule does not suit them, if so."""
    if estimator.learning_rate not in SCHEDULES or (found := unlike(X)) is None:
        return
    ratio, largest, least = found
    names = getattr(estimator, "feature_names_in_", None)
    large, small = (k if names is None else repr(names[k]) for k in (largest, least))
    warn(
        f"Column {large} is {ratio:,.0f} times as large as column {small}, and the steps of "
        f"learning_rate={estimator.learning_rate!r} have one size for all columns. Scale the rows "
        "(StandardScaler, MaxAbsScaler for sparse ones), or use learning_rate='auto'.",
        UnlikeColumns,
    )
