"""What a worker does in a turn: compiled steps along some of a partition's rows, from the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hogshare.engine.stops import Stop
from hogshare.planes.shared import feature_curvature
from hogshare.problems.arrays import frozen
from hogshare.problems.model import Model, sum_of_squares
from hogshare.problems.protocol import RowProblem
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize
from hogshare.solvers.outcome import is_absurd
from hogshare.solvers.solving import OrderSeed, solve


@dataclass(frozen=True)
class Pull:
    """What a turn begins with.

    Attributes
    ----------
    model : Model
    first, last : int
        Rows of the partition.
    average : bool
        Whether the mean of the iterates comes back too.
    seed : int
        Of the order of the rows.
    """

    model: Model
    first: int
    last: int
    step: StepSize
    shuffle: bool
    average: bool
    seed: int


@dataclass(frozen=True)
class Push:
    """What a turn ends with: its copy, the sum of the losses, and whether it has diverged."""

    coef: np.ndarray
    intercept: np.ndarray
    average_coef: np.ndarray | None
    average_intercept: np.ndarray | None
    loss: float
    seconds: float
    absurd: bool


def turn(problem: RowProblem, pull: Pull) -> Push:
    """Take a step for each of the rows, in one compiled call.

    Raises
    ------
    ValueError
        If the model leaves the range of floats.
    """
    rows = rows_between(problem, pull.first, pull.last)
    report = solve(
        rows,
        rule=SGD(average=int(pull.model.t) if pull.average else 0),
        step=pull.step,
        stop=Stop(epochs=1, tol=0.0),  # so that losses are summed
        shuffle=pull.shuffle,
        seed=OrderSeed(pull.seed),
        start=pull.model,
        runtime="caller",
    )
    model = report.model
    return Push(
        coef=model.coef,
        intercept=model.intercept,
        average_coef=model.average_coef,
        average_intercept=model.average_intercept,
        loss=float(report.epoch_losses[-1]) * rows.n_rows,
        seconds=report.seconds["run"],
        absurd=is_absurd(rows, model, sum_of_squares(model.coef)),
    )


def rows_between(problem: RowProblem, first: int, last: int) -> RowProblem:
    """The problem of some of the rows, on the same memory."""
    rows = problem.rows
    if first == 0 and last == problem.n_rows:
        return problem
    if problem.is_sparse:
        begin, end = int(rows.indptr[first]), int(rows.indptr[last])
        indptr = frozen(rows.indptr[first : last + 1] - begin)
    else:
        begin, end, indptr = first * rows.width, last * rows.width, rows.indptr
    return problem.with_rows(
        rows._replace(
            data=rows.data[begin:end],
            indices=rows.indices[begin:end] if problem.is_sparse else rows.indices,
            indptr=indptr,
            y=rows.y[first:last],
            weight=rows.weight[first:last] if rows.weight.size else rows.weight,
        )
    )


def curvature_of(problem: RowProblem, seed: int) -> np.ndarray:
    """How curved the objective is along each feature; see `docs/exchange.md`."""
    return feature_curvature(problem, seed)
