"""Rows and labels for a command, as its options ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hogshare.cli import console

# LIBSVM text is read at some ten megabytes a second, so beyond this a user would wonder
LARGE_FILE = 50_000_000


def load(args: Any, data: str, n_features: int | None = None) -> tuple[Any, Any]:
    """Load rows and, if there are any, labels; say on standard error what was found."""
    from hogshare import datasets, readers

    path = Path(data)
    if path.is_file() and path.stat().st_size > LARGE_FILE:
        console.say(f"reading {data} ({path.stat().st_size / 1e6:,.0f} MB)")
    X, y = datasets.load(data, data_home=args.data_home, dtype=args.dtype, n_features=n_features)
    if getattr(args, "labels", None):
        y = readers.read_npy(args.labels)
        if y.shape != (X.shape[0],):
            raise ValueError(f"{args.labels}: labels of shape {y.shape} for {X.shape[0]} rows")
    nonzeros = f", {X.nnz:,} nonzeros" if hasattr(X, "nnz") else ""
    console.say(f"{data}: {X.shape[0]:,} rows, {X.shape[1]:,} columns{nonzeros}, {X.dtype}")
    return X, y


def need_labels(y: Any, data: str) -> Any:
    """Return the labels, or raise a ValueError that says where they may come from."""
    if y is None:
        raise ValueError(
            f"{data} has no labels: name them with --labels FILE.npy, "
            "or store X and y in one .npz file"
        )
    if (rows := missing(y)).size:
        row = int(rows[0])
        raise ValueError(f"the label of row {row + 1} of {data} is {y[row]}: every row needs one")
    return y


def missing(y: Any) -> Any:
    """Rows whose label is NaN or infinite."""
    import numpy as np

    return np.flatnonzero(~np.isfinite(y)) if y.dtype.kind == "f" else np.empty(0, np.int64)


def task_of(y: Any) -> str:
    """Tell classes from measurements: text, truth values and whole numbers are classes."""
    from sklearn.utils.multiclass import type_of_target

    return "regression" if type_of_target(y) == "continuous" else "classification"


def class_labels(y: Any) -> Any:
    """Return labels such as LIBSVM's 1.0 and -1.0 as whole numbers, which read better."""
    import numpy as np

    if y.dtype.kind == "f" and not missing(y).size and (y == np.rint(y)).all():
        return y.astype(np.int64)
    return y
