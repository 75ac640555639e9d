"""Read rows and labels for a command, as specified by its options."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hogshare.cli import console, options, outputs
from hogshare.system.messages import counted

if TYPE_CHECKING:
    from hogshare.cli.csv_columns import Expected
    from hogshare.io.csv_text import NotCSV
    from hogshare.io.encoding import TableEncoder
    from hogshare.io.libsvm import Gathered, NotLibsvm
    from hogshare.io.rows import Choose, Rows, Wanted
    from hogshare.io.sources import Source

# Bytes above which a note explains the delay: LIBSVM text is read at some ten megabytes a second.
LARGE_FILE = 50_000_000

STDIN = "-"  # the name that means standard input
STDINS = (STDIN, "/dev/stdin")


class Loaded(NamedTuple):
    """Rows, labels (or None), and the facts about their file that a model stores."""

    X: Any
    y: Any
    zero_based: bool | None  # whether the file's indices begin at 0; None without indices
    names: tuple[str, ...] | None = None  # names of the file's columns that the rows come from
    label: str | int | None = None  # the labels' column, by its name or its place from 1
    encoder: TableEncoder | None = None  # the encoder of the rows; None for the file's rows


def path_of(data: str) -> str:
    """Return the path of a file named on the command line."""
    from hogshare.io import sources

    return sources.STDIN if data == STDIN else data


def located(args: Any) -> str | None:
    """Return the path of the file with the rows; None for a named data set.

    The first call of a command stores the result in `args.located`.

    Raises
    ------
    ValueError, OSError
        If neither a file nor a data set has that name.
    """
    from hogshare import datasets

    if args.data == STDIN:
        return path_of(STDIN)
    if "located" not in args:  # only once per command: a second search might find another file
        path = datasets.locate(args.data, args.data_home)
        args.located = None if path is None else str(path)
    return str(args.located) if args.located is not None else None


def files_read(args: Any, data: str, **others: str | None) -> dict[str, str | None]:
    """Return the names of the files that a command reads, by option.

    The name of a pipe, a device or a named data set is None in the result.

    data : the option for rows
    others : further files to read, by their options

    Raises
    ------
    WrongCommandLine
        If two inputs are the same pipe, or an output is also an input.
    """
    where = args.data
    with contextlib.suppress(OSError, ValueError):
        where = located(args)
    found = {data: where, **others}
    pipes: dict[tuple[int, int], str] = {}
    for flag, name in found.items():
        if name is None or (status := _status(name)) is None:
            continue
        if stat.S_ISREG(status.st_mode):
            if outputs.is_printed(path_of(name)):
                raise options.WrongCommandLine(f"{flag} and standard output are one file")
            found[flag] = os.path.realpath(path_of(name)) if name in STDINS else name
            continue
        found[flag] = None
        if stat.S_ISDIR(status.st_mode) or stat.S_ISCHR(status.st_mode):
            continue
        other = pipes.setdefault((status.st_dev, status.st_ino), flag)
        if other != flag:
            raise options.WrongCommandLine(
                f"{other} and {flag} are one pipe, which can be read only once: store it in a file"
            )
    return found


def _status(name: str) -> os.stat_result | None:
    try:
        return os.fstat(0) if name in STDINS else os.stat(name)
    except (OSError, ValueError):
        return None


def load(args: Any, data: str, labelled: bool = True, gathered: Gathered | None = None) -> Loaded:
    """Load rows and any labels; report facts about the file on standard error.

    labelled : whether labels are required
    gathered : rows of LIBSVM text, if they have been read already
    """
    from hogshare.cli import csv_columns, encoded_tables
    from hogshare.io import libsvm, readers

    encoder, are_cells = None, False
    with opened(args, again=True) as source:
        if source is None:
            found = _named(args)
        else:
            wanted = _to_fit(args, source, labelled)
            are_cells = wanted.kind in readers.TABLES
            if are_cells:
                found, encoder = encoded_tables.load(args, source, wanted)
            elif gathered is None:
                source.only_once()
                found = readers.read(source, wanted)
            else:
                found = libsvm.whole(source.name, gathered, wanted)
            _say_doubts(source.name, found, None)
        if not are_cells:
            X, encoder = encoded_tables.scaled(args, found.X)
            found = replace(found, X=X)
    X, y = found.X, found.y
    _check_shape(data, X.shape)
    if args.labels:
        y = _labels(args.labels, X.shape[0])
    _say_found(args, found, X.shape[0], X.nnz if hasattr(X, "nnz") else None)
    return Loaded(X, y, found.zero_based, *csv_columns.names_of(found), encoder)


def section(args: Any, labelled: bool, place: int, of: int) -> Gathered | None:
    """Return the rows of a section of a plain LIBSVM text file; None for other inputs.

    place : place of the section, from 0
    of : number of sections
    """
    from hogshare.io import libsvm, sniffing, sources

    path = None if args.data == STDIN else located(args)
    if path is None:
        return None
    with sources.Source(path) as source, in_flags(args, None):
        if not source.is_plain_file or (args.format or sniffing.kind_of(source)) != "libsvm":
            return None
        wanted = _to_fit(args, source, labelled)
        source.narrow(place, of)
        return libsvm.gather(source, wanted)


def iterate(args: Any, expected: Expected) -> Iterator[tuple[Any, Any]]:
    """Yield rows to predict, and labels (or None), part by part as they arrive.

    Facts about the file are reported on standard error.
    """
    from hogshare.cli import csv_columns, encoded_tables
    from hogshare.io import assembly, readers
    from hogshare.io.encoding import Tally

    rows = left_out = 0
    nonzeros: int | None = 0
    encoder, tally, are_cells = expected.encoder, Tally(), False
    with opened(args, expected) as source:
        if source is None:
            name, parts = args.data, iter([_named(args)])
        else:
            name = source.name
            choose = csv_columns.to_predict(args, name, expected)
            base = expected.zero_based if args.zero_based == "auto" else args.zero_based
            wanted = _wanted(args, source, choose, expected.n_features, base)
            if wanted.kind == "libsvm" and base is not None:
                wanted = replace(wanted, zero_based=base)
            wanted = replace(wanted, leave_out=True, compared=True, names=expected.names or ())
            if encoder is not None and expected.names is None and wanted.header is None:
                wanted = replace(wanted, header=False)  # the fitted table had no labels either
            are_cells = wanted.kind in readers.TABLES
            if encoder is not None and are_cells:
                parts = assembly.parts(source, wanted, encoder, tally)
            else:
                parts = readers.iterate(source, wanted)
        for found in parts:
            if encoder is not None and not are_cells:
                _check_shape(name, found.X.shape, expected)
                found = replace(found, X=_encoded(name, found.X, encoder))
            elif encoder is None:
                _check_shape(name, found.X.shape, expected)
            if not rows:
                _say_doubts(name, found, expected)
            rows += found.X.shape[0]
            left_out += found.left_out
            if nonzeros is not None:
                nonzeros = nonzeros + found.X.nnz if hasattr(found.X, "nnz") else None
            yield found.X, found.y
        if not rows:
            raise ValueError(f"{name}: the file has no rows")
        if left_out:
            _say_left_out(args, name, found, left_out, expected.n_features)
        if encoder is not None:
            encoded_tables.say_tally(name, tally, encoder)
        _say_found(args, found, rows, nonzeros)


def _encoded(name: str, X: Any, encoder: TableEncoder) -> Any:
    """Encode a matrix as the model's rows; its columns are the fit's, in the same order."""
    import warnings

    from hogshare.io.encoding import NUMBER
    from hogshare.system import memory

    was_sparse = encoder.is_sparse_ and set(encoder.kinds_) == {NUMBER}
    if hasattr(X, "indptr") and not was_sparse:
        memory.require(8 * X.shape[0] * X.shape[1], f"{name}: as dense rows, like the fit's, it")
        X = X.toarray()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return encoder.transform(X)


@contextmanager
def opened(
    args: Any, expected: Expected | None = None, again: bool = False
) -> Iterator[Source | None]:
    """Provide the open source of rows in a with block; None for a named data set.

    again : whether the source must be readable twice
    """
    from hogshare.io import readers, sources

    path = located(args)
    with in_flags(args, expected):
        if path is None:
            readers.refuse_others(args.data, None, **_said(args))
            yield None
            return
        with sources.Source(path, again) as source:
            if source.size is not None and source.size > LARGE_FILE:
                console.note(f"reading {path} ({source.size / 1e6:,.0f} MB)")
            is_terminal = sys.stdin is not None and sys.stdin.isatty()
            if source.size is None and args.data == STDIN and is_terminal:
                console.note("reading rows from the terminal, up to Ctrl-D")
            yield source


@contextmanager
def in_flags(args: Any, expected: Expected | None) -> Iterator[None]:
    """In a with block, append advice about options to readers' errors."""
    from hogshare.cli import encoded_tables
    from hogshare.io import csv_text, libsvm, readers
    from hogshare.io.table_parts import NotEncoded

    try:
        yield
    except NotEncoded as error:
        # no option changes a model's columns, or the columns of a command that fits only plain rows
        settled = expected is not None or not hasattr(args, "missing")
        further = "" if settled and error.why != "comma" else encoded_tables.advice(error)
        raise ValueError(f"{error}{further}") from None
    except readers.NotForThisKind as error:
        flag = options.flag_of(error.parameter, error.value)
        raise options.WrongCommandLine(
            f"{flag} is for files of {error.kind}; {error.name} is none"
        ) from None
    except libsvm.IndexZero as error:
        raise ValueError(f"{error.place}: index 0, and {_who_says_one(args, expected)}") from None
    except (libsvm.NotLibsvm, csv_text.NotCSV) as error:
        raise ValueError(f"{error}{_otherwise(args, error)}") from None


