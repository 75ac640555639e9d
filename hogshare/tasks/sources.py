"""What `parallelize` takes, as partitions: arrays, sparse rows, loaders, a problem, Dask arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.system.ranges import several, whole
from hogshare.tasks.blocks import as_block
from hogshare.tasks.partitions import ArrayParts, LoadedParts, Partitions, RowParts, cut


def parts_of(X: Any, y: Any, loaders: Any, n_parts: int | None, n_workers: int) -> Partitions:
    """Partitions of what the caller gives; of loaders it is still to be found how long they are.

    Raises
    ------
    ValueError
        If it is none of these, or there are fewer partitions than workers or more than rows.
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
