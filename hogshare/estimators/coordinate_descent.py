"""scikit-learn's coordinate descent, some passes at a time: between them Ctrl-C is answered."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

SLICE_SECONDS = 0.6  # each begins by centring and copying the rows, as long as two passes take
VALUE_SECONDS = 2e-9  # of a pass, to begin with


def _values_of_a_pass(theirs: Any, X: Any, y: Any) -> int:
    """How many numbers a pass reads: the rows', or a Gram matrix's, for each target."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    of_targets: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) != 2:  # lists are short, and what else there is scikit-learn refuses
        return 1
    n_targets = of_targets[1] if len(of_targets) == 2 else 1
    if sp.issparse(X):
        return int(X.nnz) * n_targets
    return shape[1] * (shape[0] if theirs.precompute is False else shape[1]) * n_targets


def descend(
    theirs: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    on_epoch: Callable[[int, Any], object] | None = None,
    **others: Any,
) -> None:
    """Fit scikit-learn's estimator, and go on from where it stands until it has converged.

    A slice of passes begins with the coefficients of the one before, so that the passes are those
    of one call but for rounding; with ``selection="random"`` and a whole number as `random_state`
    each draws the same columns again.

    theirs : of scikit-learn; afterwards it is as after one call, but for `copy_X` and `warm_start`
    on_epoch : hears of passes, by their number
    others : of its `fit`
    """
    most, done, counts = theirs.max_iter, 0, np.zeros(1, np.int64)
    longest = most
    seconds = VALUE_SECONDS * _values_of_a_pass(theirs, X, y)
    active = np.ones(1, bool)
    while True:
        n_slice = max(1, min(most - done, int(SLICE_SECONDS / max(seconds, 1e-9)), longest))
        if n_slice < most:  # a slice that centred the caller's rows would leave none for the next
            theirs.copy_X = True
        theirs.max_iter, began = n_slice, time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            theirs.fit(X, y, sample_weight=sample_weight, **others)
        seconds = (time.perf_counter() - began) / max(1, int(np.max(theirs.n_iter_)))
        # passes over the few columns that screening has left are short, and the next may be of all
        longest = n_slice + n_slice // 2 + 1
        theirs.warm_start = True
        passes = np.atleast_1d(theirs.n_iter_)
        counts, active = counts + np.where(active, passes, 0), passes >= n_slice
        if on_epoch is not None:
            for number in range(done, done + int(passes.max())):
                on_epoch(number, None)
        done += n_slice
        unsettled = any(issubclass(one.category, ConvergenceWarning) for one in said)
        is_over = not unsettled or done >= most
        for one in said:
            if is_over or not issubclass(one.category, ConvergenceWarning):
                warnings.warn(one.message, stacklevel=2)
        if is_over:
            break
    theirs.max_iter = most
    theirs.n_iter_ = int(counts[0]) if np.ndim(theirs.n_iter_) == 0 else counts.tolist()