def _who_says_one(args: Any, expected: Expected | None) -> str:
    """Explain why indices are taken to begin at 1."""
    if args.zero_based != "auto" or expected is None:
        return "--one-based says that indices begin at 1"
    return (
        f"in the file that {expected.name} was fitted to indices begin at 1; if they begin at 0 in "
        "both, fit again with --zero-based; if only in this one, predict with --zero-based"
    )


def _otherwise(args: Any, error: NotLibsvm | NotCSV) -> str:
    """Return advice on options for text of another format, to append to an error."""
    from hogshare.io import libsvm, sniffing

    if isinstance(error, libsvm.NotLibsvm):
        other, is_other = "", error.is_other
        kind = "; if it is CSV, use --format csv"
    else:
        is_other = error.is_other or sniffing.kind_by_name(args.data) is None
        asked = args.delimiter is not None or error.is_other
        other = "" if asked else "; --delimiter sets another separator of cells"
        kind = "; if it is LIBSVM text, use --format libsvm"
    return other + (kind if args.format is None and is_other else "")


def _named(args: Any) -> Rows:
    """Load a named data set."""
    from hogshare import datasets
    from hogshare.io import data_catalogue
    from hogshare.io.rows import Rows

    X, y = datasets.load(args.data, data_home=args.data_home, dtype=args.dtype)
    return Rows(X, y, zero_based=data_catalogue.zero_based(args.data))


