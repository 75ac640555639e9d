"""Adam: steps computed from running means of gradients and of their squares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hogshare.kernels.rules import momentum
from hogshare.rules.gradient_options import shortened, store_options
from hogshare.rules.protocol import Descent, Descents, Rule
from hogshare.rules.row_memory import Shapes
from hogshare.system import ranges


@dataclass(frozen=True)
class Adam(Rule):
    """Divide the running mean of gradients by the root of the running mean of their squares.

    This rule is for problems that are defined by a gradient: networks, torch modules, users'
    gradients. With ``BSP``, the default for several workers, each worker computes a part of a
    mini-batch, and the run has one pair of means. So the steps equal the steps of one worker. With
    another barrier, each worker has its own means, computed from its own gradients. Let a worker
    take one in n of the run's steps, where n is measured. At each of its steps, the worker
    multiplies its means by ``1 - n (1 - beta)``, but at least by 0. So the means span as many steps
    of the run as with one worker (`hogshare.rules.gradient_options.shortened`).

    Parameters
    ----------
    batch : int, default=None
        Number of rows of a step; by default the rows of a block.
    beta_1 : float, default=0.9
        Factor of the mean of gradients at each step: at least 0 and below 1.
    beta_2 : float, default=0.999
        Factor of the mean of squares at each step: at least 0 and below 1.
    epsilon : float, default=1e-8
        Number that is added to the root of the corrected mean of squares.
    epsilon_hat : bool, default=False
        Whether epsilon is added to the root before the means are corrected for their start at zero,
        as in scikit-learn's networks.
    weight_decay : float, default=0.0
        Each step also shrinks the vector by this number times the step size (AdamW).
    clip : float, default=None
        Largest Euclidean norm of a gradient; longer gradients are scaled down to this norm.
    average : int or bool, default=0
        Number of rows after which the iterates are averaged. If True, they are averaged from the
        first row on. If 0, they are not averaged.

    Notes
    -----
    Source of the steps: Kingma and Ba 2015, Algorithm 1; with `epsilon_hat`, the form at the end of
    section 2. Source of the decay: Loshchilov and Hutter 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hogshare import Adam, problems, solve
    >>> X, y = load_digits(return_X_y=True)
    >>> problem = problems.network(X / 16.0, y, hidden=(32,))
    >>> report = solve(problem, rule=Adam(batch=20), step=0.003, stop=10, seed=0, trace=1)
    >>> bool(report.objective < 0.15)
    True
    """

    batch: int | None = None
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    epsilon_hat: bool = False
    weight_decay: float = 0.0
    clip: float | None = None
    average: int = 0
    descends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        store_options(self)
        for name in ("beta_1", "beta_2"):
            share = getattr(self, name)
            if not (ranges.is_number(share) and 0.0 <= share < 1.0):
                raise ValueError(f"{name} must be at least 0 and below 1; got {share!r}.")
        ranges.positive(epsilon=self.epsilon)
        ranges.flag(epsilon_hat=self.epsilon_hat)

    def state(self, n_params: int) -> Shapes:
        """Return the shapes of both means and of the number of steps."""
        mean = (n_params,), "vector"
        return {"mean": mean, "square": mean, "steps": ((1,), "int64")}

    def among(self, period: float) -> Adam:
        """Return a rule whose means span as many steps of the run as with one worker."""
        if period == 1.0:
            return self
        beta_1, beta_2 = (shortened(beta, period) for beta in (self.beta_1, self.beta_2))
        return replace(self, beta_1=beta_1, beta_2=beta_2)

    def descent(self, eta: float, *state: Any) -> Descent:
        """Count a step in the state, and return its arguments for a kernel."""
        (own,) = state
        steps = own["steps"]
        steps += 1
        t, betas = int(steps[0]), (float(self.beta_1), float(self.beta_2))
        correction = math.sqrt(1.0 - self.beta_2**t)
        size = eta * correction / (1.0 - self.beta_1**t)
        least = float(self.epsilon) * (1.0 if self.epsilon_hat else correction)
        return momentum.ADAM, own["mean"], own["square"], size, *betas, least

    def descents(self, etas: np.ndarray, *state: Any) -> Descents:
        """Count several steps in the state, and return their arguments for a kernel."""
        (own,) = state
        t = own["steps"][0] + np.arange(1.0, len(etas) + 1.0)
        own["steps"] += len(etas)
        table = np.empty((len(etas), 4))
        corrections = np.sqrt(1.0 - self.beta_2**t)
        table[:, 0] = etas * corrections / (1.0 - self.beta_1**t)
        table[:, 1], table[:, 2] = self.beta_1, self.beta_2
        table[:, 3] = self.epsilon * (1.0 if self.epsilon_hat else corrections)
        return momentum.ADAM, own["mean"], own["square"], table

    def step(self, gradient: np.ndarray, eta: float, *state: Any, **others: Any) -> None:
        """Overwrite the gradient with the step, and change the means in `state`."""
        kind, mean, square, *numbers = self.descent(eta, *state)
        momentum.step(gradient, mean, square, kind, *numbers)
