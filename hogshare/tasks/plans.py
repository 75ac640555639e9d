"""The plan of a task: a function of the drawn rows, and the fold of its values."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.tasks.blocks import Block
from hogshare.tasks.handles import Handle

ADDS = (operator.add, operator.iadd, np.add)


@dataclass(frozen=True)
class TaskPlan:
    """The properties of a task that are the same for all tasks of a loop.

    function : a function of a block or a row and of the broadcasts' values; None: the rows
        themselves are folded
    each : {"block", "row"}; the function's argument
    with_index : whether row numbers are the function's first argument
    history : whether broadcasts are passed as handles, with the versions with which rows were last
        used
    op : a function of two values that folds them; None: fold by `aggregate`
    aggregate : zero, ``seq_op`` and ``comb_op``
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
        """Return a key that distinguishes plans; it is equal for plans with the same functions."""
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
        return functools.reduce(self._of_two, (value for values in parts for value in values))

    def _of_two(self, left: Any, right: Any) -> Any:
        assert self.op is not None
        if self.op in ADDS and shape_of(left) != shape_of(right):
            raise ValueError(
                f"values of shapes {shape_of(left)} and {shape_of(right)} cannot be added: the "
                "function must return the same shape for all rows"
            )
        return self.op(left, right)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an array or number; None for other values, such as lists."""
    return np.shape(value) if isinstance(value, np.ndarray | np.generic | complex) else None


def _same(thing: Any) -> Any:
    """Return a function as a key; a function without a hash equals only itself."""
    try:
        hash(thing)
    except TypeError:
        return "itself", id(thing)
    return thing


class GradientOf:
    """A problem's own gradient, as a function of a block of the problem's row numbers.

    Two instances of the same problem are equal, so the problem is sent to workers once.
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
    def users(self) -> tuple[Any, ...]:
        """The user's objects in the problem."""
        found: tuple[Any, ...] = getattr(self.problem, "users", (self.problem,))
        return found

    def __call__(self, index: np.ndarray, rows: Any, w: np.ndarray) -> np.ndarray:
        """Return the sum of the rows' gradients."""
        out = np.zeros(len(w))
        self.problem.gradient(w, index, out)
        return out


class DifferenceOf(GradientOf):
    """The drawn rows' sum of present gradients minus gradients at the version last used.

    A row that was never used has a history of zero. Source: Soori et al. 2019 (ASYNC), ASAGA, where
    past gradients are not stored but computed again from the past model. It is for
    ``map_with_index(..., history=True)``.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DifferenceOf) and other.problem is self.problem

    def __hash__(self) -> int:
        return hash((DifferenceOf, id(self.problem)))

    def __call__(self, index: np.ndarray, rows: Any, w: Handle) -> np.ndarray:  # type: ignore[override]
        """Return the sum of the gradients' differences."""
        total = super().__call__(index, rows, w.value)
        for old, places in w.groups():
            if old is not None:
                total -= super().__call__(index[places], rows, old)
        return total
