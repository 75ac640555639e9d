"""A linear problem of which one holds a part of the rows, and others the rest.

Who holds a part steps through its own rows, and knows of the others what steps and penalties depend
on: how many there are, and how large. The objective is that of all rows: to evaluate it everybody
has to, at the same model.
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
    """How many rows there are, and how large.

    mean, largest : of the rows' squared norms
    sharpness : as `LinearProblem.sharpness`; of all rows the mean over the parts
    weight : the largest of a row and its class
    nonzeros : stored entries
    """

    n_rows: int
    mean: float
    largest: float
    sharpness: float
    weight: float
    nonzeros: float = 0.0


def sizes_of(problem: LinearProblem) -> Sizes:
    """How many rows a problem has, and how large."""
    n = problem.n_rows
    return Sizes(n, *problem.norms, problem.sharpness, problem.largest_weight, problem.nnz)


def together(parts: Sequence[Sizes]) -> Sizes:
    """The sizes of all rows, from those of the parts.

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
    """A part of the rows of a linear problem.

    whole : of all rows
    numbers : of these rows among all: int64 of shape (n_rows,)
    stated : answers the `identity` of the problem of all rows; everybody has to ask
    add : ``add(numbers)`` is the sum of the arrays that all holders of a part call it with, the
        same bits for each; every one has to
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
        """The sums of arrays over all who have a part of the rows: everybody has to ask."""
        return added_up(self.add, numbers)

    def mask_of_all(self, mask: np.ndarray) -> np.ndarray:
        """A mask of all rows, from those of all parts: everybody has to ask."""
        found = np.zeros(self.n_all)
        found[self.numbers] = mask
        return self.totals(found)[0] > 0.0

    def identity(self) -> dict[str, Any]:
        """What the problem of all rows is, for checkpoints: everybody has to ask."""
        return self.stated()

    def pooled_mean(self, value: float, weight: float) -> float:
        """The mean of a number over all parts, by what each weighs: everybody has to ask."""
        total, weights = self.totals(np.array([value * weight if weight else 0.0, weight]))[0]
        return float(total) / max(float(weights), np.finfo(float).tiny)

    @property
    def norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of all rows."""
        return self.whole.mean, self.whole.largest

    @property
    def sampled_norms(self) -> tuple[float, float]:
        """The same: they are known."""
        return self.norms

    @property
    def sharpness(self) -> float:
        """Of all rows."""
        return self.whole.sharpness

    @property
    def largest_weight(self) -> float:
        """Of all rows."""
        return self.whole.weight

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Objective at a model, of all rows: everybody has to ask."""
        coef = np.asarray(coef, dtype=np.float64).reshape(self.n_columns, self.n_features)
        penalty = self.penalty_at(coef)
        mean = super().objective(coef, intercept) - penalty
        (total,) = self.totals(np.array([mean * self.n_rows]))
        return float(total[0]) / self.n_all + penalty

    def facts(self) -> dict[str, Any]:
        """What it is, for reports; with all its rows."""
        of_all = {"rows": self.n_all, "nonzeros": int(self.whole.nonzeros)}
        return super().facts() | of_all | {"rows here": self.n_rows}


def part_of(
    problem: LinearProblem,
    whole: Sizes,
    numbers: np.ndarray,
    stated: Callable[[], dict[str, Any]],
    add: Callable[[np.ndarray], np.ndarray],
) -> PartOfRows:
    """A problem as a part of a whole; the parameters are as of `PartOfRows`."""
    names = [one.name for one in dataclasses.fields(LinearProblem)]
    own = {name: getattr(problem, name) for name in names}
    return PartOfRows(**own, whole=whole, numbers=numbers, stated=stated, add=add)


def dealt(n_rows: int, hands: range, of: int) -> np.ndarray:
    """Numbers of the rows that `is_dealt` says."""
    return np.flatnonzero(is_dealt(n_rows, hands, of))


def is_dealt(n_rows: int, hands: range, of: int) -> np.ndarray:
    """Which rows some hands get when all are dealt to so many, by turns: bools of (n_rows,).

    hands : numbers of the hands, from 0
    """
    turns = np.arange(n_rows) % of
    return (turns >= hands.start) & (turns < hands.stop)


def picked(rows: RowArrays, mine: np.ndarray) -> RowArrays:
    """Some of the rows, by their numbers: a copy."""
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
