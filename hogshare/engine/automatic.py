"""Which rule needs no tuning on a given problem: what ``learning_rate="auto"`` stands for."""

from __future__ import annotations

from hogshare.engine.rules import SAGA, SDCA
from hogshare.kernels import losses
from hogshare.kernels.saga import norms_of
from hogshare.problems.linear import LinearProblem
from hogshare.problems.rows import exceeds_memory

COUPLED = ("multinomial",)  # losses of all columns of a row together: no dual step for one column
SAMPLE_ROWS = 2048
# A row's reach is the loss's curvature times mean |x|^2 / (alpha n): SDCA's epochs grow with it,
# SAGA's with how unlike the directions of the data are, which features tell in proportion to rows.
WIDE = 2.5  # rows per feature up to which SDCA is ahead whatever the reach
TALL = 100.0  # rows per feature from which the data's own curvature carries SAGA
LONG = 1.0  # reach from which SAGA is ahead between the two
LONG_IF_TALL = 0.35  # and where there are so many rows
TOO_LONG = 30.0  # reach from which SDCA takes too many epochs even for uneven rows
UNEVEN = 2.0  # largest squared norm over the mean from which one step size for all rows fits badly
UNEVEN_IF_TALL = 3.0
VERY_UNEVEN = 20.0  # the same, from which SAGA with rows drawn by importance is ahead of SDCA


def automatic_rule(
    problem: LinearProblem, shuffle: bool = True, from_anywhere: bool = False
) -> SDCA | SAGA:
    """SDCA where features are many, rows short beside the penalty, or uneven; SAGA elsewhere.

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
    unevenness = largest / mean if mean > 0.0 else 1.0
    tall = problem.n_rows >= TALL * problem.n_features
    uneven = unevenness > (UNEVEN_IF_TALL if tall else UNEVEN)
    free = shuffle and not exceeds_memory(problem.rows)
    saga = SAGA(sampling="importance" if free and uneven else "uniform")
    if problem.l2 == 0.0 or problem.loss in COUPLED or from_anywhere:
        return saga
    weight = float(problem.rows.weight.mean()) if problem.rows.weight.size else 1.0
    curvature = losses.CURVATURE[losses.CODES[problem.loss]] * weight
    reach = curvature * mean / (problem.l2 * problem.n_rows)
    if problem.n_rows <= WIDE * problem.n_features:
        return SDCA()
    if tall:
        # uniform steps are as short as the largest row asks
        shorter = 1.0 if free else max(1.0, unevenness / UNEVEN_IF_TALL)
        return SDCA() if reach <= LONG_IF_TALL * shorter**2 else saga
    mended = uneven and (unevenness <= VERY_UNEVEN or not free) and reach <= TOO_LONG
    return SDCA() if reach <= LONG or mended else saga
