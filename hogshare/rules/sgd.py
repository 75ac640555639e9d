"""Stochastic gradient descent."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.kernels.rules import momentum as descents
from hogshare.rules.gradient_options import shortened, store_options
from hogshare.rules.memories import Shapes
from hogshare.rules.protocol import Descent, Descents, Rule
from hogshare.rules.run_choices import OtherChoices
from hogshare.system import ranges
from hogshare.system.messages import nearest

COORDINATES = (None, "uniform", "support", "unbiased")
OF_GRADIENTS = ("momentum", "nesterov", "weight_decay", "clip")
FIELDS = ("average", "batch", "coordinate", *OF_GRADIENTS)


@dataclass(frozen=True)
class SGD(Rule):
    """Stochastic gradient descent, row by row.

    Parameters
    ----------
    average : int or bool, default=0
        Average the iterates from this many rows on; True means from the first. 0: no average.
    batch : int, default=None
        Rows whose gradients are computed from one read of the model before any is written
        (AsySG-incon's M). They are summed, not averaged, but for networks. None: the rows of a
        block, for a linear problem one row. More than one row of a linear problem need a plane
        without exchange, where other workers write between read and write.
    coordinate : {None, "uniform", "support", "unbiased"}, default=None
        None: all coordinates of the rows are written. Otherwise one for each mini-batch, as
        AsySG-incon is printed: "uniform" of all coordinates, (13) of the paper; "support" of those
        that the rows have, its sparse variant, whose expected step is not along the gradient;
        "unbiased" the same times their number, which makes the expected step that of the summed
        gradient. Needs ``Shared(exchange=None)``. A block is then one mini-batch.
    momentum : float, default=0.0
        Share of a run's last step that its next one begins with, from 0 to 1; see the notes for
        several workers. This and what follows is for problems by a gradient.
    nesterov : bool, default=False
        Whether a step looks ahead by as much of the next one.
    weight_decay : float, default=0.0
        Which share of the vector is added to the gradient of each step, as in torch: with a
        momentum the velocity has it, too.
    clip : float, default=None
        Longest gradient, by the root of its squares' sum: longer ones are shortened to it, before
        the decay.

    Notes
    -----
    Source of `batch` and `coordinate`: Lian, Huang, Li and Liu 2015, section 4. Behind ``BSP``,
    which several workers have by default, each computes a part of a mini-batch and the run has one
    velocity: the steps are one worker's. Behind another barrier a worker's velocity is its own, of
    the gradients that it has computed; others see its steps. Who takes one in n of the run's steps,
    as measured, leaves ``1 - n (1 - momentum)`` of it, at least 0, with steps as much longer as a
    gradient then moves the vector less often. So a gradient counts as much as with one worker,
    ``eta / (1 - momentum)`` in all, and as late, staleness included
    (`hogshare.rules.gradient_options.shortened`). But where the objective is sharp, late steps
    overshoot that one worker bears (Giladi et al. 2020, "At stability's edge").

    Examples
    --------
    >>> from hogshare import SGD
    >>> SGD(average=True).average
    1
    """

    average: int = 0
    batch: int | None = None
    coordinate: str | None = None
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip: float | None = None
    gain: ClassVar[float] = 1.0  # of steps by a velocity, of which a worker among others keeps less
    decays_gradient: ClassVar[bool] = True
    has_kernels: ClassVar[bool] = True
    descends: ClassVar[bool] = True

    @property
    def is_proportional(self) -> bool:
        """Whether a step is the gradient times the step size."""
        return not (self.momentum or self.weight_decay) and self.clip is None

    @property
    def is_plain(self) -> bool:
        """Whether steps are rows', written whole, and nothing is averaged."""
        of_rows = self.batch in (None, 1) and not self.average and self.coordinate is None
        return of_rows and self.is_proportional

    def state(self, n_params: int) -> Shapes:
        """With momentum a velocity for each number of the vector."""
        return {"velocity": ((n_params,), "vector")} if self.momentum else {}

    def among(self, period: float) -> SGD:
        """A velocity that is as long as one worker's, counted in steps of all workers."""
        if period == 1.0 or not 0.0 < self.momentum < 1.0:
            return self
        mine = copy(self)
        kept = shortened(self.momentum, period)
        object.__setattr__(mine, "momentum", kept)  # no momentum is one, too, with nesterov=True
        object.__setattr__(mine, "gain", (1.0 - kept) / (1.0 - self.momentum))
        return mine

    def descent(self, eta: float, *state: Any) -> Descent:
        """Plain, or by the velocity."""
        if not state:
            return descents.PLAIN, None, None, eta, 0.0, 0.0, 0.0
        velocity = state[0]["velocity"]
        kind = descents.AHEAD if self.nesterov else descents.HEAVY
        return kind, velocity, velocity, self.gain * eta, float(self.momentum), 0.0, 0.0

    def descents(self, etas: np.ndarray, *state: Any) -> Descents:
        """Those of steps of some sizes, all at once."""
        table = np.zeros((len(etas), 4))
        kind, first, second, gain, *others = self.descent(1.0, *state)
        table[:, 0], table[:, 1:] = gain * etas, others
        return kind, first, second, table

    def step(self, gradient: np.ndarray, eta: float, *state: Any, **others: Any) -> None:
        """The gradient times the step size, or the velocity that it changes."""
        if state:
            kind, velocity, _, *numbers = self.descent(eta, *state)
            descents.step(gradient, velocity, velocity, kind, *numbers)
        else:
            np.multiply(gradient, eta, out=gradient)

    def check(self, chosen: OtherChoices) -> None:
        """Refuse mini-batches of rows in copies, and writes of one coordinate without meaning."""
        super().check(chosen)
        plane, has_rows = chosen.plane, chosen.problem.has_rows
        has_homes = plane.has_homes and not plane.is_direct
        told = [name for name in OF_GRADIENTS if getattr(self, name)]
        if has_rows and told:
            raise ValueError(
                f"SGD({told[0]}={getattr(self, told[0])}) is for problems by a gradient, and a "
                "linear problem's rows are stepped through without: leave it out."
            )
        if has_rows and (self.batch or 1) > 1 and (plane.has_copies or has_homes):
            raise ValueError(
                f"SGD(batch={self.batch}) computes a mini-batch from one read of a vector that "
                "others write meanwhile; that needs Shared(exchange=None), or a Master. With "
                "private copies use batch=1."
            )
        if self.coordinate is not None:
            self._check_coordinate(chosen)

    def _check_coordinate(self, chosen: OtherChoices) -> None:
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
        if all(getattr(self, name) is getattr(SGD, name) for name in FIELDS):
            return  # as most are: a small fit would wait for the looks
        store_options(self)
        ranges.share(momentum=self.momentum)
        ranges.flag(nesterov=self.nesterov)
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov=True looks ahead by momentum: give one, momentum=0.9.")
        if not isinstance(self.coordinate, str | None) or self.coordinate not in COORDINATES:
            raise ValueError(
                f"coordinate must be one of {list(COORDINATES)}; got {self.coordinate!r}."
                f"{nearest(self.coordinate, COORDINATES)}"
            )
