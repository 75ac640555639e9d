"""Weights of rows and of classes: none may be negative, and not all may be zero.

scikit-learn's solvers accept negative weights, for rows whose loss should be large. But with
negative weights the objective may have no minimum. So all problems and estimators refuse negative
weights, with the message of this file.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.system import ranges


def row_weights(sample_weight: Any, X: Any, dtype: Any = None, **settings: Any) -> np.ndarray:
    """Check the weights of rows, and return them; the result may be `sample_weight` itself.

    sample_weight : array of shape (n_rows,), one number for all rows, or None for weights of one
    X : any object with a number of rows; only this number is read
    dtype : dtype of the returned weights; with None, float32 and float64 stay as they are
    **settings : arguments of scikit-learn's check, such as `copy` and `allow_all_zero_weights`

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
    """Check the weights of classes, which multiply the weights of rows; return them as float64.

    Raises ValueError if a weight is negative, NaN or infinite.
    """
    with ranges.meaning("class_weight must contain a number, at least 0, for each class"):
        weights = np.asarray(class_weight, dtype=np.float64)
        bad = weights[~(np.isfinite(weights) & (weights >= 0.0))]
        if len(bad):
            raise ValueError(f"got {bad[0]}")
    return weights


def require_weight(**parts: np.ndarray | None) -> None:
    """Raise an error if all weights of a part of the rows, such as the held-out rows, are zero.

    **parts : weights of each part, by its name in the message, or None for weights of one

    Raises ValueError with scikit-learn's message and the name of the part.
    """
    for name, weight in parts.items():
        if weight is not None and not (weight > 0.0).any():
            raise ValueError(
                f"The sample weights for {name} set are all zero, consider using a different "
                "random state."
            )
