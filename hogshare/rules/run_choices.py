"""The other choices of a run, which its rule checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hogshare.planes.protocol import Plane
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem
from hogshare.rules.steps import StepSize


class StopTerms(Protocol):
    """The properties of a stop criterion that rules read."""

    @property
    def confirm(self) -> bool:
        """Whether the run must end at the optimum (`Stop.confirm`)."""
        ...

    @property
    def has_checks(self) -> bool:
        """Whether the model is evaluated during the run."""
        ...


@dataclass(frozen=True, kw_only=True)
class OtherChoices:
    """The other choices of a run, which its rule checks before memory is allocated.

    step : the step size, or None if the caller has not passed one
    """

    problem: Problem
    plane: Plane
    step: StepSize | None
    stop: StopTerms
    start: Model | None
    shuffle: bool
    block: int | None
