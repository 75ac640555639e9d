"""Rows and labels for a command, as its options ask for them."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hogshare.cli import columns, console, options
from hogshare.cli.expected import Expected

if TYPE_CHECKING:
    from hogshare.io.csvtext import NotCSV, Table
    from hogshare.io.libsvm import Gathered, NotLibsvm
    from hogshare.io.readers import Rows, Wanted
    from hogshare.io.sources import Source

# LIBSVM text is read at some ten megabytes a second, so beyond this a user would wonder
LARGE_FILE = 50_000_000

STDIN = "-"  # the name that means standard input

CLASSES_AT_MOST = 100  # whole numbers as labels beyond which it is asked whether they are classes
CLASSES_AT_LEAST = 20  # up to which it is never asked
ROWS_PER_CLASS = 10  # in the mean, below which it is asked

EXACT = 2.0**53  # below which a float is every whole number

# options by the parameters of readers that they set
FLAGS = {
    "n_features": "--n-features",
    "header": "--header",
    "label_column": "--label-column",
    "delimiter": "--delimiter",
}


class Loaded(NamedTuple):
    """Rows, labels or None, and what a model keeps of their file.

    Attributes
    ----------
    X, y : array
    zero_based : bool or None
        Whether indices of the file begin at 0; None: it has none.
    names : tuple of str or None
        Names of the rows' columns.
    label : str, int or None
        The name of the labels' column, or its place from 1.
    """

    X: Any
    y: Any
    zero_based: bool | None
    names: tuple[str, ...] | None = None
    label: str | int | None = None


def path_of(data: str) -> str:
    """A file by the name that the command line gives it."""
    from hogshare.io import sources

    return sources.STDIN if data == STDIN else data


def files_read(args: Any, data: str, **others: str | None) -> dict[str, str | None]:
    """Files that a command reads, by how its command line calls them.

    Inputs of which one would use up the other are refused, and so is an output that feeds its
    input.

    Parameters
    ----------
    args : Namespace
    data : str
        How the command line calls the rows.
    **others : str or None
        What else is read.

    Returns
    -------
    dict of str to str or None
        Without pipes, devices and data sets that have a name.

    Raises
    ------
    WrongCommandLine
    """
    from hogshare import datasets

    where = args.data
    if where != STDIN:
        with contextlib.suppress(OSError, ValueError):
            where = datasets.locate(args.data, args.data_home)
    named = {data: None if where is None else str(where), **others}
    seen: dict[tuple[int, int], str] = {}
    for flag, name in named.items():
        status = _status(name)
        if status is None:
            continue
        key = (status.st_dev, status.st_ino)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            if key in seen and not stat.S_ISCHR(status.st_mode):
                raise options.WrongCommandLine(
                    f"{seen[key]} and {flag} are one pipe, which is read once only"
                )
            seen[key] = flag
        elif _printed_to() == key:
            raise options.WrongCommandLine(f"{flag} and standard output are one file")
    return {flag: _file(path) for flag, path in named.items()}


def _file(name: str | None) -> str | None:
    """The file that is read under a name, or is not there; None if it is a pipe or a device."""
    status = _status(name)
    if name is None or (status is not None and not stat.S_ISREG(status.st_mode)):
        return None
    return os.path.realpath(path_of(name)) if name in (STDIN, "/dev/stdin") else name


def _status(name: str | None) -> os.stat_result | None:
    if name is None:
        return None
    try:
        return os.fstat(0) if name in (STDIN, "/dev/stdin") else os.stat(name)
    except (OSError, ValueError):
        return None


def _printed_to() -> tuple[int, int] | None:
    """The file that standard output is, if it is one."""
    try:
        status = os.fstat(sys.__stdout__.fileno()) if sys.__stdout__ else None
    except (OSError, ValueError):
        return None
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino


def load(args: Any, data: str, labelled: bool = True, gathered: Gathered | None = None) -> Loaded:
    """Load rows and, if there are any, labels; say on standard error what was found.

    labelled : whether there have to be labels
    gathered : rows of LIBSVM text that have been read already
    """
    from hogshare import datasets
    from hogshare.io import catalogue, readers

    found = None
    with opened(args, data) as source:
        if source is None:
            X, y = datasets.load(data, data_home=args.data_home, dtype=args.dtype)
            zero_based = catalogue.zero_based(data) if data in catalogue.names() else None
            loaded = Loaded(X, y, zero_based)
        else:
            wanted = _to_fit(args, source, labelled)
            found = readers.read(source, wanted, gathered)
            _tell_of_indices(args, source.name, found, None)
            _tell_of_names(found)
            zero_based = found.text.zero_based if found.text else None
            loaded = Loaded(found.X, found.y, zero_based, *columns.names_of(found))
    _check_shape(data, loaded.X.shape)
    if args.labels:
        loaded = loaded._replace(y=_labels(args.labels, loaded.X.shape[0]))
    X = loaded.X
    table = found.table if found is not None else None
    tell(data, X.shape[0], X.shape[1], X.nnz if hasattr(X, "nnz") else None, X.dtype, table)
    return loaded


def _to_fit(args: Any, source: Source, labelled: bool) -> Wanted:
    choose = columns.to_fit(args, source.name, labelled)
    return _wanted(args, source, choose=choose, n_features=args.n_features)


def section(args: Any, data: str, labelled: bool, place: int, of: int) -> Gathered | None:
    """The rows of a section of a plain file of LIBSVM text; None if it is anything else."""
    from hogshare import datasets
    from hogshare.io import libsvm, readers, sniffing, sources

    path = None if data == STDIN else datasets.locate(data, args.data_home)
    if path is None:
        return None
    with sources.Source(path) as source:
        if not source.is_plain_file or (args.format or sniffing.kind_of(source)) != "libsvm":
            return None
        wanted = _to_fit(args, source, labelled)
    with sources.Section(path, place, of) as source:
        return libsvm.gather(readers.parts_of(source, wanted))


def iterate(args: Any, data: str, expected: Expected) -> Iterator[Loaded]:
    """Load rows that are to be predicted, part by part as they come; say what was found."""
    from hogshare import datasets
    from hogshare.io import readers

    rows = columns_left_out = 0
    nonzeros: int | None = 0
    dtype: Any = args.dtype
    found = None
    with opened(args, data) as source:
        if source is None:
            X, y = datasets.load(data, data_home=args.data_home, dtype=args.dtype)
            _check_shape(data, X.shape, expected)
            X_nnz = X.nnz if hasattr(X, "nnz") else None
            tell(data, X.shape[0], X.shape[1], X_nnz, X.dtype)
            yield Loaded(X, y, None)
            return
        base = args.zero_based
        if base == "auto" and expected.zero_based is not None:
            base = expected.zero_based
        wanted = _wanted(
            args,
            source,
            choose=columns.to_predict(args, source.name, expected),
            n_features=expected.n_features,
            leave_out=True,
            base=base,
        )
        try:
            for found in readers.iterate(source, wanted):
                _check_shape(source.name, found.X.shape, expected)
                if not rows:
                    _tell_of_indices(args, source.name, found, expected)
                    _tell_of_names(found)
                rows += found.X.shape[0]
                if nonzeros is not None:
                    nonzeros = nonzeros + found.X.nnz if hasattr(found.X, "nnz") else None
                if found.text is not None:
                    columns_left_out += found.text.left_out
                yield Loaded(found.X, found.y, None)
        except _index_zero() as error:
            raise ValueError(index_zero(error.place, args, expected)) from None
        if found is not None and columns_left_out:
            _tell_of_left_out(args, source.name, found, columns_left_out, expected.n_features)
        table = found.table if found else None
        tell(data, rows, found.X.shape[1] if found else 0, nonzeros, dtype, table)


def _check_shape(name: str, shape: tuple[int, int], expected: Expected | None = None) -> None:
    """Refuse a matrix without rows or columns, or with others than the model's."""
    from hogshare.system.words import counted

    for n, what in zip(shape, ("rows", "columns"), strict=True):
        if not n:
            raise ValueError(f"{name}: the file has no {what}")
    if expected is not None and shape[1] != expected.n_features:
        raise ValueError(
            f"{name}: {counted(shape[1], 'column')}, and {expected.name} was fitted to "
            f"{expected.n_features:,}"
        )


