"""All that rules remember of rows, by the code that kernels have for it.

A run's numbers travel to its workers, and the rule does not: so what it remembers is found by them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hogshare.rules.rowmemory import RowMemory
from hogshare.rules.saga import SAGA
from hogshare.rules.sdca import SDCA
from hogshare.rules.sgd import SGD

BY_METHOD: Mapping[int, RowMemory] = {
    memory.method: memory for memory in (SGD.memory, SDCA.memory, SAGA.memory)
}
# arrays that checkpoints keep, whichever rule it is
KEPT = tuple(name for memory in BY_METHOD.values() for name in memory.kept)


def derivatives_in(arrays: Mapping[str, np.ndarray], n_columns: int) -> np.ndarray | None:
    """What is remembered in a run's arrays, or in those that a checkpoint has kept."""
    for memory in BY_METHOD.values():
        if memory.kept and memory.kept[0] in arrays:
            return memory.derivatives(arrays, n_columns)
    return None
