"""Contestants of a race: a library's method to fit the problem, its settings and its budgets.

A contestant is given as a class, or as a `Variant` (a class with other attributes). Both are
instantiated for a task, and both are pickled by the name of the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Setting = dict[str, Any]

# epochs or iterations: each a quarter to a third larger, so the first sufficient one is close
COUNTS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 65, 80, 100, 130, 160, 200),
    *(250, 320, 400, 500, 650, 800, 1000, 1300, 1600, 2000, 3000, 4000, 6000, 8000, 10000),
)
TOLERANCES = tuple(digit * 10.0**power for power in range(2, -10, -1) for digit in (1.0, 0.3))


@dataclass(frozen=True)
class RaceTask:
    """The facts that a contestant gets before the data; disciplines add to it."""

    workers: int


class Contestant:
    """A contestant; subclasses define the preparation of data and the fit.

    `library` is the name of the distribution that the contestant needs. `unit` is the unit of a
    budget: "epochs" (passes over the rows), "iterations" or "tolerance". With a tolerance, a
    smaller budget is more work.
    """

    name: ClassVar[str]
    library: ClassVar[str]
    unit: ClassVar[str] = "epochs"

    def __init__(self, task: RaceTask) -> None:
        self.task = task

    @classmethod
    def called(cls, name: str, **attributes: Any) -> Variant:
        """Make another contestant of this class, which differs only in attributes."""
        return Variant(cls, name, attributes)

    def refusal(self) -> str:
        """Return the reason why the contestant does not take part in the task; empty if it does."""
        return ""

    def grid(self) -> list[Setting]:
        """Return the settings to try; the first one is used for the warm-up."""
        return [{}]

    def ladder(self) -> Sequence[float]:
        """Return the budgets, from little work to much."""
        return COUNTS

    def prepare(self, X: Any, y: Any) -> Any:
        """Convert the discipline's data into the library's own format; not timed."""
        return X, y

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        """Fit from scratch; only this method is timed."""
        raise NotImplementedError

    def model(self, fitted: Any) -> Any:
        """Convert the result of `fit` into the model that the discipline judges; not timed."""
        return fitted

    def close(self, prepared: Any) -> None:
        """Free the system resources that `prepare` took."""


@dataclass(frozen=True)
class Variant:
    """A contestant defined by a class and other attributes."""

    kind: type[Contestant]
    name: str
    attributes: Mapping[str, Any]

    def __call__(self, task: RaceTask) -> Contestant:
        """Make the contestant for a task, as a call of the class does."""
        contestant = self.kind(task)
        vars(contestant).update(self.attributes, name=self.name)
        return contestant

    @property
    def library(self) -> str:
        """Name of the distribution that the contestant needs."""
        return self.kind.library

    @property
    def losses(self) -> tuple[str, ...]:
        """Losses of linear models that the contestant supports."""
        return tuple(self.attributes.get("losses", getattr(self.kind, "losses", ())))


Kind = type[Contestant] | Variant
