"""scikit-learn's coordinate descent, made interruptible: in a fork, or some passes at a time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from hogshare.runtimes.forked_call import changed_by_fork, may_fork

SLICE_SECONDS = 0.6  # each slice first centers and copies the rows, in the time of two passes
VALUE_SECONDS = 2e-9  # first estimate of the time per value of a pass
FIRST_SHARE = 1 / 6  # of a slice, before a fork: on busy cores passes take ten times as long
FEW_PASSES = 10  # a fit hardly ever needs fewer
LONG_GRAM = 5e9  # products of a Gram matrix that take a tenth of a second or more


def _values_of_a_pass(theirs: Any, X: Any, y: Any) -> int:
    """Return the number of values that a pass reads, of rows or a Gram matrix, for all targets."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    of_targets: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) != 2:  # lists are short, and scikit-learn refuses any other input
        return 1
    n_targets = of_targets[1] if len(of_targets) == 2 else 1
    if sp.issparse(X):
        return int(X.nnz) * n_targets
    return shape[1] * (shape[0] if theirs.precompute is False else shape[1]) * n_targets


def _products_of_gram(X: Any) -> float:
    """Return the number of products that compute the Gram matrix; 0 for sparse rows."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return float(shape[0]) * shape[1] ** 2 if len(shape) == 2 and not sp.issparse(X) else 0.0


def descend(
    theirs: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    on_epoch: Callable[[int, Any], object] | None = None,
    **others: Any,
) -> None:
    """Fit scikit-learn's estimator in slices of passes until it has converged.

    A fit that takes longer than a slice continues in a fork, except in three cases: `on_epoch` is
    given; `random_state` is a generator, which would have to advance in this process; or the
    process cannot fork. The whole fit then runs in slices. Each slice begins with the coefficients
    of the previous slice. The passes therefore equal the passes of one call, up to rounding. With
    ``selection="random"`` and an int as `random_state` each slice draws the same columns again.

    theirs : scikit-learn's estimator; its attributes end as after one call of `fit`, except
        `copy_X`, `warm_start` and `precompute`, which may have changed
    on_epoch : called after each slice, once for each pass of the slice, with the pass's number
    others : further arguments of the estimator's `fit`
    """
    most, done, counts = theirs.max_iter, 0, np.zeros(1, np.int64)
    longest = most
    may_leave = on_epoch is None and not isinstance(theirs.random_state, np.random.RandomState)
    may_leave = may_leave and may_fork()
    patience = SLICE_SECONDS * (FIRST_SHARE if may_leave else 1.0)
    has_long_gram = theirs.precompute is True and _products_of_gram(X) > LONG_GRAM
    if has_long_gram and not may_leave:
        theirs.precompute = False  # every slice would compute it again, without handling Ctrl-C
    seconds = VALUE_SECONDS * _values_of_a_pass(theirs, X, y)
    active = np.ones(1, bool)
    while True:
        n_slice = max(1, min(most - done, int(patience / max(seconds, 1e-9)), longest))
        is_long = has_long_gram or done > 0 or seconds * min(most, FEW_PASSES) > patience
        leaves = may_leave and is_long
        if leaves:
            n_slice = most - done
        if n_slice < most:  # a slice must not center the caller's rows, which the next slice needs
            theirs.copy_X = True
        theirs.max_iter, began = n_slice, time.perf_counter()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fit = partial(theirs.fit, X, y, sample_weight=sample_weight, **others)
            if leaves:
                changed_by_fork(theirs, fit)
            else:
                fit()
        seconds = (time.perf_counter() - began) / max(1, int(np.max(theirs.n_iter_)))
        # screening leaves few columns, whose passes are short; the next pass may read all columns
        longest = n_slice + n_slice // 2 + 1
        theirs.warm_start = True  # the next slice continues from these coefficients
        passes = np.atleast_1d(theirs.n_iter_)
        # a target that converged within a slice does not count the passes of later slices
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
