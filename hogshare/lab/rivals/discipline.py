"""The discipline of a race: its data, the facts that contestants get, and its judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import RaceTask

HELD_OUT = 5  # one row of so many is held out, if unseen rows judge a model


@dataclass(frozen=True)
class Reference:
    """The lowest value that is known without the race.

    `bound` is an upper bound of the difference between `value` and the true optimum; None if
    unknown.
    """

    value: float
    bound: float | None
    method: str
    seconds: float


class Discipline:
    """The data of a race, the measure of its targets, and its judgement of models.

    Attributes
    ----------
    X, y : Any
        Data that the contestants fit.
    measure : str
        Name of the measure of targets, which is the distance of a value from the best value.
    what : str
        Phrase that describes the problem.
    settings, facts : dict
        Choices for the problem, and sizes of the data, as plain data.
    """

    X: Any
    y: Any
    measure: ClassVar[str]
    what: str
    settings: dict[str, Any]
    facts: dict[str, Any]

    def task(self, workers: int) -> RaceTask:
        """Return the facts that contestants get before the data."""
        raise NotImplementedError

    def judge(self, model: Any) -> float:
        """Return the value of a model: lower is better, and an invalid model has infinity."""
        raise NotImplementedError

    def find(self) -> Reference:
        """Compute the reference with solvers outside the race.

        Raises
        ------
        ValueError
            If no distance from the reference can be defined.
        """
        raise NotImplementedError

    def distance(self, value: float, lowest: float) -> float:
        """Return the share by which a value exceeds the lowest known value."""
        return value / lowest - 1.0

    def at_start(self) -> float | None:
        """Return the value of a model of zeros; None if it is not a valid model."""
        return None


def split(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the training rows, and those of the held-out rows."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(np.delete(order, slice(0, None, HELD_OUT))), np.sort(order[::HELD_OUT])
