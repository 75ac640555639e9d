"""Sampling: how often a rule that draws rows visits each of them."""

from __future__ import annotations

import numpy as np

from hogshare.problems.protocol import RowProblem
from hogshare.rules.protocol import Rule
from hogshare.system.interrupts import errstate


def row_chances(problem: RowProblem, rule: Rule, held_out: np.ndarray | None) -> np.ndarray:
    """Return the mean number of visits of each row in an epoch.

    Half the visits go to all rows equally, and half in proportion to a bound of the curvature of a
    row's loss. Because of the first half, the entries of flat rows do not become old, and a row's
    step (which is divided by its chance) is at most twice that of uniform visits.

    Source: Schmidt et al. 2015, "Non-uniform stochastic average gradient method for training
    conditional random fields".

    held_out : bools of shape (n_rows,), rows that are never visited

    Returns float64 of shape (n_rows,), whose sum is the number of rows that are not held out.
    """
    chances = np.ones(problem.n_rows)
    if held_out is not None:
        chances[held_out] = 0.0
    if rule.sampling == "uniform":
        return chances
    smoothness = problem.squared_norms + float(problem.fit_intercept)
    with errstate(all="ignore"):  # squared norms may overflow
        smoothness *= problem.row_sizes() * chances
        total = smoothness.sum()
    if total == 0.0 or not np.isfinite(total):  # rows so large end the run with a message later
        return chances
    return np.asarray(0.5 * chances + 0.5 * smoothness * (chances.sum() / total))


def largest_share(problem: RowProblem, rule: Rule, held_out: np.ndarray | None) -> float:
    """Return the largest share of all visits that goes to one row."""
    if rule.sampling == "uniform":
        return 1.0 / problem.n_rows
    chances = row_chances(problem, rule, held_out)
    return float(chances.max() / chances.sum())
