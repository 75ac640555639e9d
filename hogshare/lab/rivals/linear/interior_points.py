"""Solve the dual of a support vector machine with few columns by an interior point method.

The rows of Z are z_i = y_i x_i. Mehrotra's predictor-corrector method maximises sum(a) - |Z'a|^2 /
2 over 0 <= a <= top. The matrix of a Newton step is a diagonal matrix plus Z Z'. By Woodbury's
formula only a matrix of size columns by columns is factorised. Source: Ferris and Munson 2002,
section 2. s is the multiplier of a >= 0, t is the multiplier of a <= top, and slack is top - a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

MOST_STEPS = 100
# share of the way to the boundary
SHARE = 0.995


def solve(Z: Any, top: float, gap: float) -> tuple[float, float]:
    """Return an upper (primal) and a lower (dual) bound of the optimum.

    The iteration stops when the two bounds differ by at most `gap`.
    """
    n = Z.shape[0]
    a, s, t = np.full(n, 0.5 * top), np.ones(n), np.ones(n)
    slack = a.copy()  # top - a, updated by its own steps: the difference would cancel to zero
    above, below = np.inf, -np.inf
    for _ in range(MOST_STEPS):
        w = Z.T @ a
        margin = Z @ w
        above = min(above, float(0.5 * (w @ w) + top * np.maximum(0.0, 1.0 - margin).sum()))
        below = max(below, float(a.sum() - 0.5 * (w @ w)))
        if above - below <= gap:
            break
        try:
            system = System(Z, a, slack, s, t, margin - 1.0 - s + t)
        except linalg.LinAlgError:  # the limit of float64; the bounds are still valid
            break
        da, ds, dt = system.direction(0.0, 0.0)
        length = system.longest(da, ds, dt)
        before = (s @ a + t @ slack) / (2 * n)
        after = (s + length * ds) @ (a + length * da) + (t + length * dt) @ (slack - length * da)
        centre = before * (after / (2 * n) / before) ** 3
        da, ds, dt = system.direction(centre - ds * da, centre + dt * da)
        length = SHARE * system.longest(da, ds, dt)
        a, slack = a + length * da, slack - length * da
        s, t = s + length * ds, t + length * dt
    return above, below


@dataclass
class System:
    """The Newton system at one point; `residual` is the residual of stationarity."""

    Z: Any
    a: np.ndarray
    slack: np.ndarray
    s: np.ndarray
    t: np.ndarray
    residual: np.ndarray

    def __post_init__(self) -> None:
        self.scale = self.s / self.a + self.t / self.slack
        if sparse.issparse(self.Z):
            small = (self.Z.T @ (sparse.diags_array(1.0 / self.scale) @ self.Z)).toarray()
        else:
            small = self.Z.T @ (self.Z / self.scale[:, None])
        small[np.diag_indices_from(small)] += 1.0
        self.factor = linalg.cho_factor(small)

    def direction(self, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the step towards a s = low and (top - a) t = high."""
        to_s, to_t = low / self.a - self.s, high / self.slack - self.t
        da = (to_s - to_t - self.residual) / self.scale
        da -= (self.Z @ linalg.cho_solve(self.factor, self.Z.T @ da)) / self.scale
        return da, to_s - self.s / self.a * da, to_t + self.t / self.slack * da

    def longest(self, da: np.ndarray, ds: np.ndarray, dt: np.ndarray) -> float:
        """Return the largest share of a step, at most 1, that leaves all variables positive."""
        pairs = ((self.a, da), (self.slack, -da), (self.s, ds), (self.t, dt))
        return min(float(np.min(-v[d < 0] / d[d < 0], initial=1.0)) for v, d in pairs)