def tell(
    data: str,
    rows: int,
    width: int,
    nonzeros: int | None,
    dtype: Any,
    table: Table | None = None,
) -> None:
    """Say what was found."""
    from hogshare.io import csvrecords
    from hogshare.system.words import counted

    values = "" if nonzeros is None else f", {counted(nonzeros, 'nonzero')}"
    cells = "" if table is None else f", {csvrecords.told(table.delimiter)} between cells"
    name = "standard input" if data == STDIN else data
    console.say(
        f"{name}: {counted(rows, 'row')}, {counted(width, 'column')}{values}, {dtype}{cells}"
    )


@contextmanager
def opened(args: Any, data: str) -> Iterator[Source | None]:
    """The source of rows, open; None if it is a data set that has a name."""
    from hogshare import datasets
    from hogshare.io import csvtext, libsvm, sources

    path = Path(path_of(data)) if data == STDIN else datasets.locate(data, args.data_home)
    if path is None:
        for parameter, value in _said(args).items():
            raise options.WrongCommandLine(_elsewhere(parameter, value, data))
        yield None
        return
    with sources.Source(path) as source:
        if source.size is not None and source.size > LARGE_FILE:
            console.say(f"reading {path} ({source.size / 1e6:,.0f} MB)")
        if source.size is None and data == STDIN and sys.stdin is not None and sys.stdin.isatty():
            console.say("reading rows from the terminal, up to Ctrl-D")
        try:
            yield source
        except libsvm.IndexZero as error:
            raise ValueError(index_zero(error.place, args, None)) from None
        except (libsvm.NotLibsvm, csvtext.NotCSV) as error:
            raise ValueError(f"{error}{_otherwise(args, source.name, error)}") from None