def _to_fit(args: Any, source: Source, labelled: bool) -> Wanted:
    from hogshare.cli import csv_columns

    # the choice of columns reports the labels' column, and must do so only once
    choose = functools.cache(csv_columns.to_fit(args, source.name, labelled))
    return _wanted(args, source, choose, args.n_features)


def _wanted(
    args: Any,
    source: Source,
    choose: Choose,
    n_features: int | None,
    base: bool | None = None,
) -> Wanted:
    """Combine the options of the command line with the kind of the rows.

    base : whether indices begin at 0 in the model's file; None if unknown

    Raises
    ------
    NotForThisKind
        If an option is for rows of another kind.
    """
    from hogshare.io import readers
    from hogshare.io.rows import Wanted

    header = {"auto": None, "yes": True, "no": False}[args.header]
    wanted = Wanted(args.format, args.dtype, header=header, delimiter=args.delimiter)
    # terms of LDA-C begin at 0: --zero-based and --one-based therefore imply LIBSVM text
    wanted = replace(wanted, zero_based=False if base is False else args.zero_based)
    decimal = {None: None, "point": ".", "comma": ","}[getattr(args, "decimal", None)]
    wanted = replace(wanted, choose=choose, finite=True, decimal=decimal)
    wanted = readers.settled(source, wanted)
    readers.refuse_others(source.name, wanted.kind, **_said(args))
    if wanted.kind == "libsvm":
        wanted = replace(wanted, n_features=n_features, zero_based=args.zero_based)
    if wanted.kind == "ldac":
        wanted = replace(wanted, n_features=n_features)
        _say_if_guessed(args, source.name)
    return wanted


