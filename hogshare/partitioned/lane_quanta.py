"""A worker's quantum: compiled steps along rows of some partitions, starting at the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.engine.epoch_ends import EpochEnd, EpochEnds
from hogshare.engine.stops import Stop
from hogshare.partitioned.partition_blocks import Split
from hogshare.planes.shared import feature_curvature
from hogshare.problems.kernel_arrays import frozen
from hogshare.problems.model import Handed, Model, sum_of_squares
from hogshare.problems.protocol import RowProblem
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize
from hogshare.solvers.outcome import is_absurd
from hogshare.solvers.solver import OrderSeed, solve

MAX_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Pull:
    """The input of a quantum.

    model : the model at which the quantum starts
    spans : first row and the row after the last, for each partition in the order of `partitions`
    step : schedule of step sizes
    shuffle : whether the rows of each partition are visited in a random order
    average : number of rows, counted by ``model.t``, after which iterates enter the mean that is
        also returned; if 0, there is no mean
    curvature : whether the curvature of the first partition is returned
    seed : seed for the order of the rows
    partitions : numbers of the partitions
    split : chooses the held-out rows; if None, no row is held out
    address : address of the worker, which `Push` repeats
    """

    model: Model
    spans: tuple[tuple[int, int], ...]
    step: StepSize
    shuffle: bool
    average: int
    curvature: bool
    seed: int
    partitions: tuple[int, ...] = ()
    split: Split | None = None
    address: str = ""


@dataclass(frozen=True)
class Push:
    """The result of a quantum.

    model : the worker's copy of the model after the quantum, with the mean of its iterates if
        requested and if there are any in the mean
    losses : for each partition, the sum of its rows' losses, each before the row's own step;
        float64 of shape (n_columns,)
    trained : for each partition, the number of rows for which a step was taken
    averaged : number of iterates in the mean
    n_rows : number of rows, including held-out rows
    seconds : wall time of the steps
    absurd : whether the copy is finite but useless
    curvature : curvature along each feature, of shape (n_features,); None if not requested
    counts : the sums of `HeldOutPart.counts`, if they were requested in place of steps
    evaluated : the loss sums of all rows at the state's model, if requested in place of steps
    """

    model: Model | None = None
    losses: tuple[np.ndarray, ...] = ()
    trained: tuple[int, ...] = ()
    averaged: int = 0
    n_rows: int = 0
    seconds: float = 0.0
    absurd: bool = False
    curvature: np.ndarray | None = None
    partitions: tuple[int, ...] = ()
    address: str = ""
    counts: np.ndarray | None = None
    evaluated: np.ndarray | None = None


class QuantumSums(EpochEnds):
    """An `on_epoch` that stores the sums of losses of a quantum, which is a run of one epoch."""

    def __init__(self) -> None:
        super().__init__(self._collect)
        self.of_columns = np.zeros(0)

    def check(self, stop: Stop, shuffle: bool, files: dict[str, Any]) -> None:
        """Accept any settings, since nothing depends on them."""

    def _collect(self, end: EpochEnd) -> bool:
        if end.epoch:
            self.of_columns = end.sums
        return False


def steps_along(pull: Pull, *problems: RowProblem) -> Push:
    """Take a step for each row, in one compiled call for each partition, and return the push.

    The model of `pull` is not changed.

    problems : the problems of the partitions in `pull`

    Raises ValueError if the model leaves the range of floats.
    """
    model, sums, trained = pull.model, list[np.ndarray](), list[int]()
    average, average_intercept = np.zeros(model.coef.shape), np.zeros(len(model.intercept))
    seconds, averaged = 0.0, 0
    for k, (problem, (first, last)) in enumerate(zip(problems, pull.spans, strict=True)):
        rows = rows_between(problem, first, last)
        held_out = None
        if pull.split is not None:
            held_out = pull.split.mask(pull.partitions[k], problem.n_rows)[first:last]
        trained.append(rows.n_rows if held_out is None else int(np.count_nonzero(~held_out)))
        if not trained[-1]:
            sums.append(np.zeros(len(model.intercept)))
            continue
        some_held_out = held_out is not None and held_out.any()
        sums_of, begins = QuantumSums(), max(pull.average, int(model.t))
        report = solve(
            rows,
            rule=SGD(average=begins if pull.average else 0),
            step=pull.step,
            # with a tolerance the run sums its losses
            stop=Stop(epochs=1, tol=0.0, validation=held_out if some_held_out else None),
            shuffle=pull.shuffle,
            seed=OrderSeed((pull.seed + k) % MAX_SEED),  # each partition has another order
            start=model,
            runtime="caller",
            on_epoch=sums_of,
        )
        after = report.model
        if pull.average and (count := max(0, trained[-1] - (begins - int(model.t)))):
            averaged += count
            average += count * after.average_coef
            average_intercept += count * after.average_intercept
        sums.append(sums_of.of_columns)
        seconds += report.seconds["run"]
        model = Handed(after.coef, after.intercept, after.t)  # the next call writes these arrays
    means = (average / averaged, average_intercept / averaged) if averaged else (None, None)
    return Push(
        model=Model(model.coef, model.intercept, model.t, *means),
        losses=tuple(sums),
        trained=tuple(trained),
        averaged=averaged,
        n_rows=sum(last - first for first, last in pull.spans),
        seconds=seconds,
        absurd=is_absurd(rows, model, sum_of_squares(model.coef)),
        curvature=feature_curvature(problems[0], pull.seed) if pull.curvature else None,
        partitions=pull.partitions,
        address=pull.address,
    )


def rows_between(problem: RowProblem, first: int, last: int) -> RowProblem:
    """Return the problem of the rows `first` to ``last - 1``, whose arrays are views.

    Only the pointers of sparse rows are copied. The problem of all rows is `problem` itself.
    """
    rows = problem.rows
    if first == 0 and last == problem.n_rows:
        return problem
    if problem.is_sparse:
        begin, end = int(rows.indptr[first]), int(rows.indptr[last])
        # the data of the view begin at 0, and the pointers must begin at 0
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
