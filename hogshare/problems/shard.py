"""Shards: the parts of a problem's rows in several processes, united in each process.

Each process sends the facts of its shard, ``problem.shard()``, to all processes. It then
concatenates the arrays of all shards, and calls ``problem.united()``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shard:
    """A process's part of a problem.

    arrays : arrays that are concatenated along the first axis, in the order of the processes
    facts : small data that is sent to all processes; data in neither is the same in all processes
    """

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any] = field(default_factory=dict)
