"""Labels of a file: which task they are for, and what is none for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.cli import console

CLASSES_AT_MOST = 100  # whole numbers as labels beyond which it is asked whether they are classes
CLASSES_AT_LEAST = 20  # up to which it is never asked
ROWS_PER_CLASS = 10  # in the mean, below which it is asked

EXACT = 2.0**53  # below which a float is every whole number


def missing(y: Any) -> Any:
    """Rows whose label is NaN, infinite or no word at all."""
    if y.dtype.kind == "U":
        return np.flatnonzero(y == "")
    return np.flatnonzero(~np.isfinite(y)) if y.dtype.kind == "f" else np.empty(0, np.int64)


def task_of(y: Any, data: str) -> str:
    """Tell classes from measurements: words, truth values and few whole numbers are classes.

    Raises
    ------
    ValueError
        If they are whole numbers, and so many different ones that they may be either.
    """
    if y.dtype.kind not in "iuf":
        return "classification"
    if is_fractional(y):
        return "regression"
    different = len(np.unique(y))
    few = different <= max(CLASSES_AT_LEAST, len(y) // ROWS_PER_CLASS)
    if different > CLASSES_AT_MOST or not few:
        raise ValueError(
            f"the labels of {data} are {different:,} different whole numbers in {len(y):,} rows: "
            "--task regression says that they are numbers, --task classification that they are "
            "classes"
        )
    return "classification"


def is_fractional(y: Any) -> bool:
    """Whether a label is no whole number."""
    return bool(y.dtype.kind == "f" and (y != np.rint(y)).any())


def labels_for(task: str, y: Any, data: str) -> Any:
    """Return labels as the task wants them.

    Raises
    ------
    ValueError
        If they are none for it.
    """
    if task == "regression":
        if y.dtype.kind not in "iufb":
            raise ValueError(
                f"the labels of {data} are words ({str(y[0])!r}), and a regression needs numbers; "
                "for classes take --task classification and an estimator for them"
            )
        return y
    if is_fractional(y):
        raise ValueError(
            f"the labels of {data} are continuous, and classes are not; for numbers take "
            "--task regression and an estimator for them"
        )
    if y.dtype.kind == "f" and (large := np.flatnonzero(np.abs(y) >= EXACT)).size:
        raise ValueError(
            f"the label of row {large[0] + 1} of {data} is {y[large[0]]}: whole numbers from 2**53 "
            "on are not told apart; number the classes from 0 on, or put a letter before them in "
            "CSV"
        )
    y = class_labels(y)
    classes = np.unique(y)
    if len(classes) == 1:
        raise ValueError(
            f"every label of {data} is {classes[0]!s}, and a classifier needs two classes at least"
        )
    if len(classes) > 2 and y.dtype.kind in "iu":
        console.say(
            f"{data}: the labels are {len(classes):,} classes, from {classes[0]} to {classes[-1]}; "
            "--task regression takes them for numbers"
        )
    return y


def class_labels(y: Any) -> Any:
    """Return labels such as LIBSVM's 1.0 and -1.0 as whole numbers, which read better."""
    if y.dtype.kind == "f" and (np.abs(y) < EXACT).all() and (y == np.rint(y)).all():
        return y.astype(np.int64)
    return y


def check_counts(X: Any, data: str) -> None:
    """Refuse rows that count nothing."""
    values = X.data if hasattr(X, "indptr") else X
    if values.size and values.min() < 0:
        raise ValueError(
            f"{data} has negative values, and topics are of counts: how often each word is in each "
            "document"
        )


def report_ignored(y: Any, data: str) -> bool:
    """Say that labels are there, if they are, and are not used; whether it was said."""
    if y is not None:
        console.say(f"{data}: its labels are ignored; topics are found without")
    return y is not None
