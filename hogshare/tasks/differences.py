"""What a task of SAGA gives: how far the gradients of its rows have moved since they were used."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.tasks.handles import Handle
from hogshare.tasks.plans import GradientOf


class DifferenceOf(GradientOf):
    """Sum over the drawn rows of the gradient now less that at the version last used.

    A row that was never used has a history of zero. Source: Soori et al. 2019 (ASYNC), ASAGA,
    where gradients of the past are not stored but computed again from the model of then. For
    ``map_with_index(..., history=True)``.

    Parameters
    ----------
    problem : LinearProblem or GradientProblem
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DifferenceOf) and other.problem is self.problem

    def __hash__(self) -> int:
        return hash((DifferenceOf, id(self.problem)))

    def __call__(self, index: np.ndarray, rows: Any, w: Handle) -> np.ndarray:  # type: ignore[override]
        """The difference of the sums."""
        total = super().__call__(index, rows, w.value)
        for old, places in w.groups():
            if old is not None:
                total -= super().__call__(index[places], rows, old)
        return total
