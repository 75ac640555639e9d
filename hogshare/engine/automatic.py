"""Which rule needs no tuning on a given problem: what ``learning_rate="auto"`` stands for."""

from __future__ import annotations

import numpy as np

from hogshare.engine.rules import SAGA, SDCA
from hogshare.kernels import losses
from hogshare.kernels.saga import norms_of
from hogshare.problems.linear import LinearProblem
from hogshare.problems.rows import exceeds_memory

COUPLED = ("multinomial",)  # losses of all columns of a row together: no dual step for one column
SAMPLE_ROWS = 2048
LONG = 1.0  # curvature of the loss times mean |x|^2 / (alpha n) from which SAGA is ahead
TOO_LONG = 30.0  # the same, from which SDCA takes too many epochs to be of use
UNEVEN = 2.0  # largest squared norm over the mean from which one step size for all rows fits badly
VERY_UNEVEN = 20.0  # the same, from which SAGA with rows drawn by importance is ahead of SDCA


def automatic_rule(
    problem: LinearProblem, shuffle: bool = True, from_anywhere: bool = False
) -> SDCA | SAGA:
    """SDCA where rows are short beside the penalty, or uneven; SAGA where they are long.

    SAGA draws uneven rows by importance, unless they have to be read in an order (`shuffle`, or
    rows in a file larger than memory). `from_anywhere` asks for a rule that can begin at any model,
    without what a rule remembers: SAGA.

    Raises
    ------
    ValueError
        If the loss has kinks and the penalty no l2 part: neither rule can do that.
    """
    if problem.l2 == 0.0 and problem.loss in losses.KINKED:
        raise ValueError(
            f"learning_rate='auto' with loss={problem.loss!r} needs an l2 part in the penalty, "
            "which takes the step size's place: use penalty='l2', or 'elasticnet' with "
            "l1_ratio < 1, and alpha > 0."
        )
    if problem.loss in losses.KINKED and not from_anywhere:
        return SDCA()
    mean, largest = norms_of(problem.rows, max(1, problem.n_rows // SAMPLE_ROWS))
    free = shuffle and not exceeds_memory(problem.rows)
    saga = SAGA(sampling="importance" if free and largest > UNEVEN * mean else "uniform")
    if problem.l2 == 0.0 or problem.loss in COUPLED or from_anywhere:
        return saga
    weight = float(problem.rows.weight.mean()) if problem.rows.weight.size else 1.0
    curvature = losses.CURVATURE[losses.CODES[problem.loss]] * weight
    reach = curvature * mean / (problem.l2 * problem.n_rows)
    limit = VERY_UNEVEN if free else np.inf
    uneven = UNEVEN * mean < largest <= limit * mean and reach <= TOO_LONG
    return SDCA() if reach <= LONG or uneven else saga
