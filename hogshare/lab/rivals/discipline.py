"""What is raced for: the data, what contestants are told of it, and how a model is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from hogshare.lab.rivals.contestant import Task


@dataclass(frozen=True)
class Reference:
    """The lowest value that is known without a race.

    `bound` is what `value` may be above the true optimum; None where nobody knows.
    """

    value: float
    bound: float | None
    method: str
    seconds: float


class Discipline(Protocol):
    """What a race is about.

    Attributes
    ----------
    X, y : Any
        What contestants are handed.
    measure : str
        What targets are of, in words: how a value is far from the best.
    what : str
        The problem, in words.
    """

    X: Any
    y: Any
    measure: ClassVar[str]
    what: str

    def task(self, workers: int) -> Task:
        """What contestants are told before."""
        ...

    def judge(self, model: Any) -> float:
        """The value of a model: the lower the better, and infinity for what is none."""
        ...

    def find(self) -> Reference:
        """The reference, by who does not race.

        Raises
        ------
        ValueError
            If there can be no distance from it.
        """
        ...

    def distance(self, value: float, lowest: float) -> float:
        """How far a value is from the lowest that is known."""
        ...

    def settings(self) -> dict[str, Any]:
        """What has been chosen of the problem, as plain data."""
        ...

    def facts(self) -> dict[str, Any]:
        """Sizes of the data, as plain data."""
        ...

    def at_start(self) -> float | None:
        """The value of the model of zeros, where that is one."""
        ...


def above(value: float, lowest: float) -> float:
    """By which share a value is above the lowest one."""
    return value / lowest - 1.0
