"""Common options of the rules for gradients: averages, mini-batches, decay, longest gradient."""

from __future__ import annotations

from hogshare.rules.protocol import Rule
from hogshare.system import ranges


def store_options(rule: Rule) -> None:
    """Check a rule's options, and store whole numbers in the rule as ints; it may be frozen."""
    if isinstance(rule.average, bool):
        object.__setattr__(rule, "average", int(rule.average))
    ranges.store_whole(0, rule, "average")
    if rule.batch is not None:
        ranges.store_whole(1, rule, "batch")
    ranges.not_negative(weight_decay=rule.weight_decay)
    if rule.clip is not None:
        ranges.positive(clip=rule.clip)


def shortened(share: float, period: float) -> float:
    """Convert a mean's factor per step of the run to its factor per step of a worker.

    share : the factor at each step of the run
    period : number of steps of the run per step of the worker, including the worker's own step

    A mean with the factor b spans about ``1 / (1 - b)`` steps. On average a gradient moves the
    vector with a delay of ``b / (1 - b)`` steps. A worker that takes one step in n reads the vector
    n - 1 steps late. With the factor b', the delay of a gradient is ``n b' / (1 - b') + n - 1``
    steps in total. This equals ``b / (1 - b)``, the delay with one worker, if
    ``1 - b' = n (1 - b)``. In this way staleness replaces a part of the momentum (Mitliagkas,
    Zhang, Hadjis and Re 2016, "Asynchrony begets momentum"). If n is at least ``1 / (1 - b)``, the
    factor is 0.
    """
    return max(0.0, 1.0 - period * (1.0 - share))
