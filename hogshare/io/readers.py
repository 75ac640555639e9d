"""Readers of rows and labels from files; no file is trusted.

A source is opened once. Its first bytes and its name determine its format, and the module of this
format reads it. No reader unpickles. No reader allocates a size from a file's header before two
checks: that much memory is free, and a file of this length can contain that much
(`hogshare.system.memory`). Errors: (1) every fault in a file's content raises a ValueError that
begins with the file's name; (2) too little memory raises a MemoryError; (3) a file that cannot be
opened raises an OSError.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hogshare.io import (
    arff,
    assembly,
    bagofwords,
    csv_text,
    ldac,
    libsvm,
    matrices,
    matrixmarket,
    npz,
    sniffing,
    sparse_arff,
)
from hogshare.io.csv_records import is_number
from hogshare.io.growing_arrays import Growing
from hogshare.io.rows import UNSURE, Kind, Rows, Wanted, ZeroBased
from hogshare.io.sources import Lines, Source
from hogshare.system.callers import users_line


class Format(NamedTuple):
    """The functions that read rows of a kind: all at once, and part by part."""

    read: Callable[[Source, Wanted], Rows]
    iterate: Callable[[Source, Wanted], Iterator[Rows]]


def _at_once(read: Callable[[Source, Wanted], Rows]) -> Format:
    """Return the format of rows that cannot be read in parts."""
    return Format(read, lambda source, wanted: iter([read(source, wanted)]))


ARRAYS = _at_once(matrices.read)
BY_CELLS = Format(assembly.read, assembly.iterate)
FORMATS: dict[Kind, Format] = {
    "libsvm": Format(libsvm.read, libsvm.iterate),
    "ldac": Format(ldac.read, ldac.iterate),
    "csv": Format(csv_text.read, csv_text.iterate),
    "npz": ARRAYS,
    "npy": ARRAYS,
    "mtx": _at_once(matrixmarket.read),
    "uci": _at_once(bagofwords.read),
    **dict.fromkeys(("parquet", "arrow", "jsonl", "arff"), BY_CELLS),
    "sparse-arff": Format(sparse_arff.read, sparse_arff.iterate),
}
# the names for users
NAMED = tuple(kind for kind in FORMATS if kind != "sparse-arff")
# the kinds of rows to which each parameter applies
TABLES: tuple[Kind, ...] = ("csv", "parquet", "arrow", "jsonl", "arff")
NAMED_COLUMNS: tuple[Kind, ...] = (*TABLES, "sparse-arff")
OF_KIND: dict[str, tuple[Kind, ...]] = {
    "zero_based": ("libsvm",),
    "n_features": ("libsvm", "ldac"),
    "header": ("csv",),
    "label_column": NAMED_COLUMNS,
    "columns": NAMED_COLUMNS,
    "drop": NAMED_COLUMNS,
    "delimiter": ("csv",),
    "decimal": ("csv",),
}
IN_WORDS = {
    ("libsvm",): "LIBSVM text",
    ("libsvm", "ldac"): "LIBSVM text or LDA-C",
    ("csv",): "CSV",
    NAMED_COLUMNS: "CSV, JSON lines, ARFF or Parquet",
}
NOTHING_SAID = ("zero_based", "auto")


def settled(source: Source, wanted: Wanted) -> Wanted:
    """Return `wanted` with the kind of the source, without consuming any of it.

    Raises
    ------
    ValueError
        If the kind is unknown.
    """
    kind = wanted.kind or sniffing.kind_of(source, counts=wanted.zero_based == "auto")
    if kind == "arff" and arff.is_sparse(source):
        kind = "sparse-arff"
    return replace(wanted, kind=kind)


def read(source: Source, wanted: Wanted) -> Rows:
    """Read all rows of a source; raise as `read_file`."""
    wanted = settled(source, wanted)
    return _format(wanted).read(source, wanted)


def _format(wanted: Wanted) -> Format:
    """Return the format of a known kind; CSV with a decimal mark is read cell by cell."""
    assert wanted.kind is not None
    return BY_CELLS if wanted.decimal else FORMATS[wanted.kind]


def iterate(source: Source, wanted: Wanted) -> Iterator[Rows]:
    """Yield rows in parts, for text as soon as they arrive; raise as `read_file`.

    Arrays are a single part. LIBSVM text is a single part unless `zero_based` and `n_features` are
    set.
    """
    wanted = settled(source, wanted)
    some = False
    for rows in _format(wanted).iterate(source, wanted):
        some = True
        yield rows
    if not some:
        raise ValueError(
            f"{source.name}: the file {'is empty' if source.is_empty else 'has no rows'}"
        )


def read_file(
    path: str | Path,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: ZeroBased = "auto",
    label_column: str | int | None = None,
    format: str | None = None,
) -> Any:
    """Read rows and labels from a file or a pipe, in any format of the parameter `format`.

    The format and the compression (``.gz``, ``.bz2``, ``.xz``, or none) are recognized by the first
    bytes. For text, a known suffix of the name (``.svm``, ``.csv``) takes precedence.

    Parameters
    ----------
    path : str or Path
    n_features : int, default=None
        Number of columns of LIBSVM text or LDA-C, which do not specify it. None uses the largest
        index.
    dtype : dtype, default=float64
        Data type of the returned rows.
    zero_based : bool or "auto", default="auto"
        Whether indices of LIBSVM text begin at 0, see `read_libsvm`.
    label_column : str or int, default=None
        The column with the labels in CSV or another table: its name, or its place counted from 0
        (-1 is the last). None means that there are no labels.
    format : str, default=None
        "libsvm", "csv", "npz", "npy", "parquet", "arrow", "jsonl", "ldac" (LDA-C), "mtx"
        (MatrixMarket), "uci" (a bag of words) or "arff". None recognizes the format by the bytes
        and the name.

    Returns
    -------
    X : ndarray or csr_array
    y : ndarray or None
        None if the file has no labels (``.npy``, ``.npz`` without ``y``, files of counts) or
        `label_column` is None for a table.

    Raises
    ------
    ValueError
        If the file is truncated, malformed or of an unknown kind, or if `zero_based`, `n_features`
        or `label_column` does not apply to its kind. The message names the file.
    MemoryError
        If the rows need more memory than is free; the message names the file.
    OSError
        If the file cannot be opened.

    Warns
    -----
    UserWarning
        For the reasons of `read_libsvm`. Also if text was taken for LDA-C although its name does
        not imply this: LDA-C resembles LIBSVM text, but has no labels.
    """
    kind = _known(format)
    return _read(path, Wanted(kind, dtype, n_features, zero_based), label_column)


def read_libsvm(
    path: str | Path,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: ZeroBased = "auto",
) -> tuple[Any, np.ndarray]:
    """Read LIBSVM text (``label index:value ...``), plain or compressed.

    Comments (from ``#`` on), blank lines and ``qid`` are ignored; indices may be in any order.

    Parameters
    ----------
    path : str or Path
        A file or a pipe, plain or compressed (``.gz``, ``.bz2``, ``.xz``).
    n_features : int, default=None
        Number of columns; None uses the largest index.
    dtype : dtype, default=float64
    zero_based : bool or "auto", default="auto"
        Whether indices begin at 0 (True) or at 1 (False), which the text does not specify. With
        "auto", they begin at 0 if an index 0 occurs, and otherwise at 1, as in scikit-learn's
        `load_svmlight_file`. Set `zero_based` for files that belong together, such as training and
        test rows, since one of them may lack index 0 by chance.

    Returns
    -------
    X : csr_array
    y : ndarray of float64

    Raises
    ------
    ValueError
        If the file is truncated or malformed, or an index is beyond `n_features`. The message names
        the file and the line.

    Warns
    -----
    UserWarning
        If plain text has no newline at its end, since it may have been cut off within a number.
        Also if the base 1 is only a guess, because neither 0, nor 1, nor `n_features` occurs as an
        index. (An index `n_features` is possible only if indices begin at 1.)
    """
    X, y = _read(path, Wanted("libsvm", dtype, n_features, zero_based))
    return X, y


def _known(format: str | None) -> Kind | None:
    """Check the name of a format, and return it as a kind."""
    if format is None:
        return None
    for kind in NAMED:
        if kind == format:
            return kind
    raise ValueError(f"format must be None or one of {', '.join(NAMED)}; got {format!r}.")


def _read(path: str | Path, wanted: Wanted, label_column: str | int | None = None) -> Any:
    with Source(path) as source:
        was_said, wanted = wanted.kind is not None, settled(source, wanted)
        said = {"zero_based": wanted.zero_based, "n_features": wanted.n_features}
        refuse_others(source.name, wanted.kind, **said, label_column=label_column)
        if label_column is not None:
            wanted = replace(wanted, choose=csv_text.labels_at(label_column, source.name))
        rows = read(source, wanted)
    if wanted.kind == "ldac" and not was_said and sniffing.kind_by_name(path) is None:
        warnings.warn(
            f"{path}: {ldac.TAKEN}; set format='libsvm' or format='ldac'",
            stacklevel=users_line(),
        )
    if rows.guess == UNSURE:
        warnings.warn(
            f"{path}: indices were taken to begin at 1, which is a guess, since the smallest is "
            f"{rows.first}; set zero_based=False or zero_based=True",
            stacklevel=users_line(),
        )
    return rows.X, rows.y


def refuse_others(name: str, kind: Kind | None, **said: Any) -> None:
    """Refuse parameters that do not apply to rows of this kind.

    kind : kind of the rows; None for a named data set
    said : values of the parameters, by name. A parameter is not set if its value is None, or "auto"
        for `zero_based`.

    Raises
    ------
    NotForThisKind
        If a parameter is for another kind.
    ValueError
        If `zero_based` is not True, False or "auto".
    """
    base = said.get("zero_based", "auto")
    if not (isinstance(base, bool | np.bool_) or base == "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto'; got {base!r}.")
    for parameter, value in said.items():
        of_others = kind not in OF_KIND[parameter]
        if value is not None and of_others and (parameter, value) != NOTHING_SAID:
            raise NotForThisKind(name, parameter, value)


class NotForThisKind(ValueError):
    """A parameter is set that applies to another kind of rows."""

    def __init__(self, name: str, parameter: str, value: Any) -> None:
        self.kind = IN_WORDS[OF_KIND[parameter]]
        super().__init__(f"{name}: {parameter} is for files of {self.kind}, and this is none")
        self.name, self.parameter, self.value = name, parameter, value


def read_labels(path: str | Path) -> np.ndarray:
    """Read labels from a file or a pipe: a ``.npy`` array, or text with one label in each line.

    Raises
    ------
    ValueError, MemoryError, OSError
        As `read_file`.
    """
    with Source(path) as source:
        kind = sniffing.arrays_of(source) or sniffing.kind_by_name(path)
        if kind == "npz":
            raise ValueError(
                f"{source.name}: an archive of arrays, and labels are one array: write it with "
                "numpy.save, or store X and y in one .npz file of rows"
            )
        if kind in ("parquet", "arrow", "arff"):
            raise ValueError(
                f"{source.name}: a table of columns, and labels are one array, or text"
            )
        if kind == "mtx":
            raise ValueError(f"{source.name}: a matrix, and labels are one array, or text")
        if kind == "npy":
            return npz.read_array(source, "a .npy array")
        words, numbers = [], Growing(np.float64)
        is_text: bool | None = None
        for lines in source.lines():
            part = _one_a_line(lines)
            if is_text is None:  # the first label decides
                is_text = not is_number(part[0])
                cells = part[0].replace(",", " ").replace(";", " ").split()
                if len(cells) > 1 and all(map(is_number, cells)):
                    raise ValueError(
                        f"{source.name}, line 1: {len(cells)} numbers, and one label was expected"
                    )
            if is_text:
                words.append(np.array(part, dtype=str))
                continue
            for number, word in enumerate(part, lines.number):
                if not is_number(word):
                    raise ValueError(
                        f"{source.name}, line {number}: the label {word!r} is not a number, "
                        "as the labels before it are"
                    )
            numbers.add(np.array(part, dtype=str).astype(np.float64))
        if not words and not len(numbers):
            raise ValueError(f"{source.name}: the file is empty")
        return np.concatenate(words) if words else numbers.taken()


def _one_a_line(lines: Lines) -> list[str]:
    """Return the labels of some lines."""
    try:
        part = [line.strip() for line in lines.text.decode().removesuffix("\n").split("\n")]
    except UnicodeDecodeError as error:
        place = lines.place(error.start)
        raise ValueError(f"{place}: the byte {lines.text[error.start]:#x} is not UTF-8") from None
    if "" in part:
        number = lines.number + part.index("")
        raise ValueError(f"{lines.name}, line {number}: there is no label")
    return part
