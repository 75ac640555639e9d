"""Checks of a start's memory: whether it is valid for a problem, and whether it is empty.

Outside the kernels all rules' memories have one form: the last known derivative of each row's loss.
"""

from __future__ import annotations

import math

import numpy as np

from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem, has_rows
from hogshare.rules.run_choices import OtherChoices
from hogshare.system.interrupts import errstate

# Lowest and highest derivative of the losses whose derivative is bounded: in the prediction for the
# target 1 (in {0, 1} or {-1, 1}; the other class mirrors it), or for any target of a regression.
OWN_CLASS = {
    "log_loss": (-1.0, 0.0),
    "multinomial": (-1.0, 0.0),
    "hinge": (-1.0, 0.0),
    "perceptron": (-1.0, 0.0),
    "squared_hinge": (-math.inf, 0.0),
    "modified_huber": (-4.0, 0.0),
}


def derivative_range(problem: RowProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest possible derivative of each row's loss, without its weight.

    Returns both in shape (n_rows, n_columns).
    """
    n, columns = problem.n_rows, problem.n_columns
    if problem.loss not in OWN_CLASS:
        bound = {"huber": problem.epsilon, "epsilon_insensitive": 1.0}.get(problem.loss, math.inf)
        return np.full((n, columns), -bound), np.full((n, columns), bound)
    y = problem.rows.y[:, None]
    own = y > 0.0 if columns == 1 else y == np.arange(columns)
    low, high = OWN_CLASS[problem.loss]
    return np.where(own, low, -high), np.where(own, high, -low)


def check_start(problem: RowProblem, memory: np.ndarray) -> None:
    """Refuse a memory that no run on this problem can have produced.

    Raises ValueError if the shape does not fit, a number is not finite, or it is not a derivative
    of the loss.
    """
    shape = (problem.n_rows, problem.n_columns)
    if np.shape(memory) != shape:
        raise ValueError(
            f"The start model remembers {np.shape(memory)} derivatives, and this problem has "
            f"{shape} rows and columns: a memory belongs to its rows. Start on the same rows, or "
            "without it (dataclasses.replace(model, memory=None))."
        )
    memory = np.asarray(memory, dtype=np.float64)
    if not np.isfinite(memory).all():
        raise ValueError(
            "The start model's memory contains NaN or infinity: start without it "
            "(dataclasses.replace(model, memory=None))."
        )
    low, high = derivative_range(problem)
    size = problem.row_sizes()[:, None]
    slack = 1e-5 * (1.0 + size)
    with errstate(invalid="ignore"):  # for a row of weight zero whose derivative has no bound
        low = np.where(size > 0.0, low * size, 0.0)
        high = np.where(size > 0.0, high * size, 0.0)
    wrong = (memory < low - slack) | (memory > high + slack)
    if wrong.any():
        r, c = (int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"The start model's memory is not that of loss={problem.loss!r} on these rows: row {r} "
            f"has {memory[r, c]:.6g}, and the derivative of its loss is between {low[r, c]:.6g} "
            f"and {high[r, c]:.6g}. Were labels, weights or the loss changed?"
        )


def check_remembering(name: str, chosen: OtherChoices) -> RowProblem:
    """Refuse choices that no rule with a memory of rows supports; return the problem.

    name : of the rule
    """
    if not has_rows(chosen.problem):
        raise ValueError(
            f"{name} remembers a number for each row of a linear problem, and this problem is "
            "known only by gradients of blocks: use SGD()."
        )
    if chosen.plane.has_master or chosen.plane.has_homes:
        raise ValueError(f"{name} needs a shared vector: use plane=Shared(), or rule=SGD().")
    if chosen.step is not None:
        raise ValueError(f"{name} has no schedule of step sizes; leave `step` out.")
    return chosen.problem


def begins_empty(start: Model | None) -> bool:
    """Return whether a rule that remembers rows begins with an empty memory."""
    if start is None:
        return True
    return start.memory is None and start.is_zero()
