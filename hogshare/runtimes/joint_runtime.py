"""The joint runtime: several processes make the same call, and all get its result.

An ordinary runtime runs the workers of one call of `solve`. A joint runtime acts before such a
call: (1) the processes agree on the problem; (2) one process makes the call with an ordinary
runtime; (3) the other processes run workers of this run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from hogshare.problems.protocol import Problem
from hogshare.problems.shard import Shard
from hogshare.runtimes.protocol import Runtime

if TYPE_CHECKING:
    from hogshare.barriers import UserBarrier
    from hogshare.engine.gradient_steps import GradientSteps
    from hogshare.planes import Plane
    from hogshare.stragglers import Stragglers


class ProcessParts(NamedTuple):
    """The parts of a session that each process makes for itself; no arrays of the run.

    rows : read-only arrays by name
    barrier : the user's barrier, or None
    stragglers, outside, plane : as in `hogshare.engine.session.Session`
    """

    rows: Mapping[str, np.ndarray]
    barrier: UserBarrier | None
    stragglers: Stragglers | None
    outside: GradientSteps | None
    plane: Plane | None


class Making(Protocol):
    """A call of `solve` that is about to be made, with the methods that a joint runtime needs."""

    @property
    def problem(self) -> Problem:
        """The problem to solve."""
        ...

    @property
    def validation(self) -> np.ndarray | None:
        """The mask of held-out rows, or None if no rows are held out."""
        ...

    @property
    def n_workers(self) -> int | None:
        """The call's argument, unchanged."""
        ...

    def said(self) -> dict[str, Any]:
        """Return the call's arguments by name, without the problem."""
        ...

    @property
    def files(self) -> Mapping[str, Any]:
        """The files that the call writes and reads, by the arguments' names."""
        ...

    def with_files(self, files: Mapping[str, Any]) -> Making:
        """Return the same call with other files."""
        ...

    def of(self, problem: Problem, validation: np.ndarray | None) -> Making:
        """Return the same call of another problem."""
        ...

    def by(self, runtime: Runtime | str, n_workers: int | None) -> Any:
        """Make the call with a runtime; return its report."""
        ...

    def parts(self) -> ProcessParts:
        """Return the parts for a process that runs workers of another process's call."""
        ...


class Led(Protocol):
    """A result that one process makes with the workers and the shards of all processes."""

    @property
    def what(self) -> str:
        """A phrase for the result, at the beginning of a sentence."""
        ...

    @property
    def n_workers(self) -> int | None:
        """The argument of this process, unchanged."""
        ...

    def said(self) -> dict[str, Any]:
        """Return the settings, which must be the same in all processes."""
        ...

    def shard(self, place: int, of: int) -> Shard:
        """Return this process's shard; it is process number `place` of `of` processes."""
        ...

    def made(
        self,
        runtime: Runtime | str,
        n_workers: int | None,
        facts: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray],
    ) -> Any:
        """Make the result in the leading process; return it as plain data.

        runtime : the runtime that runs the workers of all processes
        n_workers : the number of workers of all processes, or None
        facts : the facts of each shard, in the order of processes
        arrays : the concatenated arrays of all shards, by name
        """
        ...

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[Any, Mapping[str, Any]]:
        """Make the result in each process, without a leading process; all processes must call it.

        runtime : a joint runtime, for joint calls of `solve`; its methods ``gathered(content)`` and
            ``added(array)`` exchange other data
        has_all_rows : True if each process has all rows; False if each has rows of its own

        Returns plain data, and values by name that must be the same in all processes.
        """
        ...

    def received(self, made: Any) -> Any:
        """Unpack the result; if this raises, all processes can still be notified."""
        ...

    def take(self, received: Any) -> Any:
        """Apply the result, once all processes have it; return the call's return value."""
        ...


class Joint(Runtime):
    """A runtime of several processes that make the same call."""

    def check(self) -> None:
        """Check nothing: a joint runtime has no run of its own."""

    def make(self, making: Callable[[], Making]) -> Any:
        """Make a call together with the other processes; return its report, the same in all.

        All processes must call this. If `making` raises an error, all processes raise it.

        making : builds the call
        """
        raise NotImplementedError

    def place(self) -> tuple[int, int]:
        """Return the number of this process, and the number of processes."""
        raise NotImplementedError

    def lead(self, making: Callable[[], Led]) -> Any:
        """Have one process make a result with all processes' workers; return it in each process.

        All processes must call this. If `making` raises an error, all processes raise it.

        making : builds the task
        """
        raise NotImplementedError
