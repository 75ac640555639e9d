"""What is cut into partitions, and whose they are: arrays, loaders, row numbers of a problem.

Who writes: the caller, once; a worker that has a copy of its own keeps what its loaders have read.
Who reads: workers, a partition at a time. Who frees: the context, when it closes.
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
    """How a partition is made, with what of it is the user's: it travels."""

    function: Callable[..., Block]
    args: tuple[Any, ...]

    @property
    def users(self) -> tuple[Any, ...]:
        """Whose code travels with it."""
        return tuple(one for one in self.args if callable(one)) or (None,)

    def __call__(self) -> Block:
        """Make it."""
        return self.function(*self.args)


class Partitions:
    """Rows in partitions, numbered from 0 on through all of them.

    bounds : partition p has the rows ``bounds[p]`` to ``bounds[p + 1]``
    """

    bounds: np.ndarray

    def part(self, p: int) -> Block:
        """The rows of a partition."""
        return self.recipe(p)()

    def recipe(self, p: int) -> Recipe:
        """What makes the partition anywhere."""
        raise NotImplementedError

    def ends(self, p: int) -> tuple[int, int]:
        """First row of a partition, and the one after its last."""
        return int(self.bounds[p]), int(self.bounds[p + 1])


def cut(n_rows: int, n_parts: int) -> np.ndarray:
    """Bounds of so many partitions of nearly one size."""
    return np.linspace(0, n_rows, n_parts + 1).astype(np.int64)


@dataclass(frozen=True)
class ArrayParts(Partitions):
    """Stretches of rows that the caller holds."""

    block: Block
    bounds: np.ndarray

    def recipe(self, p: int) -> Recipe:
        """As `Partitions.recipe`: its rows travel."""
        return Recipe(_itself, (self.block.between(*self.ends(p)),))


def _itself(block: Block) -> Block:
    return block


@dataclass(frozen=True)
class RowParts(Partitions):
    """Row numbers of a problem, which knows its rows itself."""

    bounds: np.ndarray

    def recipe(self, p: int) -> Recipe:
        return Recipe(_numbers, self.ends(p))


def _numbers(start: int, stop: int) -> Block:
    return Block(np.arange(start, stop, dtype=np.int64))


@dataclass(frozen=True)
class LoadedParts(Partitions):
    """A loader for each partition, called where the partition is needed, once by each worker.

    loaders : ``loader()`` returns ``X`` or ``(X, y)``
    bounds : ndarray of int64; once it is known how many rows each has
    """

    loaders: Sequence[Callable[[], Any]]
    bounds: np.ndarray
    loaded: dict[int, Block] = field(default_factory=dict, compare=False, repr=False)

    @property
    def users(self) -> tuple[Callable[[], Any], ...]:
        """What of it is the user's, whose code travels with it."""
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
    """Have a loader read its partition."""
    return as_block(f"what the loader of partition {p} returned", loader())


def owner_of(partition: int, n_workers: int, there: Sequence[int]) -> int:
    """Which worker has a partition: a pure function of who is there.

    A partition has a home, the worker of its number modulo the number of workers, and is there
    whenever that one is. So who comes back finds its own, and nobody else's move.

    n_workers : numbers of workers that there have been
    there : who is there, in ascending order; at least one

    Examples
    --------
    >>> from hogshare.tasks.partitions import owner_of
    >>> [owner_of(p, 3, [0, 1, 2]) for p in range(6)], [owner_of(p, 3, [0, 2]) for p in range(6)]
    ([0, 1, 2, 0, 1, 2], [0, 2, 2, 0, 0, 2])
    """
    home = partition % n_workers
    return home if home in there else there[(partition // n_workers + home) % len(there)]


def parts_of(X: Any, y: Any, loaders: Any, n_parts: int | None, n_workers: int) -> Partitions:
    """Partitions of what the caller gives; of loaders it is still to be found how long they are.

    Raises ValueError if it is none of these, or there are fewer partitions than workers or more
    than rows.
    """
    if loaders is not None:
        if X is not None or y is not None or n_parts is not None:
            raise ValueError("loaders= stands for X, y and partitions: give it alone.")
        return _loaded(several(loaders=loaders), n_workers)
    if hasattr(X, "objective_at"):
        if y is not None:
            raise ValueError("a problem has its labels itself: leave out y.")
        return RowParts(_bounds(int(X.n_rows), n_parts, n_workers))
    block = as_block("what is given", X if y is None else (X, y))
    return ArrayParts(block, _bounds(block.n_rows, n_parts, n_workers))


def _bounds(n_rows: int, n_parts: int | None, n_workers: int) -> np.ndarray:
    count = n_workers if n_parts is None else n_parts
    whole(1, partitions=count)
    _check(count, n_workers)
    if count > n_rows:
        raise ValueError(f"there are {n_rows} rows, too few for {count} partitions.")
    return cut(n_rows, int(count))


def _check(n_parts: int, n_workers: int) -> None:
    if n_parts < n_workers:
        raise ValueError(
            f"{n_parts} partitions are too few for {n_workers} workers, of whom each needs one."
        )


def _loaded(loaders: Sequence[Callable[[], Any]], n_workers: int) -> LoadedParts:
    _check(len(loaders), n_workers)
    for p, loader in enumerate(loaders):
        if not callable(loader):
            raise TypeError(f"loader {p} is no function: {loader!r}.")
    return LoadedParts(tuple(loaders), np.zeros(len(loaders) + 1, np.int64))
