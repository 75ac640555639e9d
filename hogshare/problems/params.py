"""The state of a problem with a gradient function: one vector, a run's start or result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hogshare.problems.model import Model


@dataclass(frozen=True)
class Params:
    """A vector of parameters, and its step counter.

    Attributes
    ----------
    params : ndarray of shape (n_params,)
        Last iterate.
    t : float
        Step counter: 1 plus the number of rows visited so far.
    average : ndarray of shape (n_params,) or None
        Mean of the iterates since averaging began, if requested.
    memory : mapping of str to ndarray, or None
        The rule's state (`hogshare.Rule.state`), such as velocities or moments, with a row for each
        worker. A run with the same rule that starts from this model continues with this state. If
        the new run has more workers, the additional workers begin with copies.

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
        """Return whether all values of the last iterate, and of the average if any, are finite."""
        parts = (self.params, self.average)
        return all(bool(np.isfinite(part).all()) for part in parts if part is not None)


def params_of(model: Model) -> Params:
    """Return a model of the engine as `Params`, whose vectors are views of the model."""
    average = model.average_coef
    return Params(model.coef[0], model.t, None if average is None else average[0])
