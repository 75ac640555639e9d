"""What a fit asks of all rows, of which ranks without shared memory have parts.

On one machine the rows of a fit are all rows, and every answer is the question: `ALONE`. On ranks
with rows of their own answers are sums over ranks, or row by row what ranks have, end to end in
their order; features never travel. All ranks have to ask the same, in one order.
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
    """Of one process: what it has is all there is.

    Nothing may be asked in a call that `solve` makes at the end of an epoch: there ranks come by
    one after the other.
    """

    is_one = True  # whether this process has all rows
    shares_memory = True  # whether all workers do

    def barrier(self, named: Any) -> Any:
        """The barrier of a problem by a gradient: in step where the workers share no memory."""
        return "bsp" if named is None and not self.shares_memory else named

    def first(self, content: Any) -> Any:
        """What the first process has, for all."""
        return content

    def of_each(self, content: Any) -> list[Any]:
        """What each process with rows of its own has, in their order."""
        return [content]

    def added(self, numbers: Any) -> Any:
        """The sum of the processes' numbers or arrays."""
        return numbers

    def every(self, condition: bool) -> bool:
        """Whether something is so in all processes."""
        return condition

    def joined(self, of_rows: Any) -> Any:
        """What there is of each row, of all rows; None of None."""
        return of_rows

    def own(self, of_all_rows: Any) -> Any:
        """Of what there is of each row, what is of this process's rows."""
        return of_all_rows

    def labels(self, known: np.ndarray) -> np.ndarray:
        """The labels that there are, sorted, from those of a process."""
        return known

    def weights_of_classes(
        self, class_weight: Any, classes: np.ndarray, y: Any, sample_weight: Any = None
    ) -> np.ndarray:
        """As of `sklearn.utils.compute_class_weight`."""
        found: np.ndarray = compute_class_weight(
            class_weight, classes=classes, y=y, sample_weight=sample_weight
        )
        return found

    def whole(self, problem: RowProblem) -> RowProblem:
        """The problem, for who evaluates it on all rows."""
        return problem


class RepeatedRows(AllRows):
    """Of several processes that make one fit, and have all rows each.

    gathered : what all processes have, in their order
    """

    shares_memory = False

    def __init__(self, gathered: Callable[[Any], list[Any]]) -> None:
        self.gathered = gathered

    def first(self, content: Any) -> Any:
        """What the first process has, for all."""
        return self.gathered(content)[0]


class PartedRows(RepeatedRows):
    """Of several processes that have rows of their own.

    place : of this process
    counts : rows of each
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
        """What each process with rows of its own has, in their order."""
        return self.gathered(content)

    def added(self, numbers: Any) -> Any:
        """The sum of the processes' numbers or arrays."""
        return self._added(numbers)

    def every(self, condition: bool) -> bool:
        """Whether something is so in all processes."""
        return all(self.gathered(bool(condition)))

    def joined(self, of_rows: Any) -> Any:
        """What there is of each row, of all rows; None of None."""
        return None if of_rows is None else np.concatenate(self.gathered(of_rows))

    def own(self, of_all_rows: Any) -> Any:
        """Of what there is of each row, what is of this process's rows."""
        return None if of_all_rows is None else of_all_rows[self._rows]

    def labels(self, known: np.ndarray) -> np.ndarray:
        """The labels that there are, sorted, from those of a process."""
        return distinct(np.concatenate(self.gathered(known)))

    def weights_of_classes(
        self, class_weight: Any, classes: np.ndarray, y: Any, sample_weight: Any = None
    ) -> np.ndarray:
        """As of `sklearn.utils.compute_class_weight`, by the rows of all."""
        if class_weight == "balanced":
            places = np.searchsorted(classes, y)
            sample_weight = self.added(np.bincount(places, sample_weight, len(classes)))
            y = classes  # each class once, with what all of its rows weigh
        return super().weights_of_classes(class_weight, classes, y, sample_weight)

    def whole(self, problem: RowProblem) -> RowProblem:
        """The problem, for who evaluates it on all rows; to solve it each solves its own."""
        sizes = self.gathered(tuple(sizes_of(problem)))
        whole, numbers = together([Sizes(*one) for one in sizes]), self._numbers
        return part_of(problem, whole, numbers, problem.identity, self.added)


ALONE = AllRows()


def all_rows_of(estimator: Any) -> AllRows:
    """Who has the rows that an estimator is fitted to."""
    found: AllRows = getattr(estimator.runtime, "everybody", ALONE)
    return found
