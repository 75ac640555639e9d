"""Weights of rows and of classes: numbers of which none is negative and not all are zero.

scikit-learn's solvers take negative ones for rows whose loss is to be large, of which there may be
no least sum; every problem and every estimator refuses them by the one sentence of this file.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.system import ranges


def row_weights(sample_weight: Any, X: Any, dtype: Any = None, **settings: Any) -> np.ndarray:
    """Return the weights of rows, checked.

    sample_weight : shape (n_rows,), or one number, or None: one for each row
    X : whatever has a number of rows; only that is read
    dtype : of the weights; None leaves float32 and float64 as they are
    **settings : of scikit-learn's check: `copy`, `allow_all_zero_weights`

    Raises ValueError: if one is negative, NaN, infinite or masked, if all are zero, or if they are
    not as many as rows.
    """
    require_unmasked("sample_weight", sample_weight)
    # imported in a call because worker processes import this file too, and check nothing
    from sklearn.utils.validation import _check_sample_weight, _num_samples

    what = f"sample_weight must hold a number, at least 0, for each of {_num_samples(X)} rows"
    with ranges.meaning(what):
        if isinstance(sample_weight, Real):
            ranges.not_negative(
                sample_weight=float(sample_weight)
            )  # the check below leaves NaN alone
        weight: np.ndarray = _check_sample_weight(
            sample_weight, X, dtype=dtype, ensure_non_negative=True, **settings
        )
    return weight


def class_weights(class_weight: Any) -> np.ndarray:
    """Return numbers by which rows count besides, by their class, checked.

    Raises ValueError: if one is negative, NaN or infinite.
    """
    with ranges.meaning("class_weight must hold a number, at least 0, for each class"):
        weights = np.asarray(class_weight, dtype=np.float64)
        bad = weights[~(np.isfinite(weights) & (weights >= 0.0))]
        if len(bad):
            raise ValueError(f"got {bad[0]}")
    return weights


def require_weight(**parts: np.ndarray | None) -> None:
    """Refuse parts of the rows, such as those that are held out, in which no row counts.

    Raises ValueError: in scikit-learn's words, with the name of the part.
    """
    for name, weight in parts.items():
        if weight is not None and not (weight > 0.0).any():
            raise ValueError(
                f"The sample weights for {name} set are all zero, consider using a different "
                "random state."
            )
