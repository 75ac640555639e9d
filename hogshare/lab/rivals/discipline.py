"""The discipline of a race: the data, the facts for contestants, and the judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import RaceTask

HELD_OUT = 5  # one row of so many is held out, if unseen rows judge a model


@dataclass(frozen=True)
class Reference:
    """The lowest value known without the race.

    `bound` is the most by which `value` may exceed the true optimum; None if unknown.
    """

    value: float
    bound: float | None
    method: str
    seconds: float


class Discipline:
    """The data, the measure and the judgement of a race.

    Attributes
    ----------
    X, y : Any
        Data of the contestants.
    measure : str
        The measure of targets, as a phrase: the distance of a value from the best.
    what : str
        The problem, as a phrase.
    settings, facts : dict
        Choices for the problem, and the sizes of the data, as plain data.
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
        """Return the value of a model: lower is better, infinity for an invalid model."""
        raise NotImplementedError

    def find(self) -> Reference:
        """Compute the reference with solvers outside the race.

        Raises
        ------
        ValueError
            If no distance from it can be defined.
        """
        raise NotImplementedError

    def distance(self, value: float, lowest: float) -> float:
        """Distance of a value from the lowest known one: the share by which it is above."""
        return value / lowest - 1.0

    def at_start(self) -> float | None:
        """Return the value of the model of zeros, if that is a valid model."""
        return None


def split(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the rows to train on, and of the held-out rows."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(np.delete(order, slice(0, None, HELD_OUT))), np.sort(order[::HELD_OUT])
