"""A check that columns have similar scales; schedules with a single step size need this."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.rules import step_schedules
from hogshare.system.callers import warn
from hogshare.system.interrupts import errstate

MOST = 100.0  # ratio of two columns' scales above which no single step size suits both
VALUES = 20_000  # values to read, which takes a tenth of a millisecond
FEW_ROWS, FEW_VALUES = 64, 16  # fewest rows to read, and fewest values that give a scale
SCHEDULES = ("constant", "optimal", "invscaling", "adaptive")  # passive-aggressive steps adapt
assert set(SCHEDULES) < set(step_schedules.CODES)


class UnlikeColumns(UserWarning):
    """Columns differ too much in scale for a single step size."""


def unlike(X: Any) -> tuple[float, int, int] | None:
    """Return the largest ratio of two columns' scales, and these columns; None if acceptable.

    A column's scale is the root mean square of its nonzero values. The scale of a rare word's
    column is therefore not smaller than others. The function reads only a sample of the values,
    taken from all rows.
    """
    n_columns = X.shape[1]
    if sp.issparse(X):
        X = X.tocsr()
        places: Any = slice(X.nnz)
        if X.nnz > VALUES:  # drawn, since a fixed stride may read a single column if rows are alike
            places = np.random.default_rng(0).integers(0, X.nnz, VALUES)
        values, columns = X.data[places].astype(np.float64), X.indices[places]
        counts = np.bincount(columns[values != 0.0], minlength=n_columns)
        with errstate(over="ignore"):
            squares = np.bincount(columns, np.square(values), minlength=n_columns)  # may overflow
    else:
        n_some = max(FEW_ROWS, VALUES // max(1, n_columns))
        some = np.asarray(X[:: max(1, len(X) // n_some)], np.float64)
        counts = np.count_nonzero(some, axis=0)
        with errstate(over="ignore"):
            squares = np.square(some).sum(axis=0)
    # the scale of a handful of values may be small by chance
    found = np.flatnonzero((counts >= FEW_VALUES) & (squares > 0.0) & (squares < np.inf))
    if not len(found):
        return None
    scales = np.sqrt(squares[found] / counts[found])
    least, largest = int(scales.argmin()), int(scales.argmax())
    ratio = float(scales[largest] / scales[least])
    return (ratio, int(found[largest]), int(found[least])) if ratio > MOST else None


def warn_if_unlike(estimator: Any, X: Any) -> None:
    """Warn if the columns of checked rows differ too much for an estimator's schedule."""
    if estimator.learning_rate not in SCHEDULES or (found := unlike(X)) is None:
        return
    ratio, largest, least = found
    names = getattr(estimator, "feature_names_in_", None)
    large, small = (k if names is None else repr(names[k]) for k in (largest, least))
    warn(
        f"Column {large} is {ratio:,.0f} times as large as column {small}, but "
        f"learning_rate={estimator.learning_rate!r} has one step size for all columns. Scale the "
        "columns (StandardScaler, or MaxAbsScaler for sparse rows), or use learning_rate='auto'.",
        UnlikeColumns,
    )
