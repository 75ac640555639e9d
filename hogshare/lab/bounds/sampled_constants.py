"""Estimate the constants of an objective that is known only by its gradient, at a vector.

The analysis needs the largest constants over all vectors. For a general function these are unknown,
so this file estimates the constants at the vectors of a run.
"""

from __future__ import annotations

import numpy as np

from hogshare.problems.gradient import GradientCaller, GradientProblem
from hogshare.system import ranges
from hogshare.system.interrupts import leaves_numpy

SHORT = 1e-5  # length of a finite-difference step, relative to the vector's length or to 1


def _mean_gradient(call: GradientCaller, params: np.ndarray, rows: np.ndarray) -> np.ndarray:
    _, places = call(params, rows)
    total = np.zeros(len(call.out))
    call.add_to(total, places)
    return total / len(rows)


@leaves_numpy
def sampled_lipschitz(
    problem: GradientProblem,
    params: np.ndarray,
    n_rows: int = 1024,
    n_iter: int = 20,
    seed: int = 0,
) -> float:
    """Estimate the gradient's Lipschitz constant at a vector: the largest curvature.

    The method is power iteration. Products with the Hessian are differences of the mean gradient
    over a sample of the rows.

    Parameters
    ----------
    problem : GradientProblem
    params : ndarray of shape (n_params,)
    n_rows : int, default=1024
        Number of rows of the sample.
    n_iter : int, default=20
        Number of iterations; each calls the gradient twice.
    seed : int, default=0
        Seed of the sample and the first direction.

    Returns
    -------
    float
        An estimate from below; with too few iterations it is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import problems, theory
    >>> def gradient(w, rows, out):
    ...     out += len(rows) * np.array([1.0, 5.0]) * w
    ...     return len(rows) * 0.5 * (w @ (np.array([1.0, 5.0]) * w))
    >>> problem = problems.user(gradient, n_rows=3, n_params=2)
    >>> round(theory.sampled_lipschitz(problem, np.ones(2)), 4)
    5.0
    """
    ranges.whole(1, n_rows=n_rows, n_iter=n_iter)
    draws, call = np.random.default_rng(seed), GradientCaller(problem)
    rows = np.sort(draws.permutation(problem.n_rows)[:n_rows])
    params = np.asarray(params, dtype=problem.dtype)
    length = SHORT * max(1.0, float(np.linalg.norm(params)))
    if problem.dtype.itemsize == 4:
        length *= 1e2  # in lower precision differences have half as many digits
    direction, curvature = draws.standard_normal(problem.n_params), 0.0
    for _ in range(n_iter):
        norm = float(np.linalg.norm(direction))
        if not 0.0 < norm < np.inf:
            break
        step = (length / norm * direction).astype(problem.dtype)
        ahead = _mean_gradient(call, params + step, rows)
        # central differences: the Hessian times the normalised direction
        direction = (ahead - _mean_gradient(call, params - step, rows)) / (2.0 * length)
        curvature = float(np.linalg.norm(direction))
    return curvature


@leaves_numpy
def sampled_noise(
    problem: GradientProblem,
    params: np.ndarray,
    batch: int = 1,
    n_samples: int = 64,
    seed: int = 0,
) -> float:
    """Estimate sigma of a mini-batch gradient at a vector: ``sqrt(E ||G - grad f||^2)``.

    Parameters
    ----------
    problem : GradientProblem
    params : ndarray of shape (n_params,)
    batch : int, default=1
        Number of rows of a mini-batch; G is the mean of their gradients.
    n_samples : int, default=64
        Number of mini-batches to draw.
    seed : int, default=0
        Seed of the mini-batches.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import problems, theory
    >>> points = np.array([-1.0, 1.0])
    >>> def gradient(w, rows, out):
    ...     out += (w - points[rows]).sum()
    ...     return 0.5 * ((w - points[rows]) ** 2).sum()
    >>> problem = problems.user(gradient, n_rows=2, n_params=1)
    >>> theory.sampled_noise(problem, np.zeros(1))
    1.0
    """
    ranges.whole(1, batch=batch, n_samples=n_samples)
    draws, call = np.random.default_rng(seed), GradientCaller(problem)
    params = np.asarray(params, dtype=problem.dtype)
    _, mean = problem.evaluate(params)
    total = 0.0
    for _ in range(n_samples):
        rows = draws.choice(problem.n_rows, size=min(batch, problem.n_rows), replace=False)
        away = _mean_gradient(call, params, rows) - mean
        total += float(away @ away)
    return float(np.sqrt(total / n_samples))
