"""Where between two measured models a target was reached."""

from __future__ import annotations

import math


def share_of_way(before: float, after: float, target: float, least: float = 1e-3) -> float:
    """Return how far from one model to the next a target lies, by the logarithm of what is missing.

    `after` may be zero or less, where the best that is known is passed: it counts as `least`
    targets.
    """
    way = math.log(before / max(after, least * target))
    return math.log(before / target) / way if way > 0.0 else 1.0
