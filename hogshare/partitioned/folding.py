"""Folding a worker's copy into the master's model, with the exchange's weights.

The same as of `hogshare.kernels.exchange`, which says where the weight comes from, with a stretch
of 1 and without what is carried: a turn's copy ends with the turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hogshare.kernels.exchange import exchange_weight
from hogshare.problems.model import Model


@dataclass(frozen=True)
class Weighing:
    """What the weights go by.

    Attributes
    ----------
    curvature : ndarray of shape (n_features,)
    intercept_curvature : float
    l1, l2 : float
        Strengths of the penalty.
    """

    curvature: np.ndarray
    intercept_curvature: float
    l1: float
    l2: float

    def weights(self, eta: float, rows: int, proposals: int) -> tuple[np.ndarray, float]:
        """Shares of a change that are folded: of coefficients, and of intercepts.

        Parameters
        ----------
        eta : float
            Step size of the turn.
        rows : int
            Rows of the turn.
        proposals : int
            How many changes from about one point this is one of.
        """
        reach = eta * rows
        of_features = reach * (self.curvature.astype(np.float64) + self.l2)
        return (
            np.asarray(share(of_features, proposals)),
            float(share(np.array([reach * self.intercept_curvature]), proposals)[0]),
        )

    def fold(
        self, into: Model, base: Model, copy: Model, eta: float, rows: int, proposals: int
    ) -> Model:
        """The master's model once it has taken a copy that began at `base`; its `t` as it was.

        A coefficient that l1 has clipped to zero in the copy is zero where it was no further from
        zero than the base: so zeros stay exact.
        """
        of_coef, of_intercept = self.weights(eta, rows, proposals)
        coef = into.coef + (of_coef * (copy.coef - base.coef)).astype(into.coef.dtype)
        if self.l1 > 0.0:
            clipped = (copy.coef == 0.0) & (np.abs(into.coef) <= np.abs(base.coef))
            coef[clipped] = 0.0
        change = of_intercept * (copy.intercept - base.intercept)
        intercept = into.intercept + change.astype(into.intercept.dtype)
        return Model(coef, intercept, into.t)


def share(z: np.ndarray, proposals: int) -> np.ndarray:
    """The exchange's weight of each coordinate, where `z` is step times rows times curvature."""
    weight: np.ndarray = exchange_weight(z, float(proposals))
    return weight
