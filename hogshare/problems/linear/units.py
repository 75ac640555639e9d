"""Units in which the components of a gradient are compared: the units of the columns.

The unit of a coefficient is one over the unit of its column, and the gradient's component has the
unit of the column. If a column is in kilometres instead of metres, its component is a thousandth as
large. So the column with the largest values would determine the "largest component". Therefore a
component is divided by its column's size D. Then a constant factor of a column changes only the
effect of the penalty.

**Size.** Along one coefficient the objective's curvature is at most ``H = p (L r^2) + l2``. The
share of the rows that have the feature is p, L is the curvature of the loss (times the mean
weight), and r^2 is the mean square of the feature's values in these rows. The size is defined by
``D^2 = H / (L p) = r^2 + l2 / (L p)``. One step along that coefficient can gain ``g^2 / (2 H)``,
where g is the component. So if ``|g| / D <= tol``, the step gains at most ``tol^2 / (2 L p)``, for
any units, values and penalty. If the values of a column are so small that the penalty dominates H,
the penalty also dominates D. For values of 0 and 1, and for standardised columns, r is 1, so
without a penalty the component does not change.

**Origin.** If a column has no zeros and the model has an intercept, the column's values are
measured from their mean m. The component is then ``g - m g_intercept``: the change of the objective
if the intercept changes by -m times the change of the coefficient. In this case r is the deviation
of the column. So for a column of years, values of about 1700 or more, only the variation counts.

**Common unit.** Rows of text have values of about a tenth in all features. The typical size is the
geometric mean over all values. If the typical size is below 1, all sizes are divided by the typical
size, or by 1/20 if the typical size is smaller. So small values in all columns do not hide a large
gradient.

With an l1 penalty, the gradient mapping is defined for the coefficients ``D w``. It is the change
of these coefficients by a step of length 1 along ``g / D``, followed by a shrinkage by ``l1 / D``.

The statistics of a column come from a sample of the rows. If few sampled rows have the column, and
the column may have the largest component, the column is read in all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.rows.moments import add_deviations
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import losses
from hogshare.problems.kernel_arrays import frozen

FEWEST = 4  # number of values in a sample that suffice to describe a column
UNSEEN = 3.0  # number of values that a sample may have missed, added to its count
CANCELLED = 1e-6  # a variance below this share of a squared distance has lost its digits
CONSTANT = 1e-28  # a variance below this share of a squared mean is rounding
LEAST_UNIT = 0.05


# ``total(function, *args)`` returns the sums, over all parts of the rows, of the arrays that
# ``function(rows, *args)`` returns
Total = Callable[..., Sequence[np.ndarray]]


class Features(NamedTuple):
    """Statistics of the features of some rows.

    origin : shape (n_features,), the mean of a feature without zeros if the model has an intercept;
        otherwise 0
    square : shape (n_features,), mean square of the nonzero values, about the origin
    share : shape (n_features,), share of the rows that have a feature; an upper bound if unknown
    known : bools of shape (n_features,), whether enough rows were read
    weight : mean weight of the rows
    """

    origin: np.ndarray
    square: np.ndarray
    share: np.ndarray
    known: np.ndarray
    weight: float

    def with_known(self, places: np.ndarray, others: Features) -> Features:
        """Return a copy with the statistics of the features `places` from `others`."""
        whole = {
            name: getattr(self, name).copy() for name in ("origin", "square", "share", "known")
        }
        for name, mine in whole.items():
            mine[places] = getattr(others, name)
        return self._replace(**whole)


class Units(NamedTuple):
    """The units in which the components of a gradient are compared.

    origin : shape (n_features,), see `Features`
    size : shape (n_features,), D in the common unit; 0 for features without an effect
    known : bools of shape (n_features,); an unknown size may be too small but never too large
    """

    origin: np.ndarray
    size: np.ndarray
    known: np.ndarray


def total_of(rows: RowArrays) -> Total:
    """Return the `Total` function of rows that are all rows of a problem."""
    return lambda function, *args: function(rows, *args)


def first_row(rows: RowArrays, n_features: int, places: np.ndarray | None) -> Any:
    """Return the first dense row, or its features `places`, and 1; return zeros without rows."""
    about = np.zeros(n_features)
    if rows.width and len(rows.y):
        row = rows.data[: rows.width]
        about += row if places is None else row[places]
    return about, np.array([float(len(rows.y) > 0)])


def deviations(rows: RowArrays, every: int, about: np.ndarray, places: np.ndarray | None) -> Any:
    """Return count, sum and sum of squares of the deviations of nonzero values, by feature.

    about : numbers from which the deviations are measured
    """
    if places is not None:
        values = rows.data.reshape(-1, rows.width)[:, places]
        rows = rows._replace(data=frozen(values.reshape(-1)), width=len(places))
    counts, sums, squares = np.zeros((3, len(about)))
    found = add_deviations(rows, every, about, counts, sums, squares)
    return counts, sums, squares, np.array(found, np.float64)


def features_of(
    total: Total,
    n_features: int,
    fit_intercept: bool,
    every: int = 1,
    places: np.ndarray | None = None,
) -> Features:
    """Return statistics of the features from every `every`-th row.

    total : function that sums over the parts of the rows
    places : numbers of the features of dense rows to describe, or None for all features
    """
    about, parts = total(first_row, n_features, places)
    about = about / max(1.0, parts[0])
    for again in (False, True):
        found = total(deviations, every, about, places)
        counts, sums, squares, (weight, n_rows) = found
        seen = np.maximum(counts, np.finfo(float).tiny)
        shift = sums / seen
        deviation = np.maximum(squares / seen - np.square(shift), 0.0)
        full = (counts == weight) & bool(fit_intercept and weight > 0.0)
        lost = full & (deviation < CANCELLED * np.square(shift))
        if again or not lost.any():
            break
        about = np.where(lost, about + shift, about)
    mean = about + shift
    deviation[deviation < CONSTANT * np.square(mean)] = 0.0
    square = np.where(full, deviation, deviation + np.square(mean))
    known = np.ones(n_features, bool)
    if every > 1:
        known = (counts * n_rows >= FEWEST * weight) & (square > 0.0)
        counts = np.where(known, counts, counts + UNSEEN * weight / max(1, n_rows))
    share = np.minimum(counts / max(weight, np.finfo(float).tiny), 1.0)
    origin = np.where(full & known, mean, 0.0)
    return Features(origin, square, share, known, weight / max(1, n_rows))


def units_of(features: Features, loss: str, l2: float, n_rows: int) -> Units:
    """Return the units of a problem's features for its loss and penalty."""
    sharp = losses.CURVATURE[losses.CODES[loss]] * features.weight
    square, share = np.where(features.known, features.square, 0.0), features.share
    counted = features.known & (square > 0.0)
    typical = 1.0
    if counted.any():
        logarithms = 0.5 * np.log(square[counted])
        typical = float(np.exp(np.average(logarithms, weights=share[counted])))
    if l2 > 0.0:
        # if no row has a column, the penalty counts as if a single row had it
        share = np.maximum(share, 1.0 / max(1, n_rows))
        square = square + l2 / max(sharp, np.finfo(float).tiny) / share
    unit = min(max(typical, LEAST_UNIT), 1.0)
    return Units(features.origin, np.sqrt(square) / unit, features.known)
