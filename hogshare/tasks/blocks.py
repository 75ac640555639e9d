"""Blocks of a partition's rows: dense, sparse, or row numbers of a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Block:
    """Rows of one partition, or the rows that a task has drawn from it.

    X : array-like or sparse matrix of shape (n_rows, ...)
    y : ndarray of shape (n_rows, ...) or None
    """

    X: Any
    y: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def take(self, rows: np.ndarray) -> Block:
        """Return a copy of some rows; if `rows` are all rows in order, return this block itself."""
        if len(rows) == self.n_rows and np.array_equal(rows, np.arange(len(rows))):
            return self
        return Block(self.X[rows], None if self.y is None else self.y[rows])

    def between(self, start: int, stop: int) -> Block:
        """Return consecutive rows: views if the arrays are dense, copies if they are sparse."""
        return Block(self.X[start:stop], None if self.y is None else self.y[start:stop])

    @property
    def rows(self) -> Any:
        """The argument of a function of a block: ``(X, y)``, or X if there is no y."""
        return self.X if self.y is None else (self.X, self.y)

    def each(self) -> Iterator[Any]:
        """Yield the argument of a row function for each row; a sparse row has two dimensions."""
        sparse = hasattr(self.X, "indptr")
        for k in range(self.n_rows):
            x = self.X[k : k + 1] if sparse else self.X[k]
            yield x if self.y is None else (x, self.y[k])


def as_block(what: str, thing: Any) -> Block:
    """Return an argument, or the value of a loader, as a block; copy only to convert.

    what : name of `thing` in the error message

    Raises ValueError if `thing` is neither ``X`` nor ``(X, y)``, or if X and y differ in length.
    """
    X, y = thing if isinstance(thing, tuple) and len(thing) == 2 else (thing, None)
    if hasattr(X, "indptr") or hasattr(X, "tocsr"):
        X = X.tocsr()
    else:
        X = np.asarray(X)
    if X.ndim < 1 or X.dtype == object:
        raise ValueError(
            f"{what} must be an array or a sparse matrix of rows, or (X, y); got "
            f"{type(thing).__name__}."
        )
    if y is not None:
        y = np.asarray(y)
        if y.ndim < 1 or len(y) != X.shape[0]:
            raise ValueError(
                f"{what} has {X.shape[0]} rows, but y has shape {y.shape}: pass a y for each row."
            )
    return Block(X, y)
