"""Dense rows in other units: columns about their means, and none much larger than the others.

With an intercept, ``w x + b`` is ``w (x - m) + (b + w m)``, and the intercept is not penalised: the
same problem. So is one with columns divided by something, where the penalty is still that on the
coefficients of the columns as they were (`RowProblem.divisors`). A step that is short enough for
a column of years, or of cents beside millions, is far too short for all others; with columns alike
it suits all.

Sparse rows stay as they are: centred they would be dense.
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

SAMPLE = 256  # rows that tell whether it is worth a pass over all
SHORTER = 10.0  # times that steps are too short, from which a copy is worth it
CARRIED = 12.0  # curvature of a row's loss, in that of the penalty, which no column makes slow
QUARTER = 4  # of the columns vary less than what is the measure for all
WIDE = 3.0  # deviations from the mean to which a column goes, if it has no tail
LARGE = 4.0  # measures that a column deviates by which is divided
SMALL = 30.0  # times that a column varies less than others from which it is
COMMON = 100.0  # measures, either way, in which the intercept and the columns get on
ROUNDING = {4: 2e-7, 8: 1e-12}  # of a mean, within which a column is constant


@dataclass(frozen=True)
class ColumnUnits:
    """By what columns are shifted, and divided then.

    middle : shape (n_features,)
    divisors : shape (n_features,), None if all are 1
    """

    middle: np.ndarray
    divisors: np.ndarray | None

    def recast(self, problem: RowProblem) -> RowProblem:
        """State the problem with a copy of its rows."""
        data = in_units(problem.rows.data, self.middle, self.divisors)
        rows = problem.rows._replace(data=data)
        return problem.with_rows(rows, self.divisors)

    def inward(self, model: Model) -> Model:
        """Of the recast problem, from that of the rows as they were."""
        coef, dtype = np.asarray(model.coef, np.float64), model.coef.dtype
        intercept = model.intercept + coef @ self.middle
        coef = coef if self.divisors is None else coef * self.divisors
        return replace(model, coef=coef.astype(dtype), intercept=intercept.astype(dtype))

    def outward(self, model: Model) -> Model:
        """Of the rows as they were, from that of the recast problem."""
        coef, dtype = np.asarray(model.coef, np.float64), model.coef.dtype
        coef = coef if self.divisors is None else coef / self.divisors
        coef = coef.astype(dtype)
        intercept = model.intercept - coef.astype(np.float64) @ self.middle
        return replace(model, coef=coef, intercept=intercept.astype(dtype))


class ColumnMoments(NamedTuple):
    """Of every column: mean, variance, and how far a value is from the mean, at most."""

    mean: np.ndarray
    variance: np.ndarray
    reach: np.ndarray


def moments_of(rows: RowArrays, every: int = 1) -> ColumnMoments:
    """Look at the columns of every so many dense rows."""
    sums = np.zeros((4, rows.width))
    with errstate(all="ignore"):  # rows too large for their squares are refused elsewhere
        weights = max(float(add_moments(rows, every, sums)), np.finfo(float).tiny)
        shift, squares = sums[:2] / weights
        variance = np.maximum(squares - shift * shift, 0.0)
        reach = np.maximum(shift - sums[2], sums[3] - shift)
    return ColumnMoments(shift + rows.data[: rows.width], variance, reach)


def in_units(data: np.ndarray, middle: np.ndarray, units: np.ndarray | None = None) -> np.ndarray:
    """A read-only copy of dense rows, flat, shifted and divided."""
    out = np.empty_like(data)
    change_units(frozen(data), middle, np.ones_like(middle) if units is None else units, out)
    out.setflags(write=False)
    return out


def suited(problem: RowProblem) -> ColumnUnits | None:
    """Middles and units where steps are far too short without (`SHORTER`); None elsewhere.

    A sample tells whether that may be. What it misses, a few rows that are much larger than all
    others, the norms of all rows have seen.
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
    """Whether the penalty makes every epoch come nearer by so much (`CARRIED`), however rows are.

    largest : squared norm of a row
    """
    return sharpness(problem) * largest <= CARRIED * problem.l2 * problem.n_rows


def sharpness(problem: RowProblem) -> float:
    """Bound of the losses' curvature, or what counts as it."""
    if problem.loss in losses.KINKED:
        return problem.sharpness
    return losses.CURVATURE[losses.CODES[problem.loss]]


def _columns(problem: RowProblem, mean: float, every: int) -> ColumnUnits | None:
    """Middles and units by every so many rows; None if steps are not much too short.

    A step is as short as the rows' mean squared norm asks for, and should not be for a column whose
    deviation is the measure, or for the intercept. Nor for one that is smaller, unless the penalty
    keeps its coefficient small anyway.
    """
    middle, variance, reach = moments_of(problem.rows, every)
    varies = reach > ROUNDING[problem.dtype.itemsize] * np.abs(middle)
    ones = 0.0
    if problem.fit_intercept:
        ones = 1.0
    else:  # nothing takes up a shift
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
