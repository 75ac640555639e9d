"""The flat vector that sites share, and their common decision.

The flat vector concatenates the model and the sums that all sites share:

    coefficients | intercepts | means of the duals | SAGA's average

With SAGA, the part "means of the duals" contains SAGA's mean slopes. Only SAGA has the last part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rules.sgd_steps import DUAL

ORDINARY = (layout.RUNNING, layout.STOPPED_BY_LIMIT)  # stop flags that a site need not announce


class Flat(NamedTuple):
    """The sizes of the vector's parts.

    m : number of coefficients
    columns : number of intercepts, and number of means
    average : length of SAGA's average: m, or 0 without SAGA
    """

    m: int
    columns: int
    average: int

    @classmethod
    def of(cls, session: Session) -> Flat:
        """Return the sizes for a session."""
        return cls(session.size, session.settings.n_columns, len(session.memory.average))

    @property
    def size(self) -> int:
        """The vector's length."""
        return self.m + 2 * self.columns + self.average

    def start(self, session: Session) -> np.ndarray:
        """Return the start of all machines; sums begin at 0, as each machine has its own part."""
        flat = np.zeros(self.size)
        if session.rule.method != DUAL:
            flat[: self.m] = session.vector.w
        flat[self.m : self.m + self.columns] = session.vector.intercept
        return flat

    def coefficients(self, flat: np.ndarray) -> np.ndarray:
        """Return a flat vector's coefficients, as a view."""
        return flat[: self.m]

    def intercepts(self, flat: np.ndarray) -> np.ndarray:
        """Return a flat vector's intercepts, as a view."""
        return flat[self.m : self.m + self.columns]

    def means(self, flat: np.ndarray) -> np.ndarray:
        """Return a flat vector's means, as a view."""
        return flat[self.m + self.columns : self.m + 2 * self.columns]

    def averages(self, flat: np.ndarray) -> np.ndarray:
        """Return a flat vector's average of SAGA, as a view."""
        return flat[self.m + 2 * self.columns :]


class Decision(NamedTuple):
    """The common decision at an epoch's end, which each site computes by itself.

    stop : the reason why the run ends; RUNNING if it continues
    epochs : the number of ended epochs
    loss : the mean loss of the last ended epoch
    columns : float64[N_COLUMN_FIELDS, n_columns], as in `layout`
    """

    stop: int
    epochs: int
    loss: float
    columns: np.ndarray
