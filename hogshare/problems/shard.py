"""Shards: parts of rows that several processes have, and that each process unites.

each: shard() -> facts, sent to all; arrays, concatenated end to end -> each: united()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shard:
    """A process's part of a problem.

    arrays : concatenated along the first axis, in the order of the processes
    facts : small data that is sent to all; everything else of the problem is the same in each
    """

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any] = field(default_factory=dict)
