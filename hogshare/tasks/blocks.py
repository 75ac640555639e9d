"""A partition's rows, and how a few of them are taken: dense, sparse, or numbers of a problem's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Block:
    """Rows of one partition, or those that a task has drawn of it.

    X : array-like or sparse matrix of shape (n_rows, ...)
    y : ndarray of shape (n_rows, ...) or None
    """

    X: Any
    y: Any = None

    @property
    def n_rows(self) -> int:
        """How many."""
        return int(self.X.shape[0])

    def take(self, rows: np.ndarray) -> Block:
        """Some of the rows; all of them, in their order, are no copy."""
        if len(rows) == self.n_rows and np.array_equal(rows, np.arange(len(rows))):
            return self
        return Block(self.X[rows], None if self.y is None else self.y[rows])

    def between(self, start: int, stop: int) -> Block:
        """A stretch of the rows; of dense ones a view."""
        return Block(self.X[start:stop], None if self.y is None else self.y[start:stop])

    @property
    def rows(self) -> Any:
        """What a function of a block is called with: ``(X, y)``, or X where there is no y."""
        return self.X if self.y is None else (self.X, self.y)

    def each(self) -> Iterator[Any]:
        """What a function of a row is called with, row by row; a sparse row has two dimensions."""
        sparse = hasattr(self.X, "indptr")
        for k in range(self.n_rows):
            x = self.X[k : k + 1] if sparse else self.X[k]
            yield x if self.y is None else (x, self.y[k])


def as_block(what: str, thing: Any) -> Block:
    """What a loader has returned, or a user has given, as a block.

    Raises ValueError if it is neither ``X`` nor ``(X, y)``, or they have unlike numbers of rows.
    """
    X, y = thing if isinstance(thing, tuple) and len(thing) == 2 else (thing, None)
    if hasattr(X, "indptr") or hasattr(X, "tocsr"):
        X = X.tocsr()
    else:
        X = np.asarray(X)
    if X.ndim < 1 or X.dtype == object:
        raise ValueError(
            f"{what} has to be an array or a sparse matrix of rows, or (X, y); got "
            f"{type(thing).__name__}."
        )
    if y is not None:
        y = np.asarray(y)
        if y.ndim < 1 or len(y) != X.shape[0]:
            raise ValueError(
                f"{what} has {X.shape[0]} rows in X, and y is of shape {y.shape}: a y for each row."
            )
    return Block(X, y)
