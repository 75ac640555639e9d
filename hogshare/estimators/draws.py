"""Random numbers that are drawn at once, from a generator that is kept."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

_kept = threading.local()


def generator_of(random_state: Any) -> np.random.RandomState:
    """As `sklearn.utils.check_random_state`, for draws that are over before the next call.

    A new `RandomState` is seeded by the system first and then by the number that it was given: 0.1
    ms. Setting one of this thread's own back to that number leaves the same numbers to draw.
    """
    if type(random_state) is not int:
        return check_random_state(random_state)
    if not hasattr(_kept, "generator"):
        _kept.generator = np.random.RandomState(0)
    _kept.generator.seed(random_state)
    return _kept.generator
