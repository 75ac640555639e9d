"""What a worker's and the master's sides see of a session: its numbers, its arrays, a few words.

They need no more of `hogshare.engine.session`, which makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hogshare.barriers import UserBarrier
from hogshare.kernels import layout, sgd
from hogshare.kernels.epochs import Plan
from hogshare.kernels.rows import Rows
from hogshare.kernels.shared import Mail, Memory, Schedule, Vector


@dataclass(frozen=True)
class Settings:
    """Numbers that make a session out of arrays; plain data, so that they travel."""

    rule: dict[str, Any]
    plan: dict[str, Any]
    width: int
    n_features: int
    n_columns: int
    n_workers: int
    first: int = 0  # of all machines' workers, the number of this one's first
    all_workers: int = 0  # how many those are; 0: there is one machine

    @property
    def n_everywhere(self) -> int:
        """Workers of all machines."""
        return self.all_workers or self.n_workers


class SessionView(Protocol):
    """A session as its sides see it; who reads and writes what is told there."""

    arrays: Mapping[str, np.ndarray]
    settings: Settings
    rows: Rows
    rule: sgd.Rule
    row_memory: Any
    plan: Plan
    schedule: Schedule
    vector: Vector
    memory: Memory
    mail: Mail
    take_turn: Any
    barrier: UserBarrier | None
    law: Callable[..., float] | None
    outside: Any
    homes: Any
    size: int
    clock: Callable[[], int]
    patience_ns: int | None

    @property
    def looks(self) -> int:
        """How often turns that find no block, or are held, look again, in one wait."""
        ...

    @property
    def is_alone(self) -> bool:
        """Whether the only worker works on the run's vector itself."""
        ...

    def locals(self) -> np.ndarray:
        """Workers' own numbers."""
        ...

    def private(self, me: int) -> sgd.Private:
        """Worker `me`'s own arrays."""
        ...

    def vector_of(self, me: int) -> Vector:
        """The vector that worker `me` reads and writes, where it has no copy."""
        ...

    def word(self, place: int) -> int:
        """A control word."""
        ...

    def block_seconds(self) -> float:
        """Mean time of the run's first blocks; 0 until they are done."""
        ...

    def stop(self, reason: int = layout.STOPPED_BY_CALLER) -> None:
        """Ask all workers to stop at their next block."""
        ...

    def snapshot(self) -> Any:
        """The model as it stands, as users see the problem's."""
        ...
