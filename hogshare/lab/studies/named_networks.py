"""Networks by name: fully connected ones by their units, and two Caffe networks of AsySG's tables.

Source: Lian et al. 2015, section 5, tables 1 and 2. LENET has 431,080 parameters and mini-batches
of 60 rows. CIFAR10-FULL has 89,578 parameters and mini-batches of 100 rows. The network of
400-100-50-20-10 units has 46,380 parameters, M = 50, and gamma = 1e-3 for the sum of gradients
(0.05 for the mean). The paper does not print the step sizes of LENET and CIFAR10-FULL; they were
found by trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.lab.studies import synthetic
from hogshare.problems.gradient import GradientProblem
from hogshare.problems.layers import Convolution, Dense, Layer, LocalResponse, Pooling
from hogshare.problems.network import network

Shape = tuple[int, int, int]
LENET: tuple[Layer, ...] = (
    Convolution(20, 5, activation="identity"),
    Pooling(2),
    Convolution(50, 5, activation="identity"),
    Pooling(2),
    Dense(500),
)
CIFAR10_FULL: tuple[Layer, ...] = (
    Convolution(32, 5, padding=2),
    Pooling(3, 2),
    LocalResponse(3),
    Convolution(32, 5, padding=2),
    Pooling(3, 2, kind="average"),
    LocalResponse(3),
    Convolution(64, 5, padding=2),
    Pooling(3, 2, kind="average"),
)


@dataclass(frozen=True)
class NamedNetwork:
    """A network with relu layers and a softmax, or a logistic function for one output.

    layers : all layers except the output layer
    makes : default number of synthetic rows
    image : height, width and channels of a row, if it is an image
    """

    name: str
    layers: tuple[Layer, ...]
    n_inputs: int
    n_outputs: int
    makes: int
    rows_of_a_gradient: int
    constant_step: float
    image: Shape | None = None
    reads: str = "rows"

    @property
    def n_classes(self) -> int:
        """Number of classes, which is 2 for a single output."""
        return max(2, self.n_outputs)

    def data(self, given: Any, n_rows: int, dtype: Any, seed: int) -> tuple[Any, np.ndarray]:
        """Return rows and labels; given images are divided by their largest value."""
        if given is None:
            n_rows = max(n_rows, self.n_classes)
            if self.image is None:
                return synthetic.mixture(n_rows, self.n_inputs, self.n_classes, dtype, seed)
            return synthetic.images(n_rows, self.image, self.n_classes, dtype, seed)
        X, y = given
        n_classes = len(np.unique(y))
        if X.shape[1] != self.n_inputs:
            raise ValueError(
                f"the rows have {X.shape[1]} columns, and {self.name} takes {self.n_inputs}"
            )
        if n_classes != self.n_classes:
            raise ValueError(
                f"the labels are of {n_classes} classes, and {self.name} is for {self.n_classes}"
            )
        if self.image is not None and (largest := abs(X).max()) > 0.0:
            X = (X / largest).astype(X.dtype)
        return X, y

    def state(self, data: tuple[Any, np.ndarray]) -> GradientProblem:
        """Return the problem on these rows."""
        return network(*data, layers=self.layers, shape=self.image)

    def what(self, problem: GradientProblem) -> str:
        """Return the network's name and number of parameters."""
        return f"{self.name}, {problem.n_params:,} parameters"

    def batch(self, algorithm: str) -> int:
        """Return the rows of a gradient, the same for all algorithms."""
        return self.rows_of_a_gradient

    def step(self, problem: GradientProblem) -> float:
        """Return the step size for a mean gradient."""
        return self.constant_step


IMAGES = {
    one.name: one
    for one in (
        NamedNetwork("lenet", LENET, 28 * 28, 10, 6_000, 60, 0.01, image=(28, 28, 1)),
        NamedNetwork("cifar10-full", CIFAR10_FULL, 32 * 32 * 3, 10, 5_000, 100, 0.01, (32, 32, 3)),
    )
}
ROWS, BATCH, STEP = 20_000, 50, 0.05  # of networks given by units
EXAMPLE = "network:400-100-50-20-10"


def of_units(name: str, units: str) -> NamedNetwork:
    """Return a network of fully connected layers; ValueError if `units` is not valid.

    name : name of the problem as the user wrote it, for messages
    units : numbers of inputs, hidden units and outputs, separated by hyphens
    """
    parts = units.split("-")
    for part in parts:
        if not (part.isascii() and part.isdigit() and int(part) >= 1):
            raise ValueError(
                f"{name!r}: {part!r} is not a number of units; give those of the inputs, hidden "
                f"layers and outputs, such as {EXAMPLE}"
            )
    numbers = [int(part) for part in parts]
    if len(numbers) < 3:
        raise ValueError(
            f"{name!r}: a network has inputs, at least one hidden layer, and outputs, such as "
            f"{EXAMPLE}"
        )
    if numbers[-1] == 2:
        raise ValueError(f"{name!r}: two classes need one output: end the name with -1")
    layers = tuple(Dense(n) for n in numbers[1:-1])
    return NamedNetwork(name, layers, numbers[0], numbers[-1], ROWS, BATCH, STEP)
