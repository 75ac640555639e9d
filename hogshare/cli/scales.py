"""Whether columns' scales do not suit what is fitted: steps of one size, or one penalty for all."""

from __future__ import annotations

from typing import Any

MOST = 100.0  # times by which columns may differ: one step size then suits none of them well
VALUES = 200_000  # of the rows that are read


def unlike(X: Any) -> tuple[float, int, int] | None:
    """By how many times two columns differ most, and which; None if no more than is fit.

    A column's scale is the root mean square of its values that are not zero, so that rare columns,
    such as words, are no smaller than others. Some rows are read, evenly from all.
    """
    import numpy as np
    import scipy.sparse as sp

    n_rows, n_columns = X.shape
    per_row = X.nnz / n_rows if sp.issparse(X) else n_columns
    some = X[:: max(1, int(n_rows * per_row // VALUES))]
    rows = sp.coo_array(some)
    counts = np.bincount(rows.col[rows.data != 0.0], minlength=n_columns)
    squares = np.bincount(rows.col, np.square(rows.data, dtype=np.float64), minlength=n_columns)
    found = np.flatnonzero((counts > 0) & (squares > 0.0))
    if not len(found):
        return None
    scales = np.sqrt(squares[found] / counts[found])
    least, largest = int(scales.argmin()), int(scales.argmax())
    ratio = float(scales[largest] / scales[least])
    return (ratio, int(found[largest]), int(found[least])) if ratio > MOST else None


def shrunk(X: Any, weight: float) -> list[int]:
    """Columns of which the penalty takes more than half, smallest first.

    Of dense rows. A column's coefficient is divided by 1 + weight / (n * variance), as a penalty of
    `weight` * coefficient^2 does it to least squares where columns are at right angles. Columns of
    0 and 1 are left out, as others fit them unscaled, too, and constants. Some rows are read.
    """
    import numpy as np

    n_rows, n_columns = X.shape
    some = X[:: max(1, int(n_rows * n_columns // VALUES))]
    spread = n_rows * np.var(some, axis=0, dtype=np.float64)
    found = np.flatnonzero((spread > 0.0) & (spread < weight))
    found = found[np.argsort(spread[found])]
    return [int(k) for k in found if not np.isin(some[:, k], (0.0, 1.0)).all()]
