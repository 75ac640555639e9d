"""The noise of mini-batch gradients, and the mean squared gradient norm along a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hogshare.problems.linear.gradients import Gradient, gradient
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import leaves_numpy
from hogshare.system.ranges import at_least_one


@leaves_numpy
def gradient_noise(
    problem: RowProblem,
    model: Model,
    batch: int = 1,
    *,
    on_support: bool = False,
    at: Gradient | None = None,
) -> float:
    """Compute sigma of a mini-batch gradient at a model: ``sqrt(E ||G - grad f||^2)``.

    G is the mean gradient of `batch` rows drawn independently, as the theory assumes. (An epoch's
    permutation draws without replacement, and its G is less noisy.) The noise is computed in closed
    form from all rows. It is the noise at one model; equation (3) needs the largest noise over all
    models.

    Parameters
    ----------
    problem : LinearProblem
        A problem with a smooth loss, and a penalty without an l1 part.
    model : Model
        The model at which the noise is computed.
    batch : int, default=1
        Number of rows of a mini-batch.
    on_support : bool, default=False
        Whether a row's G includes the gradient of the l2 penalty on the row's own features only,
        divided by their frequencies, as on the lock-free plane (Hogwild!'s ``lambda x_u^2 / d_u``).
        If False, every G includes the whole gradient of the penalty, which adds no noise. For dense
        rows the two are equal.
    at : Gradient or None, default=None
        The result of `gradient` at this model, if known; it saves two passes over the rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the objective is not smooth, the batch is below 1, or the model's shape is not the
        problem's.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Model, problems, theory
    >>> problem = problems.linear([[1.0], [3.0]], [0, 1], loss="squared_error", penalty=None)
    >>> model = Model(np.zeros((1, 1)), np.zeros(1))
    >>> round(theory.gradient_noise(problem, model) ** 2, 6)
    2.5
    >>> round(theory.gradient_noise(problem, model, batch=10) ** 2, 6)
    0.25
    """
    at_least_one(batch=batch)
    at = at or gradient(problem, model)
    squares = problem.squared_norms + float(problem.fit_intercept)
    second = float(np.square(at.slopes).sum(axis=1) @ squares) / problem.n_rows
    coef = np.asarray(model.coef, np.float64)
    of_losses = at.coef - problem.l2 * coef
    mean = float(np.square(of_losses).sum() + np.square(at.intercept).sum())
    if on_support and problem.is_sparse and problem.l2 > 0.0:
        # ||s x + l2 D w||^2 with D = n / n_v on the row's features: the means of its three terms,
        # minus the squared norm of the whole gradient on the features that occur
        counts = problem.nonzeros
        rarity = np.where(counts > 0, problem.n_rows / np.maximum(counts, 1), 0.0)
        second += 2.0 * problem.l2 * float((rarity * coef * of_losses).sum())
        second += problem.l2**2 * float((rarity * np.square(coef)).sum())
        mean = float(np.square(at.coef[:, counts > 0]).sum() + np.square(at.intercept).sum())
    return math.sqrt(max(0.0, second - mean) / batch)


def ergodic_gradient_norm(
    steps: Sequence[float] | np.ndarray, squared_norms: Sequence[float] | np.ndarray
) -> float:
    """Compute the mean squared gradient norm along a run, weighted by the step sizes.

    It is ``(1 / sum gamma_k) sum_k gamma_k ||grad f(x_k)||^2``, the left side of (8) in Lian et al.
    2015 for one run. The paper's theorem bounds its expectation.

    Parameters
    ----------
    steps : array-like of shape (n,)
        The step sizes gamma_k, not negative. If a recorded model represents several updates, its
        entry is the sum of their step sizes.
    squared_norms : array-like of shape (n,)
        The squared norms ``||grad f(x_k)||^2`` of the whole gradient.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the lengths differ or are zero, a number is negative or not finite, or all steps are
        zero.

    Examples
    --------
    >>> from hogshare import theory
    >>> theory.ergodic_gradient_norm([0.1, 0.3], [4.0, 2.0])
    2.5
    """
    weights, values = np.asarray(steps, np.float64), np.asarray(squared_norms, np.float64)
    if weights.ndim != 1 or weights.shape != values.shape or not weights.size:
        raise ValueError(
            "steps and squared_norms must be sequences of one length; got shapes "
            f"{weights.shape} and {values.shape}."
        )
    for name, array in (("steps", weights), ("squared_norms", values)):
        if not (np.isfinite(array) & (array >= 0.0)).all():
            raise ValueError(f"{name} must be finite and not negative.")
    if not weights.sum() > 0.0:
        raise ValueError("The steps must not all be zero.")
    return float(weights @ values / weights.sum())
