"""What is chosen beside a rule, for the rule to say whether it can do with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hogshare.planes.protocol import Plane
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem
from hogshare.rules.steps import StepSize


class StopTerms(Protocol):
    """When a run ends, as far as rules ask."""

    @property
    def confirm(self) -> bool:
        """Whether the end has to be the optimum."""
        ...

    @property
    def has_checks(self) -> bool:
        """Whether the model is evaluated on the way."""
        ...


@dataclass(frozen=True, kw_only=True)
class OtherChoices:
    """A run's other choices, as its rule sees them before anything is allocated.

    step : None: nobody has named one
    """

    problem: Problem
    plane: Plane
    step: StepSize | None
    stop: StopTerms
    start: Model | None
    shuffle: bool
    block: int | None
