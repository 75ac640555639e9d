"""Dense rows in other units: centred columns, and no column much larger than the others.

With an intercept, ``w x + b`` equals ``w (x - m) + (b + w m)``, where m is the mean of a column.
The intercept is not penalised, so the problem with centred columns is the same problem. The problem
also remains the same if columns are divided by constants, and the penalty remains on the
coefficients of the original columns (`RowProblem.divisors`). A step size that is small enough for a
column of years, or of large amounts in cents, is far too small for all other columns. If all
columns have a similar size, one step size suits all of them.

Sparse rows are not changed, because centred rows would be dense.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hogshare.kernels.rows.dense_columns import add_moments, change_units
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import losses
from hogshare.problems.kernel_arrays import frozen
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.system.interrupts import errstate

SAMPLE = 256  # number of rows that decide whether to make a pass over all rows
SHORTER = 10.0  # a copy is made if steps are at least this many times too short
# Largest ratio of a row's loss curvature to the penalty's curvature at which no column is slow.
CARRIED = 12.0
QUARTER = 4  # one column in four varies less than the measure for all columns
WIDE = 3.0  # largest distance from the mean, in deviations, without tails
LARGE = 4.0  # a column that deviates by more than so many measures is divided
SMALL = 30.0  # a column that varies this many times less than the measure is also divided
COMMON = 100.0  # largest ratio of the measure to the intercept's 1, either way, without a factor
ROUNDING = {4: 2e-7, 8: 1e-12}  # a column that varies less than this share of its mean is constant


@dataclass(frozen=True)
class ColumnUnits:
    """The shifts of columns, and the divisors of the shifted columns.

    middle : shape (n_features,), the numbers that are subtracted from the columns
    divisors : shape (n_features,), or None if all are 1
    """

    middle: np.ndarray
    divisors: np.ndarray | None

    def recast(self, problem: RowProblem) -> RowProblem:
        """Return a problem with a copy of the rows in these units."""
        data = in_units(problem.rows.data, self.middle, self.divisors)
        rows = problem.rows._replace(data=data)
        return problem.with_rows(rows, self.divisors)

    def inward(self, model: Model) -> Model:
        """Convert a model of the original problem into a model of the recast problem."""
        coef, dtype = np.asarray(model.coef, np.float64), model.coef.dtype
        intercept = model.intercept + coef @ self.middle
        coef = coef if self.divisors is None else coef * self.divisors
        return replace(model, coef=coef.astype(dtype), intercept=intercept.astype(dtype))

    def outward(self, model: Model) -> Model:
        """Convert a model of the recast problem into a model of the original problem."""
        coef, dtype = np.asarray(model.coef, np.float64), model.coef.dtype
        coef = coef if self.divisors is None else coef / self.divisors
        coef = coef.astype(dtype)
        intercept = model.intercept - coef.astype(np.float64) @ self.middle
        return replace(model, coef=coef, intercept=intercept.astype(dtype))


class ColumnMoments(NamedTuple):
    """Mean and variance of every column, and the largest distance of its values from the mean."""

    mean: np.ndarray
    variance: np.ndarray
    reach: np.ndarray


def moments_of(rows: RowArrays, every: int = 1) -> ColumnMoments:
    """Return the moments of the columns, from every `every`-th dense row."""
    sums = np.zeros((4, rows.width))
    with errstate(all="ignore"):  # `LinearProblem.require_norms` refuses rows with infinite squares
        weights = max(float(add_moments(rows, every, sums)), np.finfo(float).tiny)
        shift, squares = sums[:2] / weights
        variance = np.maximum(squares - shift * shift, 0.0)
        reach = np.maximum(shift - sums[2], sums[3] - shift)
    return ColumnMoments(shift + rows.data[: rows.width], variance, reach)


def in_units(data: np.ndarray, middle: np.ndarray, units: np.ndarray | None = None) -> np.ndarray:
    """Return a flat, read-only copy of dense rows, shifted and divided."""
    out = np.empty_like(data)
    change_units(frozen(data), middle, np.ones_like(middle) if units is None else units, out)
    out.setflags(write=False)
    return out


def suited(problem: RowProblem) -> ColumnUnits | None:
    """Return column units if steps are far too short without them (`SHORTER`), otherwise None.

    The rows are only read. A sample of the rows decides whether steps may be too short. The sample
    may miss a few rows that are much larger than all others. But `norms`, the norms of all rows,
    include these rows.
    """
    if problem.is_sparse or not problem.n_features:
        return None
    mean, largest = problem.norms
    if not np.isfinite(mean) or is_carried(problem, largest):
        return None
    every = max(1, problem.n_rows // SAMPLE)
    columns = _columns(problem, mean, every)
    return columns if columns is None or every == 1 else _columns(problem, mean, 1)


def is_carried(problem: RowProblem, largest: float) -> bool:
    """Return whether the penalty is so strong that no column is slow (`CARRIED`), for any rows.

    largest : largest squared norm of a row
    """
    return sharpness(problem) * largest <= CARRIED * problem.l2 * problem.n_rows


def sharpness(problem: RowProblem) -> float:
    """Return a bound of the losses' curvature, or a substitute for losses with kinks."""
    if problem.loss in losses.KINKED:
        return problem.sharpness
    return losses.CURVATURE[losses.CODES[problem.loss]]


def _columns(problem: RowProblem, mean: float, every: int) -> ColumnUnits | None:
    """Return column units from every `every`-th row, or None if steps are not much too short.

    The mean squared norm of the rows determines the step. The reach of a column is the
    largest distance of its values from the mean. The measure is the lower quartile of the columns'
    reaches, divided by `WIDE`. The step must not be too short for the intercept, or for a column
    whose deviation equals the measure. The step must not be too short for a smaller column, unless
    the penalty makes the coefficient of this column small.
    """
    middle, variance, reach = moments_of(problem.rows, every)
    varies = reach > ROUNDING[problem.dtype.itemsize] * np.abs(middle)
    ones = 0.0
    if problem.fit_intercept:
        ones = 1.0
    else:  # without an intercept columns cannot be shifted
        variance, reach = variance + middle * middle, reach + np.abs(middle)
        varies, middle = reach > 0.0, np.zeros_like(middle)
    if not varies.any():
        return None
    deviation, several = np.sqrt(variance), np.sort(reach[varies])
    measure = float(several[len(several) // QUARTER]) / WIDE
    small = varies & (SMALL * reach < WIDE * measure)
    small &= sharpness(problem) * variance > problem.l2
    units = np.where(deviation > LARGE * measure, deviation / measure, 1.0)
    units[small] = reach[small] / (WIDE * measure)
    common = 1.0
    if problem.fit_intercept and not 1.0 / COMMON <= measure <= COMMON:
        common = measure
    units *= common
    short = (mean + ones) / min(measure, COMMON if ones else np.inf) ** 2
    after = float(np.square(deviation / units).sum()) + ones
    if not (small.any() or short > SHORTER * after / (measure / common) ** 2):
        return None
    return ColumnUnits(middle, None if (units == 1.0).all() else units)
