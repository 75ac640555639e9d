"""Sums and lists over all rows of a fit, also if each rank has only a part of the rows.

If one process has all rows, as on one machine, the object is `ALONE`, and its methods return their
argument. If each rank has rows of its own, a method returns a sum over ranks, or the per-row arrays
of all ranks, concatenated in the order of the ranks. Features are never sent. Every method is
collective: all ranks must call the same methods in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight

from hogshare.problems.linear.labels import distinct
from hogshare.problems.linear.part import Sizes, part_of, sizes_of, together
from hogshare.problems.protocol import RowProblem


class AllRows:
    """The rows of a fit by one process, which has all rows.

    No method may be called in a function that `solve` calls at the end of an epoch: the ranks call
    that function one after another, and each would wait for the others.
    """

    is_one = True  # whether this process has all rows
    shares_memory = True  # whether all workers share one memory

    def barrier(self, named: Any) -> Any:
        """Return a gradient problem's barrier: `named`, or BSP for None without shared memory."""
        return "bsp" if named is None and not self.shares_memory else named

    def first(self, content: Any) -> Any:
        """Return the first process's content in all processes."""
        return content

    def of_each(self, content: Any) -> list[Any]:
        """Return the content of each process with rows of its own, in rank order."""
        return [content]

    def added(self, numbers: Any) -> Any:
        """Return the sum of the processes' numbers or arrays."""
        return numbers

    def every(self, condition: bool) -> bool:
        """Whether a condition is true in all processes."""
        return condition

    def joined(self, of_rows: Any) -> Any:
        """Join the processes' per-row arrays to one for all rows; None for None."""
        return of_rows

    def own(self, of_all_rows: Any) -> Any:
        """Return the part of a per-row array for this process's rows."""
        return of_all_rows

    def labels(self, known: np.ndarray) -> np.ndarray:
        """Return the sorted labels of all processes, given the labels of this process."""
        return known

    def weights_of_classes(
        self, class_weight: Any, classes: np.ndarray, y: Any, sample_weight: Any = None
    ) -> np.ndarray:
        """Return the weight of each class, from `sklearn.utils.compute_class_weight`."""
        found: np.ndarray = compute_class_weight(
            class_weight, classes=classes, y=y, sample_weight=sample_weight
        )
        return found

    def whole(self, problem: RowProblem) -> RowProblem:
        """Return the problem evaluated over all rows."""
        return problem


class RepeatedRows(AllRows):
    """The rows of one fit by several processes, each of which has all rows.

    gathered : ``gathered(content)`` returns the contents of all processes, in rank order
    """

    shares_memory = False

    def __init__(self, gathered: Callable[[Any], list[Any]]) -> None:
        self.gathered = gathered

    def first(self, content: Any) -> Any:
        """Return the first process's content in all processes."""
        return self.gathered(content)[0]


class PartedRows(RepeatedRows):
    """The rows of one fit by several processes, each of which has rows of its own.

    gathered : ``gathered(content)`` returns the contents of all processes, in rank order
    added : ``added(numbers)`` returns the sum of the processes' numbers or arrays
    place : index of this process
    counts : number of rows of each process
    """

    is_one = False

    def __init__(
        self,
        gathered: Callable[[Any], list[Any]],
        added: Callable[[Any], Any],
        place: int,
        counts: Sequence[int],
    ) -> None:
        super().__init__(gathered)
        self._added = added
        begin = sum(counts[:place])
        self._rows = slice(begin, begin + counts[place])
        self._numbers = np.arange(begin, begin + counts[place])

    def of_each(self, content: Any) -> list[Any]:
        """Return the content of each process with rows of its own, in rank order."""
        return self.gathered(content)

    def added(self, numbers: Any) -> Any:
        """Return the sum of the processes' numbers or arrays."""
        return self._added(numbers)

    def every(self, condition: bool) -> bool:
        """Whether a condition is true in all processes."""
        return all(self.gathered(bool(condition)))

    def joined(self, of_rows: Any) -> Any:
        """Join the processes' per-row arrays to one for all rows; None for None."""
        return None if of_rows is None else np.concatenate(self.gathered(of_rows))

    def own(self, of_all_rows: Any) -> Any:
        """Return the part of a per-row array for this process's rows."""
        return None if of_all_rows is None else of_all_rows[self._rows]

    def labels(self, known: np.ndarray) -> np.ndarray:
        """Return the sorted labels of all processes, given the labels of this process."""
        return distinct(np.concatenate(self.gathered(known)))

    def weights_of_classes(
        self, class_weight: Any, classes: np.ndarray, y: Any, sample_weight: Any = None
    ) -> np.ndarray:
        """Return the weight of each class over all processes' rows.

        The weights are those of `sklearn.utils.compute_class_weight`.
        """
        if class_weight == "balanced":
            places = np.searchsorted(classes, y)
            sample_weight = self.added(np.bincount(places, sample_weight, len(classes)))
            y = classes  # one row for each class, which has the weight of all rows of the class
        return super().weights_of_classes(class_weight, classes, y, sample_weight)

    def whole(self, problem: RowProblem) -> RowProblem:
        """Return the problem evaluated over all rows; each process takes steps for its own rows."""
        sizes = self.gathered(tuple(sizes_of(problem)))
        whole, numbers = together([Sizes(*one) for one in sizes]), self._numbers
        return part_of(problem, whole, numbers, problem.identity, self.added)


ALONE = AllRows()


def all_rows_of(estimator: Any) -> AllRows:
    """Return the `AllRows` of an estimator's runtime; `ALONE` if the runtime has none."""
    found: AllRows = getattr(estimator.runtime, "everybody", ALONE)
    return found
