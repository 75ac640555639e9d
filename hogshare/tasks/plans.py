"""The plan of a task: a function of the drawn rows, and the fold of its values."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.tasks.blocks import Block
from hogshare.tasks.handles import Handle
from hogshare.tasks.nested_values import ADDS, NEW_SUMS, add, check_same, form_of, shape_of


@dataclass(frozen=True)
class TaskPlan:
    """The properties of a task that are the same for all tasks of a loop.

    function : function of a block or a row and of the broadcasts' values, or None to fold the rows
        themselves
    each : {"block", "row"}, the argument of one call of the function
    with_index : whether row numbers are the function's first argument
    history : whether broadcasts are passed as handles, which have the versions last used with rows
    op : function of two values that folds them, or None to fold with `aggregate`
    aggregate : the zero, ``seq_op`` and ``comb_op`` of `Collection.aggregate`
    rate, replace : as in `hogshare.tasks.draws.drawn_rows`
    counts : whether the task only counts the rows of each partition
    """

    function: Callable[..., Any] | None
    each: str = "block"
    with_index: bool = False
    history: bool = False
    op: Callable[[Any, Any], Any] | None = None
    aggregate: tuple[Any, Callable[..., Any], Callable[..., Any]] | None = None
    rate: float = 1.0
    replace: bool = False
    counts: bool = False

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's functions, whose code is sent with the plan."""
        folding = () if self.aggregate is None else self.aggregate[1:]
        return (*getattr(self.function, "users", (self.function,)), self.op, *folding)

    def identity(self) -> tuple[Any, ...]:
        """Return a key of the plan; plans with the same functions and flags have equal keys."""
        folding = None
        if self.aggregate is not None:
            zero, *ops = self.aggregate
            folding = id(zero), *map(_same, ops)  # an equal zero may have another type
        flags = self.each, self.with_index, self.history, self.rate, self.replace, self.counts
        return (_same(self.function), _same(self.op), folding, *flags)

    def values(self, block: Block, index: np.ndarray, given: Iterable[Any]) -> Iterable[Any]:
        """Yield the function's values for a block: one value, or one value for each row."""
        given = tuple(given)
        numbered: Iterable[tuple[Any, Any]] = [(index, block.rows)]
        if self.each == "row":
            numbered = zip(index.tolist(), block.each(), strict=True)
        for number, rows in numbered:
            if self.function is None:
                yield rows
            elif self.with_index:
                yield self.function(number, rows, *given)
            else:
                yield self.function(rows, *given)

    def fold(self, parts: Iterable[Iterable[Any]]) -> Any:
        """Fold the values of all partitions, in the order of the partitions, into one value."""
        if self.aggregate is not None:
            zero, seq_op, comb_op = self.aggregate
            # a copy for each partition: seq_op may change its first argument
            sums = [functools.reduce(seq_op, values, copy.deepcopy(zero)) for values in parts]
            return functools.reduce(comb_op, sums)
        assert self.op is not None
        values = itertools.chain.from_iterable(parts)
        folded, is_own = next(values), self.op in NEW_SUMS
        for value in values:
            folded = self._of_two(folded if is_own else _copied(folded), value)
            is_own = True
        return folded

    def _of_two(self, left: Any, right: Any) -> Any:
        assert self.op is not None
        if self.op is not add and self.op in ADDS:  # `add` checks by itself
            check_same(self.form_of(left), self.form_of(right), left, right)
        return self.op(left, right)

    def form_of(self, value: Any) -> Any:
        """Return a key that is equal for all values that `op` can add."""
        return form_of(value) if self.op is add else shape_of(value)


def _copied(value: Any) -> Any:
    """Return a copy of a fold's first value; return the value if it cannot be copied.

    The value may be a view of rows, and the operator may change it.
    """
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _same(thing: Any) -> Any:
    """Return a function as a key; if it has no hash, return a key of its identity."""
    try:
        hash(thing)
    except TypeError:
        return "itself", id(thing)
    return thing


class GradientOf:
    """The gradient method of a problem, as a function of a block of the problem's row numbers.

    Two instances for the same problem are equal, so the problem is sent to each worker once.
    """

    def __init__(self, problem: Any) -> None:
        self.problem = problem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradientOf) and other.problem is self.problem

    def __hash__(self) -> int:
        return id(self.problem)

    def __getstate__(self) -> dict[str, Any]:
        # a problem by a gradient is sent without its objective, which workers do not use
        sent = getattr(self.problem, "for_process", lambda: self.problem)()
        return {"problem": sent}

    @property
    def values_per_row(self) -> float | None:
        """Mean number of values that a row's gradient reads; None if the gradient is a user's."""
        return getattr(self.problem, "values_per_row", None)

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's objects in the problem."""
        found: tuple[Any, ...] = getattr(self.problem, "users", (self.problem,))
        return found

    def __call__(self, index: np.ndarray, rows: Any, w: np.ndarray) -> np.ndarray:
        """Return the sum of the rows' gradients as a new array."""
        out = np.zeros(np.size(w))
        self.problem.gradient(w, index, out)
        return out


class DifferenceOf(GradientOf):
    """The sum, over the drawn rows, of the present gradient minus the row's last used gradient.

    The last used gradient of a row is its gradient at the version of the model with which the row
    was last used; for a row that was never used it is zero. This class is a function for
    ``map_with_index(..., history=True)``. Source: Soori et al. 2019 (ASYNC), ASAGA, which does not
    store past gradients but computes them again from the past model.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DifferenceOf) and other.problem is self.problem

    def __hash__(self) -> int:
        return hash((DifferenceOf, id(self.problem)))

    def __call__(self, index: np.ndarray, rows: Any, w: Handle) -> np.ndarray:  # type: ignore[override]
        """Return the sum of the differences as a new array."""
        total = super().__call__(index, rows, w.value)
        for old, places in w.groups():
            if old is not None:
                total -= super().__call__(index[places], rows, old)
        return total