def _say_if_guessed(args: Any, name: str) -> None:
    """Report that text was taken for LDA-C, if no option says that it is."""
    from hogshare.io import ldac, sniffing

    if args.format is None and sniffing.kind_by_name(name) is None:
        console.say(f"{name}: {ldac.TAKEN}; use --format libsvm if it is LIBSVM text")


def _said(args: Any) -> dict[str, Any]:
    """Return the options on the kind of rows, by parameter."""
    return {
        "zero_based": args.zero_based,
        "n_features": getattr(args, "n_features", None),
        "header": None if args.header == "auto" else args.header,
        "label_column": args.label_column,
        "columns": getattr(args, "columns", None),
        "drop": getattr(args, "drop", None),
        "delimiter": args.delimiter,
        "decimal": getattr(args, "decimal", None),
    }


def _labels(path: str, rows: int) -> Any:
    """Read labels from a separate file or pipe."""
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


def _check_shape(name: str, shape: tuple[int, int], expected: Expected | None = None) -> None:
    """Refuse a matrix without rows or columns, or without the model's number of columns."""
    for n, what in zip(shape, ("rows", "columns"), strict=True):
        if not n:
            raise ValueError(f"{name}: the file has no {what}")
    if expected is not None and shape[1] != expected.n_features:
        raise ValueError(
            f"{name}: {counted(shape[1], 'column')}, and {expected.name} was fitted to "
            f"{expected.n_features:,}"
        )


def _say_found(args: Any, found: Rows, rows: int, nonzeros: int | None) -> None:
    from hogshare.io import csv_records

    values = "" if nonzeros is None else f", {counted(nonzeros, 'nonzero')}"
    table, made = found.table, found.X.shape[1]
    mark = table and table.delimiter
    cells = f", {csv_records.in_words(mark)} between cells" if mark else ""
    name = "standard input" if args.data == STDIN else args.data
    width = counted(made if table is None else len(table.choice.columns), "column")
    if table is not None and made != len(table.choice.columns):
        width += f", of which {counted(made, 'column')} {'is' if made == 1 else 'are'} made"
    console.note(f"{name}: {counted(rows, 'row')}, {width}{values}, {found.X.dtype}{cells}")


def _say_doubts(name: str, found: Rows, expected: Expected | None) -> None:
    """Report guesses about the start of LIBSVM text's indices, and about names in CSV.

    In a file to fit, a smallest index of 1 is ordinary and not doubtful
    (`hogshare.io.libsvm.guess_base`). In a file to predict, a smallest index of 1 is doubtful if
    the model does not store where the fit's indices began. A file of few rows may lack index 0 by
    chance; all its columns would then be read shifted by one.
    """
    from hogshare.io.csv_text import listed
    from hogshare.io.rows import LIKELY, UNSURE

    if found.guess == UNSURE or (expected is not None and found.guess == LIKELY):
        unknown = f"{expected.name} does not say it and " if expected is not None else ""
        console.say(
            f"{name}: indices were taken to begin at 1, which is a guess ({unknown}the smallest is "
            f"{found.first}); set --one-based or --zero-based"
        )
    table = found.table
    if table is not None and table.names is not None and table.is_doubtful:
        console.say(
            f"{name}: the first line was taken for names of columns ({listed(table.names)}); "
            "use --header no if it is a row"
        )


def _say_left_out(args: Any, name: str, found: Rows, left_out: int, n_features: int) -> None:
    where = "indices begin at 0" if found.zero_based else "indices begin at 1"
    if args.zero_based == "auto" and found.zero_based and found.first:
        where += " as in the model's file; use --one-based if they begin at 1 in this one"
    console.say(
        f"{name}: {counted(left_out, 'value')} beyond the "
        f"{counted(n_features, 'column')} of the model left out ({where})"
    )


def need_labels(y: Any, data: str) -> Any:
    """Return the labels; if there are none, raise a ValueError that says how to specify them."""
    from hogshare.cli import label_tasks

    if y is None:
        raise ValueError(
            f"{data} has no labels: name them with --labels FILE (.npy, or text with one in each "
            "line), or store X and y in one .npz file"
        )
    if y.dtype.kind not in "biufU":
        raise ValueError(f"the labels of {data} are of the type {y.dtype}: give numbers or text")
    if (rows := label_tasks.missing(y)).size:
        row = int(rows[0])
        label = y[row].item()
        raise ValueError(f"the label of row {row + 1} of {data} is {label!r}: every row needs one")
    return y
