"""What all machines do together before and after a run, asleep while they wait for each other.

MPI's own collective calls wait on a core; those that do not wait are begun here, and looked after
now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

NAP_SECONDS = 0.0005


def sleep_until(ready: Callable[[], Any], seconds: float = NAP_SECONDS) -> None:
    """Sleep until something is so."""
    while not ready():
        time.sleep(seconds)


def copy_of(comm: Any) -> Any:
    """A communicator of the same ranks, whose messages meet none of the other's."""
    copy, request = comm.Idup()
    sleep_until(request.Test)
    return copy


def added(comm: Any, numbers: np.ndarray) -> np.ndarray:
    """The sum of all ranks' arrays, on each; the same bits everywhere.

    numbers : float64, of one shape on all
    """
    parts = gathered(comm, numbers)
    return np.asarray(parts.sum(axis=0))


def gathered(comm: Any, numbers: np.ndarray) -> np.ndarray:
    """All ranks' arrays, in their order, on each."""
    own = np.ascontiguousarray(numbers, np.float64)
    found = np.empty((comm.Get_size(), *own.shape))
    request = comm.Iallgather(own, found)
    sleep_until(request.Test)
    return found
