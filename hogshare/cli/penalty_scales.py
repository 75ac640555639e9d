"""Columns whose scale does not suit a common penalty."""

from __future__ import annotations

from typing import Any

VALUES = 200_000  # values of a matrix to examine


def shrunk(X: Any, weight: float) -> list[int]:
    """Return the columns whose coefficients the penalty shrinks by more than half, worst first.

    Rows must be dense; a sample of them is examined. The estimate is that the penalty divides a
    coefficient by ``1 + weight / (n * variance)``, with n the number of rows. This holds for least
    squares with orthogonal columns and a penalty of ``weight * coefficient**2``. Columns of 0 and 1
    are left out, since other libraries also fit them unscaled. Constant columns are left out as
    well.
    """
    import numpy as np

    n_rows, n_columns = X.shape
    some = X[:: max(1, int(n_rows * n_columns // VALUES))]
    spread = n_rows * np.var(some, axis=0, dtype=np.float64)
    found = np.flatnonzero((spread > 0.0) & (spread < weight))
    found = found[np.argsort(spread[found])]
    return [int(k) for k in found if not np.isin(some[:, k], (0.0, 1.0)).all()]
