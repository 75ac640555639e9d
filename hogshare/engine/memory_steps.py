"""How long the steps of the rules that remember rows are, and other numbers of theirs.

`docs/auto.md` has the rules, `docs/tried/2026-11/auto.md` the measurements behind the numbers.
"""

from __future__ import annotations

import math
from typing import Any

from hogshare.engine.rules import SAGA, SDCA, Rule
from hogshare.kernels import losses, sgd
from hogshare.problems.linear import LinearProblem

# Share of an epoch in which SAGA's step is level before it falls. Without one it begins at twice
# its mean, which is too much where that is 2 / (3 L) already: for the largest rows, if they are
# drawn by importance, and for several workers whose steps are stretched.
LEVEL = 0.8
# Share of one row in all squared norms from which on SAGA's step is shorter where rows are drawn by
# importance: it is drawn many times within as many rows as there are between two visits of others.
HEAVY, CAUTION = 0.05, 0.75
# Epochs in which SAGA's step falls: all; with kinks in the loss those that settle most rows.
FOREVER, FALLS = 1 << 31, 8
# Rows per feature from which the steps of losses with kinks are shortest, and how much longer they
# are elsewhere, at most.
TALL, LONGEST_KINKED = 100.0, 6.0
INTERCEPT_ROWS = 3000  # in which the intercept settles, as far as one row's step allows


def memory_numbers(
    rule: Rule, problem: LinearProblem, l1: float, n_rows: int, empty: bool
) -> dict[str, Any]:
    """Numbers of the rules that remember rows; neutral for the others.

    empty : whether nothing is remembered yet when the run begins

    Raises
    ------
    ValueError
        If squared norms overflow.
    """
    numbers = {
        "method": sgd.GRADIENT,
        "dual_scale": 1.0,
        "dual_rows": float(n_rows),
        "intercept_step": 0.0,
        "threshold": 0.0,
        "tamed": 0,
        "curvature": losses.CURVATURE[losses.CODES[problem.loss]],
        "saga_step": 0.0,
        "level": 1.0,
        "steep": 0,
        "falls": FOREVER,
        "fewest": 1.0,
        "keep": 0.0,
        "stretch": 1.0,
    }
    smoothness = max(numbers["curvature"] * largest_weight(problem), 1e-300)
    if isinstance(rule, SDCA):
        numbers["method"] = sgd.DUAL
        numbers["dual_scale"] = (1.0 - l1) * problem.alpha * n_rows
        numbers["threshold"] = l1 / (1.0 - l1)
        numbers["intercept_step"] = longest_intercept(problem) / (3.0 * smoothness)
        if empty and problem.loss not in losses.KINKED:
            reach = problem.sampled_norms[0] / numbers["dual_scale"] + numbers["intercept_step"]
            numbers["fewest"] = fewest_rows(smoothness * reach)
    if isinstance(rule, SAGA):
        numbers.update(saga_numbers(rule, problem, smoothness, empty))
    return numbers


def saga_numbers(
    rule: SAGA, problem: LinearProblem, smoothness: float, empty: bool
) -> dict[str, Any]:
    """Those of SAGA: how long its steps are, and how they fall.

    smoothness : of a row's loss in its prediction, at most

    Raises
    ------
    ValueError
        If squared norms overflow.
    """
    mean, largest = problem.norms
    share = intercept_share(problem, mean)
    numbers = {"method": sgd.SAGA, "intercept_step": share}
    if rule.step is not None:
        return numbers | {"saga_step": rule.step, "falls": 0}
    if not math.isfinite(mean):  # the step would be zero, and the model stay where it is
        problem.require_norms()
    is_uniform = rule.sampling == "uniform"
    numbers["level"] = 0.0 if is_uniform else LEVEL
    numbers["steep"] = int(empty and is_uniform)
    if problem.loss in losses.KINKED:
        first = kinked_step(problem, mean + share)
        # whoever begins with a model has no use for steps that would take it far away
        later = first * FALLS ** (-1.0 / 3.0)
        return numbers | {"saga_step": first if empty else later, "falls": FALLS if empty else 0}
    step = saga_step(rule, smoothness, mean, largest, share)
    if not is_uniform and largest > max(HEAVY * problem.n_rows, 4.0) * mean:
        step *= CAUTION  # of few rows each is much of the whole
    return numbers | {"saga_step": step, "tamed": 1}


def fewest_rows(reach: float) -> float:
    """Share of the rows that SDCA's model counts as the sum of, at least, in a first epoch.

    reach : of the mean row, the intercept's step counted in

    The shorter the rows beside the penalty, the more their dual variables are what they are by
    themselves, and the better a few rows tell what all will add up to. From a reach of 1 on, the
    first rows say too much, and what others would have taken back is only magnified.
    """
    return min(1.0, math.sqrt(reach))


def longest_intercept(problem: LinearProblem) -> float:
    """The intercept's step, at most, in units of 1 / (3 L) for the intercept alone; 0 without one.

    Every row has the intercept, at full size, so that with a step of 1 it follows the few rows in
    hand, and, within an epoch in which no row comes twice, those that are left. With many rows it
    settles within an epoch by far shorter steps.
    """
    return min(1.0, INTERCEPT_ROWS / problem.n_rows) if problem.fit_intercept else 0.0


def intercept_share(problem: LinearProblem, mean: float) -> float:
    """SAGA's step for the intercept in proportion to that for the features.

    So that it is at most `longest_intercept`, with a step of 1 / (3 L) in which the intercept
    counts by its share: ``L = smoothness (mean + share)``. Rows much larger than 1 make the step so
    short that the share is 1.
    """
    longest = longest_intercept(problem)
    return min(1.0, longest * mean / (1.0 - longest)) if longest < 1.0 else 1.0


def largest_weight(problem: LinearProblem) -> float:
    """The largest weight of a row and its class."""
    largest = float(problem.rows.weight.max(initial=0.0)) if problem.rows.weight.size else 1.0
    return largest * max(problem.positive.tolist() + problem.negative.tolist())


def kinked_step(problem: LinearProblem, mean: float) -> float:
    """A third of the way to the kink for the mean row; longer where features are many beside rows.

    No step is too long for a proximal point, however large a row is; one that is longer makes more
    noise for longer, and gets further. Where rows are many beside features an epoch gets far enough
    anyway (docs/auto.md).
    """
    few = TALL * problem.n_features / max(1, problem.n_rows)
    way = 3.0 * problem.sharpness * mean
    return min(max(few, 1.0), LONGEST_KINKED) / max(way, 1e-300)


def saga_step(rule: SAGA, smoothness: float, mean: float, largest: float, share: float) -> float:
    """1 / (3 L) with L of the mean row, but at most 1 / (2 L) of the largest.

    1 / (3 L) with the largest row's L is what the theory asks for; up to a constant 2 / (3 L) no
    set of rows was found on which a run diverges, and with 1 / L many. (A step that falls within
    the epoch may begin longer: see docs/auto.md.) Where rows are drawn by importance, a
    row's L over its chance is at most twice the mean, so that the first is below 2 / (3 L) anyway.

    Parameters
    ----------
    mean, largest : float
        Squared norms of the rows.
    share : float
        What the intercept adds to them.
    """
    if rule.sampling == "importance":
        largest = mean
    steps = 3.0 * smoothness * (mean + share), 2.0 * smoothness * (largest + share)
    return 1.0 / max(*steps, 1e-300)
