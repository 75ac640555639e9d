"""The linear problem of all partitions' rows: it has no local rows, and workers compute its sums.

Code that evaluates a model, or computes a step in passes over all rows, calls a problem's `cached`
and `total` (`hogshare.problems.linear.problem`). The same code therefore works on partitions and on
rows in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from hogshare.partitioned.partition_blocks import Meaning, problem_of
from hogshare.partitioned.partitioned_rows import Cached, PartitionedRows, added
from hogshare.problems.linear.problem import LinearProblem


@dataclass(frozen=True)
class PartitionedProblem(LinearProblem):
    """A linear problem without local rows.

    partitions : the workers' rows and their problems
    """

    partitions: PartitionedRows | None = field(default=None, repr=False, compare=False)

    @property
    def _rows(self) -> PartitionedRows:
        assert self.partitions is not None
        return self.partitions

    @property
    def n_all(self) -> int:
        """Number of rows of all partitions."""
        return self._rows.n_rows

    @property
    def nnz_of_all(self) -> int:
        """Number of stored values of all partitions."""
        return sum(fact.nnz for fact in self._rows.facts)

    def cached(
        self, function: Callable[..., Any], *args: Any, of: Cached | None = None, **how: Any
    ) -> Cached:
        """Return a handle of a function's results for all partitions, which stay on the workers.

        function, args, how : ``function(part, *args, **how)`` returns the result for a part
        of : handle whose results are the parts; None for the partitions' problems
        """
        return Cached(partial(function, **how) if how else function, args, of)

    def total(
        self, function: Callable[..., Any], *args: Any, of: Cached | None = None
    ) -> list[np.ndarray]:
        """Wait for the sums of a function's results over all partitions, and return the sums.

        function, args, of : as in `cached`
        """
        found: list[np.ndarray] = self._rows.reduced(added, function, *args, of=of)
        return found


def problem_of_all(rows: PartitionedRows, meaning: Meaning) -> PartitionedProblem:
    """Return the problem of all partitions; submit calls that make each partition's problem."""
    rows.state(meaning)
    shape = 0, rows.n_features
    none = sp.csr_array(shape) if rows.is_sparse else np.zeros(shape)
    y = np.zeros(0) if meaning.classes is None else meaning.classes[:0]
    problem = problem_of((none, y, None, None), meaning)
    names = [one.name for one in dataclasses.fields(LinearProblem)]
    return PartitionedProblem(**{name: getattr(problem, name) for name in names}, partitions=rows)
