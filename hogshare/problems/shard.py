"""Shards: parts of a problem's rows that several processes have, and that each process unites.

Each process sends the facts of `shard()` to all processes, concatenates all shards' arrays, and
calls `united()`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shard:
    """A process's part of a problem.

    arrays : arrays that are concatenated along the first axis, in the order of the processes
    facts : small data that is sent to all; everything else is the same in each process
    """

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any] = field(default_factory=dict)
