"""AsySG-incon (Lian et al. 2015): lock-free stochastic gradient on one shared vector."""

from __future__ import annotations

from typing import Any

from hogshare.engine.rules import SGD
from hogshare.engine.steps import StepSize
from hogshare.engine.stops import Stop
from hogshare.planes.shared import Shared
from hogshare.problems.linear import LinearProblem
from hogshare.report import Report
from hogshare.solvers.solving import solve
from hogshare.solvers.theory import theory_section
from hogshare.theory.gradients import unsmooth


def asysg_incon(
    problem: LinearProblem,
    *,
    n_workers: int = -1,
    batch: int = 1,
    step: StepSize | float = 0.01,
    epochs: int = 10,
    adds: str = "plain",
    stop: Stop | None = None,
    theory: bool = True,
    **settings: Any,
) -> Report:
    """Minimise by AsySG-incon: read without locks, compute, update without locks.

    Parameters
    ----------
    problem : LinearProblem
        What to minimise.
    n_workers : int, default=-1
        Workers; -1 means all usable cores.
    batch : int, default=1
        M of the paper: gradients computed between two writes. They are summed, so a step size for
        the mean has to be divided by M.
    step : StepSize or float, default=0.01
        Step size; a number is a constant one, as in the paper.
    epochs : int, default=10
        Passes over the rows.
    adds : {"plain", "atomic"}, default="plain"
        How a coordinate is updated.
    stop : Stop or None, default=None
        Another criterion than the number of epochs, which is then its own.
    theory : bool, default=True
        Whether the report says what the paper's analysis expects of the run (`Report.theory`):
        constants, step size, condition, measured ages, and whether linear speedup is to be
        expected. Some passes over the rows after the run, in none of its times; with `trace` the
        gradient at each snapshot besides.
    **settings
        Further arguments of `hogshare.solve`.

    Returns
    -------
    Report

    Notes
    -----
    Source: Lian, Huang, Li and Liu, "Asynchronous parallel stochastic gradient for nonconvex
    optimization", NIPS 2015, section 4. Departure: all coordinates on the rows' support are
    written, as in Hogwild!, where the analysis writes one coordinate per iteration.

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
    """
    steps = step if isinstance(step, StepSize) else StepSize("constant", eta0=step)
    with_gradients = theory and settings.get("trace") is not None and unsmooth(problem) is None
    report = solve(
        problem,
        rule=SGD(batch=batch),
        plane=Shared(exchange=None, adds=adds),
        n_workers=n_workers,
        step=steps,
        stop=stop or Stop(epochs=epochs),
        **{"gradients": with_gradients, **settings},
    )
    if theory:
        report.theory = theory_section(
            problem,
            report,
            consistent=False,
            n_gradients=batch,
            step=steps.eta0 if steps.kind == "constant" else None,
            start=settings.get("start"),
        )
    return report
