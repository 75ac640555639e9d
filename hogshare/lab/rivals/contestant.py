"""What a contestant is: a library's way to fit the problem, its settings and its budgets.

A class is a contestant, and so is a class with other attributes: a `Variant`. Both are made for a
task, and pickled by the class's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Setting = dict[str, Any]

# epochs or iterations: steps of a quarter to a third, so that nobody has to do much too many
COUNTS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 65, 80, 100, 130, 160, 200),
    *(250, 320, 400, 500, 650, 800, 1000, 1300, 1600, 2000, 3000, 4000, 6000, 8000, 10000),
)
TOLERANCES = tuple(digit * 10.0**power for power in range(2, -10, -1) for digit in (1.0, 0.3))


@dataclass(frozen=True)
class RaceTask:
    """What a contestant has to know before it sees the data; disciplines add to it."""

    workers: int


class Contestant:
    """One rival. Subclasses say how data is prepared and how a fit is done.

    `library` is the distribution that it needs, `unit` what a budget counts: "epochs" (passes over
    the rows), "iterations", or "tolerance", where a smaller budget is more work.
    """

    name: ClassVar[str]
    library: ClassVar[str]
    unit: ClassVar[str] = "epochs"

    def __init__(self, task: RaceTask) -> None:
        self.task = task

    @classmethod
    def called(cls, name: str, **attributes: Any) -> Variant:
        """Another contestant of this class, which differs in attributes alone."""
        return Variant(cls, name, attributes)

    def refusal(self) -> str:
        """Why it does not take part in this task; empty if it does."""
        return ""

    def grid(self) -> list[Setting]:
        """The settings that are tried; the first is the one it is warmed up with."""
        return [{}]

    def ladder(self) -> Sequence[float]:
        """Budgets, from little work to much."""
        return COUNTS

    def prepare(self, X: Any, y: Any) -> Any:
        """Bring what the discipline hands out into the library's own format; not timed."""
        return X, y

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        """Fit from scratch: what is timed, and nothing else is."""
        raise NotImplementedError

    def model(self, fitted: Any) -> Any:
        """Take the model, as the discipline judges it, from what `fit` returned; not timed."""
        return fitted

    def close(self, prepared: Any) -> None:
        """Give back what `prepare` has taken from the system."""


@dataclass(frozen=True)
class Variant:
    """A contestant by its class, and what is particular to this one."""

    kind: type[Contestant]
    name: str
    attributes: Mapping[str, Any]

    def __call__(self, task: RaceTask) -> Contestant:
        """Make it, as a class is called."""
        contestant = self.kind(task)
        vars(contestant).update(self.attributes, name=self.name)
        return contestant

    @property
    def library(self) -> str:
        """The distribution that it needs."""
        return self.kind.library

    @property
    def losses(self) -> tuple[str, ...]:
        """Losses that it has, where it is of linear models."""
        return tuple(self.attributes.get("losses", getattr(self.kind, "losses", ())))


Kind = type[Contestant] | Variant
