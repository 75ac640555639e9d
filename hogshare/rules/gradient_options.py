"""Options that the rules for gradients share: averages, mini-batches, decay, longest gradient."""

from __future__ import annotations

from hogshare.rules.protocol import Rule
from hogshare.system import ranges


def store_options(rule: Rule) -> None:
    """Look at them, and make ints of what are whole numbers, of frozen rules too."""
    if isinstance(rule.average, bool):
        object.__setattr__(rule, "average", int(rule.average))
    ranges.store_whole(0, rule, "average")
    if rule.batch is not None:
        ranges.store_whole(1, rule, "batch")
    ranges.not_negative(weight_decay=rule.weight_decay)
    if rule.clip is not None:
        ranges.positive(clip=rule.clip)


def shortened(share: float, period: float) -> float:
    """What a worker leaves of a mean at each of its steps, for `share` at each step of a run.

    period : steps of the run for one of the worker's, itself included

    A mean that leaves the share b is of about ``1 / (1 - b)`` steps, and a step's gradient moves
    the vector ``b / (1 - b)`` steps late on the average. Who takes one step in n reads the vector
    n - 1 steps late. With b' in place of b a gradient comes ``n b' / (1 - b') +
    n - 1`` steps late, which is the ``b / (1 - b)`` of one worker where ``1 - b' = n (1 - b)``:
    staleness is then a part of the momentum (Mitliagkas, Zhang, Hadjis and Re 2016, "Asynchrony
    begets momentum"). From ``n = 1 / (1 - b)`` on nothing is left.
    """
    return max(0.0, 1.0 - period * (1.0 - share))
