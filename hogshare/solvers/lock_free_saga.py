"""ASAGA (Leblond et al. 2017) and ProxASAGA (Pedregosa et al. 2017): lock-free SAGA."""

from __future__ import annotations

from typing import Any, Never

from hogshare.engine.stops import Stop
from hogshare.planes.shared import Shared
from hogshare.problems.linear import effective_l1_ratio
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report
from hogshare.rules.saga import SAGA
from hogshare.solvers.choice_names import linear_of
from hogshare.solvers.papers import algorithm, stop_after
from hogshare.solvers.solver import solve


@algorithm()
def asaga(
    problem: RowProblem,
    *others: Never,
    n_workers: int = -1,
    step: float | str = "auto",
    epochs: int = 10,
    adds: str = "atomic",
    stop: Stop | int | None = None,
    **settings: Any,
) -> Report:
    """Minimize by ASAGA: sparse SAGA on one vector, without locks.

    Parameters
    ----------
    problem : LinearProblem
        The problem to minimize, with any loss and with a penalty without an l1 part. (The paper's
        losses are smooth; see `hogshare.SAGA` for losses with kinks.)
    step : float or "auto", default="auto"
        Step size. A number is a constant step size, as in the paper. The paper's experiments use
        1 / (3 L) and similar values; the notes below have the condition of its theorem. "auto" is
        the step size of `hogshare.SAGA`, and does not depend on the number of workers.
    adds : {"atomic", "plain"}, default="atomic"
        How a step is added to a coordinate of the vector. Additions to SAGA's average are always
        atomic.

    Raises
    ------
    ValueError
        If the penalty has an l1 part (use `prox_asaga`), or `step` is not a positive number.

    Notes
    -----
    Source: Leblond, Pedregosa and Lacoste-Julien, "ASAGA: asynchronous parallel SAGA", AISTATS
    2017. Its theorem requires a step of at most ``1 / (32 L (1 + tau sqrt(Delta)) xi)``. In this
    formula, tau is the number of overlapping steps. It is about the number of workers, and must be
    less than a tenth of the number of rows. Delta is the largest share of rows with a common
    feature. L is the largest smoothness constant of a row's loss with penalty. The last factor is
    ``xi = sqrt(1 + min(1 / sqrt(Delta), tau) / (8 kappa))`` with kappa = L / mu, where mu is the
    constant of strong convexity.

    Departures: (1) The l2 part is a proximal step on the row's support. As a part of the gradient,
    the l2 part would overshoot for rare features. (2) Each epoch visits the rows in a new order,
    and does not draw them. (3) A row's stored derivative is swapped atomically.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import asaga, problems
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = asaga(problems.linear(scale(X), y, alpha=0.01), n_workers=2, epochs=20, seed=0)
    >>> report.n_epochs
    20
    """
    problem = linear_of("asaga", problem, others)
    if problem.alpha > 0.0 and effective_l1_ratio(problem.penalty, problem.l1_ratio) > 0.0:
        raise ValueError(
            f"asaga is for penalties without an l1 part, and penalty={problem.penalty!r} has one; "
            "use prox_asaga."
        )
    return prox_asaga(
        problem,
        n_workers=n_workers,
        step=step,
        epochs=epochs,
        adds=adds,
        stop=stop,
        **settings,
    )


@algorithm()
def prox_asaga(
    problem: RowProblem,
    *others: Never,
    n_workers: int = -1,
    step: float | str = "auto",
    epochs: int = 10,
    adds: str = "atomic",
    stop: Stop | int | None = None,
    **settings: Any,
) -> Report:
    """Minimize by ProxASAGA: like `asaga`, but with any penalty.

    Parameters
    ----------
    problem : LinearProblem
        The problem to minimize, with any loss, as for `asaga`, and any penalty.
    step : float or "auto", default="auto"
        Step size, as in `asaga`.
    adds : {"atomic", "plain"}, default="atomic"
        How a step is added to a coordinate of the vector. The step is the result of the proximal
        step, minus the coordinate's old value.

    Raises
    ------
    ValueError
        If `step` is not a positive number.

    Notes
    -----
    Source: Pedregosa, Leblond and Lacoste-Julien, "Breaking the nonsmooth barrier: a scalable
    parallel method for composite optimization", NIPS 2017. The proximal step acts on the row's
    support, and its threshold is scaled by how rare each feature is. The departures are the same as
    in `asaga`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems, prox_asaga
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, penalty="l1", alpha=0.02)
    >>> report = prox_asaga(problem, n_workers=2, epochs=200, seed=0)
    >>> bool((report.model.coef == 0.0).any())
    True
    """
    problem = linear_of("prox_asaga", problem, others)
    if isinstance(step, str) and step != "auto":
        raise ValueError(f"step must be a positive number or 'auto'; got {step!r}.")
    return solve(
        problem,
        rule=SAGA(step=None if isinstance(step, str) else step),
        plane=Shared(exchange=None, adds=adds),
        n_workers=n_workers,
        stop=stop_after(epochs, stop),
        **settings,
    )
