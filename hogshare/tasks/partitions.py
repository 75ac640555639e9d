"""Partitions and their owners: rows from arrays or loaders, or row numbers of a problem.

Writers: the caller makes the partitions once. A worker caches the rows that its loaders have read,
in its own copy of the partitions. Readers: workers, one partition at a time. Freeing: the context
frees the partitions when it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hogshare.system.ranges import several, whole
from hogshare.tasks.blocks import Block, as_block


@dataclass(frozen=True)
class Recipe:
    """A function and its arguments, with which a worker that receives them makes a partition."""

    function: Callable[..., Block]
    args: tuple[Any, ...]

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's functions, whose code is sent with the recipe."""
        return tuple(one for one in self.args if callable(one)) or (None,)

    def __call__(self) -> Block:
        """Make the partition."""
        return self.function(*self.args)


class Partitions:
    """Rows in partitions; the rows of all partitions are numbered from 0.

    bounds : bounds of the partitions; partition p has the rows ``bounds[p]:bounds[p + 1]``
    """

    bounds: np.ndarray

    def part(self, p: int) -> Block:
        """Return the rows of a partition."""
        return self.recipe(p)()

    def recipe(self, p: int) -> Recipe:
        """Return the recipe that makes the partition in any process."""
        raise NotImplementedError

    def ends(self, p: int) -> tuple[int, int]:
        """Return the numbers of a partition's first row and of the row after its last."""
        return int(self.bounds[p]), int(self.bounds[p + 1])


def cut(n_rows: int, n_parts: int) -> np.ndarray:
    """Return the bounds of `n_parts` partitions of nearly equal size."""
    return np.linspace(0, n_rows, n_parts + 1).astype(np.int64)


@dataclass(frozen=True)
class ArrayParts(Partitions):
    """Contiguous parts of the caller's rows."""

    block: Block
    bounds: np.ndarray

    def recipe(self, p: int) -> Recipe:
        """Return the recipe as `Partitions.recipe` does; the rows are sent with the recipe."""
        return Recipe(_itself, (self.block.between(*self.ends(p)),))


def _itself(block: Block) -> Block:
    return block


@dataclass(frozen=True)
class RowParts(Partitions):
    """Row numbers of a problem, which stores its rows itself."""

    bounds: np.ndarray

    def recipe(self, p: int) -> Recipe:
        return Recipe(_numbers, self.ends(p))


def _numbers(start: int, stop: int) -> Block:
    return Block(np.arange(start, stop, dtype=np.int64))


@dataclass(frozen=True)
class LoadedParts(Partitions):
    """Partitions with a loader each; a worker that needs a partition calls its loader once.

    loaders : functions without arguments, each of which returns ``X`` or ``(X, y)``
    bounds : ndarray of int64; zeros until the rows of the partitions have been counted
    loaded : blocks that `part` has loaded in this process, by partition; never sent
    """

    loaders: Sequence[Callable[[], Any]]
    bounds: np.ndarray
    loaded: dict[int, Block] = field(default_factory=dict, compare=False, repr=False)

    @property
    def users(self) -> tuple[Callable[[], Any], ...]:
        """The user's functions, whose code is sent with the partitions."""
        return tuple(self.loaders)

    def __getstate__(self) -> dict[str, Any]:
        return {"loaders": self.loaders, "bounds": self.bounds, "loaded": {}}

    def part(self, p: int) -> Block:
        if p not in self.loaded:
            self.loaded[p] = load(p, self.loaders[p])
        return self.loaded[p]

    def recipe(self, p: int) -> Recipe:
        return Recipe(load, (p, self.loaders[p]))


def load(p: int, loader: Callable[[], Any]) -> Block:
    """Read a partition by calling its loader."""
    return as_block(f"what the loader of partition {p} returned", loader())


def owner_of(partition: int, n_workers: int, present: Sequence[int]) -> int:
    """Return the worker that has a partition; the result depends only on the arguments.

    The home worker of a partition has the partition's number modulo `n_workers`. If the home worker
    is present, it has the partition. So a worker that comes back has its own partitions again, and
    all other partitions stay at their workers.

    n_workers : number of workers that have ever been present
    present : numbers of the present workers, in ascending order; at least one

    Examples
    --------
    >>> from hogshare.tasks.partitions import owner_of
    >>> [owner_of(p, 3, [0, 1, 2]) for p in range(6)], [owner_of(p, 3, [0, 2]) for p in range(6)]
    ([0, 1, 2, 0, 1, 2], [0, 2, 2, 0, 0, 2])
    """
    home = partition % n_workers
    return home if home in present else present[(partition // n_workers + home) % len(present)]


def parts_of(
    X: Any, y: Any, loaders: Any, n_parts: int | None, n_workers: int, n_present: int
) -> Partitions:
    """Return the partitions of X and y, of a problem, or of loaders, whose bounds are still 0.

    n_parts : number of partitions, or None for `n_workers`, which includes workers yet to come
    n_present : number of present workers, for each of which there must be a partition

    Raises ValueError if the input is none of these, if there are fewer partitions than present
    workers, or if there are more partitions than rows.
    """
    if loaders is not None:
        if X is not None or y is not None or n_parts is not None:
            raise ValueError("loaders= replaces X, y and partitions: pass it alone.")
        return _loaded(several(loaders=loaders), n_present)
    n_parts = n_workers if n_parts is None else n_parts
    if hasattr(X, "objective_at"):
        if y is not None:
            raise ValueError("X is a problem, which has its labels itself: leave out y.")
        return RowParts(_bounds(int(X.n_rows), n_parts, n_present))
    block = as_block("X" if y is None else "(X, y)", X if y is None else (X, y))
    return ArrayParts(block, _bounds(block.n_rows, n_parts, n_present))


def _bounds(n_rows: int, n_parts: int, n_present: int) -> np.ndarray:
    whole(1, partitions=n_parts)
    _check(n_parts, n_present)
    if n_parts > n_rows:
        raise ValueError(
            f"X has {n_rows} rows, too few for {n_parts} partitions: pass a smaller partitions=."
        )
    return cut(n_rows, int(n_parts))


def _check(n_parts: int, n_present: int) -> None:
    if n_parts < n_present:
        raise ValueError(
            f"{n_parts} partitions are too few for {n_present} workers: each needs at least one."
        )


def _loaded(loaders: Sequence[Callable[[], Any]], n_present: int) -> LoadedParts:
    _check(len(loaders), n_present)
    for p, loader in enumerate(loaders):
        if not callable(loader):
            raise TypeError(
                f"loader {p} is not a function: {loader!r}; pass functions in loaders=."
            )
    return LoadedParts(tuple(loaders), np.zeros(len(loaders) + 1, np.int64))
