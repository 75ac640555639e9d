"""Step sizes: scikit-learn's schedules under scikit-learn's names."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hogshare.kernels.rules import losses, step_schedules
from hogshare.system import ranges
from hogshare.system.messages import nearest, own


@dataclass(frozen=True)
class StepSize:
    """Schedule of the step size (scikit-learn's ``learning_rate``).

    Parameters
    ----------
    kind : {"optimal", "constant", "invscaling", "adaptive", "pa1", "pa2"}, default="optimal"
        Schedule, which determines the step size at step t. ``optimal``: 1 / (alpha (t0 + t - 1)),
        where t0 follows Bottou's heuristic. ``constant``: eta0. ``invscaling``: eta0 / t^power_t.
        ``adaptive``: eta0, divided by 5 each time that the stop criterion is met. ``pa1`` and
        ``pa2``: passive-aggressive steps (Crammer et al. 2006) with C = eta0.
    eta0 : float, default=0.01
        First step size.
    power_t : float, default=0.5
        Exponent of ``invscaling``.

    Examples
    --------
    >>> from hogshare import StepSize
    >>> StepSize("constant", eta0=0.1).kind
    'constant'
    """

    kind: str = "optimal"
    eta0: float = 0.01
    power_t: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in step_schedules.CODES:
            raise ValueError(
                f"{own('kind')} must be one of {list(step_schedules.CODES)}; got {self.kind!r}."
                f"{nearest(self.kind, step_schedules.CODES)}"
            )
        ranges.positive(eta0=self.eta0)
        ranges.finite(power_t=self.power_t)


def optimal_start(loss: str, epsilon: float, alpha: float) -> float:
    """Return Bottou's t0, with which the first step moves a typical weight by its own size.

    Source: Bottou 2012, "Stochastic gradient descent tricks", in scikit-learn's form.
    """
    if alpha == 0.0:
        return 0.0
    typical = math.sqrt(1.0 / math.sqrt(alpha))
    slope = losses.loss_derivative(losses.CODES[loss], epsilon, 1.0, -typical)
    return 1.0 / (typical / max(1.0, slope) * alpha)
