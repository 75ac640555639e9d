"""The centre of each worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.system import ranges


def check(centres: Any) -> None:
    """Refuse values that do not describe centres, before the number of workers is known."""
    if ranges.is_integer(centres):
        if centres < 1:
            raise ValueError(f"centres must be at least 1; got {centres!r}.")
        return
    if isinstance(centres, str) or not isinstance(centres, Sequence | np.ndarray):
        raise ValueError(
            "centres must be the number of centres, or a list with the centre of each worker, such "
            f"as [0, 0, 1, 2]; got {centres!r}."
        )
    listed = list(centres)
    if not listed or not all(ranges.is_integer(one) and one >= 0 for one in listed):
        raise ValueError(
            f"a list of centres must have one integer, from 0, for each worker; got {listed}."
        )
    missing = sorted(set(range(max(listed) + 1)) - set(listed))
    if missing:
        raise ValueError(
            f"centres={listed} names centres up to {max(listed)}, but centre {missing[0]} has no "
            "worker: number the centres from 0 without gaps."
        )


def groups_of(centres: Any, n_workers: int) -> np.ndarray:
    """Return the centre of each worker: int64 of shape (n_workers,).

    If `centres` is a number, neighbouring workers share a centre, and the sizes of centres differ
    by at most one.

    Raises
    ------
    ValueError
        If there are fewer workers than centres, or if a list does not have `n_workers` entries.

    Examples
    --------
    >>> from hogshare.planes.mirrors.groups import groups_of
    >>> groups_of(3, 7).tolist(), groups_of([0, 1, 1], 3).tolist()
    ([0, 0, 0, 1, 1, 2, 2], [0, 1, 1])
    """
    if ranges.is_integer(centres):
        if n_workers < centres:
            raise ValueError(
                f"centres={centres} needs at least a worker for each centre; the run has "
                f"n_workers={n_workers}: set n_workers={centres} or more, or fewer centres."
            )
        sizes = [len(part) for part in np.array_split(np.arange(n_workers), centres)]
        return np.repeat(np.arange(centres), sizes)
    found = np.asarray(list(centres), np.int64)
    if len(found) != n_workers:
        raise ValueError(
            f"centres names the centre of {len(found)} workers, but the run has {n_workers}: give "
            "one entry for each worker."
        )
    return found
