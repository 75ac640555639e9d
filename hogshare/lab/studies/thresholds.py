"""Gaia's significance threshold, fixed and falling: what theorem 1 promises and what it is for.

Three centres on a virtual clock with steps that fall as one over the root of the clock, without the
flush at the end that would make their models equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare import problems
from hogshare.engine.stops import Stop
from hogshare.lab.studies.made import noisy_classes
from hogshare.planes import Mirrors
from hogshare.problems.protocol import RowProblem
from hogshare.report import Report
from hogshare.rules.steps import StepSize
from hogshare.simulation import Constant, Simulator
from hogshare.solvers import solve

EVERY = 20  # rows of a centre in a clock


def drawn(n_rows: int, n_features: int, seed: int) -> tuple[RowProblem, float]:
    """A logistic model of noisy labels, and its optimum."""
    X, y = noisy_classes(n_rows, n_features, seed)
    problem = problems.linear(X, y, alpha=0.02, fit_intercept=False)
    run = {"rule": "saga", "n_workers": 1, "runtime": "caller", "stop": 200, "seed": 0}
    best = solve(problem, trace=1, **run)
    assert best.trace is not None
    return problem, float(np.min(best.trace.objective))


def run(problem: RowProblem, epochs: int, seed: int, **settings: Any) -> Report:
    """Three centres with a threshold.

    **settings
        Of `hogshare.Mirrors`: ``threshold``, which falls with the root of the clock unless
        ``decay`` is None, and others.
    """
    return solve(
        problem,
        plane=Mirrors(3, every=EVERY, flush=False, **settings),
        n_workers=3,
        runtime=Simulator(block_time=Constant(0.01)),
        step=StepSize("invscaling", 0.1, 0.5),
        stop=Stop(epochs=epochs, tol=None),
        trace=2,
        seed=seed,
    )


def regret_over_root(report: Report, n_rows: int, optimum: float) -> np.ndarray:
    """At each point of a trace: the sum over rows of what is above the optimum, over the root."""
    assert report.trace is not None
    rows = n_rows * np.asarray(report.trace.epochs)
    above = np.asarray(report.trace.objective)[1:] - optimum
    return np.asarray(np.cumsum(above * np.diff(rows)) / np.sqrt(rows[1:]))
