"""What a joint runtime is: several processes make the same call, and all get what comes of it.

A runtime runs the workers of one call of `solve`. A joint one stands before that: it settles with
the others what is solved, has one of them make the call, with a runtime of its own, and the others
run workers of that run.
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
    """What of a session is neither an array of the run nor a number: a process's own.

    rows : arrays by name, read only
    barrier : one of the user's, or None
    stragglers, outside, plane : as of `hogshare.engine.session.Session`
    """

    rows: Mapping[str, np.ndarray]
    barrier: UserBarrier | None
    stragglers: Stragglers | None
    outside: GradientSteps | None
    plane: Plane | None


class Making(Protocol):
    """A call that is about to be made, as a joint runtime knows it."""

    @property
    def problem(self) -> Problem:
        """What is solved."""
        ...

    @property
    def validation(self) -> np.ndarray | None:
        """Which rows are held out, if any."""
        ...

    @property
    def n_workers(self) -> int | None:
        """As it was given."""
        ...

    def said(self) -> dict[str, Any]:
        """What it was called with, the problem apart, by the arguments' names."""
        ...

    @property
    def files(self) -> Mapping[str, Any]:
        """Files that it writes and reads, by the arguments' names."""
        ...

    def with_files(self, files: Mapping[str, Any]) -> Making:
        """The same call with other files."""
        ...

    def of(self, problem: Problem, validation: np.ndarray | None) -> Making:
        """The same call of another problem."""
        ...

    def by(self, runtime: Runtime | str, n_workers: int | None) -> Any:
        """Make it, by a runtime; its report."""
        ...

    def parts(self) -> ProcessParts:
        """What a process has of it that runs workers for another one."""
        ...


class Led(Protocol):
    """Something that one process makes with the workers of all, out of what each has."""

    @property
    def what(self) -> str:
        """What it is, at the beginning of a sentence."""
        ...

    @property
    def n_workers(self) -> int | None:
        """Of this process, as it was given."""
        ...

    def said(self) -> dict[str, Any]:
        """What it is made by, which has to be the same in all processes."""
        ...

    def shard(self, place: int, of: int) -> Shard:
        """What this process has, which is in this place of so many."""
        ...

    def made(
        self,
        runtime: Runtime | str,
        n_workers: int | None,
        facts: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray],
    ) -> Any:
        """Make it, of the facts of all shards and their arrays end to end; plain data."""
        ...

    def along(self, runtime: Any, has_all_rows: bool) -> tuple[Any, Mapping[str, Any]]:
        """Make it in each process, where none leads.

        runtime : a joint one, by which calls of `solve` within are joint; ``gathered(content)``
            and ``added(array)`` are for what else all have to know
        has_all_rows : whether each process has all rows, or rows of its own

        Returns plain data, and what has to be the same in all processes, by name.
        """
        ...

    def received(self, made: Any) -> Any:
        """Unpack what was made; raises while all processes can still be notified."""
        ...

    def take(self, received: Any) -> Any:
        """Become what was made, once all have received it; what the call returns."""
        ...


class Joint(Runtime):
    """A runtime of several processes that make the same call."""

    def check(self) -> None:
        """Nothing: it has no run of its own."""

    def make(self, making: Callable[[], Making]) -> Any:
        """Make a call together with the other processes; its report, the same in all of them.

        making : states the call; within it, so that all processes raise what one raises
        """
        raise NotImplementedError

    def place(self) -> tuple[int, int]:
        """Which of the processes this one is, and how many there are."""
        raise NotImplementedError

    def lead(self, making: Callable[[], Led]) -> Any:
        """Have one process make something with the workers of all; in all, what came of it.

        making : states it; within the call, so that all processes raise what one raises
        """
        raise NotImplementedError
