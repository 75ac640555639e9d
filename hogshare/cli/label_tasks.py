"""Labels of a file: the task that they imply, and labels that do not suit a task."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.cli import console

CLASSES_AT_MOST = 100  # with more different whole numbers, --task must decide
CLASSES_AT_LEAST = 20  # up to this number of different whole numbers, they are classes
ROWS_PER_CLASS = 10  # between these bounds, --task must decide if there are fewer rows per number

EXACT = 2.0**53  # below this bound a float represents every whole number


def missing(y: Any) -> Any:
    """Return the places of rows whose label is NaN, infinite or empty text."""
    if y.dtype.kind == "U":
        return np.flatnonzero(y == "")
    return np.flatnonzero(~np.isfinite(y)) if y.dtype.kind == "f" else np.empty(0, np.int64)


def task_of(y: Any, data: str) -> str:
    """Return the task that labels imply.

    Text, booleans and few different whole numbers are classes; fractions are numbers.

    Raises
    ------
    ValueError
        If the labels are many different whole numbers, which may be classes or numbers.
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
            "use --task regression if they are numbers, --task classification if they are "
            "classes"
        )
    return "classification"


def is_fractional(y: Any) -> bool:
    """Whether any label is not a whole number."""
    return bool(y.dtype.kind == "f" and (y != np.rint(y)).any())


def labels_for(task: str, y: Any, data: str) -> Any:
    """Return labels in the form that the task requires.

    Raises
    ------
    ValueError
        If the labels do not suit the task.
    """
    if task == "regression":
        if y.dtype.kind not in "iufb":
            raise ValueError(
                f"the labels of {data} are words ({str(y[0])!r}), and a regression needs numbers; "
                "for classes use --task classification and an estimator for them"
            )
        return y
    if is_fractional(y):
        raise ValueError(
            f"the labels of {data} are continuous, and classes are not; for numbers use "
            "--task regression and an estimator for them"
        )
    if y.dtype.kind == "f" and (large := np.flatnonzero(np.abs(y) >= EXACT)).size:
        raise ValueError(
            f"the label of row {large[0] + 1} of {data} is {y[large[0]]}: whole numbers from 2**53 "
            "on cannot be distinguished; number the classes from 0, or put a letter before them in "
            "CSV"
        )
    y = class_labels(y)
    classes = np.unique(y)
    if len(classes) == 1:
        raise ValueError(
            f"every label of {data} is {classes[0]!s}, and a classifier needs at least two classes"
        )
    if len(classes) > 2 and y.dtype.kind in "iu":
        console.say(
            f"{data}: the labels are {len(classes):,} classes, from {classes[0]} to {classes[-1]}; "
            "--task regression treats them as numbers"
        )
    return y


def class_labels(y: Any) -> Any:
    """Return labels such as LIBSVM's 1.0 and -1.0 as whole numbers, for readable output."""
    if y.dtype.kind == "f" and (np.abs(y) < EXACT).all() and (y == np.rint(y)).all():
        return y.astype(np.int64)
    return y


def check_counts(X: Any, data: str) -> None:
    """Refuse rows that are not counts."""
    values = X.data if hasattr(X, "indptr") else X
    if values.size and values.min() < 0:
        raise ValueError(
            f"{data} has negative values, and topics need counts: how often each word is in each "
            "document"
        )


def report_ignored(y: Any, data: str) -> bool:
    """Report that labels are ignored, if there are any; return whether there are."""
    if y is not None:
        console.say(f"{data}: its labels are ignored; topics need none")
    return y is not None
