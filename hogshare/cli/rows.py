"""Rows and labels for a command, as its options ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hogshare.cli import console, options

# LIBSVM text is read at some ten megabytes a second, so beyond this a user would wonder
LARGE_FILE = 50_000_000


class Loaded(NamedTuple):
    """Rows, labels or None, and whether indices of the file begin at 0 (None: it has none)."""

    X: Any
    y: Any
    zero_based: bool | None


@dataclass(frozen=True)
class Expected:
    """What a model expects of the rows that it is to predict.

    Attributes
    ----------
    n_features : int
        Columns.
    zero_based : bool or None
        Whether indices began at 0 in the file that it was fitted to; None if nobody knows.
    name : str
        Its file.
    """

    n_features: int
    zero_based: bool | None
    name: str


def files_read(args: Any) -> dict[str, str | None]:
    """Files that a command reads rows and labels from, by how its command line calls them."""
    data = args.data if Path(args.data).is_file() else None  # else it is the name of a data set
    return {"DATA": data, "--labels": getattr(args, "labels", None)}


def load(args: Any, data: str, expected: Expected | None = None) -> Loaded:
    """Load rows and, if there are any, labels; say on standard error what was found."""
    from hogshare import catalogue, datasets, readers

    path = datasets.locate(data, args.data_home)
    if path is not None and path.stat().st_size > LARGE_FILE:
        console.say(f"reading {path} ({path.stat().st_size / 1e6:,.0f} MB)")
    if path is not None and readers.is_libsvm(path):
        X, y, zero_based = load_text(args, path, expected)
    else:
        if args.zero_based != "auto":
            flag = options.flag_of_base(args.zero_based)
            raise options.WrongCommandLine(f"{flag} is for files of LIBSVM text; {data} is none")
        X, y = datasets.load(data, data_home=args.data_home, dtype=args.dtype)
        zero_based = catalogue.zero_based(data) if data in catalogue.names() else None
    if getattr(args, "labels", None):
        y = readers.read_npy(args.labels)
        if y.shape != (X.shape[0],):
            raise ValueError(f"{args.labels}: labels of shape {y.shape} for {X.shape[0]} rows")
    nonzeros = f", {X.nnz:,} nonzeros" if hasattr(X, "nnz") else ""
    console.say(f"{data}: {X.shape[0]:,} rows, {X.shape[1]:,} columns{nonzeros}, {X.dtype}")
    return Loaded(X, y, zero_based)


def load_text(args: Any, path: Path, expected: Expected | None) -> Loaded:
    """Load LIBSVM text. Its indices begin where the command line, the model or they say.

    What is no more than a guess is told. In a file to fit, a smallest index of 1 is the ordinary
    case and none of the doubtful ones (`hogshare.libsvm.guess_base`). In a file to predict it is
    doubtful where the model does not know its base: a file of few rows may lack an index 0 by
    chance, and would be taken for shifted by a column.
    """
    from hogshare import libsvm, readers

    base, n_features = args.zero_based, None
    if expected is not None:
        n_features = expected.n_features
        if base == "auto" and expected.zero_based is not None:
            base = expected.zero_based
    try:
        text, X = readers.read_text(
            path, n_features, args.dtype, base, leave_out=expected is not None
        )
    except libsvm.IndexZero as error:
        raise ValueError(index_zero(error.place, args, expected)) from None
    if text.guess == libsvm.UNSURE or (expected is not None and text.guess == libsvm.LIKELY):
        unknown = f"{expected.name} does not say it and " if expected is not None else ""
        console.say(
            f"{path}: indices were taken to begin at 1, which is a guess ({unknown}the smallest is "
            f"{text.first}); --one-based or --zero-based says it"
        )
    if text.left_out:
        where = f"indices begin at {0 if text.zero_based else 1}"
        if args.zero_based == "auto" and text.zero_based and text.first:
            where += " as in the model's file; --one-based, if not in this one"
        console.say(
            f"{path}: {text.left_out:,} value{'s' * (text.left_out > 1)} beyond the "
            f"{n_features:,} columns of the model left out ({where})"
        )
    return Loaded(X, text.y, text.zero_based)


def index_zero(place: str, args: Any, expected: Expected | None) -> str:
    """Say who said that indices begin at 1 where there is an index 0."""
    if args.zero_based != "auto" or expected is None:
        return f"{place}: index 0, and --one-based says that indices begin at 1"
    return (
        f"{place}: index 0, and in the file that {expected.name} was fitted to indices begin at 1; "
        "if they begin at 0 in both, fit again with --zero-based; if only in this one, predict "
        "with --zero-based"
    )


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
