"""Whether columns are so unlike in scale that steps by a schedule do not come to a model."""

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