def _otherwise(args: Any, name: str, error: NotLibsvm | NotCSV) -> str:
    """What to say if a text was not taken for what it is: the end of a sentence."""
    from hogshare.io import libsvm, sniffing

    if isinstance(error, libsvm.NotLibsvm):
        other, looks_other = "", error.is_other
        kind = "; if it is CSV, --format csv says it"
    else:
        looks_other = error.is_other or sniffing.kind_by_name(name) is None
        asked = args.delimiter is not None or error.is_other
        other = "" if asked else "; --delimiter says what else is between cells"
        kind = "; if it is LIBSVM text, --format libsvm says it"
    return other + (kind if args.format is None and looks_other else "")


def _wanted(
    args: Any,
    source: Source,
    *,
    choose: Any,
    n_features: int | None,
    leave_out: bool = False,
    base: Any = None,
) -> Wanted:
    """What the command line and the kind of the rows say together.

    Raises
    ------
    WrongCommandLine
        If an option is for rows of another kind.
    """
    from hogshare.io import readers, sniffing

    kind = args.format or sniffing.kind_of(source)
    of_kind = {"zero_based": "libsvm", "n_features": "libsvm"}
    for parameter, value in _said(args).items():
        if kind != of_kind.get(parameter, "csv"):
            raise options.WrongCommandLine(_elsewhere(parameter, value, source.name))
    is_text = kind == "libsvm"
    return readers.Wanted(
        kind=kind,
        dtype=args.dtype,
        n_features=n_features if is_text else None,
        zero_based=(args.zero_based if base is None else base) if is_text else "auto",
        leave_out=leave_out,
        header={"auto": None, "yes": True, "no": False}[args.header],
        delimiter=args.delimiter,
        choose=choose,
        finite=True,
        compared=leave_out,
    )


def _said(args: Any) -> dict[str, Any]:
    """What the command line says of the kind of rows, by parameter."""
    said = {
        "zero_based": None if args.zero_based == "auto" else args.zero_based,
        "n_features": getattr(args, "n_features", None),
        "header": None if args.header == "auto" else args.header,
        "label_column": args.label_column,
        "delimiter": args.delimiter,
    }
    return {parameter: value for parameter, value in said.items() if value is not None}


def _elsewhere(parameter: str, value: Any, data: str) -> str:
    if parameter == "zero_based":
        return f"{options.flag_of_base(value)} is for files of LIBSVM text; {data} is none"
    kind = "LIBSVM text" if parameter == "n_features" else "CSV"
    return f"{FLAGS[parameter]} is for files of {kind}; {data} is none"


