"""Weights of rows and of classes: none may be negative, and not all may be zero.

scikit-learn's solvers accept negative weights, for rows whose loss should be large. But the
objective may then have no minimum. So all problems and estimators refuse them, with this file's
message.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.system import ranges


def row_weights(sample_weight: Any, X: Any, dtype: Any = None, **settings: Any) -> np.ndarray:
    """Return the weights of rows, checked.

    sample_weight : shape (n_rows,), or one number for all rows, or None: weight one for each row
    X : any object with a number of rows; only this number is read
    dtype : type of the weights; None preserves float32 and float64
    **settings : settings of scikit-learn's check: `copy`, `allow_all_zero_weights`

    Raises ValueError if a weight is negative, NaN, infinite or masked, if all are zero, or if their
    number differs from the number of rows.
    """
    require_unmasked("sample_weight", sample_weight)
    # not imported at the top: worker processes import this file too, but check no weights
    from sklearn.utils.validation import _check_sample_weight, _num_samples

    what = f"sample_weight must contain a number, at least 0, for each of {_num_samples(X)} rows"
    with ranges.meaning(what):
        if isinstance(sample_weight, Real):
            # the check below accepts one NaN for all rows
            ranges.not_negative(sample_weight=float(sample_weight))
        weight: np.ndarray = _check_sample_weight(
            sample_weight, X, dtype=dtype, ensure_non_negative=True, **settings
        )
    return weight


def class_weights(class_weight: Any) -> np.ndarray:
    """Return the checked weights of classes, which multiply the weights of the classes' rows.

    Raises ValueError if a weight is negative, NaN or infinite.
    """
    with ranges.meaning("class_weight must contain a number, at least 0, for each class"):
        weights = np.asarray(class_weight, dtype=np.float64)
        bad = weights[~(np.isfinite(weights) & (weights >= 0.0))]
        if len(bad):
            raise ValueError(f"got {bad[0]}")
    return weights


def require_weight(**parts: np.ndarray | None) -> None:
    """Refuse parts of the rows, such as the held-out ones, in which all weights are zero.

    Raises ValueError with scikit-learn's message and the name of the part.
    """
    for name, weight in parts.items():
        if weight is not None and not (weight > 0.0).any():
            raise ValueError(
                f"The sample weights for {name} set are all zero, consider using a different "
                "random state."
            )
