"""Which worker belongs to which centre."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hogshare.system import ranges


def check(centres: Any) -> None:
    """Refuse what names no centres, before it is known how many workers there are."""
    if ranges.is_integer(centres):
        if centres < 1:
            raise ValueError(f"centres must be at least 1; got {centres!r}.")
        return
    if isinstance(centres, str) or not isinstance(centres, Sequence | np.ndarray):
        raise ValueError(
            "centres must be how many there are, or a list with the number of the centre of each "
            f"worker, such as [0, 0, 1, 2]; got {centres!r}."
        )
    listed = list(centres)
    if not listed or not all(ranges.is_integer(one) and one >= 0 for one in listed):
        raise ValueError(
            f"a list of centres has the number of a centre, from 0, for each worker; got {listed}."
        )
    missing = sorted(set(range(max(listed) + 1)) - set(listed))
    if missing:
        raise ValueError(
            f"the list of centres goes up to {max(listed)}, and centre {missing[0]} has no worker."
        )


def groups_of(centres: Any, n_workers: int) -> np.ndarray:
    """The centre of each worker: int64 of shape (n_workers,).

    A number of centres gets neighbours together, in parts that differ by a worker at most.

    Raises
    ------
    ValueError
        If there are fewer workers than centres, or a list is of another number of workers.

    Examples
    --------
    >>> from hogshare.planes.mirrors.groups import groups_of
    >>> groups_of(3, 7).tolist(), groups_of([0, 1, 1], 3).tolist()
    ([0, 0, 0, 1, 1, 2, 2], [0, 1, 1])
    """
    if ranges.is_integer(centres):
        if n_workers < centres:
            raise ValueError(
                f"{centres} centres need a worker each, and the run has {n_workers}: give "
                f"n_workers={centres} or more, or fewer centres."
            )
        sizes = [len(part) for part in np.array_split(np.arange(n_workers), centres)]
        return np.repeat(np.arange(centres), sizes)
    found = np.asarray(list(centres), np.int64)
    if len(found) != n_workers:
        raise ValueError(
            f"centres names the centre of {len(found)} workers, and the run has {n_workers}."
        )
    return found
