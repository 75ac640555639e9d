"""The joint runtime: several processes make the same call, and all get its result.

A runtime runs the workers of one call of `solve`. A joint one comes before that: the processes
agree on the problem, one of them makes the call with a runtime of its own, and the others run
workers of that run.
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
    """The parts of a session that are neither arrays of the run nor numbers: a process's own.

    rows : arrays by name, read only
    barrier : one of the user's, or None
    stragglers, outside, plane : as in `hogshare.engine.session.Session`
    """

    rows: Mapping[str, np.ndarray]
    barrier: UserBarrier | None
    stragglers: Stragglers | None
    outside: GradientSteps | None
    plane: Plane | None


class Making(Protocol):
    """A call that is about to be made, as a joint runtime sees it."""

    @property
    def problem(self) -> Problem:
        """The problem to solve."""
        ...

    @property
    def validation(self) -> np.ndarray | None:
        """The mask of held-out rows, if any."""
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
        """Return the parts for a process that runs workers of another one's call."""
        ...


class Led(Protocol):
    """A result that one process makes with the workers of all, out of the shards of all."""

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
        """Return the shard of this process, number `place` of `of` processes."""
        ...

    def made(
        self,
        runtime: Runtime | str,
        n_workers: int | None,
        facts: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray],
    ) -> Any:
        """Return the result, as plain data.

        facts : the facts of all shards
        arrays : the shards' arrays, end to end
        """
        ...

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[Any, Mapping[str, Any]]:
        """Make the result in each process, with none leading.

        runtime : a joint one, with which calls of `solve` are joint; ``gathered(content)`` and
            ``added(array)`` exchange other data
        has_all_rows : whether each process has all rows, or rows of its own

        Returns plain data, and values by name that must be the same in all processes.
        """
        ...

    def received(self, made: Any) -> Any:
        """Unpack the result; raises while all processes can still be notified."""
        ...

    def take(self, received: Any) -> Any:
        """Take over the result, once all processes have it; return the call's return value."""
        ...


class Joint(Runtime):
    """A runtime of several processes that make the same call."""

    def check(self) -> None:
        """Check nothing: a joint runtime has no run of its own."""

    def make(self, making: Callable[[], Making]) -> Any:
        """Make a call together with the other processes; return its report, the same in all.

        making : builds the call. Its errors count as the call's: all processes raise them
        """
        raise NotImplementedError

    def place(self) -> tuple[int, int]:
        """Return the number of this process, and the number of processes."""
        raise NotImplementedError

    def lead(self, making: Callable[[], Led]) -> Any:
        """Have one process make a result with the workers of all; return it in all of them.

        making : builds the task. Its errors count as the call's: all processes raise them
        """
        raise NotImplementedError
