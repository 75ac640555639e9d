"""The state of a problem that is one vector: what a run starts from and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hogshare.problems.model import Model


@dataclass(frozen=True)
class Params:
    """A vector of parameters, and the step counter that belongs to it.

    Attributes
    ----------
    params : ndarray of shape (n_params,)
        Last iterate.
    t : float
        Step counter: 1 plus the number of rows visited so far.
    average : ndarray of shape (n_params,) or None
        Mean of the iterates since averaging began, where it was asked for.
    memory : mapping of str to ndarray, or None
        What the rule has kept with each worker (`hogshare.Rule.state`), a row for each: velocities,
        moments. A run by the same rule that starts from the model goes on with it; if it has more
        workers, they begin with copies.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare.problems import Params
    >>> Params(np.zeros(3)).is_finite()
    True
    """

    params: np.ndarray
    t: float = 1.0
    average: np.ndarray | None = None
    memory: Mapping[str, np.ndarray] | None = field(default=None, kw_only=True)

    def is_finite(self) -> bool:
        """Whether every number is finite, of the average too."""
        parts = (self.params, self.average)
        return all(bool(np.isfinite(part).all()) for part in parts if part is not None)


def params_of(model: Model) -> Params:
    """A model of the engine's, as one vector."""
    average = model.average_coef
    return Params(model.coef[0], model.t, None if average is None else average[0])
