"""Admission of available workers by a barrier: one of `hogshare.barriers`, or any function.

The predicates are those of `hogshare.kernels.schedule.barrier_codes`, evaluated on the same table
in plain Python. So a process needs no compiled kernels for them. Plain Python is fast enough for a
table of some dozen rows.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hogshare.barriers import ASP, UserBarrier, ask, barrier_of, numbers_of
from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.shm.table import ProgressTable


class Gate:
    """A barrier that admits available workers.

    barrier : a barrier as in `hogshare.solve`, or a function of the table alone, ``stat -> bool``,
        which admits all workers or none, as in the paper
    seed : seed for the samples of a sampling barrier
    """

    def __init__(self, barrier: Any = None, seed: int = 0) -> None:
        self.barrier = barrier_of(barrier)
        self._alone = callable(self.barrier) and not _takes_two(self.barrier)
        self._rng = np.random.default_rng([seed, 0xBA221E2])  # not the stream of the tasks' draws
        self._samples: dict[int, np.ndarray] = {}  # reused until they let a worker pass

    @property
    def is_free(self) -> bool:
        """Whether the barrier lets all workers pass."""
        return isinstance(self.barrier, ASP)

    @property
    def is_users(self) -> bool:
        """Whether the barrier is a user's function, which may depend on more than the table."""
        return callable(self.barrier)

    def passing(self, table: ProgressTable, available: Sequence[int]) -> list[int]:
        """Return the available workers that the barrier lets begin a task.

        Raises BarrierError if a user's function raises an exception or does not return a bool.
        """
        if self.is_free:
            return list(available)
        numbers = numbers_of(self.barrier, len(table))
        if numbers["barrier"] == codes.ASKED:
            asked: Any = self.barrier
            if self._alone:
                return list(available) if ask(_of_two(asked), table, 0) else []
            return [me for me in available if ask(asked, table, me)]
        if numbers["barrier"] == codes.FREE:
            return list(available)
        if numbers["barrier"] == codes.THROTTLED:
            enough = min(numbers["available"], int(table.in_run.sum()))
            return list(available) if table.available_workers >= enough else []
        return [me for me in available if self._near(table, me, numbers)]

    def _near(self, table: ProgressTable, me: int, numbers: dict[str, Any]) -> bool:
        """Return whether worker `me` is at most `staleness` tasks ahead of enough other workers."""
        others = table.in_run  # a new array at each access: the shared table stays
        others[me] = False
        chosen = np.flatnonzero(others)
        if numbers["sample"] != codes.EVERYBODY:
            # a stored sample is drawn again once one of its workers has left the run
            sample = self._samples.get(me) if numbers["reuses"] else None
            if sample is None or not others[sample].all():
                count = min(numbers["sample"], len(chosen))
                sample = self._rng.choice(chosen, count, replace=False)
                self._samples[me] = sample
            chosen = sample
        clock = table.clock
        near = int((clock[me] - clock[chosen] <= numbers["staleness"]).sum())
        # ROUNDING: 0.55 * 100 is 55.00000000000001, and must not require 56 workers
        passes = near >= (numbers["share"] - codes.ROUNDING) * len(chosen)
        if passes:
            self._samples.pop(me, None)
        return passes


def _of_two(alone: Callable[[ProgressTable], bool]) -> UserBarrier:
    """Wrap a function of the table as a function of table and worker."""

    @functools.wraps(alone)
    def of_two(table: ProgressTable, me: int) -> bool:
        return alone(table)

    return of_two


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(None, 0)
    except TypeError:
        return False
    return True
