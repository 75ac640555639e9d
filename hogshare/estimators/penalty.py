"""The choice of the penalty by `MatrixFactorization` with ``alpha="auto"``, by held-out ratings."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hogshare.problems.factorisation import FactorisationProblem
from hogshare.problems.preferences import PreferenceProblem

# Multiples of the noise edge, their ratio, and the index of the first multiple tried. On five sets
# of ratings (films, synthetic ratings of full and of known rank, clicks with drawn zeros; 8 and 32
# factors) the test error with the chosen penalty was at most 1 % above the smallest test error of
# eight penalties.
GRID, STEP, FIRST = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6), 2.0, 4
FEWEST = 1000  # number of ratings of which a held-out tenth is enough to compare penalties
HELD_OUT_SHARE, MOST_HELD_OUT = 0.1, 20_000


def may_be_chosen(problem: FactorisationProblem, epochs: int) -> bool:
    """Whether the problem has a penalty to choose, and enough ratings and epochs for the choice."""
    is_of_pairs = isinstance(problem, PreferenceProblem)
    enough = problem.n_rows >= FEWEST and short(epochs) >= 1
    return bool(problem.ratings.n_factors) and enough and not is_of_pairs


def short(epochs: int) -> int:
    """Return the number of epochs of the short fits."""
    return epochs // 2


def chosen(
    problem: FactorisationProblem,
    fitted: Callable[[FactorisationProblem], np.ndarray],
    seed: int,
) -> float:
    """Return the penalty's strength with which a fit to most ratings best predicts the others.

    The search descends from the middle of the grid. It relies on a single minimum of the error,
    which all sets that were tried had.

    fitted : ``fitted(part)`` returns the fitted parameters of the problem `part`, as one vector
    seed : seed for the draw of the held-out ratings
    """
    is_held_out = np.zeros(problem.n_rows, bool)
    n_held_out = min(MOST_HELD_OUT, int(HELD_OUT_SHARE * problem.n_rows))
    draws = np.random.default_rng(seed)
    is_held_out[draws.choice(problem.n_rows, n_held_out, replace=False)] = True
    part, others = problem.divided(is_held_out)
    edge, edge_of_all = part.noise_edge(), problem.noise_edge()
    errors: dict[int, float] = {}

    def error(k: int) -> float:
        if k not in errors:
            found = others.mean_loss(fitted(part.with_alpha(GRID[k] * edge)))
            errors[k] = found if math.isfinite(found) else math.inf
        return errors[k]

    best = FIRST
    while True:
        near = [k for k in (best - 1, best + 1) if 0 <= k < len(GRID)]
        better = min(near, key=error)
        if not error(better) < error(best):
            break  # each strength was fitted once, since errors are cached
        best = better
    shift = _vertex(errors.get(best - 1), errors[best], errors.get(best + 1))
    return float(GRID[best] * STEP**shift * edge_of_all)


def _vertex(below: float | None, at: float, above: float | None) -> float:
    """Return the place of the minimum of a parabola through three errors.

    The place is in steps of the grid from the middle error, from -0.5 to 0.5. At an end of the
    grid, `below` or `above` is None and the result is 0.
    """
    if below is None or above is None or not math.isfinite(below + above):
        return 0.0
    bend = below - 2.0 * at + above
    return 0.5 * (below - above) / bend if bend > 0.0 else 0.0
