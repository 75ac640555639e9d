"""scikit-learn's validation of rows and targets, skipped if it would return its input unchanged.

scikit-learn checks the library, the names and the integer types of every array, and converts the
array if necessary. For rows and labels this takes three quarters of a millisecond, as long as a
small fit. Input skips this validation only if it meets every condition of `validate_data` with the
settings of `check_rows`, which would then change and refuse nothing. scikit-learn validates all
other input, with its own messages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from hogshare.estimators.all_rows import AllRows
from hogshare.kernels.rows.sums import total
from hogshare.kernels.rows.survey import Survey
from hogshare.problems.kernel_arrays import FLOATS, frozen
from hogshare.problems.linear.labels import distinct, pair_of
from hogshare.problems.linear.row_arrays import MANY, each_column_once, require_dense, survey_rows
from hogshare.problems.weights import row_weights
from hogshare.runtimes.helper_threads import helpers_for
from hogshare.system.interrupts import errstate

COUNTS = (np.dtype(np.int32), np.dtype(np.int64))
CSR = (sp.csr_matrix, sp.csr_array)
EXACT = 2.0**53  # float labels must be whole numbers; beyond this bound digits may be lost
WHOLE = {int}
FEW_CLASSES = 10  # with more classes scikit-learn may warn, if they are most of the labels


def n_values(X: Any) -> int:
    """Return the number of stored values of an array or a CSR matrix; 0 for anything else."""
    values = X.data if type(X) in CSR else X
    return values.size if type(values) is np.ndarray else 0


def is_finite(values: np.ndarray) -> bool:
    """Whether all numbers are finite, decided by their sum.

    False also for finite numbers whose sum overflows, which is rare.
    """
    with errstate(all="ignore"):
        if values.size < MANY:
            return bool(np.isfinite(values.sum()))  # NaN and infinity propagate into the sum
        return math.isfinite(total(frozen(values).reshape(-1)))


def is_plain_target(y: Any) -> bool:
    """Whether `y` is an array of numbers, one per row, that needs no conversion."""
    if type(y) is not np.ndarray or y.ndim != 1 or not y.size or not y.flags.c_contiguous:
        return False
    if y.dtype in FLOATS:
        pair = pair_of(y)
        return is_finite(y) if pair is None else all(map(math.isfinite, pair))
    return y.dtype.kind in "iub" and y.dtype.isnative


def is_plain_rows(X: Any, seen: Survey | None = None) -> bool:
    """Whether `X` is float32 or float64 rows, dense or CSR, that need no conversion.

    The rows must have passed `hogshare.problems.linear.row_arrays.survey_rows` before.

    seen : the result of `survey_rows`; None if `survey_rows` made no survey
    """
    if type(X) in CSR:
        kind = X.indices.dtype
        if kind not in COUNTS or X.indptr.dtype != kind or type(X.data) is not np.ndarray:
            return False
        values = X.data
    elif type(X) is np.ndarray and X.flags.c_contiguous:
        values = X
    else:
        return False
    if X.ndim != 2 or min(X.shape) == 0 or X.dtype not in FLOATS:
        return False
    return is_finite(values) if seen is None else math.isfinite(seen.total)


def accept(estimator: Any, X: Any, y: Any, reset: bool, seen: Survey | None = None) -> bool:
    """Whether rows and targets need neither conversion nor scikit-learn's checks.

    If so, and if `reset` is True, sets the estimator's `n_features_in_` and removes its
    `feature_names_in_`. With `reset` False the rows must have `n_features_in_` features, and the
    estimator must have no `feature_names_in_`.
    """
    if not (is_plain_target(y) and is_plain_rows(X, seen) and len(y) == X.shape[0]):
        return False
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_  # these rows have no feature names
        return True
    known = getattr(estimator, "n_features_in_", None) == X.shape[1]
    return known and not hasattr(estimator, "feature_names_in_")


def classes_of(y: np.ndarray) -> np.ndarray:
    """Return the distinct labels in `y`, sorted; scikit-learn checks `y` unless they are plain."""
    numbers = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuf"
    classes = distinct(y) if numbers else None
    if classes is not None and are_plain_classes(classes):
        return classes
    check_classification_targets(y)
    return distinct(y)


def are_plain_classes(classes: Any) -> bool:
    """Whether scikit-learn need not check these classes: at most 10, integers or whole floats.

    classes : the distinct labels, from `distinct`
    """
    if type(classes) is not np.ndarray or classes.ndim != 1 or len(classes) > FEW_CLASSES:
        return False
    if classes.dtype in FLOATS:
        return all(abs(c) < EXACT and c.is_integer() for c in classes.tolist())
    return classes.dtype.kind in "iub"


def are_the_same(known: np.ndarray | None, classes: Any) -> bool:
    """Whether `partial_fit` gets no classes, or the classes that it knows already.

    False for anything but integers in an array or a list; scikit-learn then checks the classes.

    known : `classes_` of the estimator, sorted; None if it has none
    classes : the argument `classes`; None if not given
    """
    if known is None or classes is None:
        return known is not None
    if type(classes) is list and len(classes) == len(known) and set(map(type, classes)) <= WHOLE:
        classes = np.array(classes)
    if (
        type(classes) is not np.ndarray
        or classes.dtype != known.dtype
        or known.dtype.kind not in "iu"
    ):
        return False
    return classes.shape == known.shape and bool((classes == known).all())


def are_among(y: np.ndarray, classes: np.ndarray) -> bool:
    """Whether all labels are among these classes, and both are integers of the same dtype.

    y : the label of each row
    classes : the distinct labels, sorted
    """
    if type(y) is not np.ndarray or y.dtype != classes.dtype or y.dtype.kind not in "iu":
        return False
    if len(classes) == 2:
        pair = pair_of(y)
        return pair is not None and set(pair) <= set(classes.tolist())
    if not len(classes):
        return False
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return bool((classes[places] == y).all())


def check_rows(
    estimator: Any, X: Any, y: Any, *, sizes: bool, **settings: Any
) -> tuple[Any, np.ndarray, Survey | None]:
    """Check the structure of compressed formats, then validate as scikit-learn does.

    Returns rows, targets, and the survey of the rows if `sizes` is True and the rows needed no
    conversion (None otherwise). Rows and targets that need no conversion are returned themselves,
    not as copies. Sets the estimator's `n_features_in_` and `feature_names_in_` as scikit-learn
    does.

    sizes : whether to survey the sizes of the rows
    settings : further arguments of `sklearn.utils.validation.validate_data`
    """
    require_dense(y)
    helpers = helpers_for(n_values(X), estimator.n_jobs)
    seen = survey_rows(X, sizes, helpers)
    if accept(estimator, X, y, settings.get("reset", True), seen):
        return X, y, seen if sizes else None
    rows, y = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **settings
    )
    return rows, y, seen if sizes and rows is X else None


def weights_of_part(
    everybody: AllRows, sample_weight: Any, X: Any, may_be_zero: bool = False, **settings: Any
) -> np.ndarray:
    """Return `row_weights` for this process's part of the rows, whose weights may all be zero.

    Unless `may_be_zero` is True, it is collective: all ranks must call it.

    Raises
    ------
    ValueError
        If the weights of all processes' rows are zero, unless `may_be_zero` is True.
    """
    zeros = may_be_zero or not everybody.is_one
    weight = row_weights(sample_weight, X, X.dtype, allow_all_zero_weights=zeros, **settings)
    if everybody.is_one or may_be_zero:
        return weight
    if everybody.added(float(weight.sum(dtype=np.float64))) == 0.0:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight


def for_scikit_learn(X: Any) -> Any:
    """Return checked rows in the form that scikit-learn's solvers need; None if impossible.

    These solvers need 32-bit indices. They also need each column at most once per row: they square
    single entries, and a repeated entry is only a part of a value. Rows that have this form are
    returned themselves, not as a copy.
    """
    if not sp.issparse(X):
        return X
    rows = each_column_once(X if X.format in ("csr", "csc") else X.tocsr())
    if rows.indices.dtype == np.int32 == rows.indptr.dtype:
        return rows
    limit = np.iinfo(np.int32).max
    if rows.nnz > limit or max(rows.shape) > limit:
        return None
    parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return type(rows)(parts, shape=rows.shape)
