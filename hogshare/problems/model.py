"""The state of a linear model, which is the start and the result of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.kernels.rows.sums import squares
from hogshare.problems.kernel_arrays import FLOATS, frozen
from hogshare.system.interrupts import errstate


@dataclass(frozen=True)
class Model:
    """Coefficients of a linear model, and their step counter.

    Attributes
    ----------
    coef : ndarray of shape (n_columns, n_features)
        Last iterate: one row for a binary or regression problem, otherwise one row for each class.
        In memory, the result of a run is ordered feature by feature, so its transpose is
        contiguous.
    intercept : ndarray of shape (n_columns,)
        Last iterate.
    t : float
        Step counter: 1 plus the number of rows visited so far.
    average_coef, average_intercept : ndarray or None
        Mean of the iterates since averaging began, if requested.
    memory : ndarray of shape (n_rows, n_columns), mapping of str to ndarray, or None
        Memory of `SAGA` and `SDCA`: for each row of the problem, the derivative of the row's loss
        at the row's last visit. For SDCA these are the dual variables with the opposite sign. A run
        that starts from the model on the same rows continues with this memory. For a problem with a
        gradient function, the memory is the rule's state of each worker, by name.

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
    memory: Any = None

    def is_finite(self, squares: float = math.inf) -> bool:
        """Return whether all values of the last iterate, and of the average if any, are finite.

        squares : float, default=inf
            The sum of the squares of `coef`, if known; if it is finite, `coef` is not read.
        """
        parts = (self.coef, self.intercept, self.average_coef, self.average_intercept)
        unknown = parts[1:] if math.isfinite(squares) else parts
        return all(_is_finite(part) for part in unknown if part is not None)

    def is_zero(self) -> bool:
        """Return whether all values of the last iterate are zero."""
        return not (np.asarray(self.coef).any() or np.asarray(self.intercept).any())


@dataclass(frozen=True)
class Handed(Model):
    """A start whose arrays the run overwrites; the arrays become the run's result.

    An estimator passes its own model in this form, because `partial_fit` would otherwise copy the
    whole model to change a small part of it. The arrays must satisfy `in_place`: they have the
    dtype of the rows, and `coef` and `average_coef` are ordered in memory as in the engine, feature
    by feature.
    """


def columns_last(coef: np.ndarray) -> np.ndarray:
    """Return coefficients (n_columns, n_features) as an engine's vector, a view if possible."""
    return np.asarray(coef).T.reshape(-1)


def as_coef(vector: np.ndarray, n_columns: int) -> np.ndarray:
    """Return an engine's vector as a view of shape (n_columns, n_features)."""
    return vector.reshape(-1, n_columns).T


def in_place(coef: np.ndarray, dtype: np.dtype) -> bool:
    """Return whether a run on rows of type `dtype` can continue in these coefficients' memory."""
    flags = coef.T.flags
    usable = flags.c_contiguous and flags.writeable and flags.aligned
    return type(coef) is np.ndarray and coef.dtype == dtype and usable


def sum_of_squares(part: np.ndarray) -> float:
    """Sum the squares of a part of a model; if the part is contiguous, do not copy it."""
    if type(part) is not np.ndarray or part.dtype not in FLOATS:
        return float(np.square(part, dtype=np.float64).sum())
    return float(squares(frozen(columns_last(part))))


def _is_finite(part: np.ndarray) -> bool:
    with errstate(all="ignore"):
        return math.isfinite(sum_of_squares(part)) or bool(np.isfinite(part).all())


def shrunk(coef: np.ndarray, threshold: float) -> np.ndarray:
    """Shrink coefficients towards zero; this maps the vector of the dual rule to its model."""
    if threshold == 0.0:
        return coef
    sizes = np.maximum(np.abs(coef) - coef.dtype.type(threshold), 0.0)
    return np.copysign(sizes, coef).astype(coef.dtype)
