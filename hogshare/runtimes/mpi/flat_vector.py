"""What sites of one vector have in common, and what they come to.

The vector is what machines have in common, one after the other:

    coefficients | intercepts | means of the duals | SAGA's average

"Means of the duals" are SAGA's mean slopes, too; the average is there with SAGA only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rules.sgd_steps import DUAL

ORDINARY = (layout.RUNNING, layout.STOPPED_BY_LIMIT)  # stop words that nobody else has to hear of


class Flat(NamedTuple):
    """How long the parts are.

    m : coefficients
    columns : intercepts, and means
    average : 0 or m
    """

    m: int
    columns: int
    average: int

    @classmethod
    def of(cls, session: Session) -> Flat:
        """Those of a session."""
        return cls(session.size, session.settings.n_columns, len(session.memory.average))

    @property
    def size(self) -> int:
        """Numbers in all."""
        return self.m + 2 * self.columns + self.average

    def start(self, session: Session) -> np.ndarray:
        """What all machines have alike when a run begins; sums begin at zero, each with its own."""
        flat = np.zeros(self.size)
        if session.rule.method != DUAL:
            flat[: self.m] = session.vector.w
        flat[self.m : self.m + self.columns] = session.vector.intercept
        return flat

    def coefficients(self, flat: np.ndarray) -> np.ndarray:
        """Those of a flat vector: a view."""
        return flat[: self.m]

    def intercepts(self, flat: np.ndarray) -> np.ndarray:
        """Those of a flat vector: a view."""
        return flat[self.m : self.m + self.columns]

    def means(self, flat: np.ndarray) -> np.ndarray:
        """Those of a flat vector: a view."""
        return flat[self.m + self.columns : self.m + 2 * self.columns]

    def averages(self, flat: np.ndarray) -> np.ndarray:
        """SAGA's average of a flat vector: a view."""
        return flat[self.m + 2 * self.columns :]


class Decision(NamedTuple):
    """What all have come to at an epoch's end, each by itself.

    stop : why the run ends; RUNNING: it goes on
    epochs : that are over
    loss : mean of the last one
    columns : float64[N_COLUMN_FIELDS, n_columns], as of `layout`
    """

    stop: int
    epochs: int
    loss: float
    columns: np.ndarray