def _labels(path: str, rows: int) -> Any:
    """Labels from a file or a pipe of their own."""
    from hogshare.io import readers

    path = path_of(path)
    y = readers.read_labels(path)
    if y.shape != (rows,):
        named = y.shape == (rows + 1,) and y.dtype.kind == "U"
        raise ValueError(
            f"{path}: labels of shape {y.shape} for {rows} rows"
            + (f"; is its first line, {str(y[0])!r}, a name?" if named else "")
        )
    return y


def _tell_of_indices(args: Any, name: str, found: Rows, expected: Expected | None) -> None:
    """Tell where indices of LIBSVM text begin, if that is no more than a guess.

    In a file to fit, a smallest index of 1 is the ordinary case and none of the doubtful ones
    (`hogshare.io.libsvm.guess_base`). In a file to predict it is doubtful where the model does not
    know its base: a file of few rows may lack an index 0 by chance, and would be taken for shifted
    by a column.
    """
    from hogshare.io import libsvm

    text = found.text
    if text is None:
        return
    if text.guess == libsvm.UNSURE or (expected is not None and text.guess == libsvm.LIKELY):
        unknown = f"{expected.name} does not say it and " if expected is not None else ""
        console.say(
            f"{name}: indices were taken to begin at 1, which is a guess ({unknown}the smallest is "
            f"{text.first}); --one-based or --zero-based says it"
        )


def _tell_of_names(found: Rows) -> None:
    """Tell that a first line of CSV was taken for names, if it may be a row with a slip."""
    from hogshare.io.csvtext import listed

    table = found.table
    if table is not None and table.names is not None and table.is_doubtful:
        console.say(
            f"{table.name}: the first line was taken for names of columns ({listed(table.names)}); "
            "--header no, if it is a row"
        )


def _tell_of_left_out(args: Any, name: str, found: Rows, left_out: int, n_features: int) -> None:
    from hogshare.system.words import counted

    text = found.text
    where = "indices begin at 0" if text and text.zero_based else "indices begin at 1"
    if args.zero_based == "auto" and text and text.zero_based and text.first:
        where += " as in the model's file; --one-based, if not in this one"
    console.say(
        f"{name}: {counted(left_out, 'value')} beyond the "
        f"{counted(n_features, 'column')} of the model left out ({where})"
    )


def _index_zero() -> Any:
    from hogshare.io import libsvm

    return libsvm.IndexZero


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
            f"{data} has no labels: name them with --labels FILE (.npy, or text with one in each "
            "line), or store X and y in one .npz file"
        )
    if y.dtype.kind not in "biufU":
        raise ValueError(
            f"the labels of {data} are of the type {y.dtype}, and numbers or words are fitted"
        )
    if (rows := missing(y)).size:
        row = int(rows[0])
        label = y[row].item()
        raise ValueError(f"the label of row {row + 1} of {data} is {label!r}: every row needs one")
    return y


def check_counts(X: Any, data: str) -> None:
    """Refuse rows that count nothing.

    Raises
    ------
    ValueError
    """
    values = X.data if hasattr(X, "indptr") else X
    if values.size and values.min() < 0:
        raise ValueError(
            f"{data} has negative values, and topics are of counts: how often each word is in each "
            "document"
        )


def tell_ignored(y: Any, data: str) -> bool:
    """Say that labels are there, if they are, and are not used; whether it was said."""
    if y is not None:
        console.say(f"{data}: its labels are ignored; topics are found without")
    return y is not None


def missing(y: Any) -> Any:
    """Rows whose label is NaN, infinite or no word at all."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

    return bool(y.dtype.kind == "f" and (y != np.rint(y)).any())


def labels_for(task: str, y: Any, data: str) -> Any:
    """Return labels as the task wants them.

    Raises
    ------
    ValueError
        If they are none for it.
    """
    import numpy as np

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
    import numpy as np

    if y.dtype.kind == "f" and (np.abs(y) < EXACT).all() and (y == np.rint(y)).all():
        return y.astype(np.int64)
    return y
