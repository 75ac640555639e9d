"""Folding a lane's copy of the model into the model, with the exchange's weights.

A lane is a thread that takes a quantum in each round (see `schedule`). The weights are derived in
`hogshare.kernels.exchange.copy_exchange`. In this file the stretch is 1 and there is no carried
part, because a copy ends with its quantum. The fading differs from that file, because a quantum is
a hundred times as long as the interval between two exchanges in memory.

The fading. In a quantum of B rows with step size eta the l2 penalty multiplies the model by a
factor of nearly exp(-z), where z = eta B l2. If the changes of P workers are averaged, the model
fades once in P B rows. One worker would fade the model P times in P B rows. The first steps of a
schedule such as 'optimal' are far too long. On one machine the effect of these steps on the model
decays like 1 / t; with averaging it would decay like t^(-1/P). The fading of a quantum is therefore
separated from its change; f is the factor of the fading:

    shared <- f shared + c (copy - f base),    f = exp(-z (1 - exp(-P z))).

If z is large, the effect of first steps has to decay, and the fading of each quantum counts fully.
If z is small, the fading does not count separately: the loss then restores what the penalty
removes, and a different weight for the penalty alone would make the penalty stronger.
`docs/exchange.md` lists the alternatives that were tried, and the gain of this rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.problems.model import Model


@dataclass(frozen=True)
class Weighing:
    """The curvatures and penalties that determine the weights.

    curvature : ndarray of shape (n_features,), curvature along each feature
    intercept_curvature : curvature along an intercept
    l1, l2 : strengths of the penalty
    """

    curvature: np.ndarray
    intercept_curvature: float
    l1: float
    l2: float

    def weights(self, eta: float, rows: int, proposals: int) -> tuple[np.ndarray, float]:
        """Return the share of a change that is folded, for each feature and for the intercepts.

        eta : step size of the quantum
        rows : number of rows of the quantum
        proposals : number of changes from about the same point, including this change
        """
        reach = eta * rows
        of_features = reach * (self.curvature.astype(np.float64) + self.l2)
        return (
            np.asarray(share(of_features, proposals)),
            float(share(np.array([reach * self.intercept_curvature]), proposals)[0]),
        )

    def fading(self, eta: float, rows: int, proposals: int) -> float:
        """Return the factor f of the fading; see the head of this file."""
        z = eta * rows * self.l2
        return math.exp(z * math.expm1(-proposals * z)) if proposals > 1 else 1.0

    def fold(
        self, into: Model, base: Model, copy: Model, eta: float, rows: int, proposals: int
    ) -> Model:
        """Return a new model: `into` after folding a copy that began at `base`; `t` is unchanged.

        Suppose that l1 has clipped a coefficient of the copy to zero. The coefficient of the result
        is then zero if the coefficient of `into` is not further from zero than the coefficient of
        `base`. Zeros therefore stay exact.
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
