"""Whether columns' scales do not suit one penalty for all."""

from __future__ import annotations

from typing import Any

VALUES = 200_000  # of the rows that are read


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
