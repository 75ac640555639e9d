"""Options that the rules for gradients share: averages, mini-batches, decay, longest gradient."""

from __future__ import annotations

from hogshare import ranges
from hogshare.rules.protocol import Rule


def keep_options(rule: Rule) -> None:
    """Look at them, and make ints of what are whole numbers, of frozen rules too.

    Raises
    ------
    ValueError
    """
    if isinstance(rule.average, bool):
        object.__setattr__(rule, "average", int(rule.average))
    ranges.keep_whole(0, rule, "average")
    ranges.keep_whole(1, rule, "batch")
    ranges.not_negative(weight_decay=rule.weight_decay)
    if rule.clip is not None:
        ranges.positive(clip=rule.clip)
