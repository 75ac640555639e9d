"""Folding a lane's copy into the model, with the exchange's weights.

The weights are those of `hogshare.kernels.exchange.copy_exchange`, which derives them, with a
stretch of 1 and without a carried part: a copy ends with its quantum. One thing differs, because a
quantum is a hundred times as long as the interval between two exchanges in memory.

The fading. In a quantum the l2 penalty multiplies the model by f, nearly exp(-z) with z = eta B l2.
If changes are averaged, P workers fade the model once, and not P times as in P B rows of one
worker. The first steps of a schedule such as 'optimal' are far too long. On one machine their
traces decay like 1 / t; averaged they would decay like t^(-1/P). So the fading of a quantum is
separated from its change,

    shared <- f shared + c (copy - f base),    f = exp(-z (1 - exp(-P z))),

fully while z is large, when traces have to decay, and not at all when z is small: the loss then
restores what the penalty removes, and to weigh only one of them would strengthen the penalty.
`docs/exchange.md` has the alternatives that were tried, and what this gains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.problems.model import Model


@dataclass(frozen=True)
class Weighing:
    """The numbers that determine the weights.

    curvature : ndarray of shape (n_features,)
    l1, l2 : strengths of the penalty
    """

    curvature: np.ndarray
    intercept_curvature: float
    l1: float
    l2: float

    def weights(self, eta: float, rows: int, proposals: int) -> tuple[np.ndarray, float]:
        """Return the share of a change that is folded: for coefficients and for intercepts.

        eta : step size of the quantum
        rows : rows of the quantum
        proposals : number of changes from about the same point, this one included
        """
        reach = eta * rows
        of_features = reach * (self.curvature.astype(np.float64) + self.l2)
        return (
            np.asarray(share(of_features, proposals)),
            float(share(np.array([reach * self.intercept_curvature]), proposals)[0]),
        )

    def fading(self, eta: float, rows: int, proposals: int) -> float:
        """Return the factor of the penalty on the model, without weights; see the file's head."""
        z = eta * rows * self.l2
        return math.exp(z * math.expm1(-proposals * z)) if proposals > 1 else 1.0

    def fold(
        self, into: Model, base: Model, copy: Model, eta: float, rows: int, proposals: int
    ) -> Model:
        """Fold a copy that began at `base` into the master's model, whose `t` does not change.

        A coefficient that l1 has clipped to zero in the copy becomes zero if the master's is no
        further from zero than the base's, so zeros stay exact.
        """
        of_coef, of_intercept = self.weights(eta, rows, proposals)
        fade = self.fading(eta, rows, proposals)
        coef = fade * into.coef + of_coef * (copy.coef - fade * base.coef)
        coef = coef.astype(into.coef.dtype)
        if self.l1 > 0.0:
            clipped = (copy.coef == 0.0) & (np.abs(into.coef) <= np.abs(base.coef))
            coef[clipped] = 0.0
        change = of_intercept * (copy.intercept - base.intercept)
        intercept = into.intercept + change.astype(into.intercept.dtype)
        return Model(coef, intercept, into.t)


def share(z: np.ndarray, proposals: int) -> np.ndarray:
    """Return the exchange's weight of each coordinate; `z` is step times rows times curvature."""
    weight: np.ndarray = exchange_weight(z, float(proposals))
    return weight
