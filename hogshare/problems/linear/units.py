"""In which units the components of a gradient are compared: those of the columns themselves.

A coefficient's unit is one over its column's, and the gradient's component has the column's. So
kilometres for metres make it a thousandth, and whichever column has the largest numbers decides
what "largest component" says. Here a component is divided by its column's size D, so that a column
times a constant changes nothing but what the penalty makes of it.

**Size.** Along one coefficient the objective's curvature is at most ``H = p (L r^2) + l2``: of the
share p of the rows that have the feature, the loss's curvature L (times the mean weight) and the
mean square r^2 of the values there. ``D^2 = H / (L p) = r^2 + l2 / (L p)``. What one step along
that coefficient can gain is ``g^2 / (2 H)``, so at most ``tol^2 / (2 L p)`` where ``|g| / D <=
tol``, whatever the units, the values and the penalty are: where a column's numbers are so small
that the penalty alone decides, so it does in D. For values of 0 and 1, and for columns that have
been standardised, r is 1, and without a penalty a component is what it was.

**Origin.** A column in which no row has a zero, with an intercept beside it, is taken about its
mean m, as is ``g - m g_intercept``: by that the objective changes when the intercept moves along,
and r is the deviation. A year is 1700 and some, and tells by how much it varies.

**Common unit.** Rows of text have values of a tenth, in all features. Sizes are divided by the
typical one, the geometric mean over all values, where that is below 1; but at most by 20 times, so
that small units of everything fool nobody either.

With l1 the gradient mapping is that in the coefficients ``D w``: by how much a step of length 1
along ``g / D``, and the shrinkage by ``l1 / D`` after it, moves them.

What columns are like, a sample of the rows tells; a column that few of them have, and that may
decide, is looked at in all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hogshare.kernels.rows.moments import add_deviations
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rules import losses
from hogshare.problems.kernel_arrays import frozen

FEWEST = 4  # values in a sample that tell what a column is like
UNSEEN = 3.0  # values that a sample of rows may have missed, each counted as one of its rows
CANCELLED = 1e-6  # of a squared distance, below which a deviation has lost its digits
CONSTANT = 1e-28  # of a squared mean, below which a deviation is rounding
LEAST_UNIT = 0.05


# ``total(function, *args)``: the sums of the arrays that ``function(rows, *args)`` gives, over all
# who have a part of the rows
Total = Callable[..., Sequence[np.ndarray]]


class Features(NamedTuple):
    """What the features of some rows are like.

    origin : shape (n_features,), mean of features without zeros, if there is an intercept; 0 of
        others
    square : shape (n_features,), mean square of the values that are not zero, about the origin
    share : shape (n_features,), of the rows that have them; where it is not known, at most
    known : bools of shape (n_features,), whether enough rows were looked at
    weight : mean weight of the rows
    """

    origin: np.ndarray
    square: np.ndarray
    share: np.ndarray
    known: np.ndarray
    weight: float

    def with_known(self, places: np.ndarray, others: Features) -> Features:
        """With what is known of the features `places` in the place of what was not."""
        whole = {
            name: getattr(self, name).copy() for name in ("origin", "square", "share", "known")
        }
        for name, mine in whole.items():
            mine[places] = getattr(others, name)
        return self._replace(**whole)


class Units(NamedTuple):
    """What the components of a gradient are compared in.

    origin : shape (n_features,), as of `Features`
    size : shape (n_features,), D in the common unit; 0 of features of which nothing counts
    known : bools of shape (n_features,), elsewhere a size may be too small, and is never too large
    """

    origin: np.ndarray
    size: np.ndarray
    known: np.ndarray


def total_of(rows: RowArrays) -> Total:
    """The sums over rows of which there are no others."""
    return lambda function, *args: function(rows, *args)


def first_row(rows: RowArrays, n_features: int, places: np.ndarray | None) -> Any:
    """The first of dense rows, and how many that is; with `places` these features of it."""
    about = np.zeros(n_features)
    if rows.width and len(rows.y):
        row = rows.data[: rows.width]
        about += row if places is None else row[places]
    return about, np.array([float(len(rows.y) > 0)])


def deviations(rows: RowArrays, every: int, about: np.ndarray, places: np.ndarray | None) -> Any:
    """Numbers, sums and squares of what features' values that are not zero deviate by."""
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
    """Look at every so many rows.

    total : over the parts of the rows
    places : of the features of dense rows that are looked at; None: all
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
    """Sizes of a problem's features, with its loss and penalty."""
    sharp = losses.CURVATURE[losses.CODES[loss]] * features.weight
    square, share = np.where(features.known, features.square, 0.0), features.share
    told = features.known & (square > 0.0)
    typical = 1.0
    if told.any():
        logarithms = 0.5 * np.log(square[told])
        typical = float(np.exp(np.average(logarithms, weights=share[told])))
    if l2 > 0.0:
        # of a column that no row has, the penalty counts as of one that a single row has
        share = np.maximum(share, 1.0 / max(1, n_rows))
        square = square + l2 / max(sharp, np.finfo(float).tiny) / share
    unit = min(max(typical, LEAST_UNIT), 1.0)
    return Units(features.origin, np.sqrt(square) / unit, features.known)
