"""When a run ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stop:
    """Stop criterion, applied at the end of an epoch by whichever worker completes it.

    Parameters
    ----------
    epochs : int, default=10
        Passes over the rows at the most.
    tol : float or None, default=None
        Stop when the epoch's mean loss plus penalty (or the score on held-out rows) has not
        improved by `tol` for `patience` epochs in a row. None: never.
    patience : int, default=5
        See `tol` (scikit-learn's ``n_iter_no_change``).
    validation : ndarray of bool of shape (n_rows,) or None, default=None
        Rows that are never trained on; if given, the score on them decides.

    Examples
    --------
    >>> from hogshare import Stop
    >>> Stop(epochs=100, tol=1e-3).patience
    5
    """

    epochs: int = 10
    tol: float | None = None
    patience: int = 5
    validation: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1; got {self.epochs}.")
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1; got {self.patience}.")
        if self.validation is not None:
            mask = np.asarray(self.validation)
            if mask.dtype != bool or mask.ndim != 1:
                raise ValueError("validation must be a one-dimensional mask of booleans.")
