"""SGD: stochastic gradient descent."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.kernels.rules import momentum as descents
from hogshare.rules.gradient_options import shortened, store_options
from hogshare.rules.protocol import Descent, Descents, Rule
from hogshare.rules.row_memory import Shapes
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
        Number of rows after which the iterates are averaged. If True, they are averaged from the
        first row on. If 0, they are not averaged.
    batch : int, default=None
        Number of rows of a mini-batch, whose gradients are computed from one read of the model
        before the step is written (M in AsySG-incon). The gradients are summed, or for networks
        averaged. By default the rows of a block; for a linear problem, one row. For a linear
        problem, more than one row requires a plane without exchange, where other workers may write
        between the read and the write.
    coordinate : {None, "uniform", "support", "unbiased"}, default=None
        The coordinates that a step writes. By default a step writes all coordinates of its rows.
        With the other values, each mini-batch writes one coordinate, as in AsySG-incon. "uniform":
        one of all coordinates (the paper's equation 13). "support": one of the rows' nonzero
        coordinates (the paper's sparse variant); the expected step is not along the gradient.
        "unbiased": as "support", but the step is multiplied by the number of nonzero coordinates,
        so the expected step is along the summed gradient. These three values require
        ``Shared(exchange=None)``, and make each block one mini-batch.
    momentum : float, default=0.0
        Share, from 0 to 1, of the last step that is added to the next step; the notes describe
        several workers. `momentum`, `nesterov`, `weight_decay` and `clip` are only for problems
        that are defined by a gradient.
    nesterov : bool, default=False
        Whether a step already includes the momentum of the next step (Nesterov's momentum).
    weight_decay : float, default=0.0
        Share of the vector that is added to the gradient of each step. As in torch, the decay
        becomes part of the velocity if there is a momentum.
    clip : float, default=None
        Largest Euclidean norm of a gradient, before the decay is added. Longer gradients are scaled
        down to this norm.

    Notes
    -----
    Source of `batch` and `coordinate`: Lian, Huang, Li and Liu 2015, section 4.

    With ``BSP``, the default for several workers, each worker computes a part of a mini-batch, and
    the run has one velocity. So the steps equal the steps of one worker.

    With another barrier, each worker has its own velocity, computed from its own gradients. Let a
    worker take one in n of the run's steps, where n is measured. At each of its steps, the worker
    multiplies its velocity by ``1 - n (1 - momentum)``, but at least by 0. A gradient then moves
    the vector fewer times, so steps are longer by the same factor. In total, a gradient moves the
    vector as far as with one worker, ``eta / (1 - momentum)``, and with the same delay, which
    includes staleness (`hogshare.rules.gradient_options.shortened`). But if the objective is sharp,
    late steps may overshoot where the steps of one worker would not (Giladi et al. 2020, "At
    stability's edge").

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
    gain: ClassVar[float] = 1.0  # factor of steps by a velocity; larger for one of several workers
    decays_gradient: ClassVar[bool] = True
    has_kernels: ClassVar[bool] = True
    descends: ClassVar[bool] = True

    @property
    def is_proportional(self) -> bool:
        """Whether a step is the gradient times the step size, without any other term."""
        return not (self.momentum or self.weight_decay) and self.clip is None

    @property
    def is_plain(self) -> bool:
        """Whether each step is the whole step of one row, without averages of iterates."""
        of_rows = self.batch in (None, 1) and not self.average and self.coordinate is None
        return of_rows and self.is_proportional

    def state(self, n_params: int) -> Shapes:
        """Return the shape of the velocity, the vector's shape, if there is a momentum."""
        return {"velocity": ((n_params,), "vector")} if self.momentum else {}

    def among(self, period: float) -> SGD:
        """Return a rule whose velocity spans as many steps of the run as with one worker."""
        if period == 1.0 or not 0.0 < self.momentum < 1.0:
            return self
        mine = copy(self)
        share = shortened(self.momentum, period)
        # set directly: `replace` would refuse a momentum of 0 with nesterov=True
        object.__setattr__(mine, "momentum", share)
        object.__setattr__(mine, "gain", (1.0 - share) / (1.0 - self.momentum))
        return mine

    def descent(self, eta: float, *state: Any) -> Descent:
        """Return the arguments of a plain step, or of a step with the velocity in `state`."""
        if not state:
            return descents.PLAIN, None, None, eta, 0.0, 0.0, 0.0
        velocity = state[0]["velocity"]
        kind = descents.AHEAD if self.nesterov else descents.HEAVY
        return kind, velocity, velocity, self.gain * eta, float(self.momentum), 0.0, 0.0

    def descents(self, etas: np.ndarray, *state: Any) -> Descents:
        """Return the arguments of several steps, computed at once."""
        table = np.zeros((len(etas), 4))
        kind, first, second, gain, *others = self.descent(1.0, *state)
        table[:, 0], table[:, 1:] = gain * etas, others
        return kind, first, second, table

    def step(self, gradient: np.ndarray, eta: float, *state: Any, **others: Any) -> None:
        """Overwrite the gradient with the step, and change the velocity in `state`, if any."""
        if state:
            kind, velocity, _, *numbers = self.descent(eta, *state)
            descents.step(gradient, velocity, velocity, kind, *numbers)
        else:
            np.multiply(gradient, eta, out=gradient)

    def check(self, chosen: OtherChoices) -> None:
        """Raise an error for mini-batches of rows in copies, and for wrong uses of `coordinate`."""
        super().check(chosen)
        plane, has_rows = chosen.plane, chosen.problem.has_rows
        has_homes = plane.has_homes and not plane.is_direct
        options = [name for name in OF_GRADIENTS if getattr(self, name)]
        if has_rows and options:
            raise ValueError(
                f"SGD({options[0]}={getattr(self, options[0])}) is for problems by a gradient, and "
                "steps along a linear problem's rows do not have it: leave it out."
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
                "no gradient: its step is for a whole row. Use another StepSize."
            )
        if chosen.block is not None:
            raise ValueError(
                f"{what} makes each block one mini-batch with one write; got "
                f"block={chosen.block!r}: leave block out."
            )

    def __post_init__(self) -> None:
        if all(getattr(self, name) is getattr(SGD, name) for name in FIELDS):
            return  # the usual case: in a small fit the checks would take noticeable time
        store_options(self)
        ranges.share(momentum=self.momentum)
        ranges.flag(nesterov=self.nesterov)
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov=True needs a momentum: pass one, such as momentum=0.9.")
        if not isinstance(self.coordinate, str | None) or self.coordinate not in COORDINATES:
            raise ValueError(
                f"coordinate must be one of {list(COORDINATES)}; got {self.coordinate!r}."
                f"{nearest(self.coordinate, COORDINATES)}"
            )
