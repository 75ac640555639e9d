"""The gradient of a smooth objective at a model, over all rows.

The intercept is a coordinate like the coefficients. The gradient includes the l2 part of the
penalty. `hogshare.kernels.rows.whole_gradients` makes two passes over the rows, in the calling
thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hogshare.kernels.rows.whole_gradients import add_gradient, sums_of
from hogshare.kernels.rules import losses
from hogshare.problems.linear.row_arrays import rows_at_once
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem


@dataclass(frozen=True)
class Gradient:
    """The objective and its gradient at a model; the result of `gradient`.

    Attributes
    ----------
    objective : float
        Mean weighted loss plus penalty, summed over columns.
    coef : ndarray of shape (n_columns, n_features)
        Derivatives with respect to the coefficients, including the penalty's derivative.
    intercept : ndarray of shape (n_columns,)
        Derivatives with respect to the intercepts; zeros if no intercepts are fitted.
    slopes : ndarray of shape (n_rows, n_columns)
        Derivative of each row's weighted loss with respect to the row's prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Model, problems, theory
    >>> problem = problems.linear([[1.0], [3.0]], [0, 1], loss="squared_error", penalty=None)
    >>> theory.gradient(problem, Model(np.zeros((1, 1)), np.zeros(1))).slopes
    array([[ 0.],
           [-1.]])
    """

    objective: float
    coef: np.ndarray
    intercept: np.ndarray
    slopes: np.ndarray

    @property
    def squared_norm(self) -> float:
        """Squared Euclidean norm of the gradient over all columns, including the intercepts."""
        return float(np.square(self.coef).sum() + np.square(self.intercept).sum())


def unsmooth(problem: RowProblem) -> str | None:
    """Return the reason why an objective has no gradient at some models, or None if it has.

    Parameters
    ----------
    problem : LinearProblem

    Returns
    -------
    str or None

    Examples
    --------
    >>> from hogshare import problems, theory
    >>> theory.unsmooth(problems.linear([[1.0], [2.0]], [0, 1], loss="hinge"))
    "loss='hinge' has kinks"
    """
    if problem.loss in losses.KINKED:
        return f"loss={problem.loss!r} has kinks"
    if problem.l1 > 0.0:
        return f"penalty={problem.penalty!r} has an l1 part"
    return None


def check_smooth(problem: RowProblem) -> None:
    """Raise ValueError if the objective has no gradient at some models."""
    reason = unsmooth(problem)
    if reason is not None:
        raise ValueError(
            f"The objective has no gradient everywhere: {reason}. The theory is for smooth "
            "objectives; use for example loss='log_loss' with penalty='l2'."
        )


def gradient(problem: RowProblem, model: Model) -> Gradient:
    """Compute the objective and its gradient at a model's last iterate, over all rows.

    If ranks have parts of the rows, all ranks must call this function.

    Parameters
    ----------
    problem : LinearProblem
        A problem with a smooth loss, and a penalty without an l1 part.
    model : Model

    Returns
    -------
    Gradient
        The objective and the gradient in float64, for rows of any dtype.

    Raises
    ------
    ValueError
        If the objective is not smooth, or if the model's shape does not match the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import Model, problems, theory
    >>> problem = problems.linear([[1.0], [3.0]], [0, 1], loss="squared_error", penalty=None)
    >>> found = theory.gradient(problem, Model(np.zeros((1, 1)), np.zeros(1)))
    >>> found.objective, found.coef.item(), found.intercept.item(), found.squared_norm
    (0.25, -1.5, -0.5, 2.5)
    """
    check_smooth(problem)
    n, columns = problem.n_rows, problem.n_columns
    shape = columns, problem.n_features
    if np.shape(model.coef) != shape or np.shape(model.intercept) != shape[:1]:
        raise ValueError(
            f"The model has coef of shape {np.shape(model.coef)} and intercept of shape "
            f"{np.shape(model.intercept)}; this problem needs {shape} and {shape[:1]}."
        )
    coef = np.asarray(model.coef, np.float64)
    slopes = np.empty(n * columns)
    out = sums_of(coef.size, columns, 1)
    w = np.ascontiguousarray(coef.T, dtype=problem.dtype).reshape(-1)
    intercept = np.asarray(model.intercept, np.float64)
    part = 0, n, rows_at_once(problem.rows)
    add_gradient(
        *problem.terms, *part, w, slopes, intercept, *problem.column_weights, False, slopes, out
    )
    of_losses, of_slopes, losses_at = problem.totals(out.gradient, out.slopes, out.losses)
    n_all = problem.n_all
    of_losses = of_losses.reshape(problem.n_features, columns).T / n_all
    return Gradient(
        objective=float(losses_at.sum()) / n_all + problem.penalty_at(coef),
        coef=of_losses + problem.l2 * coef,
        intercept=of_slopes.sum(axis=0) / n_all * problem.fit_intercept,
        slopes=slopes.reshape(n, columns),
    )
