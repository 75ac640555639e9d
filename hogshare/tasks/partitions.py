"""What is cut into partitions: arrays of the caller's, loaders, row numbers of a problem.

Who writes: the caller, once; a worker that has a copy of its own keeps what its loaders have read.
Who reads: workers, a partition at a time. Who frees: the context, when it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hogshare.tasks.blocks import Block, as_block


class Partitions(Protocol):
    """Rows in partitions, numbered from 0 on through all of them."""

    @property
    def bounds(self) -> np.ndarray:
        """Partition p has the rows ``bounds[p]`` to ``bounds[p + 1]``."""
        ...

    def part(self, p: int) -> Block:
        """The rows of a partition."""
        ...

    def recipe(self, p: int) -> tuple[Callable[..., Block], tuple[Any, ...]]:
        """A function and its arguments that make the partition anywhere."""
        ...


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


def cut(n_rows: int, n_parts: int) -> np.ndarray:
    """Bounds of so many partitions of nearly one size."""
    return np.linspace(0, n_rows, n_parts + 1).astype(np.int64)


@dataclass(frozen=True)
class ArrayParts:
    """Stretches of rows that the caller holds."""

    block: Block
    bounds: np.ndarray

    def part(self, p: int) -> Block:
        """As `Partitions.part`."""
        return self.block.between(int(self.bounds[p]), int(self.bounds[p + 1]))

    def recipe(self, p: int) -> tuple[Callable[..., Block], tuple[Any, ...]]:
        """As `Partitions.recipe`: its rows travel."""
        return _itself, (self.part(p),)


def _itself(block: Block) -> Block:
    return block


@dataclass(frozen=True)
class RowParts:
    """Row numbers of a problem, which knows its rows itself."""

    bounds: np.ndarray

    def part(self, p: int) -> Block:
        """As `Partitions.part`."""
        return _numbers(int(self.bounds[p]), int(self.bounds[p + 1]))

    def recipe(self, p: int) -> tuple[Callable[..., Block], tuple[Any, ...]]:
        """As `Partitions.recipe`."""
        return _numbers, (int(self.bounds[p]), int(self.bounds[p + 1]))


def _numbers(start: int, stop: int) -> Block:
    return Block(np.arange(start, stop, dtype=np.int64))


@dataclass(frozen=True)
class LoadedParts:
    """A loader for each partition, called where the partition is needed, once by each worker.

    Parameters
    ----------
    loaders : sequence of callable
        ``loader()`` returns ``X`` or ``(X, y)``.
    bounds : ndarray of int64
        Once it is known how many rows each has.
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
        """As `Partitions.part`."""
        if p not in self.loaded:
            self.loaded[p] = load(p, self.loaders[p])
        return self.loaded[p]

    def recipe(self, p: int) -> tuple[Callable[..., Block], tuple[Any, ...]]:
        """As `Partitions.recipe`."""
        return load, (p, self.loaders[p])


def load(p: int, loader: Callable[[], Any]) -> Block:
    """Have a loader read its partition."""
    return as_block(f"what the loader of partition {p} returned", loader())
