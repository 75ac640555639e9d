"""What a contestant of a linear race is told, and what it has to be besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import Contestant, Task


@dataclass(frozen=True)
class LinearTask(Task):
    """What is to be minimised, as far as a contestant has to know before it sees the rows.

    `mean_square` is the mean squared norm of a row: step sizes are stated in units of its inverse.
    """

    loss: str
    alpha: float
    n_rows: int
    n_columns: int
    mean_square: float

    @property
    def C(self) -> float:
        """The factor before the summed loss in C sum(loss) + |w|^2 / 2, which is F / alpha."""
        return 1.0 / (self.alpha * self.n_rows)


class Linear(Contestant):
    """Who fits rows and labels (-1.0 or 1.0); its model is the coefficients."""

    losses: ClassVar[tuple[str, ...]] = ("log_loss", "hinge")
    task: LinearTask

    def model(self, fitted: Any) -> np.ndarray:
        return np.ravel(fitted.coef_).astype(np.float64)
