"""What the front end asks of whoever runs tasks: four methods, and what they tell.

An executor knows no collection, barrier or history; the front end knows no thread, process or
cluster. Workers are numbered from 0. `submit` hands a task to a worker that has none. A worker
whose process is replaced keeps its number. All methods are called by one thread, the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hogshare.links.network import Traffic
from hogshare.tasks.work import Outcome, Task


@dataclass(frozen=True)
class Back:
    """A task has come back."""

    outcome: Outcome


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and with it the tasks of these numbers, unless the executor runs them again
    by itself.
    """

    worker: int
    why: str  # in words that go on from its name: "was killed by signal 9 (SIGKILL)"
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A worker is there that was not, or is there again."""

    worker: int


Event = Back | Lost | Joined


class Executor(Protocol):
    """Whoever runs tasks."""

    name: str
    passes_time: bool  # whether time goes on while nobody waits, as it does but in a simulation

    @property
    def may_join(self) -> bool:
        """Whether a worker may still come while no task is under way."""
        ...

    @property
    def traffic(self) -> Traffic | None:
        """What tasks and results were in bytes, where that is counted."""
        ...

    @property
    def workers(self) -> Sequence[int]:
        """Who is there."""
        ...

    def submit(self, worker: int, task: Task) -> None:
        """Hand a task to a worker, who has none, and return.

        Raises
        ------
        ValueError
            If something of the task cannot be sent to workers; nothing has been handed over then.
        """
        ...

    def poll(self, seconds: float | None) -> list[Event]:
        """What has come back and who has come or gone; wait for the first of it at most so long.

        None waits for ever. With nothing under way it returns at once.
        """
        ...

    def now(self) -> float:
        """Seconds on the executor's clock."""
        ...

    def close(self) -> None:
        """End all workers, in the middle of a task too; never raises, and may be called twice."""
        ...
