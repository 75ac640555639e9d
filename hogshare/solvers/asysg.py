"""AsySG (Lian et al. 2015): with a master and consistent reads, or lock-free on one vector.

``docs/asysg.md`` says how the paper's iterations, messages and step sizes correspond to the
engine's. The decorator `algorithm` adds the plane's parameters to a docstring, and changes no call.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Never

import numpy as np

from hogshare.barriers import ASP, barrier_of, is_free
from hogshare.engine.stops import Stop
from hogshare.planes.master import Master
from hogshare.planes.shared import Shared
from hogshare.problems.linear.gradients import unsmooth
from hogshare.problems.protocol import Problem, by_gradient, has_rows
from hogshare.report import Report
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize
from hogshare.solvers.choice_names import problem_of, step_of
from hogshare.solvers.papers import algorithm, stop_after
from hogshare.solvers.refusals import PROPORTIONAL
from hogshare.solvers.solver import solve


@algorithm(Master)
def asysg_con(
    problem: Problem,
    *others: Never,
    n_workers: int = -1,
    batch: int = 1,
    gradients: int = 1,
    step: StepSize | float | str = 0.01,
    epochs: int = 10,
    cutoff: int | None = None,
    damped: bool = False,
    stop: Stop | int | None = None,
    theory: bool = True,
    **settings: Any,
) -> Report:
    """Minimize by AsySG-con: pull from a master, compute, push; the master sums M gradients.

    Parameters
    ----------
    n_workers : int, default=-1
        Number of workers; -1 means all usable cores. The master is not counted: it computes little.
    batch : int, default=1
        Number of rows of a gradient. The gradient is the mean over these rows, as in the paper.
    step : StepSize or float, default=0.01
        The paper's gamma, for a sum of M gradients that are means over `batch` rows. A number is a
        constant step size. The time of a schedule counts rows. "optimal" and the passive-aggressive
        schedules raise ValueError, because they have no eta0 to scale.
    epochs : int, default=10
        Number of passes over the rows; each makes ``n_rows / (batch * gradients)`` updates.
    theory : bool, default=True
        Whether the report contains the expectations of the paper's analysis, as in `asysg_incon`.

    Returns
    -------
    Report
        `Report.ages` has the staleness of gradients, in updates of the model.

    Raises
    ------
    ValueError
        If a number is out of its range, `step` is a schedule without eta0, or the run diverges.

    Notes
    -----
    Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
    optimization", NIPS 2015, section 3, Algorithm 1:
    ``x_{k+1} = x_k - gamma_k sum_{m=1..M} G(x_{k - tau_{k,m}}; xi_{k,m})``.

    A message to the master is the sum of its rows' steps, so ``eta0 = step / batch``. (For networks
    a message is already the step by the mean.) Departures: (1) each epoch visits the rows in a
    permutation, and does not draw them; (2) the last mini-batch of an epoch may have fewer rows; it
    then has less weight, except for networks; (3) on sparse rows the l2 penalty acts only on a
    row's own features, scaled by how rare the features are; this is correct on average; (4) on
    sparse rows the intercept takes a hundredth of the step.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import asysg_con, problems
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y)
    >>> report = asysg_con(problem, n_workers=2, batch=10, gradients=2, step=0.1, seed=0)
    >>> report.settings["plane"]["gradients"], report.theory["n_gradients"]
    (2, 2)
    >>> sum(worker["pushes"] for worker in report.workers)
    570
    """
    problem, steps, stop = problem_of(problem, others), _steps_of(step), stop_after(epochs, stop)
    if steps.kind not in PROPORTIONAL:
        raise ValueError(
            f"StepSize({steps.kind!r}) has no factor for the step by a mean over rows: use "
            f"{', '.join(map(repr, PROPORTIONAL))}, or solve(problem, plane=Master(...))."
        )
    n_training = _rows_to_learn_from(problem, stop)
    rule = SGD(batch=batch)  # refuses values below 1
    if batch > n_training:
        raise ValueError(
            f"batch={batch} is more than the {n_training} training rows; a gradient is the mean "
            "over `batch` rows: use a smaller batch."
        )
    analysis = {
        "consistent": True,
        "n_gradients": gradients,
        "step": steps.eta0 if steps.kind == "constant" else None,
        "rows_per_gradient": batch,
        "penalty_on_support": True,
        "own_under_way": is_free(barrier_of(settings.get("barrier"))),
    }
    return _solved(
        problem,
        analysis if theory else None,
        steps,
        settings,
        rule=rule,
        plane=Master(gradients=gradients, cutoff=cutoff, damped=damped, fold="sum"),
        n_workers=n_workers,
        step=dataclasses.replace(steps, eta0=steps.eta0 / _summed(problem, batch)),
        stop=stop,
        block=batch,
    )


def _solved(
    problem: Problem,
    analysis: dict[str, Any] | None,
    schedule: StepSize,
    settings: dict[str, Any],
    **choices: Any,
) -> Report:
    """Solve with the paper's choices, and add the expectations of its analysis to the report."""
    traced = analysis is not None and settings.get("trace") is not None
    gradients = traced and (not has_rows(problem) or unsmooth(problem) is None)
    # the paper's barrier, whatever the problem
    settings = {"gradients": gradients, "barrier": ASP(), **settings}
    report = solve(problem, **choices, **settings)
    if analysis is not None:
        from hogshare.lab.bounds.report_section import Algorithm, theory_section

        report.theory = theory_section(
            problem,
            report,
            Algorithm(**analysis),
            schedule=schedule,
            n_training=_rows_to_learn_from(problem, choices["stop"]),
            start=settings.get("start"),
        )
    return report


