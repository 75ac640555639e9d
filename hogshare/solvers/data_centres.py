"""`gaia`: training across data centres (Hsieh et al. 2017), as one call."""

from __future__ import annotations

from typing import Any, Never

from hogshare.barriers import Barrier
from hogshare.engine.stops import Stop
from hogshare.planes import Mirrors
from hogshare.problems.protocol import Problem
from hogshare.report import Report
from hogshare.rules.steps import StepSize
from hogshare.solvers.choice_names import problem_of
from hogshare.solvers.papers import algorithm, stop_after
from hogshare.solvers.solver import solve


@algorithm(Mirrors)
def gaia(
    problem: Problem,
    *others: Never,
    centres: Any = 3,
    threshold: Any = 0.01,
    clock_difference: float = 0,
    n_workers: int | None = None,
    barrier: Barrier | str | None = "ssp:0",
    step: StepSize | float | str | None = None,
    epochs: int = 10,
    stop: Stop | int | None = None,
    **settings: Any,
) -> Report:
    """Minimize a problem in several centres that send each other their significant changes.

    Parameters
    ----------
    n_workers : int, default=None
        Number of workers over all centres. If None, each centre has one worker.
    barrier : Barrier, callable or str, default=SSP(0)
        The barrier between the workers of each centre: when a worker may continue.
    **settings
        Further arguments of `Mirrors` (`inside`, `fold`, `every`, `significance`, `decay`, `soft`,
        `delay`, `queue`, `graph`, `links`, `when_lost`, `flush`, `rows`) and of `solve`.

    Returns
    -------
    Report
        `Report.exchanges` describes the exchanges between centres, and `Report.theory` has the
        conditions of the paper's analysis.

    Raises
    ------
    ValueError, TypeError
        If `Mirrors` or `solve` does not accept an argument.

    Notes
    -----
    Source: Hsieh, Harlap, Vijaykumar, Konomis, Ganger, Gibbons and Mutlu, "Gaia: geo-distributed
    machine learning approaching LAN speeds", NSDI 2017, section 4. Departures: see `Mirrors`;
    ``fold="sum"`` is the paper's choice.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import gaia, problems
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = problems.linear(scale(X), y, alpha=0.01)
    >>> report = gaia(problem, centres=3, threshold=0.05, runtime="simulator", seed=0)
    >>> report.exchanges.n_centres, bool(0.0 < report.exchanges.significant_share <= 1.0)
    (3, True)
    """
    problem = problem_of(problem, others)
    names = [name for name in Mirrors.__dataclass_fields__ if name in settings and name != "parts"]
    plane = Mirrors(
        centres=centres,
        threshold=threshold,
        clock_difference=clock_difference,
        **{name: settings.pop(name) for name in names},
    )
    report = solve(
        problem,
        plane=plane,
        n_workers=plane.least_workers if n_workers is None else n_workers,
        barrier=barrier,
        step=step,
        stop=stop_after(epochs, stop),
        **settings,
    )
    report.theory = promises(plane, report.settings["plane"]["clock_difference"])
    return report


def promises(plane: Mirrors, clock_difference: float) -> dict[str, Any]:
    """Return whether a run meets the conditions of theorem 1 for a regret of order sqrt(T).

    clock_difference : bound on the difference between workers' clocks; infinity if there is no
        bound
    """
    falls = isinstance(plane.decay, str) and plane.decay == "sqrt"
    bounded = clock_difference != float("inf")
    if falls and bounded:
        sentence = (
            "For a convex objective, and steps that decrease as one over the root of the clock, "
            "the regret grows with the root of T."
        )
    else:
        missing = [
            *([] if falls else ["a threshold that decreases as one over the root of the clock"]),
            *([] if bounded else ["a bound on the difference of clocks"]),
        ]
        sentence = f"No bound on the regret: theorem 1 requires {' and '.join(missing)}."
    return {
        "threshold_falls": falls,
        "clock_difference": float(clock_difference),
        "sentence": sentence,
    }
