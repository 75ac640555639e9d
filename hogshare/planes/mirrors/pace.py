"""How many rows a clock has: changes of several centres are summed, and must not overshoot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem

SAMPLE_ROWS = 512
ITERATIONS = 15  # of the power method, which finds the largest eigenvalue to some per cent
WAY = 4.0  # of the way to the optimum, that a clock of all other centres may go in one direction
FEWEST_CLOCKS = 4  # in an epoch
FEWEST_ROWS = 4  # below which a clock is more work than its rows, and no objective is better


def clock_rows(
    problem: RowProblem, late_step: float, n_rows: int, n_workers: int, n_centres: int
) -> int:
    """Rows of a worker between two clocks.

    Along the direction in which the objective is curved most, a row moves a model that is far from
    its optimum there by a share ``eta * h * lambda`` of the distance: the step, the loss's
    curvature, and the largest eigenvalue of the mean of ``x x^T``. In a clock each worker moves by
    as many times that as it has rows, and the changes of all centres are summed. So there are so
    many rows that the other centres' workers move by four times the distance at most, with a step
    as small as those at the end; at least `FEWEST_ROWS`. The factor is by experiment
    (`docs/mirrors.md`).

    late_step : step size at the end of the run
    n_rows : that are trained on
    """
    longest = max(1, n_rows // (n_workers * FEWEST_CLOCKS))
    per_row = late_step * problem.sharpness * largest_eigenvalue(problem)
    others = max(1, n_workers - n_workers // n_centres)  # workers, of whom each adds as much
    wanted = WAY / (per_row * others) if per_row > 0.0 else longest
    return min(longest, max(FEWEST_ROWS, int(min(wanted, longest))))


def largest_eigenvalue(problem: RowProblem) -> float:
    """Of the mean of ``x x^T``, by some of the rows, an intercept among the features."""
    rows, n = problem.rows, problem.n_rows
    some = np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.int64)
    if rows.width:
        X = rows.data.reshape(n, rows.width)[some].astype(np.float64)
    else:
        whole = (rows.data, rows.indices, rows.indptr)
        X = sp.csr_matrix(whole, (n, problem.n_features), copy=False)[some].astype(np.float64)
    vector = np.asarray(np.abs(X).mean(axis=0)).reshape(-1) + 1e-12
    found = 0.0
    for _ in range(ITERATIONS):
        image = np.asarray(X.T @ (X @ vector)).reshape(-1) / len(some)
        size = float(np.linalg.norm(image))
        found = size / max(float(np.linalg.norm(vector)), 1e-300)
        if not 0.0 < size < np.inf:
            break
        vector = image / size
    return found + float(problem.fit_intercept)