def _steps_of(step: Any) -> StepSize:
    return step_of(step) or StepSize("constant")


def _rows_to_learn_from(problem: Problem, stop: Stop) -> int:
    """Return the number of rows in an epoch, without held-out rows."""
    held_out = 0 if stop.validation is None else int(np.count_nonzero(stop.validation))
    return problem.n_rows - held_out


def _summed(problem: Problem, batch: int) -> int:
    """Return the number of rows whose steps a mini-batch sums; 1 if its step is by their mean."""
    return 1 if by_gradient(problem) and problem.by_mean else batch


def _of_a_sum(problem: Problem, steps: StepSize, batch: int) -> float | None:
    """Return a constant step size for a mini-batch's sum of gradients; None for a schedule."""
    return steps.eta0 * _summed(problem, batch) / batch if steps.kind == "constant" else None


@algorithm(Shared)
def asysg_incon(
    problem: Problem,
    *others: Never,
    n_workers: int = -1,
    batch: int = 1,
    coordinate: str | None = None,
    step: StepSize | float | str = 0.01,
    epochs: int = 10,
    adds: str = "plain",
    stop: Stop | int | None = None,
    theory: bool = True,
    **settings: Any,
) -> Report:
    """Minimize by AsySG-incon: read without locks, compute, update without locks.

    Parameters
    ----------
    batch : int, default=1
        Number of gradients computed between two writes (the paper's M). The gradients are summed,
        so a step size for the mean must be divided by M. (For networks, steps are by the mean.)
    coordinate : {None, "uniform", "support", "unbiased"}, default=None
        The coordinates that a write cycle writes. If None, a cycle writes all coordinates of the
        rows, as in Hogwild!. Otherwise it writes one coordinate, as in the paper's printed
        algorithm. "uniform" draws this coordinate from all n coordinates (the paper's equation 13),
        so a cycle makes on average the n-th part of the step. "support" draws it from the rows'
        coordinates, and so favors rows with few coordinates. "unbiased" draws it like "support",
        and multiplies its step by the number of the rows' coordinates; see `SGD`.
    step : StepSize or float, default=0.01
        Step size; a number is a constant step size, as in the paper.
    theory : bool, default=True
        Whether `Report.theory` contains the expectations of the paper's analysis: constants, step
        size, condition, measured staleness, and whether linear speedup is expected. This takes some
        passes over the rows after the run. With `trace` it also takes the gradient at each
        snapshot. The run's times do not include this work.

    Notes
    -----
    Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
    optimization", NIPS 2015, section 4. Departures: (1) with ``coordinate=None`` an iteration
    writes all coordinates on the rows' support, as in Hogwild!, whereas the analysis writes one
    coordinate per iteration; (2) each epoch visits the rows in a permutation, and does not draw
    them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import asysg_incon, problems
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = asysg_incon(problems.linear(scale(X), y), n_workers=2, batch=4, seed=0)
    >>> report.n_epochs
    10
    >>> 0.0 < report.theory["paper_step"] < 1.0
    True

    In the paper's printed algorithm, an iteration writes one coordinate:

    >>> report = asysg_incon(
    ...     problems.linear(scale(X), y), n_workers=2, batch=4, coordinate="uniform", seed=0
    ... )
    >>> sum(worker["pushes"] for worker in report.workers)
    1430
    """
    problem, steps, stop = problem_of(problem, others), _steps_of(step), stop_after(epochs, stop)
    analysis = {
        "consistent": False,
        "n_gradients": batch,
        "coordinate": coordinate,
        "step": _of_a_sum(problem, steps, batch),
    }
    return _solved(
        problem,
        analysis if theory else None,
        steps,
        settings,
        rule=SGD(batch=batch, coordinate=coordinate),
        plane=Shared(exchange=None, adds=adds),
        n_workers=n_workers,
        step=steps,
        stop=stop,
    )
