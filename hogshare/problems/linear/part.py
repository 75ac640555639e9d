"""A linear problem whose rows are divided into parts, one per process.

A process steps through its own part. It also knows the number and the sizes of all rows, on which
steps and penalties depend. The objective is a mean over all rows, so all processes must evaluate
the objective at the same time, at the same model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.rows.row_views import RowArrays
from hogshare.problems.kernel_arrays import added_up, frozen
from hogshare.problems.linear.problem import LinearProblem


class Sizes(NamedTuple):
    """The number of some rows, and their sizes.

    n_rows : number of rows
    mean, largest : mean and largest squared norm of the rows
    sharpness : `LinearProblem.sharpness` of the rows; for all rows, the mean over the parts
    weight : largest product of the weights of a row and its class
    nonzeros : number of stored entries
    """

    n_rows: int
    mean: float
    largest: float
    sharpness: float
    weight: float
    nonzeros: float = 0.0


def sizes_of(problem: LinearProblem) -> Sizes:
    """Return the number and the sizes of a problem's rows."""
    n = problem.n_rows
    return Sizes(n, *problem.norms, problem.sharpness, problem.largest_weight, problem.nnz)


def together(parts: Sequence[Sizes]) -> Sizes:
    """Combine the sizes of the parts into the sizes of all rows.

    Examples
    --------
    >>> from hogshare.problems.linear.part import Sizes, together
    >>> together([Sizes(1, 4.0, 4.0, 1.0, 1.0), Sizes(3, 8.0, 9.0, 1.0, 2.0)])
    Sizes(n_rows=4, mean=7.0, largest=9.0, sharpness=1.0, weight=2.0, nonzeros=0.0)
    """
    n = sum(part.n_rows for part in parts)

    def mean(values: list[float]) -> float:
        weighted = (part.n_rows * value for part, value in zip(parts, values, strict=True))
        return sum(weighted) / max(1, n)

    return Sizes(
        n,
        mean([part.mean for part in parts]),
        max(part.largest for part in parts),
        mean([part.sharpness for part in parts]),
        max(part.weight for part in parts),
        sum(part.nonzeros for part in parts),
    )


@dataclass(frozen=True)
class PartOfRows(LinearProblem):
    """Some rows of a linear problem; all processes must make the calls marked "collective".

    whole : sizes of all rows
    numbers : int64 of shape (n_rows,), numbers of these rows among all rows
    stated : function that returns the `identity` of the problem of all rows (collective)
    add : function ``add(array)`` that returns the sum of the arrays of all processes, with the same
        bits in each process (collective)
    """

    whole: Sizes = field(default=Sizes(0, 0.0, 0.0, 0.0, 0.0), compare=False)
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    stated: Callable[[], dict[str, Any]] = field(default=dict, repr=False, compare=False)
    add: Callable[[np.ndarray], np.ndarray] = field(default=np.asarray, repr=False, compare=False)

    @property
    def n_all(self) -> int:
        """Number of all rows."""
        return self.whole.n_rows

    @property
    def nnz_of_all(self) -> int:
        """Number of stored values of all rows."""
        return int(self.whole.nonzeros)

    def totals(self, *numbers: np.ndarray) -> list[np.ndarray]:
        """Return the sums of arrays over all parts of the rows (collective)."""
        return added_up(self.add, numbers)

    def mask_of_all(self, mask: np.ndarray) -> np.ndarray:
        """Return one mask of all rows from the masks of all parts (collective)."""
        found = np.zeros(self.n_all)
        found[self.numbers] = mask
        return self.totals(found)[0] > 0.0

    def identity(self) -> dict[str, Any]:
        """Return the identity of the problem of all rows, for checkpoints (collective)."""
        return self.stated()

    def pooled_mean(self, value: float, weight: float) -> float:
        """Return the weighted mean of a number over all parts (collective)."""
        total, weights = self.totals(np.array([value * weight if weight else 0.0, weight]))[0]
        return float(total) / max(float(weights), np.finfo(float).tiny)

    @property
    def norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of all rows."""
        return self.whole.mean, self.whole.largest

    @property
    def sampled_norms(self) -> tuple[float, float]:
        """The norms of all rows, which are known without a sample."""
        return self.norms

    @property
    def sharpness(self) -> float:
        """Sharpness of all rows."""
        return self.whole.sharpness

    @property
    def largest_weight(self) -> float:
        """Largest weight of all rows."""
        return self.whole.weight

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return the objective of all rows at a model (collective)."""
        coef = np.asarray(coef, dtype=np.float64).reshape(self.n_columns, self.n_features)
        penalty = self.penalty_at(coef)
        mean = super().objective(coef, intercept) - penalty
        (total,) = self.totals(np.array([mean * self.n_rows]))
        return float(total[0]) / self.n_all + penalty

    def facts(self) -> dict[str, Any]:
        """Return the facts for reports, with the number of rows in total and in this part."""
        of_all = {"rows": self.n_all, "nonzeros": int(self.whole.nonzeros)}
        return super().facts() | of_all | {"rows here": self.n_rows}


def part_of(
    problem: LinearProblem,
    whole: Sizes,
    numbers: np.ndarray,
    stated: Callable[[], dict[str, Any]],
    add: Callable[[np.ndarray], np.ndarray],
) -> PartOfRows:
    """Return a problem as a part of a larger problem; `PartOfRows` describes the parameters."""
    names = [one.name for one in dataclasses.fields(LinearProblem)]
    own = {name: getattr(problem, name) for name in names}
    return PartOfRows(**own, whole=whole, numbers=numbers, stated=stated, add=add)


def dealt(n_rows: int, hands: range, of: int) -> np.ndarray:
    """Return the numbers of the rows that `is_dealt` marks."""
    return np.flatnonzero(is_dealt(n_rows, hands, of))


def is_dealt(n_rows: int, hands: range, of: int) -> np.ndarray:
    """Return a mask (n_rows,) of the rows of some receivers, if `of` receivers get rows in order.

    Receiver k gets row k and each `of`-th row after it.

    hands : numbers of the receivers, from 0
    """
    hand = np.arange(n_rows) % of
    return (hand >= hands.start) & (hand < hands.stop)


def picked(rows: RowArrays, mine: np.ndarray) -> RowArrays:
    """Return a copy of some of the rows, by their numbers."""
    n, width = len(rows.y), rows.width
    y, weight = frozen(rows.y[mine]), rows.weight
    weight = frozen(weight[mine]) if weight.size else weight
    if width:
        values = rows.data.reshape(n, width)[mine]
        return RowArrays(frozen(values.reshape(-1)), rows.indices, rows.indptr, width, y, weight)
    mine = mine.astype(np.int64, copy=False)
    starts = rows.indptr[:-1][mine]
    lengths = rows.indptr[1:][mine] - starts
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    return RowArrays(
        frozen(rows.data[places]), frozen(rows.indices[places]), frozen(indptr), 0, y, weight
    )
