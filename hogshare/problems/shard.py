"""Rows that several processes have parts of: how a problem hands over its part, and gets all.

each: shard() -> facts, which all are told; arrays, which are put end to end -> each: united()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Shard:
    """A process's part of a problem.

    arrays : what is put end to end along the first axis, in the order of the processes
    facts : what all have to be told of it, small: everything else of the problem is the same
    """

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any] = field(default_factory=dict)
