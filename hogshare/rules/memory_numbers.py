"""Numbers of the rules that remember rows, for kernels, and the scales of their steps.

`docs/auto.md` has the rules, `docs/tried/2026-11/auto.md` the measurements behind the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hogshare.kernels.rules import losses, sgd_steps

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem

FOREVER = 1 << 31  # epochs in which SAGA's step falls: all of them
INTERCEPT_ROWS = 3000  # rows in which the intercept settles, as far as one row's step allows


def neutral(loss: str, n_rows: int) -> dict[str, Any]:
    """Return the numbers of a rule that remembers nothing."""
    return {
        "method": sgd_steps.GRADIENT,
        "dual_scale": 1.0,
        "dual_rows": float(n_rows),
        "intercept_step": 0.0,
        "threshold": 0.0,
        "tamed": 0,
        "curvature": losses.CURVATURE[losses.CODES[loss]],
        "saga_step": 0.0,
        "level": 1.0,
        "steep": 0,
        "falls": FOREVER,
        "fewest": 1.0,
        "carry": 0.0,
        "stretch": 1.0,
    }


def smoothness_of(problem: RowProblem) -> float:
    """Return a bound of the curvature of a row's loss in its prediction; never zero."""
    curvature = losses.CURVATURE[losses.CODES[problem.loss]]
    return float(max(curvature * problem.largest_weight, 1e-300))


def longest_intercept(problem: RowProblem) -> float:
    """Return the intercept's largest step, in units of 1 / (3 L) for it alone; 0 without one.

    Every row has the intercept, at full size. With a step of 1 it would follow the last few rows,
    and, within an epoch in which no row comes twice, the remaining ones. With many rows it settles
    within an epoch by far shorter steps.
    """
    return min(1.0, INTERCEPT_ROWS / problem.n_all) if problem.fit_intercept else 0.0
