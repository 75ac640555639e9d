"""A linear model's state: what a run starts from and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Model:
    """Coefficients of a linear model and the step counter that belongs to them.

    Attributes
    ----------
    coef : ndarray of shape (n_columns, n_features)
        Last iterate; one row for a binary or regression problem, one per class otherwise.
    intercept : ndarray of shape (n_columns,)
        Last iterate.
    t : float
        Step counter: 1 plus the number of rows visited so far.
    average_coef, average_intercept : ndarray or None
        Mean of the iterates since averaging began, where it was asked for.
    memory : ndarray of shape (n_rows, n_columns) or None
        What `SAGA` and `SDCA` remember: for every row of the problem the derivative of its loss
        when it was last visited (SDCA's dual variables with their sign turned). A run that starts
        from the model on the same rows goes on with it.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Model
    >>> Model(coef=np.zeros((1, 3)), intercept=np.zeros(1)).is_finite()
    True
    """

    coef: np.ndarray
    intercept: np.ndarray
    t: float = 1.0
    average_coef: np.ndarray | None = None
    average_intercept: np.ndarray | None = None
    memory: np.ndarray | None = None

    def is_finite(self) -> bool:
        """Whether every number of the last iterate is finite, and of an average."""
        parts = (self.coef, self.intercept, self.average_coef, self.average_intercept)
        return all(bool(np.isfinite(part).all()) for part in parts if part is not None)

    def is_zero(self) -> bool:
        """Whether every number of the last iterate is zero."""
        return not (np.asarray(self.coef).any() or np.asarray(self.intercept).any())


def shrunk(coef: np.ndarray, threshold: float) -> np.ndarray:
    """Move every coefficient towards zero: from the dual rule's vector to its model."""
    if threshold == 0.0:
        return coef
    sizes = np.maximum(np.abs(coef) - coef.dtype.type(threshold), 0.0)
    return np.copysign(sizes, coef).astype(coef.dtype)
