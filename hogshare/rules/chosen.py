"""What is chosen beside a rule, for the rule to say whether it can do with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hogshare.planes.protocol import Plane
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem
from hogshare.rules.steps import StepSize


class Ends(Protocol):
    """When a run ends, as far as rules ask."""

    @property
    def confirm(self) -> bool:
        """Whether the end has to be the optimum."""
        ...


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A run's other choices, as its rule sees them before anything is allocated.

    Attributes
    ----------
    problem : Problem
    plane : Plane
    step : StepSize or None
        None: nobody has named one.
    stop : Stop
    start : Model or None
    shuffle : bool
    block : int or None
    """

    problem: Problem
    plane: Plane
    step: StepSize | None
    stop: Ends
    start: Model | None
    shuffle: bool
    block: int | None
