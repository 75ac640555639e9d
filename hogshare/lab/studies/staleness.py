"""Measure the cost of stale gradients: the rates of AsySG, and the linear rate of ASAGA.

AsySG's corollaries (Lian et al. 2015) state how the mean squared norm of the gradient falls with
the number K of updates and the number M of rows of a gradient. They hold for every age up to a
bound. (An age is the staleness of a gradient, in updates.) The runs use the step sizes of the
corollaries. ASAGA (Leblond, Pedregosa and Lacoste-Julien 2017) converges linearly at ages below a
tenth of the number of rows. Workers have equal speed on a virtual clock. T + 1 workers therefore
apply each gradient T updates after the read of its model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import problems
from hogshare.engine.stops import Stop
from hogshare.lab import bounds
from hogshare.lab.studies.synthetic import noisy_classes
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.simulation import Constant, Simulator
from hogshare.solvers import asaga_tasks, asysg_con, asysg_incon, solve

N_ROWS, N_FEATURES = 1000, 20
ALPHA = 0.01
EVALUATIONS = 100  # fewest evaluations of the gradient in K updates
NEAR = 0.1  # largest decrease of the gradient's fastest component between two evaluations
PRECISION = 1e-11  # precision of the optimum: smaller gaps are meaningless


@dataclass(frozen=True)
class LogisticFacts:
    """A logistic problem, with its constants in the analysis.

    L : Lipschitz constant of the gradient
    L_max : Lipschitz constant of the gradient along one coordinate
    L_row : Lipschitz constant of one row's gradient
    """

    problem: RowProblem
    optimum: float
    gap: float
    L: float
    L_max: float
    L_row: float
    sigma: float


def drawn(seed: int, n_rows: int = N_ROWS) -> LogisticFacts:
    """Draw normal rows with noisy labels; sigma is the larger noise of start and optimum."""
    X, y = noisy_classes(n_rows, N_FEATURES, seed)
    problem = problems.linear(X, y, alpha=ALPHA, fit_intercept=False)
    best = solve(problem, rule="saga", n_workers=1, runtime="caller", stop=200, seed=0, trace=1)
    start = Model(np.zeros_like(best.model.coef), np.zeros_like(best.model.intercept))
    assert best.objective is not None
    return LogisticFacts(
        problem,
        optimum=best.objective,
        gap=problem.objective(start.coef, start.intercept) - best.objective,
        L=bounds.lipschitz(problem),
        L_max=bounds.coordinate_lipschitz(problem),
        L_row=0.25 * float(np.square(X).sum(axis=1).max()) + ALPHA,
        sigma=max(bounds.gradient_noise(problem, model, 1) for model in (start, best.model)),
    )


def consistent(
    known: LogisticFacts, rows: int, updates: int, age: int, seed: int
) -> dict[str, float]:
    """Run AsySG-con with the paper's step size (9).

    Return ``norm``, the mean squared gradient; ``bound``, the paper's bound (11) of it; and
    ``largest_age``, the largest age that the paper's condition (10) allows.

    rows : number M of rows of a gradient
    age : number of updates between the read of a model and the use of its gradient
    """
    facts = bounds.Constants(gap=known.gap, L=known.L, sigma=known.sigma, n_gradients=rows)
    step, oldest = bounds.con_step_size(facts, updates), bounds.con_largest_age(facts, updates)
    falls = step * rows * known.L
    norm = _watched(known, asysg_con, updates, age, seed, falls, batch=rows, step=rows * step)
    return _found(norm, bounds.con_bound(facts, updates), oldest)


def inconsistent(
    known: LogisticFacts, rows: int, writes: int, age: int, seed: int
) -> dict[str, float]:
    """Run AsySG-incon with writes of one coordinate, and the paper's step size (17).

    Return the same numbers as `consistent`, with the paper's bound (19) and condition (18).
    """
    facts = bounds.CoordinateConstants(
        gap=known.gap,
        L=known.L,
        L_max=known.L_max,
        sigma=known.sigma,
        n_gradients=rows,
        n_coordinates=N_FEATURES,
    )
    step, oldest = bounds.incon_step_size(facts, writes), bounds.incon_largest_age(facts, writes)
    falls = step * rows * known.L_max / N_FEATURES
    settings = {"batch": rows, "step": step, "coordinate": "uniform"}
    norm = _watched(known, asysg_incon, writes, age, seed, falls, **settings)
    return _found(norm, bounds.incon_bound(facts, writes), oldest)


def _found(norm: float, bound: float, oldest: int | None) -> dict[str, float]:
    return {"norm": norm, "bound": bound, "largest_age": math.inf if oldest is None else oldest}


def _watched(
    known: LogisticFacts,
    solver: Any,
    updates: int,
    age: int,
    seed: int,
    falls: float,
    **settings: Any,
) -> float:
    """Return the mean squared gradient over all updates, evaluated at intervals.

    Each evaluation represents the updates until the next evaluation. The intervals are short,
    because the gradient falls between two evaluations, but counts with its value at the first one.

    falls : relative decrease of the gradient's fastest component by one update
    """
    norms: list[float] = []
    spacing = min(updates / EVALUATIONS, NEAR / falls)
    clock = Simulator(
        block_time=Constant(1.0),
        watch=lambda seconds, model: norms.append(
            bounds.gradient(known.problem, model).squared_norm
        ),
        watch_seconds=spacing / (age + 1),
    )
    solver(
        known.problem,
        n_workers=age + 1,
        runtime=clock,
        stop=Stop(epochs=math.ceil(updates * settings["batch"] / known.problem.n_rows), tol=None),
        theory=False,
        seed=seed,
        **settings,
    )
    return float(np.mean(norms[: round(updates / spacing)]))


def asaga_rate(known: LogisticFacts, age: int, epochs: int, seed: int) -> float:
    """Return the slope per epoch of log(gap) of ASAGA, with the step size 1 / (3 L) and L of a row.

    The gap is the relative excess of the objective over the optimum. A task has one row, and its
    result is applied `age` updates after the task's read of the model.
    """
    n = age + 1
    report = asaga_tasks(
        known.problem,
        workers=Simulator(block_time=Constant(1.0)),
        n_workers=n,
        partitions=n,
        rate=n / known.problem.n_rows,
        step=lambda k, result: 1.0 / (3.0 * known.L_row),
        epochs=epochs,
        trace=1,
        seed=seed,
    )
    assert report.trace is not None
    gap = np.asarray(report.trace.objective) / known.optimum - 1.0
    passes = np.asarray(report.trace.epochs)
    part = (passes > 0.2 * epochs) & (gap > PRECISION)
    return float(np.polyfit(passes[part], np.log(gap[part]), 1)[0])


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the slope of log(values) in log(sizes), by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
