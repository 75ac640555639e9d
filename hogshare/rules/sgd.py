"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hogshare import ranges
from hogshare.rules.chosen import Chosen
from hogshare.rules.protocol import Rule
from hogshare.words import nearest

COORDINATES = (None, "uniform", "support", "unbiased")


@dataclass(frozen=True)
class SGD(Rule):
    """Stochastic gradient descent, row by row.

    Parameters
    ----------
    average : int or bool, default=0
        Average the iterates from this many rows on; True means from the first. 0: no average.
    batch : int, default=1
        Rows whose gradients are computed from one read of the model before any is written
        (AsySG-incon's M). They are summed, not averaged. Needs a plane without exchange, where
        other workers write between read and write; with private copies it must be 1.
    coordinate : {None, "uniform", "support", "unbiased"}, default=None
        None: all coordinates of the rows are written. Otherwise one for each mini-batch, as
        AsySG-incon is printed: "uniform" of all coordinates, (13) of the paper; "support" of those
        that the rows have, its sparse variant, whose expected step is not along the gradient;
        "unbiased" the same times their number, which makes the expected step that of the summed
        gradient. Needs ``Shared(exchange=None)``. A block is then one mini-batch.

    Notes
    -----
    Source of `batch` and `coordinate`: Lian, Huang, Li and Liu 2015, section 4.

    Examples
    --------
    >>> from hogshare import SGD
    >>> SGD(average=True)
    SGD(average=1, batch=1, coordinate=None)
    """

    average: int = 0
    batch: int = 1
    coordinate: str | None = None
    has_kernels: ClassVar[bool] = True

    def step(self, gradient: np.ndarray, eta: float) -> None:
        """The gradient times the step size."""
        np.multiply(gradient, eta, out=gradient)

    def check(self, chosen: Chosen) -> None:
        """Refuse mini-batches of rows in copies, and writes of one coordinate without meaning."""
        super().check(chosen)
        plane, has_rows = chosen.plane, chosen.problem.has_rows
        if has_rows and self.batch > 1 and (plane.has_copies or plane.has_homes):
            raise ValueError(
                f"SGD(batch={self.batch}) computes a mini-batch from one read of a vector that "
                "others write meanwhile; that needs Shared(exchange=None), or a Master. With "
                "private copies use batch=1."
            )
        if self.coordinate is not None:
            self._check_coordinate(chosen)

    def _check_coordinate(self, chosen: Chosen) -> None:
        what = f"SGD(coordinate={self.coordinate!r})"
        if not chosen.problem.has_rows:
            raise ValueError(
                f"{what} draws among the features of a linear problem's rows; leave it out, and "
                "return the places that the gradient has written."
            )
        if not chosen.plane.is_lock_free:
            raise ValueError(
                f"{what} writes one coordinate of a vector that others write meanwhile: that needs "
                "plane=Shared(exchange=None). With another plane leave coordinate out."
            )
        if chosen.step is not None and chosen.step.kind in ("pa1", "pa2"):
            raise ValueError(
                f"{what} takes a coordinate of a gradient, and StepSize({chosen.step.kind!r}) has "
                "none: its step is meant for a whole row. Use another StepSize."
            )
        if chosen.block is not None:
            raise ValueError(
                f"{what} counts writes of one coordinate, and each block is one: leave block out."
            )

    def __post_init__(self) -> None:
        if isinstance(self.average, bool):
            object.__setattr__(self, "average", int(self.average))
        ranges.keep_whole(0, self, "average")
        ranges.keep_whole(1, self, "batch")
        if not isinstance(self.coordinate, str | None) or self.coordinate not in COORDINATES:
            raise ValueError(
                f"coordinate must be one of {list(COORDINATES)}; got {self.coordinate!r}."
                f"{nearest(self.coordinate, COORDINATES)}"
            )
