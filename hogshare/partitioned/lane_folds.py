"""Folding a lane's copy into the model, with the exchange's weights.

The same as of `hogshare.kernels.exchange.copy_exchange`, which says where the weight comes from,
with a stretch of 1 and without what is carried: a copy ends with its quantum. One thing is
different, because a quantum is a hundred times as long as what lies between two exchanges in
memory.

The fading. In a quantum the l2 penalty multiplies the model by f, nearly exp(-z) with z = eta B l2.
Where changes are averaged P workers fade it once, and not P times as in P B rows of one worker. The
first steps of a schedule such as 'optimal' are far too long, and on one machine their traces go
like 1 / t; averaged they would go like t^(-1/P). So what a quantum fades is taken apart,

    shared <- f shared + c (copy - f base),    f = exp(-z (1 - exp(-P z))),

whole while z is large, which is when there are traces to be lost, and not at all when it is small:
there the loss gives back what the penalty takes, and to weigh one and not the other would be a
stronger penalty. What was tried in its place, and what it gains, is in `docs/exchange.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.problems.model import Model


@dataclass(frozen=True)
class Weighing:
    """What the weights go by.

    curvature : ndarray of shape (n_features,)
    l1, l2 : strengths of the penalty
    """

    curvature: np.ndarray
    intercept_curvature: float
    l1: float
    l2: float

    def weights(self, eta: float, rows: int, proposals: int) -> tuple[np.ndarray, float]:
        """Shares of a change that are folded: of coefficients, and of intercepts.

        eta : step size of the quantum
        rows : rows of the quantum
        proposals : how many changes from about one point this is one of
        """
        reach = eta * rows
        of_features = reach * (self.curvature.astype(np.float64) + self.l2)
        return (
            np.asarray(share(of_features, proposals)),
            float(share(np.array([reach * self.intercept_curvature]), proposals)[0]),
        )

    def fading(self, eta: float, rows: int, proposals: int) -> float:
        """By what the penalty multiplies the model, apart from the weights; see the file's head."""
        z = eta * rows * self.l2
        return math.exp(z * math.expm1(-proposals * z)) if proposals > 1 else 1.0

    def fold(
        self, into: Model, base: Model, copy: Model, eta: float, rows: int, proposals: int
    ) -> Model:
        """The master's model once it has taken a copy that began at `base`; its `t` as it was.

        A coefficient that l1 has clipped to zero in the copy is zero where it was no further from
        zero than the base: so zeros stay exact.
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
    """The exchange's weight of each coordinate, where `z` is step times rows times curvature."""
    weight: np.ndarray = exchange_weight(z, float(proposals))
    return weight
