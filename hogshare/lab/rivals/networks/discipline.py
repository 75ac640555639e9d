"""The race of networks: to a share of held-out rows that are told wrong.

A model is a vector as `hogshare.problems.network` has it: layer by layer coefficients, of shape
(inputs, units) or (size, size, channels, filters), and intercepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import Contestant, Setting, Task
from hogshare.lab.rivals.discipline import Reference
from hogshare.lab.studies.networks import Network
from hogshare.problems.layers import Dense, Layer

HELD_OUT = 5  # one row of so many
STEPS = {"sgd": (0.03, 0.1, 0.01), "adam": (0.001, 0.003)}
MOMENTUM = 0.9  # Nesterov's, of sgd


@dataclass(frozen=True)
class NetworkTask(Task):
    """The network: its hidden layers, and the image that a row is, if it is one."""

    layers: tuple[Layer, ...]
    image: tuple[int, int, int] | None
    n_inputs: int
    n_outputs: int
    batch: int

    @property
    def hidden(self) -> tuple[int, ...] | None:
        """Units of the hidden layers, if all of them are connected wholly."""
        units = [layer.units for layer in self.layers if isinstance(layer, Dense)]
        return tuple(units) if len(units) == len(self.layers) else None


class NetworkContestant(Contestant):
    """Who fits a network by steps of mini-batches, by momentum or Adam, with a step of a grid."""

    task: NetworkTask
    solver: ClassVar[str] = "sgd"

    def grid(self) -> list[Setting]:
        return [{"step": step, "batch": self.task.batch} for step in STEPS[self.solver]]


class NetworkRace:
    """A network by its name, on four fifths of the rows; the others judge it.

    Parameters
    ----------
    family : Network
    X, y : array-like
        Rows and labels, from `family.data`.
    seed : int
        Of the rows that are held out.
    """

    measure: ClassVar[str] = "a share of held-out rows that are told wrong"

    def __init__(self, family: Network, X: Any, y: Any, seed: int = 0) -> None:
        order = np.random.default_rng(seed).permutation(X.shape[0])
        test, train = np.sort(order[::HELD_OUT]), np.sort(np.delete(order, slice(0, None, 5)))
        self.family = family
        self.X, self.y = X[train], np.unique(y, return_inverse=True)[1][train]
        self.test = X[test], np.unique(y, return_inverse=True)[1][test]
        self.problem: Any = family.state((self.X, self.y))
        self.what = family.what(self.problem)

    def task(self, workers: int) -> NetworkTask:
        """The network."""
        family = self.family
        sizes = family.n_inputs, family.n_outputs, family.rows_of_a_gradient
        return NetworkTask(workers, family.layers, family.image, *sizes)

    def judge(self, model: np.ndarray) -> float:
        """The share that is told wrong."""
        if not np.isfinite(model).all():
            return float("inf")
        X, y = self.test
        return float(np.mean(self.problem.predict(model, X) != y))

    def find(self) -> Reference:
        """No mistakes."""
        return Reference(0.0, 0.0, "no mistakes", 0.0)

    def distance(self, value: float, lowest: float) -> float:
        """The share itself."""
        return value

    def settings(self) -> dict[str, Any]:
        """Rows of a step."""
        return {"batch": self.family.rows_of_a_gradient, "held_out": len(self.test[1])}

    def facts(self) -> dict[str, Any]:
        """Sizes."""
        sizes = {"rows": self.problem.n_rows, "columns": self.family.n_inputs}
        return {**sizes, "params": self.problem.n_params, "dtype": str(self.X.dtype)}

    def at_start(self) -> float:
        """Of zeros."""
        return self.judge(np.zeros(self.problem.n_params, self.problem.dtype))
