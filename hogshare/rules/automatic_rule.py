"""The choice of a rule that needs no tuning: ``rule="auto"``, or ``learning_rate="auto"``."""

from __future__ import annotations

import numpy as np

from hogshare.kernels.rules import losses
from hogshare.problems.linear.row_arrays import exceeds_memory
from hogshare.problems.protocol import RowProblem
from hogshare.rules.saga import SAGA
from hogshare.rules.sdca import SDCA
from hogshare.system.messages import own

AUTO, SEARCHING = "rule='auto'", "rule='sgd'"  # the names in `solve`
# The reach of rows is the curvature of the loss times mean |x|^2 / (alpha n). SDCA needs more
# epochs for a longer reach. SAGA needs more epochs if the data vary much more in some directions
# than in others. The number of features per row is a proxy for this unevenness.
FEW = 1.0  # up to this number of rows per feature, SDCA is faster for any reach
WIDE = 2.5  # up to this number, SDCA is faster for reaches up to the limits below
LONG_IF_WIDE = 10.0
# the limit for the log loss, whose curvature at an optimum is far below its bound
LONG_IF_WIDE_AND_FLAT = 30.0
# the limit for losses with kinks: a visit of SDCA moves a dual variable by its range over the reach
LONG_IF_WIDE_AND_KINKED = 4.0
LONG_IF_KINKED = 0.05
TALL = 100.0  # from this number of rows per feature, the data's own curvature helps SAGA
LONG_IF_TALL = 0.35  # with at least TALL rows per feature, SAGA is faster from this reach
LONG = 1.0  # with fewer rows per feature, SAGA is faster from this reach
# from this ratio of the largest to the mean squared norm, one step size fits the rows badly
UNEVEN = 2.0
UNEVEN_IF_TALL = 3.0
VERY_UNEVEN = 20.0  # from this ratio, SAGA with rows drawn by importance is faster than SDCA
TOO_LONG = 30.0  # from this reach, SDCA takes too many epochs even for uneven rows


def automatic_rule(
    problem: RowProblem, shuffle: bool = True, from_anywhere: bool = False
) -> SDCA | SAGA:
    """Choose SDCA for many features, uneven rows, or rows of a short reach; otherwise SAGA.

    SAGA draws uneven rows by importance, unless rows must be read in a given order, because of
    `shuffle=False` or because the rows are in a file larger than memory. With `from_anywhere` the
    rule must be able to begin at any model without a memory, so the choice is SAGA. Divided columns
    also require SAGA, because SDCA's model is a sum of rows divided by one penalty.

    If the loss has kinks, SAGA uses proximal points instead of gradients. Proximal points suit rows
    of any size, so rows are drawn uniformly.

    Raises ValueError for the perceptron loss, for which a model of zeros is always an optimum.
    """
    if problem.loss == "perceptron":
        raise ValueError(
            f"{own(AUTO)} finds an optimum, and for loss='perceptron' a model of zeros is one; use "
            f"loss='hinge', or {own(SEARCHING)}."
        )
    mean, largest = problem.sampled_norms
    from_anywhere = from_anywhere or problem.divisors is not None
    if problem.loss in losses.KINKED:
        return SAGA() if problem.l2 == 0.0 or from_anywhere else rule_for_kinks(problem)
    unevenness = largest / mean if mean > 0.0 else 1.0
    tall = problem.n_all >= TALL * problem.n_features
    uneven = unevenness > (UNEVEN_IF_TALL if tall else UNEVEN)
    free = shuffle and not exceeds_memory(problem.rows)
    saga = SAGA(sampling="importance" if free and uneven else "uniform")
    if problem.l2 == 0.0 or problem.loss in losses.COUPLED or from_anywhere:
        return saga
    weight = float(problem.rows.weight.mean()) if problem.rows.weight.size else 1.0
    curvature = losses.CURVATURE[losses.CODES[problem.loss]] * weight
    reach = curvature * mean / (problem.l2 * problem.n_all)
    limit = LONG_IF_TALL if tall else LONG
    if uneven and not free:
        # one step size for all rows would be too short for most rows; the number of SDCA's epochs
        # grows as the root of the reach
        limit = min(TOO_LONG, limit * (unevenness / UNEVEN_IF_TALL) ** 2) if tall else TOO_LONG
    elif uneven and not tall and unevenness <= VERY_UNEVEN:
        limit = TOO_LONG
    if reach > limit and problem.n_all <= WIDE * problem.n_features:
        features = occurring_features(problem, problem.sample_every)
        if problem.n_all <= FEW * features:
            limit = np.inf
        elif problem.n_all <= WIDE * features:
            flat = problem.loss == "log_loss"
            limit = max(limit, LONG_IF_WIDE_AND_FLAT if flat else LONG_IF_WIDE)
    return SDCA() if reach <= limit else saga


def rule_for_kinks(problem: RowProblem) -> SDCA | SAGA:
    """Choose SDCA for text, short rows, and very long rows with many features; otherwise SAGA."""
    reach = problem.sharpness * problem.sampled_norms[0] / (problem.l2 * problem.n_all)
    limit = LONG_IF_KINKED
    if reach > limit and problem.n_all <= WIDE * problem.n_features:
        features = occurring_features(problem, problem.sample_every)
        if problem.n_all <= WIDE * features:
            limit = LONG_IF_WIDE_AND_KINKED
        if problem.n_all <= FEW * features and reach > TOO_LONG:
            limit = np.inf  # no step of SAGA is long enough
    return SDCA() if reach <= limit else SAGA()


def occurring_features(problem: RowProblem, every: int = 1) -> float:
    """Estimate the number of features that occur, from a sample of every `every`-th row.

    In dense rows, all features occur. A hashed matrix may have many columns that never occur. Let
    `once` and `twice` be the numbers of features that occur in the sample once and twice. Then
    about ``once (once - 1) / (2 (twice + 1))`` features occur that are not in the sample (Chao
    1984, Scandinavian Journal of Statistics 11, in its bias-corrected form). All ranks that have a
    part of the rows must call this function.
    """
    if not problem.is_sparse:
        return float(problem.n_features)
    rows = problem.rows
    sample = np.arange(0, problem.n_rows, every)
    starts = rows.indptr[sample]
    lengths = rows.indptr[sample + 1] - starts
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    has_all = problem.n_all == problem.n_rows
    width = 0 if has_all else problem.n_features  # arrays of all parts must have the same length
    (counts,) = problem.totals(np.bincount(rows.indices[places].astype(np.int64), minlength=width))
    seen = float(np.count_nonzero(counts))
    if every == 1:
        return seen
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    return min(float(problem.n_features), seen + once * (once - 1) / (2 * (twice + 1)))
