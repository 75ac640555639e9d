"""Folding a lane's copy of the model into the model, with the exchange's weights.

A lane is a thread that takes a quantum in each round (see `schedule`). The weights come from
`hogshare.kernels.exchange.copy_exchange`, which derives them. In this file the stretch is 1 and
there is no carried part, because a copy ends with its quantum. One thing differs, because a quantum
is a hundred times as long as the interval between two exchanges in memory.

The fading. In a quantum of B rows with step size eta the l2 penalty multiplies the model by a
factor of nearly exp(-z), where z = eta B l2. If changes are averaged, P workers fade the model
once. One worker would fade it P times in P B rows. The first steps of a schedule such as 'optimal'
are far too long. On one machine the traces of these steps decay like 1 / t; with averaging they
would decay like t^(-1/P). So the fading of a quantum is separated from its change; f is the factor:

    shared <- f shared + c (copy - f base),    f = exp(-z (1 - exp(-P z))).

If z is large, traces have to decay, and the fading counts fully. If z is small, it does not count
at all: the loss then restores what the penalty removes, and if only the penalty were weighted
differently, it would become stronger. `docs/exchange.md` has the alternatives that were tried, and
the gain of this one.
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

    curvature : ndarray of shape (n_features,), curvature along each feature
    l1, l2 : strengths of the penalty
    """

    curvature: np.ndarray
    intercept_curvature: float
    l1: float
    l2: float

    def weights(self, eta: float, rows: int, proposals: int) -> tuple[np.ndarray, float]:
        """Return the share of a change that is folded, for coefficients and for intercepts.

        eta : step size of the quantum
        rows : number of rows of the quantum
        proposals : number of changes from about the same point, including this one
        """
        reach = eta * rows
        of_features = reach * (self.curvature.astype(np.float64) + self.l2)
        return (
            np.asarray(share(of_features, proposals)),
            float(share(np.array([reach * self.intercept_curvature]), proposals)[0]),
        )

    def fading(self, eta: float, rows: int, proposals: int) -> float:
        """Return the factor f of the penalty on the model, without weights; see the file's head."""
        z = eta * rows * self.l2
        return math.exp(z * math.expm1(-proposals * z)) if proposals > 1 else 1.0

    def fold(
        self, into: Model, base: Model, copy: Model, eta: float, rows: int, proposals: int
    ) -> Model:
        """Return the master's model after folding a copy that began at `base`; `t` is unchanged.

        Suppose that l1 has clipped a coefficient of the copy to zero. The master's coefficient then
        becomes zero if it is not further from zero than the coefficient of `base`. So zeros stay
        exact.
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
