"""What is raced for: the data, what contestants know of it before, and how a model is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import RaceTask

HELD_OUT = 5  # one row of so many, where unseen rows judge a model


@dataclass(frozen=True)
class Reference:
    """The lowest value that is known without a race.

    `bound` is what `value` may be above the true optimum; None where nobody knows.
    """

    value: float
    bound: float | None
    method: str
    seconds: float


class Discipline:
    """What a race is about.

    Attributes
    ----------
    X, y : Any
        What contestants are given.
    measure : str
        What targets are of, in words: how a value is far from the best.
    what : str
        The problem, in words.
    settings, facts : dict
        What has been chosen of the problem, and the sizes of the data, as plain data.
    """

    X: Any
    y: Any
    measure: ClassVar[str]
    what: str
    settings: dict[str, Any]
    facts: dict[str, Any]

    def task(self, workers: int) -> RaceTask:
        """What contestants know before."""
        raise NotImplementedError

    def judge(self, model: Any) -> float:
        """The value of a model: the lower the better, and infinity for what is none."""
        raise NotImplementedError

    def find(self) -> Reference:
        """The reference, by who does not race.

        Raises
        ------
        ValueError
            If there can be no distance from it.
        """
        raise NotImplementedError

    def distance(self, value: float, lowest: float) -> float:
        """How far a value is from the lowest that is known: by which share it is above."""
        return value / lowest - 1.0

    def at_start(self) -> float | None:
        """The value of the model of zeros, where that is one."""
        return None


def split(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows to train on, and of those that are held out."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(np.delete(order, slice(0, None, HELD_OUT))), np.sort(order[::HELD_OUT])
