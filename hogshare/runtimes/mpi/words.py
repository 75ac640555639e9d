"""What goes between machines and the owner of the global vector, as numbers.

The vector is what machines have in common, one after the other:

    coefficients | intercepts | means of the duals | SAGA's average

"Means of the duals" are SAGA's mean slopes, too; the average is there with SAGA only. Words are
what machines report of their epochs, and what the owner decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.sgd import DUAL

# rounds of vectors: why a machine has sent an offer
IN_PASSING = 0  # while its workers go on
AT_BEGIN = 1  # before they begin
AT_REST = 2  # while they rest between two epochs
AT_END = 3  # when they have ended
ALL_REST = 4  # of an answer to those that rest: nobody has ended

# rounds of decisions
GO_ON = 1  # with the next epoch, or not: the stop word says
STOP_NOW = 2  # somebody has stopped in the middle of an epoch

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


class Report(NamedTuple):
    """What a machine tells of its epochs.

    epochs : that are over
    stop : its stop word
    is_last : whether its workers have ended, and do not only rest
    sums : float64[3 * n_columns], of the last epoch that is over
    """

    epochs: int
    stop: int
    is_last: bool
    sums: np.ndarray

    def words(self) -> np.ndarray:
        """As they are sent."""
        return np.concatenate([[self.epochs, self.stop, self.is_last], self.sums])

    @classmethod
    def of(cls, words: np.ndarray) -> Report:
        """From what was sent; a copy."""
        return cls(int(words[0]), int(words[1]), bool(words[2]), words[3:].copy())


class Decision(NamedTuple):
    """What the owner has decided for all machines.

    stop : why the run ends; RUNNING: it goes on
    epochs : that are over
    loss : mean of the last one
    columns : float64[N_COLUMN_FIELDS, n_columns], as of `layout`
    """

    stop: int
    epochs: int
    loss: float
    columns: np.ndarray

    def words(self) -> np.ndarray:
        """As they are sent."""
        return np.concatenate([[self.stop, self.epochs, self.loss], self.columns.reshape(-1)])

    @classmethod
    def of(cls, words: np.ndarray) -> Decision:
        """From what was sent; a copy."""
        columns = words[3:].copy().reshape(layout.N_COLUMN_FIELDS, -1)
        return cls(int(words[0]), int(words[1]), float(words[2]), columns)


def most_words(n_columns: int) -> int:
    """Numbers of the longest of both."""
    return 3 + layout.N_COLUMN_FIELDS * n_columns
